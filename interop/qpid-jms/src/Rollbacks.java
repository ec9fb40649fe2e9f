import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.util.Map;

/** A message whose transactions are rolled back again and again does not come for ever. */
final class Rollbacks {
    private static final int ROLLBACKS = 50;
    private static final int DELIVERIES_MAX = 3;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("rollbacks-to-dead-letter", Rollbacks::play);
    }

    /** The client settles in the transaction in advance, so that each rollback counts as a failed delivery. */
    private static void play(String queue) throws Exception {
        Client.sendTo(queue, "work");
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            int deliveries = 0;
            for (int round = 0; round < ROLLBACKS; round++) {
                Message message = consumer.receive(deliveries < DELIVERIES_MAX ? Client.WAIT_MS : Client.QUIET_MS);
                if (message == null) {
                    break;
                }
                deliveries++;
                Client.same(Client.text(message), "work", "body");
                Client.same(Client.deliveries(message), deliveries, "deliveries");
                session.rollback();
            }
            Client.same(deliveries, DELIVERIES_MAX, "deliveries before it is a dead letter");
            MessageConsumer dead = session.createConsumer(session.createQueue(Client.deadLetters(queue)));
            Message letter = Client.next(dead);
            Client.same(Client.text(letter), "work", "dead letter");
            Client.same(letter.getStringProperty("DeadLetterReason"), "MaxDeliveryCountExceeded", "reason");
            session.commit();
            Client.empty(dead);
        }
    }

    private Rollbacks() {}
}
