import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.SubQueue;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Where the broker is, and the few calls that every case makes. */
final class Client {
    /** How long a message may take that must come. */
    static final Duration WAIT = Duration.ofSeconds(20);
    /** How long a queue is watched that must give nothing. */
    static final Duration QUIET = Duration.ofSeconds(1);

    static boolean overTls() {
        return "tls".equals(System.getenv("FERRYBUS_TRANSPORT"));
    }

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

    /** As its users write it: with a port, and without TLS as for the emulator. */
    static String connectionString(String key) {
        return connectionString("localhost", key);
    }

    static String connectionString(String host, String key) {
        String text = "Endpoint=sb://" + host + ":" + System.getenv("FERRYBUS_PORT")
            + ";SharedAccessKeyName=" + System.getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + key;
        return overTls() ? text : text + ";UseDevelopmentEmulator=true";
    }

    /** All clients of one builder share a connection. */
    static ServiceBusClientBuilder builder() {
        return builder(System.getenv("FERRYBUS_KEY"));
    }

    static ServiceBusClientBuilder builder(String key) {
        AmqpRetryOptions retries = new AmqpRetryOptions().setTryTimeout(Duration.ofSeconds(10)).setMaxRetries(1);
        return new ServiceBusClientBuilder().connectionString(connectionString(key)).retryOptions(retries);
    }

    static ServiceBusSenderClient sender(ServiceBusClientBuilder builder, String queue) {
        return builder.sender().queueName(queue).buildClient();
    }

    static ServiceBusReceiverClient receiver(ServiceBusClientBuilder builder, String queue) {
        return builder.receiver().queueName(queue).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).buildClient();
    }

    static ServiceBusReceiverClient deadLetters(ServiceBusClientBuilder builder, String queue) {
        return builder.receiver().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient();
    }

    static void send(ServiceBusSenderClient sender, String... bodies) {
        for (String body : bodies) {
            sender.sendMessage(message(body));
        }
    }

    /** Sends over a connection of its own. */
    static void sendTo(String queue, String... bodies) {
        try (ServiceBusSenderClient sender = sender(builder(), queue)) {
            send(sender, bodies);
        }
    }

    static void sendWith(ServiceBusClientBuilder builder, String queue) {
        send(sender(builder, queue), "to be refused");
    }

    static ServiceBusMessage message(String body) {
        return new ServiceBusMessage(BinaryData.fromString(body));
    }

    /** The next messages, as many as that. */
    static List<ServiceBusReceivedMessage> next(ServiceBusReceiverClient receiver, int count) {
        List<ServiceBusReceivedMessage> messages = new ArrayList<>();
        long until = System.nanoTime() + WAIT.toNanos();
        while (messages.size() < count) {
            demand(System.nanoTime() < until, "only " + messages.size() + " messages came");
            receiver.receiveMessages(count - messages.size(), Duration.ofSeconds(5)).forEach(messages::add);
        }
        return messages;
    }

    static ServiceBusReceivedMessage one(ServiceBusReceiverClient receiver, String body) {
        ServiceBusReceivedMessage message = next(receiver, 1).get(0);
        same(message.getBody().toString(), body, "body");
        return message;
    }

    static void complete(ServiceBusReceiverClient receiver, String... bodies) {
        for (String body : bodies) {
            receiver.complete(one(receiver, body));
        }
    }

    static void empty(ServiceBusReceiverClient receiver) {
        List<ServiceBusReceivedMessage> messages = new ArrayList<>();
        receiver.receiveMessages(1, QUIET).forEach(messages::add);
        demand(messages.isEmpty(), "not empty: " + messages);
    }

    /** The bodies that a peek sees, without a lock. */
    static List<String> peeked(ServiceBusReceiverClient receiver) {
        List<String> bodies = new ArrayList<>();
        receiver.peekMessages(100, 1).forEach(message -> bodies.add(message.getBody().toString()));
        return bodies;
    }

    /**
     * Waits until the queue has no messages, locked ones included. A processor completes a message after its handler has returned, and
     * a clock that moved, or a processor that was closed before, would leave a message that was processed.
     */
    static void nothingLeft(String queue) {
        try (ServiceBusReceiverClient receiver = receiver(builder(), queue)) {
            long until = System.nanoTime() + WAIT.toNanos();
            List<String> left = peeked(receiver);
            while (!left.isEmpty()) {
                demand(System.nanoTime() < until, "left: " + left);
                left = peeked(receiver);
            }
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

    /** The conditions behind the reasons: a receiver's exception has them as its cause, without a reason. */
    private static final Map<ServiceBusFailureReason, AmqpErrorCondition> CONDITIONS = Map.of(
        ServiceBusFailureReason.UNAUTHORIZED, AmqpErrorCondition.UNAUTHORIZED_ACCESS,
        ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, AmqpErrorCondition.NOT_FOUND);

    /** What must fail with this reason of the SDK. */
    static void refused(ServiceBusFailureReason reason, Fails body) throws Exception {
        Throwable error = refused(Exception.class, body);
        Throwable cause = error;
        while (cause != null && !(cause instanceof ServiceBusException) && !(cause instanceof AmqpException)) {
            cause = cause.getCause();
        }
        demand(cause != null, "not by the broker: " + error + ", caused by " + error.getCause());
        if (cause instanceof ServiceBusException) {
            same(((ServiceBusException) cause).getReason(), reason, cause.toString());
        } else {
            same(((AmqpException) cause).getErrorCondition(), CONDITIONS.get(reason), cause.toString());
        }
    }

    static <E extends Exception> E refused(Class<E> kind, Fails body) throws Exception {
        try {
            body.run();
        } catch (Exception error) {
            demand(kind.isInstance(error), "not " + kind.getSimpleName() + ": " + error);
            return kind.cast(error);
        }
        throw new AssertionError("it was not refused");
    }

    /** Made at its first use: a client takes the trust store as it is when it is made. */
    private static final class Http {
        static final HttpClient CLIENT = HttpClient.newHttpClient();
    }

    /** Moves the broker's time; when this returns, what became due is done. */
    static void advanceClock(Duration by) throws Exception {
        URI there = URI.create("http://" + System.getenv("FERRYBUS_CONTROL") + "/$ferrybus/clock/advance");
        HttpRequest request = HttpRequest.newBuilder(there)
            .header("Authorization", System.getenv("FERRYBUS_AUTHORIZATION"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString("{\"by_ms\":" + by.toMillis() + "}"))
            .build();
        HttpResponse<String> answer = Http.CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        demand(answer.statusCode() / 100 == 2, "the clock: " + answer.statusCode() + " " + answer.body());
    }

    private Client() {}
}
