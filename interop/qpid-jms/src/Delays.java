import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.time.Duration;
import java.util.Map;

/** Messages that are delivered later. The client lets a program set a delay only where the broker offers it. */
final class Delays {
    private static final Duration DELAY = Duration.ofMinutes(10);

    static void declare(Map<String, Main.Case> cases) {
        cases.put("delivery-delay", Delays::delay);
        cases.put("delivery-delay-in-transaction", Delays::inTransaction);
    }

    private static void delay(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageConsumer consumer = session.createConsumer(there);
            MessageProducer producer = session.createProducer(there);
            MessageProducer relay = session.createProducer(null);
            for (MessageProducer each : new MessageProducer[] {producer, relay}) {
                each.setDeliveryDelay(DELAY.toMillis());
            }
            Message later = session.createTextMessage("later");
            producer.send(later);
            relay.send(there, session.createTextMessage("by the relay"));
            producer.setDeliveryDelay(0);
            producer.send(session.createTextMessage("now"));
            Client.expect(consumer, "now");
            Client.empty(consumer);
            Client.advanceClock(DELAY.minusMinutes(1));
            Client.empty(consumer);
            Client.advanceClock(Duration.ofMinutes(1));
            Message came = Client.next(consumer);
            Client.same(Client.text(came), "later", "body");
            Client.same(came.getJMSDeliveryTime(), later.getJMSDeliveryTime(), "delivery time");
            Client.expect(consumer, "by the relay");
            Client.empty(consumer);
        }
    }

    private static void inTransaction(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Queue there = session.createQueue(queue);
            MessageProducer producer = session.createProducer(there);
            producer.setDeliveryDelay(DELAY.toMillis());
            producer.send(session.createTextMessage("never"));
            session.rollback();
            producer.send(session.createTextMessage("later"));
            session.commit();
            MessageConsumer consumer = session.createConsumer(there);
            Client.empty(consumer);
            Client.advanceClock(DELAY);
            Client.expect(consumer, "later");
            Client.empty(consumer);
            session.commit();
        }
    }

    private Delays() {}
}
