import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Addresses that are any text. */
final class Addresses {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("address-texts", queue -> eachOf(addresses()));
    }

    private static List<String> addresses() {
        String[] encoded = System.getenv("FERRYBUS_ADDRESSES").split(" ");
        return Arrays.stream(encoded).map(it -> URLDecoder.decode(it, StandardCharsets.UTF_8)).toList();
    }

    private static void eachOf(List<String> addresses) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            for (String address : addresses) {
                Client.send(session, session.createQueue(address), address);
            }
            MessageProducer relay = session.createProducer(null);
            for (String address : addresses) {
                relay.send(session.createQueue(address), session.createTextMessage("by to"));
            }
            for (String address : addresses) {
                MessageConsumer consumer = session.createConsumer(session.createQueue(address));
                for (String expected : List.of(address, "by to")) {
                    String body = consumer.receive(Client.WAIT_MS).getBody(String.class);
                    if (!body.equals(expected)) {
                        throw new AssertionError("expected " + expected + ", received " + body);
                    }
                }
                consumer.close();
            }
        }
    }

    private Addresses() {}
}
