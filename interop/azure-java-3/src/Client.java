import com.microsoft.azure.servicebus.ClientFactory;
import com.microsoft.azure.servicebus.IMessage;
import com.microsoft.azure.servicebus.IMessageReceiver;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.Message;
import com.microsoft.azure.servicebus.ReceiveMode;
import com.microsoft.azure.servicebus.primitives.ConnectionStringBuilder;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;

/** Where the broker is, and the few calls that every case makes. */
final class Client {
    /** How long a message may take that must come. */
    static final Duration WAIT = Duration.ofSeconds(20);
    /** How long a queue is watched that must give nothing. */
    static final Duration QUIET = Duration.ofSeconds(1);

    /** As its users do: a trust store that `javax.net.ssl.trustStore` names, here one of this process. */
    static void trustAuthority() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream file = new FileInputStream(System.getenv("FERRYBUS_CA"))) {
            store.setCertificateEntry("ferrybus", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        Path path = Files.createTempFile("ferrybus-trust", ".p12");
        path.toFile().deleteOnExit();
        try (OutputStream file = Files.newOutputStream(path)) {
            store.store(file, "changeit".toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", path.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", "changeit");
    }

    static ConnectionStringBuilder at(String entity) throws Exception {
        return at(entity, System.getenv("FERRYBUS_KEY"));
    }

    /** The SDK connects to port 5671 whatever port stands here. */
    static ConnectionStringBuilder at(String entity, String key) throws Exception {
        return at(System.getenv("FERRYBUS_HOST"), entity, key);
    }

    static ConnectionStringBuilder at(String host, String entity, String key) throws Exception {
        URI endpoint = new URI("sb://" + host + "/");
        ConnectionStringBuilder builder = new ConnectionStringBuilder(endpoint, entity, System.getenv("FERRYBUS_KEY_NAME"), key);
        builder.setOperationTimeout(WAIT);
        return builder;
    }

    static IMessageSender sender(String entity) throws Exception {
        return ClientFactory.createMessageSenderFromConnectionStringBuilder(at(entity));
    }

    static IMessageReceiver receiver(String entity) throws Exception {
        return receiver(entity, ReceiveMode.PEEKLOCK);
    }

    static IMessageReceiver receiver(String entity, ReceiveMode mode) throws Exception {
        return ClientFactory.createMessageReceiverFromConnectionStringBuilder(at(entity), mode);
    }

    static IMessageReceiver deadLetters(String queue) throws Exception {
        return receiver(queue + "/$deadletterqueue");
    }

    /** Sends over a connection of its own. */
    static void sendTo(String entity, String... bodies) throws Exception {
        IMessageSender sender = sender(entity);
        for (String body : bodies) {
            sender.send(new Message(body));
        }
        sender.close();
    }

    static String text(IMessage message) {
        return new String(message.getMessageBody().getBinaryData().get(0), StandardCharsets.UTF_8);
    }

    static IMessage one(IMessageReceiver receiver, String body) throws Exception {
        IMessage message = receiver.receive(WAIT);
        demand(message != null, "no message came");
        same(text(message), body, "body");
        return message;
    }

    static void complete(IMessageReceiver receiver, String... bodies) throws Exception {
        for (String body : bodies) {
            receiver.complete(one(receiver, body).getLockToken());
        }
    }

    static void empty(IMessageReceiver receiver) throws Exception {
        IMessage message = receiver.receive(QUIET);
        demand(message == null, "not empty: " + (message == null ? "" : text(message)));
    }

    /** The bodies that a peek sees from this number on. */
    static List<String> peeked(IMessageReceiver receiver, long from, int most) throws Exception {
        List<String> bodies = new ArrayList<>();
        Collection<IMessage> messages = receiver.peekBatch(from, most);
        if (messages != null) {
            messages.forEach(message -> bodies.add(text(message)));
        }
        return bodies;
    }

    /** Peeks until the entity is empty: a handler is done before the SDK has completed its message. */
    static void settled(IMessageReceiver receiver) throws Exception {
        Instant end = Instant.now().plusSeconds(30);
        List<String> left = peeked(receiver, 1, 10);
        while (!left.isEmpty()) {
            demand(Instant.now().isBefore(end), "not settled: " + left);
            left = peeked(receiver, 1, 10);
        }
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

    /** The step must fail, and with this exception of the SDK. */
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
        URI there = URI.create("http://" + System.getenv("FERRYBUS_CONTROL") + "/$ferrybus/clock/advance");
        HttpRequest request = HttpRequest.newBuilder(there)
            .header("Authorization", System.getenv("FERRYBUS_AUTHORIZATION"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString("{\"by_ms\":" + by.toMillis() + "}"))
            .build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        demand(answer.statusCode() / 100 == 2, answer.statusCode() + " " + answer.body());
    }

    private Client() {}
}
