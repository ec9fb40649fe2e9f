import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.Tracker;

/** Listeners that are slower than a lock lasts. The client's default is a window of ten messages. */
final class Prefetch {
    private static final int MESSAGES = 600;
    /** For the broker: the tenth message of a window has waited for longer than the lock of a minute. */
    private static final Duration WORK = Duration.ofSeconds(10);

    static void declare(Map<String, Main.Case> cases) {
        cases.put("slow-listener", Prefetch::everyMessageOnce);
        cases.put("slow-listener-with-timer", Prefetch::deliversAgain);
        cases.put("listener-killed-fill", queue -> fill(queue, MESSAGES));
        cases.put("listener-killed-listen", queue -> listen(queue, Integer.MAX_VALUE));
        cases.put("listener-killed-hang", queue -> listen(queue, 20));
        cases.put("held-without-timer", Prefetch::held);
        cases.put("empty-with-dead-letters", Prefetch::nothingLeft);
    }

    private static void fill(String queue, int count) throws Exception {
        try (Connection connection = Broker.connect()) {
            Sender sender = Broker.sender(connection, queue);
            List<Tracker> trackers = new ArrayList<>();
            for (String number : Broker.numbers(count)) {
                trackers.add(sender.send(Message.create(number)));
            }
            for (Tracker tracker : trackers) {
                tracker.awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            }
        }
    }

    private static void everyMessageOnce(String queue) throws Exception {
        fill(queue, MESSAGES);
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            Set<String> seen = new HashSet<>();
            for (int call = 0; call < MESSAGES; call++) {
                Delivery delivery = Broker.next(receiver);
                Broker.advanceClock(WORK);
                String body = Broker.text(delivery);
                Broker.demand(seen.add(body), "message " + body + " came again at call " + call);
                delivery.accept();
            }
            Broker.advanceClock(Duration.ofMinutes(2));
            Broker.empty(receiver);
        }
        nothingLeft(queue);
    }

    private static void nothingLeft(String queue) throws Exception {
        Broker.same(Broker.browsed(queue), List.of(), "left");
        Broker.same(Broker.browsed(Broker.deadLetters(queue)), List.of(), "dead letters");
    }

    /** The control of the case above: where locks have a timer, the same listener gets messages again. */
    private static void deliversAgain(String queue) throws Exception {
        int count = 100;
        fill(queue, count);
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            Set<String> seen = new HashSet<>();
            boolean again = false;
            for (int call = 0; call < 2 * count && !again; call++) {
                Delivery delivery = Broker.next(receiver);
                Broker.advanceClock(WORK);
                again = !seen.add(Broker.text(delivery));
                delivery.accept();
            }
            Broker.demand(again, "a lock of a minute has not ended while ten messages took ten seconds each");
        }
    }

    /** Says what it does, until somebody ends it; hangs in the message with this number of its own. */
    private static void listen(String queue, int hangsAt) throws Exception {
        Connection connection = Broker.connect();
        Receiver receiver = Broker.receiver(connection, queue);
        Broker.say("listening");
        for (int calls = 1; ; calls++) {
            Delivery delivery = receiver.receive();
            if (calls == hangsAt) {
                // The client settles on a thread of its own: until the broker has it, the kill could come first.
                Broker.flush(connection, queue);
            }
            Broker.say("begin " + Broker.text(delivery));
            if (calls == hangsAt) {
                new CountDownLatch(1).await();
            }
            delivery.accept();
            Broker.say("end " + Broker.text(delivery));
        }
    }

    private static void held(String queue) throws Exception {
        Broker.sendTo(queue, "held");
        try (Connection connection = Broker.connect(); Connection other = Broker.connect()) {
            Delivery delivery = Broker.next(Broker.receiver(connection, queue));
            Broker.advanceClock(Duration.ofHours(1));
            Receiver waits = Broker.receiver(other, queue);
            Broker.empty(waits);
            delivery.accept();
            Broker.empty(waits);
        }
        nothingLeft(queue);
    }

    private Prefetch() {}
}
