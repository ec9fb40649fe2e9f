import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.Session;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Log-in with a token of an identity provider (XOAUTH2). */
final class Login {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("token-log-in", Login::byToken);
        cases.put("token-log-in-ends", Login::ends);
    }

    private static void byToken(String queue) throws Exception {
        try (Connection connection = Client.withToken(System.getenv("FERRYBUS_TOKEN_CLERK")).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Client.send(session, session.createQueue(queue), "with a token");
            Client.expect(session.createConsumer(session.createQueue(queue)), "with a token");
        }
        for (String other : new String[] {"GUEST", "EXPIRED", "FORGED"}) {
            String token = System.getenv("FERRYBUS_TOKEN_" + other);
            Client.refused(JMSSecurityException.class, () -> Client.withToken(token).createConnection().start());
        }
    }

    private static void ends(String queue) throws Exception {
        CompletableFuture<JMSException> ended = new CompletableFuture<>();
        Connection brief = Client.withToken(System.getenv("FERRYBUS_TOKEN_BRIEF")).createConnection();
        brief.setExceptionListener(ended::complete);
        brief.start();
        JMSException error = ended.get(Client.WAIT_MS, TimeUnit.MILLISECONDS);
        Client.demand(error instanceof JMSSecurityException, "not a JMSSecurityException: " + error);
        Client.demand(error.getMessage().contains("ExpiredToken: The token of the log-in is expired."), error.getMessage());
    }

    private Login() {}
}
