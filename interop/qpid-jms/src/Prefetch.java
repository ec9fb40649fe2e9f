import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Listeners that are slower than a lock lasts, with all messages in their prefetch buffer, which takes 1,000. */
final class Prefetch {
    private static final int MESSAGES = 600;
    private static final Duration WORK = Duration.ofMillis(200);

    static void declare(Map<String, Main.Case> cases) {
        cases.put("slow-listener", queue -> everyMessageOnce(queue, Prefetch::clockMoves));
        cases.put("slow-listener-with-timer", Prefetch::deliversAgain);
        cases.put("slow-listener-in-real-time", queue -> everyMessageOnce(queue, () -> Thread.sleep(WORK.toMillis())));
        cases.put("listener-killed-fill", Prefetch::fill);
        cases.put("listener-killed-listen", queue -> listen(queue, Integer.MAX_VALUE));
        cases.put("listener-killed-hang", queue -> listen(queue, 20));
        cases.put("held-without-timer", Prefetch::held);
        cases.put("consumer-per-message", Prefetch::consumerPerMessage);
        cases.put("empty-with-dead-letters", Prefetch::nothingLeft);
    }

    /** For the broker a message has taken a second: the last ones wait for ten minutes, the lock duration is one. */
    private static void clockMoves() throws Exception {
        Client.advanceClock(Duration.ofSeconds(1));
    }

    private static void fill(String queue) throws Exception {
        fill(queue, MESSAGES);
    }

    private static void fill(String queue, int count) throws Exception {
        try (Connection connection = Client.connect("jms.forceAsyncSend=true")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            CountDownLatch accepted = new CountDownLatch(count);
            for (String number : Client.numbers(count)) {
                producer.send(session.createTextMessage(number), new Sending.Counted(accepted));
            }
            Client.demand(accepted.await(Client.WAIT_MS, TimeUnit.MILLISECONDS), "sends are not answered");
        }
    }

    private static void everyMessageOnce(String queue, Client.Fails work) throws Exception {
        fill(queue, MESSAGES);
        LinkedBlockingQueue<String> calls = new LinkedBlockingQueue<>();
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            consumer.setMessageListener(message -> process(message, work, calls));
            Set<String> seen = new HashSet<>();
            for (int call = 0; call < MESSAGES; call++) {
                String body = calls.poll(Client.WAIT_MS, TimeUnit.MILLISECONDS);
                Client.demand(body != null, "after " + call + " calls no other came");
                Client.demand(seen.add(body), "message " + body + " came again at call " + call);
            }
            Client.advanceClock(Duration.ofMinutes(2));
            String more = calls.poll(Client.QUIET_MS, TimeUnit.MILLISECONDS);
            Client.demand(more == null, "call " + (MESSAGES + 1) + " is for message " + more);
        }
        nothingLeft(queue);
    }

    private static void process(Message message, Client.Fails work, LinkedBlockingQueue<String> calls) {
        try {
            work.run();
            calls.add(Client.text(message));
        } catch (Exception error) {
            // Seen by the case, which waits for a number.
            calls.add(error.toString());
        }
    }

    private static void nothingLeft(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Client.empty(session.createConsumer(session.createQueue(queue)));
            Client.empty(session.createConsumer(session.createQueue(Client.deadLetters(queue))));
        }
    }

    /** Each message has a consumer of its own, which gets the others too and gives them back: none of them counts as failed. */
    private static void consumerPerMessage(String queue) throws Exception {
        int count = 36;
        fill(queue, count);
        for (int number = 0; number < count; number++) {
            try (Connection connection = Client.connect()) {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
                Message message = Client.next(consumer);
                Client.same(Client.text(message), Integer.toString(number), "message");
                Client.same(Client.deliveries(message), 1, "deliveries of message " + number);
                // Closed first is the consumer, the session or the connection.
                if (number % 3 == 0) {
                    consumer.close();
                } else if (number % 3 == 1) {
                    session.close();
                }
            }
        }
        nothingLeft(queue);
    }

    /** The control of the cases above: where locks have a timer, the same listener is called again and again. */
    private static void deliversAgain(String queue) throws Exception {
        int count = 100;
        fill(queue, count);
        LinkedBlockingQueue<String> calls = new LinkedBlockingQueue<>();
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            consumer.setMessageListener(message -> process(message, Prefetch::clockMoves, calls));
            Set<String> seen = new HashSet<>();
            boolean again = false;
            for (int call = 0; call < 2 * count && !again; call++) {
                String body = calls.poll(Client.WAIT_MS, TimeUnit.MILLISECONDS);
                Client.demand(body != null, "after " + call + " calls no other came");
                again = !seen.add(body);
            }
            Client.demand(again, "a lock of a minute has not ended in ten minutes");
        }
    }

    /** Says what it does, until somebody ends it; hangs in the message with this number of its own. */
    private static void listen(String queue, int hangsAt) throws Exception {
        Connection connection = Client.connect();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        int[] calls = {0};
        CountDownLatch never = new CountDownLatch(1);
        consumer.setMessageListener(message -> {
            try {
                calls[0]++;
                if (calls[0] == hangsAt) {
                    // The client writes on a thread of its own: until the broker has the settlement before, the kill could come first.
                    connection.createSession(false, Session.AUTO_ACKNOWLEDGE).close();
                }
                say("begin " + Client.text(message));
                if (calls[0] == hangsAt) {
                    never.await();
                }
                say("end " + Client.text(message));
            } catch (JMSException | InterruptedException error) {
                say("error " + error);
            }
        });
        say("listening");
        never.await();
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void held(String queue) throws Exception {
        Client.sendTo(queue, "held");
        try (Connection connection = Client.connect(); Connection other = Client.connect()) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Message message = Client.next(session.createConsumer(session.createQueue(queue)));
            Client.advanceClock(Duration.ofHours(1));
            Session another = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer waits = another.createConsumer(another.createQueue(queue));
            Client.empty(waits);
            message.acknowledge();
            Client.empty(waits);
        }
        nothingLeft(queue);
    }

    private Prefetch() {}
}
