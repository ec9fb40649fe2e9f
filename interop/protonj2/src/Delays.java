import java.time.Duration;
import java.util.Date;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Sender;

/** Messages that are delivered later, by the annotations of plain AMQP. */
final class Delays {
    private static final Duration LATER = Duration.ofMinutes(10);

    static void declare(Map<String, Main.Case> cases) {
        cases.put("delivery-delay", Delays::delay);
    }

    private static DeliveryState sent(Sender sender, String body, String name, Object value) throws Exception {
        Message<String> message = Message.create(body);
        message.annotation(name, value);
        return sender.send(message).settlementFuture().get(Broker.WAIT_MS, TimeUnit.MILLISECONDS).remoteState();
    }

    private static void delay(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Sender sender = Broker.sender(connection, queue);
            long at = System.currentTimeMillis() + LATER.toMillis();
            Map<String, Object> said = Map.of("by time", at, "by timestamp", new Date(at));
            for (Map.Entry<String, Object> one : said.entrySet()) {
                Broker.demand(sent(sender, one.getKey(), "x-opt-delivery-time", one.getValue()).isAccepted(), one.getKey());
            }
            Broker.demand(sent(sender, "by delay", "x-opt-delivery-delay", LATER.toMillis()).isAccepted(), "by delay");
            Map<String, Object> bad = Map.of("x-opt-delivery-delay", -1L, "x-opt-delivery-time", "tomorrow");
            for (Map.Entry<String, Object> one : bad.entrySet()) {
                DeliveryState state = sent(sender, "never", one.getKey(), one.getValue());
                Broker.same(state.getType(), DeliveryState.Type.REJECTED, one.getKey());
            }
            Broker.send(connection, queue, "now");
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.take(receiver, "now");
            Broker.empty(receiver);
            Broker.advanceClock(LATER.plusMinutes(1));
            Set<String> came = new HashSet<>();
            for (int number = 0; number < 3; number++) {
                Delivery delivery = Broker.next(receiver);
                came.add(Broker.text(delivery));
                delivery.accept();
            }
            Broker.same(came, Set.of("by time", "by timestamp", "by delay"), "delayed messages");
            Broker.empty(receiver);
        }
    }

    private Delays() {}
}
