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
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.ClientOptions;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DistributionMode;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.exceptions.ClientException;

/** Where the broker is, and the few calls that every case makes. */
final class Broker {
    /** How long a step may take on a busy machine. */
    static final long WAIT_MS = 20_000;
    /** How long a queue is watched that must give nothing. */
    static final long QUIET_MS = 1_000;

    static boolean overTls() {
        return "tls".equals(System.getenv("FERRYBUS_TRANSPORT"));
    }

    static int port() {
        return Integer.parseInt(System.getenv("FERRYBUS_PORT"));
    }

    /** The key that every case logs in with, and over TLS the authority that it trusts. */
    static ConnectionOptions options() throws Exception {
        return options(System.getenv("FERRYBUS_KEY"));
    }

    static ConnectionOptions options(String key) throws Exception {
        ConnectionOptions options = anonymous().user(System.getenv("FERRYBUS_KEY_NAME")).password(key);
        options.saslOptions().addAllowedMechanism("PLAIN");
        return options;
    }

    /** With a token of an identity provider instead of a key. */
    static ConnectionOptions withToken(String token) throws Exception {
        ConnectionOptions options = anonymous().user("till").password(token);
        options.saslOptions().addAllowedMechanism("XOAUTH2");
        return options;
    }

    /** With nobody's key. */
    static ConnectionOptions anonymous() throws Exception {
        ConnectionOptions options = new ConnectionOptions();
        if (overTls()) {
            options.sslEnabled(true);
            options.sslOptions().sslContextOverride(trusting(System.getenv("FERRYBUS_CA")));
        }
        return options;
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

    static Connection connect() throws Exception {
        return connect(options());
    }

    static Connection connect(ConnectionOptions options) throws Exception {
        return opened(Client.create().connect("localhost", port(), options));
    }

    /** As the client with this container-id. */
    static Connection connectAs(String client) throws Exception {
        return opened(Client.create(new ClientOptions().id(client)).connect("localhost", port(), options()));
    }

    /** The call returns before the broker has answered. */
    static Connection opened(Connection connection) throws Exception {
        connection.openFuture().get(WAIT_MS, TimeUnit.MILLISECONDS);
        return connection;
    }

    static Sender sender(Connection connection, String address) throws Exception {
        Sender sender = connection.openSender(address);
        sender.openFuture().get(WAIT_MS, TimeUnit.MILLISECONDS);
        return sender;
    }

    /** A receiver that accepts nothing by itself. */
    static Receiver receiver(Connection connection, String address) throws Exception {
        return receiver(connection, address, explicit());
    }

    static Receiver receiver(Connection connection, String address, ReceiverOptions options) throws Exception {
        return opened(connection.openReceiver(address, options));
    }

    static Receiver opened(Receiver receiver) throws Exception {
        receiver.openFuture().get(WAIT_MS, TimeUnit.MILLISECONDS);
        return receiver;
    }

    static ReceiverOptions explicit() {
        return new ReceiverOptions().autoAccept(false);
    }

    static void send(Connection connection, String address, String... bodies) throws Exception {
        Sender sender = sender(connection, address);
        for (String body : bodies) {
            sender.send(Message.create(body)).awaitAccepted(WAIT_MS, TimeUnit.MILLISECONDS);
        }
        sender.close();
    }

    /** Sends over a connection of its own. */
    static void sendTo(String address, String... bodies) throws Exception {
        try (Connection connection = connect()) {
            send(connection, address, bodies);
        }
    }

    static Delivery next(Receiver receiver) throws Exception {
        Delivery delivery = receiver.receive(WAIT_MS, TimeUnit.MILLISECONDS);
        demand(delivery != null, "no message came");
        return delivery;
    }

    static String text(Delivery delivery) throws ClientException {
        Message<Object> message = delivery.message();
        return (String) message.body();
    }

    /** Accepts the next messages, which must be these. */
    static void take(Receiver receiver, String... bodies) throws Exception {
        for (String body : bodies) {
            Delivery delivery = next(receiver);
            same(text(delivery), body, "body");
            delivery.accept();
        }
    }

    static void empty(Receiver receiver) throws Exception {
        Delivery delivery = receiver.receive(QUIET_MS, TimeUnit.MILLISECONDS);
        demand(delivery == null, "not empty: " + (delivery == null ? "" : text(delivery)));
    }

    static ReceiverOptions browsing() {
        ReceiverOptions options = explicit();
        options.sourceOptions().distributionMode(DistributionMode.COPY);
        return options;
    }

    /** The bodies that a browser of the queue sees, all of which a drain brings. */
    static List<String> browsed(String queue) throws Exception {
        try (Connection connection = connect()) {
            return browsed(connection, queue, browsing());
        }
    }

    static List<String> browsed(Connection connection, String queue, ReceiverOptions options) throws Exception {
        Receiver browser = receiver(connection, queue, options.creditWindow(0));
        browser.addCredit(1_000);
        browser.drain().get(WAIT_MS, TimeUnit.MILLISECONDS);
        List<String> bodies = new ArrayList<>();
        for (Delivery seen = browser.tryReceive(); seen != null; seen = browser.tryReceive()) {
            bodies.add(text(seen));
        }
        browser.close();
        return bodies;
    }

    static String deadLetters(String queue) {
        return queue + "/$DeadLetterQueue";
    }

    /** Returns when the broker has read what this connection has sent. */
    static void flush(Connection connection, String queue) throws Exception {
        sender(connection, queue).close();
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

    /** The step must fail, and some cause of it say this. */
    static void refused(String saying, Fails body) throws Exception {
        try {
            body.run();
        } catch (Exception error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause).contains(saying)) {
                    return;
                }
            }
            throw new AssertionError("it does not say `" + saying + "`", error);
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

    /** For `suite.py`, which reads what a program says. */
    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** The names `0` to `count - 1`. */
    static String[] numbers(int count) {
        String[] names = new String[count];
        for (int number = 0; number < count; number++) {
            names[number] = Integer.toString(number);
        }
        return names;
    }

    private Broker() {}
}
