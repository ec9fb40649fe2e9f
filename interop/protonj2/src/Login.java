import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.exceptions.ClientIOException;

/** Log-in with a token of an identity provider (XOAUTH2). */
final class Login {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("token-log-in", Login::byToken);
        cases.put("token-log-in-ends", Login::ends);
    }

    private static void byToken(String queue) throws Exception {
        try (Connection connection = Broker.connect(Broker.withToken(System.getenv("FERRYBUS_TOKEN_CLERK")))) {
            Broker.send(connection, queue, "with a token");
            Broker.take(Broker.receiver(connection, queue), "with a token");
        }
        for (String other : new String[] {"GUEST", "EXPIRED", "FORGED"}) {
            String token = System.getenv("FERRYBUS_TOKEN_" + other);
            Broker.refused("ClientConnectionSecurity", () -> Broker.connect(Broker.withToken(token)));
        }
    }

    private static void ends(String queue) throws Exception {
        CompletableFuture<ClientIOException> ended = new CompletableFuture<>();
        ConnectionOptions options = Broker.withToken(System.getenv("FERRYBUS_TOKEN_BRIEF"));
        options.disconnectedHandler((connection, event) -> ended.complete(event.failureCause()));
        try (Connection connection = Broker.connect(options)) {
            Broker.send(connection, queue, "in time");
            ClientIOException error = ended.get(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            String text = String.valueOf(error);
            Broker.demand(text.contains("ClientConnectionSecurity"), text);
            Broker.demand(text.contains("ExpiredToken: The token of the log-in is expired."), text);
        }
    }

    private Login() {}
}
