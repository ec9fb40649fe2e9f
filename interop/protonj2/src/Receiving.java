import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;

/** Messages of queues, and every way to settle them. */
final class Receiving {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("peek-lock-complete", Receiving::complete);
        cases.put("peek-lock-abandon", queue -> comesAgain(queue, delivery -> delivery.modified(true, false), 1));
        cases.put("peek-lock-release", queue -> comesAgain(queue, Delivery::release, 0));
        cases.put("modified-without-failure", queue -> comesAgain(queue, delivery -> delivery.modified(false, false), 0));
        cases.put("peek-lock-dead-letter", Receiving::deadLetter);
        cases.put("undeliverable-here", Receiving::undeliverable);
        cases.put("receive-and-delete", Receiving::receiveAndDelete);
        cases.put("delivery-count-to-dead-letter", Receiving::countToDeadLetter);
        cases.put("peek", Receiving::browse);
        cases.put("lock-loss", Receiving::lockLoss);
        cases.put("two-competing-receivers", Receiving::competing);
        cases.put("drain", Receiving::drain);
    }

    private static void complete(String queue) throws Exception {
        Broker.sendTo(queue, "one", "two");
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            for (String body : List.of("one", "two")) {
                Delivery delivery = Broker.next(receiver);
                Broker.same(Broker.text(delivery), body, "body");
                Broker.same(delivery.message().deliveryCount(), 0L, "delivery count");
                delivery.accept();
            }
            Broker.empty(receiver);
        }
        Broker.same(Broker.browsed(queue), List.of(), "left");
    }

    interface Settling {
        void settle(Delivery delivery) throws Exception;
    }

    /** One credit at a time: else the next message is in the client's buffer when the first one comes again. */
    private static void comesAgain(String queue, Settling outcome, long count) throws Exception {
        Broker.sendTo(queue, "one", "two");
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue, Broker.explicit().creditWindow(0));
            receiver.addCredit(1);
            Delivery first = Broker.next(receiver);
            outcome.settle(first);
            receiver.addCredit(1);
            Delivery again = Broker.next(receiver);
            Broker.same(Broker.text(again), "one", "it keeps its place");
            Broker.same(again.message().deliveryCount(), count, "delivery count");
            String number = "x-opt-sequence-number";
            Broker.same(again.message().annotation(number), first.message().annotation(number), "number");
            again.accept();
            receiver.addCredit(2);
            Broker.take(receiver, "two");
            Broker.empty(receiver);
        }
    }

    private static void deadLetter(String queue) throws Exception {
        Broker.sendTo(queue, "bad", "good");
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            Map<String, Object> info = Map.of(
                "DeadLetterReason", "broken", "DeadLetterErrorDescription", "cannot be read");
            DeliveryState rejected = DeliveryState.rejected("com.microsoft:dead-letter", "", info);
            Broker.next(receiver).disposition(rejected, true);
            Broker.take(receiver, "good");
            Broker.empty(receiver);
            Message<Object> letter = takeDeadLetter(connection, queue, "bad", "broken");
            Broker.same(letter.property("DeadLetterErrorDescription"), "cannot be read", "description");
        }
    }

    /** Demands that the dead-letter queue has this message for this reason and no other, and takes it. */
    static Message<Object> takeDeadLetter(Connection connection, String queue, String body, String reason)
            throws Exception {
        Receiver dead = Broker.receiver(connection, Broker.deadLetters(queue));
        Delivery delivery = Broker.next(dead);
        Message<Object> letter = delivery.message();
        Broker.same(letter.body(), body, "dead letter");
        Broker.same(letter.property("DeadLetterReason"), reason, "reason");
        delivery.accept();
        Broker.empty(dead);
        return letter;
    }

    private static void undeliverable(String queue) throws Exception {
        Broker.sendTo(queue, "not here");
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.next(receiver).modified(false, true);
            Broker.empty(receiver);
            takeDeadLetter(connection, queue, "not here", "UndeliverableHere");
        }
    }

    /** On the Service Bus dialect: locks that last, whatever becomes of the link. */
    static ReceiverOptions locking() {
        return Broker.explicit().properties(Map.of("com.microsoft:receiver-name", "java"));
    }

    private static void receiveAndDelete(String queue) throws Exception {
        Broker.sendTo(queue, "a", "b");
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(
                connection, queue, new ReceiverOptions().deliveryMode(DeliveryMode.AT_MOST_ONCE));
            for (String body : List.of("a", "b")) {
                Delivery delivery = Broker.next(receiver);
                Broker.same(Broker.text(delivery), body, "body");
                Broker.same(delivery.remoteSettled(), true, "settled");
            }
            Broker.empty(receiver);
        }
        Broker.same(Broker.browsed(queue), List.of(), "left");
    }

    private static void countToDeadLetter(String queue) throws Exception {
        Broker.sendTo(queue, "bad");
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            for (long count = 0; count < 3; count++) {
                Delivery delivery = Broker.next(receiver);
                Broker.same(delivery.message().deliveryCount(), count, "delivery count");
                delivery.modified(true, false);
            }
            Broker.empty(receiver);
            takeDeadLetter(connection, queue, "bad", "MaxDeliveryCountExceeded");
        }
    }

    /** The client has no call for `$management`, and browses. */
    private static void browse(String queue) throws Exception {
        Broker.sendTo(queue, "a", "b", "c");
        try (Connection connection = Broker.connect()) {
            Receiver holder = Broker.receiver(connection, queue, Broker.explicit().creditWindow(0));
            holder.addCredit(1);
            Delivery held = Broker.next(holder);
            Broker.same(Broker.browsed(queue), List.of("a", "b", "c"), "browsed, the held one too");
            Broker.same(Broker.browsed(queue), List.of("a", "b", "c"), "browsed again");
            held.release();
            holder.close();
            Receiver receiver = Broker.receiver(connection, queue);
            for (String body : List.of("a", "b", "c")) {
                Delivery delivery = Broker.next(receiver);
                Broker.same(Broker.text(delivery), body, "body");
                Broker.same(delivery.message().deliveryCount(), 0L, "a look counts as no delivery");
                delivery.accept();
            }
            Broker.empty(receiver);
        }
    }

    /** The client can leave a settlement open until the broker has answered it. */
    private static void lockLoss(String queue) throws Exception {
        Broker.sendTo(queue, "too slow");
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue, locking());
            Delivery late = Broker.next(receiver);
            Delivery again = Broker.next(receiver);
            Broker.same(Broker.text(again), "too slow", "body");
            Broker.same(again.message().deliveryCount(), 1L, "delivery count");
            late.disposition(DeliveryState.accepted(), false);
            long until = System.currentTimeMillis() + Broker.WAIT_MS;
            while (!late.remoteSettled() && System.currentTimeMillis() < until) {
                Thread.onSpinWait();
            }
            Sending.rejectedWith(late.remoteState(), "com.microsoft:message-lock-lost");
            Broker.same(Broker.browsed(queue), List.of("too slow"), "it completed nothing");
            again.accept();
        }
        Broker.same(Broker.browsed(queue), List.of(), "left");
    }

    private static void competing(String queue) throws Exception {
        try (Connection one = Broker.connect(); Connection two = Broker.connect()) {
            List<Receiver> receivers = List.of(
                Broker.receiver(one, queue, Broker.explicit().creditWindow(0)),
                Broker.receiver(two, queue, Broker.explicit().creditWindow(0)));
            for (Receiver receiver : receivers) {
                receiver.addCredit(4);
            }
            Broker.flush(one, queue);
            Broker.flush(two, queue);
            Broker.sendTo(queue, Broker.numbers(8));
            Set<String> bodies = new HashSet<>();
            for (int turn = 0; turn < 4; turn++) {
                for (Receiver receiver : receivers) {
                    Delivery delivery = Broker.next(receiver);
                    Broker.demand(bodies.add(Broker.text(delivery)), "it came twice: " + Broker.text(delivery));
                    delivery.accept();
                }
            }
        }
        Broker.same(Broker.browsed(queue), List.of(), "left");
    }

    private static void drain(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue, Broker.explicit().creditWindow(0));
            receiver.addCredit(10);
            receiver.drain().get(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Broker.demand(receiver.tryReceive() == null, "there was nothing to bring");
            Broker.send(connection, queue, "a", "b", "c");
            Broker.empty(receiver);
            receiver.addCredit(2);
            Broker.take(receiver, "a", "b");
            receiver.addCredit(5);
            receiver.drain().get(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Broker.take(receiver, "c");
            Broker.send(connection, queue, "d");
            Broker.empty(receiver);
            receiver.addCredit(1);
            Broker.take(receiver, "d");
        }
    }

    private Receiving() {}
}
