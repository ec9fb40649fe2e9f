import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpSender;
import java.time.Duration;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.qpid.proton.Proton;
import org.apache.qpid.proton.amqp.Symbol;
import org.apache.qpid.proton.amqp.messaging.AmqpValue;
import org.apache.qpid.proton.amqp.messaging.MessageAnnotations;
import org.apache.qpid.proton.message.Message;

/** Messages that are delivered later, by the annotations of plain AMQP. */
final class Delays {
    private static final Duration LATER = Duration.ofMinutes(10);

    static void declare(Map<String, Main.Case> cases) {
        cases.put("delivery-delay", Delays::delay);
    }

    private static AmqpMessage annotated(String body, String name, Object value) {
        Message raw = Proton.message();
        raw.setMessageAnnotations(new MessageAnnotations(new HashMap<>(Map.of(Symbol.valueOf(name), value))));
        raw.setBody(new AmqpValue(body));
        return AmqpMessage.create(raw).build();
    }

    private static void delay(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createSender(queue));
        long at = System.currentTimeMillis() + LATER.toMillis();
        Broker.done(sender.sendWithAck(annotated("by time", "x-opt-delivery-time", at)));
        Broker.done(sender.sendWithAck(annotated("by timestamp", "x-opt-delivery-time", new Date(at))));
        Broker.done(sender.sendWithAck(annotated("by delay", "x-opt-delivery-delay", LATER.toMillis())));
        Map<String, Object> bad = Map.of("x-opt-delivery-delay", -1L, "x-opt-delivery-time", "tomorrow");
        for (Map.Entry<String, Object> one : bad.entrySet()) {
            Broker.refused("REJECTED", () -> Broker.done(sender.sendWithAck(annotated("never", one.getKey(), one.getValue()))));
        }
        Broker.send(connection, queue, "now");
        Inbox inbox = Broker.receiver(connection, queue);
        inbox.take("now");
        inbox.empty();
        Broker.advanceClock(LATER.plusMinutes(1));
        Set<String> came = new HashSet<>();
        for (int number = 0; number < 3; number++) {
            AmqpMessage message = inbox.next();
            came.add(message.bodyAsString());
            message.accepted();
        }
        Broker.same(came, Set.of("by time", "by timestamp", "by delay"), "delayed messages");
        inbox.empty();
        Broker.done(connection.close());
    }

    private Delays() {}
}
