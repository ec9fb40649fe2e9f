import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpReceiverOptions;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import org.apache.qpid.proton.amqp.Symbol;
import org.apache.qpid.proton.message.Message;

/** Messages of queues, and every way to settle them. */
final class Receiving {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("peek-lock-complete", Receiving::complete);
        cases.put("peek-lock-abandon", queue -> comesAgain(queue, message -> message.modified(true, false), 1));
        cases.put("peek-lock-release", queue -> comesAgain(queue, AmqpMessage::released, 0));
        cases.put("modified-without-failure", queue -> comesAgain(queue, message -> message.modified(false, false), 0));
        cases.put("peek-lock-dead-letter", queue -> deadLettered(queue, AmqpMessage::rejected, null));
        cases.put("undeliverable-here",
            queue -> deadLettered(queue, message -> message.modified(false, true), "UndeliverableHere"));
        cases.put("peek-lock-defer", Receiving::deferred);
        cases.put("receive-and-delete", Receiving::receiveAndDelete);
        cases.put("delivery-count-to-dead-letter", Receiving::countToDeadLetter);
        cases.put("peek", Receiving::peek);
        cases.put("lock-renewal", Receiving::renewal);
        cases.put("lock-loss", Receiving::loss);
        cases.put("two-competing-receivers", Receiving::competing);
    }

    private static Object annotation(AmqpMessage message, String name) {
        return message.unwrap().getMessageAnnotations().getValue().get(Symbol.valueOf(name));
    }

    static long number(AmqpMessage message) {
        return (Long) annotation(message, "x-opt-sequence-number");
    }

    static long lockedUntil(AmqpMessage message) {
        return ((Date) annotation(message, "x-opt-locked-until")).getTime();
    }

    private static UUID lockToken(AmqpMessage message) {
        Symbol name = Symbol.valueOf("x-opt-lock-token");
        return (UUID) message.unwrap().getDeliveryAnnotations().getValue().get(name);
    }

    /** On the Service Bus dialect: locks that last, whatever becomes of the link. */
    private static AmqpReceiverOptions locking() {
        return Broker.explicit().setLinkProperties(Map.of("com.microsoft:receiver-name", "vertx"));
    }

    private static void complete(String queue) throws Exception {
        Broker.sendTo(queue, "one", "two");
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue);
        for (String body : List.of("one", "two")) {
            AmqpMessage message = inbox.next();
            Broker.same(message.bodyAsString(), body, "body");
            Broker.same(message.deliveryCount(), 0, "delivery count");
            message.accepted();
        }
        inbox.empty();
        Broker.done(connection.close());
        Broker.nothingLeft(queue);
    }

    /**
     * The buffer takes one message, so the second one is there when the first one comes again, before the third. The client
     * writes credit and settlements of one turn in an order of its own: each is with the broker before the next.
     */
    private static void comesAgain(String queue, Consumer<AmqpMessage> outcome, int count) throws Exception {
        Broker.sendTo(queue, "one", "two", "three");
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue, Broker.explicit().setMaxBufferedMessages(1));
        AmqpMessage first = inbox.next();
        Broker.flush(connection, queue);
        outcome.accept(first);
        Broker.flush(connection, queue);
        inbox.take("two");
        AmqpMessage again = inbox.next();
        Broker.same(again.bodyAsString(), "one", "it keeps its place");
        Broker.same(again.deliveryCount(), count, "delivery count");
        Broker.same(number(again), number(first), "number");
        again.accepted();
        inbox.take("three");
        inbox.empty();
        Broker.done(connection.close());
    }

    private static void deadLettered(String queue, Consumer<AmqpMessage> outcome, String reason) throws Exception {
        Broker.sendTo(queue, "bad", "good");
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue);
        outcome.accept(inbox.next());
        inbox.take("good");
        inbox.empty();
        takeDeadLetter(connection, queue, reason);
        Broker.done(connection.close());
    }

    private static void takeDeadLetter(AmqpConnection connection, String queue, String reason) throws Exception {
        Inbox dead = Broker.receiver(connection, Broker.deadLetters(queue));
        AmqpMessage letter = dead.next();
        Broker.same(letter.bodyAsString(), "bad", "dead letter");
        var properties = letter.applicationProperties();
        Broker.same(properties == null ? null : properties.getString("DeadLetterReason"), reason, "reason");
        letter.accepted();
        dead.empty();
    }

    private static void deferred(String queue) throws Exception {
        Broker.sendTo(queue, "later", "now");
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue, locking());
        inbox.next().modified(false, true);
        inbox.take("now");
        inbox.empty();
        List<Message> peeked = new Management(connection, queue).peek(1, 10);
        Broker.same(peeked.size(), 1, "seen");
        Broker.same(Management.body(peeked.get(0)), "later", "body");
        Map<Symbol, Object> annotations = peeked.get(0).getMessageAnnotations().getValue();
        Broker.same(annotations.get(Symbol.valueOf("x-opt-message-state")), 1, "state");
        Broker.done(connection.close());
    }

    private static void receiveAndDelete(String queue) throws Exception {
        Broker.sendTo(queue, "a", "b");
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue, Broker.explicit().setQos("AT_MOST_ONCE"));
        for (String body : List.of("a", "b")) {
            Broker.same(inbox.next().bodyAsString(), body, "body");
        }
        inbox.empty();
        Broker.nothingLeft(queue);
        Broker.done(connection.close());
    }

    private static void countToDeadLetter(String queue) throws Exception {
        Broker.sendTo(queue, "bad");
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue);
        for (int count = 0; count < 3; count++) {
            AmqpMessage message = inbox.next();
            Broker.same(message.deliveryCount(), count, "delivery count");
            message.modified(true, false);
        }
        inbox.empty();
        takeDeadLetter(connection, queue, "MaxDeliveryCountExceeded");
        Broker.done(connection.close());
    }

    private static void peek(String queue) throws Exception {
        Broker.sendTo(queue, Broker.numbers(10));
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue, Broker.explicit().setMaxBufferedMessages(1));
        AmqpMessage held = inbox.next();
        Management node = new Management(connection, queue);
        long from = 1;
        int seen = 0;
        for (List<Message> page = node.peek(from, 4); !page.isEmpty(); page = node.peek(from, 4)) {
            for (Message message : page) {
                Broker.same(Management.body(message), Integer.toString(seen++), "body");
                Object number = message.getMessageAnnotations().getValue().get(Symbol.valueOf("x-opt-sequence-number"));
                from = (Long) number + 1;
            }
        }
        Broker.same(seen, 10, "seen, the held one too");
        held.accepted();
        for (int next = 1; next < 10; next++) {
            AmqpMessage message = inbox.next();
            Broker.same(message.bodyAsString(), Integer.toString(next), "body");
            Broker.same(message.deliveryCount(), 0, "a look counts as no delivery");
            message.accepted();
        }
        inbox.empty();
        Broker.done(connection.close());
    }

    private static void waitPast(long end) throws InterruptedException {
        Thread.sleep(Math.max(0, end - System.currentTimeMillis()) + 300);
    }

    private static void renewal(String queue) throws Exception {
        Broker.sendTo(queue, "long work");
        AmqpConnection connection = Broker.connect();
        AmqpConnection other = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue, locking());
        AmqpMessage message = inbox.next();
        long end = lockedUntil(message);
        Management node = new Management(connection, queue);
        // So that the renewed lock outlives the first one by as much.
        Thread.sleep(7_000);
        Object renewed = node.renew(lockToken(message));
        Broker.demand(renewed instanceof Date date && date.getTime() - end >= 4_500, "renewed until " + renewed);
        waitPast(end);
        Broker.receiver(other, queue).empty();
        message.accepted();
        inbox.empty();
        Broker.same(node.bodies(), List.of(), "left");
        Broker.done(connection.close());
        Broker.done(other.close());
    }

    private static void loss(String queue) throws Exception {
        Broker.sendTo(queue, "too slow");
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue, locking());
        AmqpMessage first = inbox.next();
        Management node = new Management(connection, queue);
        waitPast(lockedUntil(first));
        Broker.same(node.renew(lockToken(first)), 410, "status");
        // Too late, and settled: nothing is answered, and it must complete nothing.
        first.accepted();
        AmqpMessage again = inbox.next();
        Broker.same(again.bodyAsString(), "too slow", "body");
        Broker.same(again.deliveryCount(), 1, "delivery count");
        again.accepted();
        inbox.empty();
        Broker.same(node.bodies(), List.of(), "left");
        Broker.done(connection.close());
    }

    private static void competing(String queue) throws Exception {
        AmqpConnection one = Broker.connect();
        AmqpConnection two = Broker.connect();
        AmqpReceiverOptions options = Broker.explicit().setMaxBufferedMessages(1);
        List<Inbox> inboxes = List.of(Broker.receiver(one, queue, options), Broker.receiver(two, queue, options));
        Broker.flush(one, queue);
        Broker.flush(two, queue);
        Broker.sendTo(queue, Broker.numbers(2));
        Set<String> bodies = new HashSet<>();
        for (Inbox inbox : inboxes) {
            AmqpMessage message = inbox.next();
            Broker.demand(bodies.add(message.bodyAsString()), "it came twice: " + message);
            message.accepted();
        }
        for (Inbox inbox : inboxes) {
            inbox.empty();
        }
        Broker.done(one.close());
        Broker.done(two.close());
        Broker.nothingLeft(queue);
    }

    private Receiving() {}
}
