import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Where the broker is, and the few calls that every case makes. */
final class Client {
    /** How long a message may take that must come. */
    static final long WAIT_MS = 20_000;
    /** How long a queue is watched that must give nothing. */
    static final long QUIET_MS = 1_000;

    /** The value of the property that says how a message is settled, as Qpid JMS documents it. */
    static final int REJECTED = 2;
    static final int RELEASED = 3;
    static final int MODIFIED_FAILED = 4;
    static final int MODIFIED_UNDELIVERABLE = 5;

    static boolean overTls() {
        return "tls".equals(System.getenv("FERRYBUS_TRANSPORT"));
    }

    /** The broker's address, with `options` behind the question mark. */
    static String address(String options) {
        String scheme = overTls() ? "amqps" : "amqp";
        String address = scheme + "://localhost:" + System.getenv("FERRYBUS_PORT");
        return options.isEmpty() ? address : address + "?" + options;
    }

    static JmsConnectionFactory factory(String uri) throws Exception {
        return factory(uri, System.getenv("FERRYBUS_KEY"));
    }

    static JmsConnectionFactory factory(String uri, String key) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(System.getenv("FERRYBUS_KEY_NAME"), key, uri);
        if (overTls()) {
            factory.setSslContext(trusting(System.getenv("FERRYBUS_CA")));
        }
        return factory;
    }

    /** One that logs in with a token of an identity provider; the name beside it proves nothing. */
    static JmsConnectionFactory withToken(String token) throws Exception {
        JmsConnectionFactory factory = factory(address("amqp.saslMechanisms=XOAUTH2"), token);
        factory.setUsername("till");
        return factory;
    }

    private static SSLContext trusting(String authority) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream file = new FileInputStream(authority)) {
            store.setCertificateEntry("ferrybus", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    /** A started connection with the client's defaults. */
    static Connection connect() throws Exception {
        return connect("");
    }

    static Connection connect(String options) throws Exception {
        Connection connection = factory(address(options)).createConnection();
        connection.start();
        return connection;
    }

    /** A started connection of a client that is known by this name. */
    static Connection connectAs(String client) throws Exception {
        Connection connection = factory(address("")).createConnection();
        connection.setClientID(client);
        connection.start();
        return connection;
    }

    static void send(Session session, Destination destination, String... bodies) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String body : bodies) {
            producer.send(session.createTextMessage(body));
        }
        producer.close();
    }

    /** Sends over a connection of its own. */
    static void sendTo(String queue, String... bodies) throws Exception {
        try (Connection connection = connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, session.createQueue(queue), bodies);
        }
    }

    static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(WAIT_MS);
        demand(message != null, "no message came");
        return message;
    }

    static String text(Message message) throws JMSException {
        demand(message instanceof TextMessage, "not a text: " + message);
        return ((TextMessage) message).getText();
    }

    /** The next messages, which must be these. */
    static void expect(MessageConsumer consumer, String... bodies) throws JMSException {
        for (String body : bodies) {
            same(text(next(consumer)), body, "body");
        }
    }

    static void empty(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(QUIET_MS);
        demand(message == null, "not empty: " + message);
    }

    static void settle(Message message, int outcome) throws JMSException {
        message.setIntProperty("JMS_AMQP_ACK_TYPE", outcome);
        message.acknowledge();
    }

    /** How many times the message has been delivered, this time included. */
    static int deliveries(Message message) throws JMSException {
        return message.getIntProperty("JMSXDeliveryCount");
    }

    static byte[] bytes(Message message) throws JMSException {
        BytesMessage binary = (BytesMessage) message;
        byte[] all = new byte[(int) binary.getBodyLength()];
        binary.readBytes(all);
        return all;
    }

    static String deadLetters(String queue) {
        return queue + "/$DeadLetterQueue";
    }

    static void demand(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void same(Object found, Object wanted, String name) {
        demand(Objects.equals(found, wanted), name + ": found " + found + ", wanted " + wanted);
    }

    interface Fails {
        void run() throws Exception;
    }

    /** What must fail with this kind of exception. */
    static <E extends Exception> E refused(Class<E> kind, Fails body) throws Exception {
        try {
            body.run();
        } catch (Exception error) {
            demand(kind.isInstance(error), "not " + kind.getSimpleName() + ": " + error);
            return kind.cast(error);
        }
        throw new AssertionError("it was not refused");
    }

    /** Moves the broker's time; when this returns, what became due is done. */
    static void advanceClock(Duration by) throws Exception {
        ask("POST", "/$ferrybus/clock/advance", "{\"by_ms\":" + by.toMillis() + "}");
    }

    private static final HttpClient HTTP = HttpClient.newHttpClient();

    static String ask(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + System.getenv("FERRYBUS_CONTROL") + path))
            .header("Authorization", System.getenv("FERRYBUS_AUTHORIZATION"))
            .header("Content-Type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body))
            .build();
        HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        demand(answer.statusCode() / 100 == 2, path + ": " + answer.statusCode() + " " + answer.body());
        return answer.body();
    }

    /** The names `0` to `count - 1`. */
    static List<String> numbers(int count) {
        List<String> names = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            names.add(Integer.toString(number));
        }
        return names;
    }

    private Client() {}
}
