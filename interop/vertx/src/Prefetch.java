import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpSender;
import io.vertx.core.Future;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Listeners that are slower than a lock lasts, with all messages in their buffer, which takes 1,000. */
final class Prefetch {
    private static final int MESSAGES = 600;
    /** For the broker: the last messages wait for ten minutes, the lock duration is one. */
    private static final Duration WORK = Duration.ofSeconds(1);

    static void declare(Map<String, Main.Case> cases) {
        cases.put("slow-listener", Prefetch::everyMessageOnce);
        cases.put("slow-listener-with-timer", Prefetch::deliversAgain);
        cases.put("listener-killed-fill", queue -> fill(queue, MESSAGES));
        cases.put("listener-killed-listen", queue -> listen(queue, Integer.MAX_VALUE));
        cases.put("listener-killed-hang", queue -> listen(queue, 20));
        cases.put("held-without-timer", Prefetch::held);
        cases.put("empty-with-dead-letters", Broker::nothingLeft);
    }

    private static void fill(String queue, int count) throws Exception {
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createSender(queue));
        List<Future<Void>> sends = new ArrayList<>();
        for (String number : Broker.numbers(count)) {
            sends.add(sender.sendWithAck(Broker.texted(number)));
        }
        Broker.done(Future.all(sends));
        Broker.done(connection.close());
    }

    /** Calls of a handler that takes its time; the client accepts a message when it has returned. */
    private static LinkedBlockingQueue<String> calls(AmqpConnection connection, String queue) throws Exception {
        LinkedBlockingQueue<String> calls = new LinkedBlockingQueue<>();
        Broker.done(connection.createReceiver(queue)).handler(message -> {
            try {
                Broker.advanceClock(WORK);
                calls.add(message.bodyAsString());
            } catch (Exception error) {
                // Seen by the case, which waits for a number.
                calls.add(error.toString());
            }
        });
        return calls;
    }

    private static void everyMessageOnce(String queue) throws Exception {
        fill(queue, MESSAGES);
        AmqpConnection connection = Broker.connect();
        LinkedBlockingQueue<String> calls = calls(connection, queue);
        Set<String> seen = new HashSet<>();
        for (int call = 0; call < MESSAGES; call++) {
            String body = calls.poll(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Broker.demand(body != null, "after " + call + " calls no other came");
            Broker.demand(seen.add(body), "message " + body + " came again at call " + call);
        }
        Broker.advanceClock(Duration.ofMinutes(2));
        String more = calls.poll(Broker.QUIET_MS, TimeUnit.MILLISECONDS);
        Broker.demand(more == null, "call " + (MESSAGES + 1) + " is for message " + more);
        Broker.done(connection.close());
        Broker.nothingLeft(queue);
    }

    /** The control of the case above: where locks have a timer, the same listener is called again and again. */
    private static void deliversAgain(String queue) throws Exception {
        int count = 100;
        fill(queue, count);
        LinkedBlockingQueue<String> calls = calls(Broker.connect(), queue);
        Set<String> seen = new HashSet<>();
        boolean again = false;
        for (int call = 0; call < 2 * count && !again; call++) {
            String body = calls.poll(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Broker.demand(body != null, "after " + call + " calls no other came");
            again = !seen.add(body);
        }
        Broker.demand(again, "a lock of a minute has not ended while a hundred messages took a second each");
    }

    /** Says what it does, until somebody ends it; hangs in the message with this number of its own. */
    private static void listen(String queue, int hangsAt) throws Exception {
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, queue);
        Broker.flush(connection, queue);
        Broker.say("listening");
        for (int calls = 1; ; calls++) {
            AmqpMessage message = inbox.next();
            if (calls == hangsAt) {
                // The client settles on a thread of its own: until the broker has it, the kill could come first.
                Broker.flush(connection, queue);
            }
            Broker.say("begin " + message.bodyAsString());
            if (calls == hangsAt) {
                new CountDownLatch(1).await();
            }
            message.accepted();
            Broker.say("end " + message.bodyAsString());
        }
    }

    private static void held(String queue) throws Exception {
        Broker.sendTo(queue, "held");
        AmqpConnection connection = Broker.connect();
        AmqpConnection other = Broker.connect();
        AmqpMessage message = Broker.receiver(connection, queue).next();
        Broker.advanceClock(Duration.ofHours(1));
        Inbox waits = Broker.receiver(other, queue);
        waits.empty();
        message.accepted();
        Broker.flush(connection, queue);
        waits.empty();
        Broker.nothingLeft(queue);
    }

    private Prefetch() {}
}
