import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * How long single steps of the client take, for `cargo xtask bench --scenario sdk-latency`.
 *
 * <p>Prints a line for each time a step was done: its name, a tab, milliseconds. `FERRYBUS_HOST` and `FERRYBUS_PORT` say where
 * a broker with the queue `latency` is, `FERRYBUS_REPETITIONS` says how often.
 */
public final class Latency {
    private static final long WAIT_MS = 30_000;
    /** Until a consumer that was just told to wait does so. */
    private static final long SETTLED_MS = 100;
    private static final int REPETITIONS = Integer.parseInt(System.getenv("FERRYBUS_REPETITIONS"));
    private static final byte[] BODY = new byte[1024];

    private static void told(String step, long begun, long over) {
        System.out.printf(Locale.ROOT, "%s\t%.3f%n", step, (over - begun) / 1e6);
    }

    private static Connection connect() throws Exception {
        String address = "amqp://" + System.getenv("FERRYBUS_HOST") + ":" + System.getenv("FERRYBUS_PORT");
        Connection connection = new JmsConnectionFactory("RootManageSharedAccessKey", "SAS_KEY_VALUE", address).createConnection();
        connection.start();
        return connection;
    }

    private static Session session(Connection connection) throws Exception {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    private static void send(Session session, MessageProducer producer) throws Exception {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(BODY);
        producer.send(message);
    }

    private static void arrivals(Connection sending, Connection receiving) throws Exception {
        Session sender = session(sending);
        Queue queue = sender.createQueue("latency");
        MessageProducer producer = sender.createProducer(queue);
        MessageConsumer consumer = session(receiving).createConsumer(queue);
        send(sender, producer);
        Objects.requireNonNull(consumer.receive(WAIT_MS));
        for (int round = 0; round < REPETITIONS; round++) {
            CompletableFuture<Long> came = CompletableFuture.supplyAsync(() -> {
                try {
                    Objects.requireNonNull(consumer.receive(WAIT_MS));
                    return System.nanoTime();
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            });
            Thread.sleep(SETTLED_MS);
            long begun = System.nanoTime();
            send(sender, producer);
            told("a message arrives at a waiting receiver", begun, came.get());
        }
        consumer.close();
        BlockingQueue<Long> arrived = new LinkedBlockingQueue<>();
        MessageConsumer listening = session(receiving).createConsumer(queue);
        listening.setMessageListener((Message message) -> arrived.add(System.nanoTime()));
        for (int round = 0; round < REPETITIONS; round++) {
            Thread.sleep(SETTLED_MS);
            long begun = System.nanoTime();
            send(sender, producer);
            told("a message arrives at a subscribed receiver", begun, arrived.poll(30, TimeUnit.SECONDS));
        }
        listening.close();
    }

    private static void connects() throws Exception {
        for (int round = 0; round < REPETITIONS; round++) {
            long begun = System.nanoTime();
            Connection connection = connect();
            Session session = session(connection);
            send(session, session.createProducer(session.createQueue("latency")));
            told("connect and send", begun, System.nanoTime());
            connection.close();
        }
    }

    private static void newReceivers(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue("latency");
        for (int round = 0; round < REPETITIONS; round++) {
            long begun = System.nanoTime();
            MessageConsumer consumer = session.createConsumer(queue);
            Message message = Objects.requireNonNull(consumer.receive(WAIT_MS));
            told("new receiver and first message", begun, System.nanoTime());
            message.acknowledge();
            consumer.close();
        }
    }

    public static void main(String[] words) throws Exception {
        try (Connection sending = connect(); Connection receiving = connect()) {
            arrivals(sending, receiving);
            connects();
            newReceivers(receiving);
        }
    }
}
