import io.vertx.amqp.AmqpClient;
import io.vertx.amqp.AmqpClientOptions;
import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpReceiverOptions;
import io.vertx.amqp.AmqpSender;
import io.vertx.core.Future;
import io.vertx.core.net.PemTrustOptions;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** Where the broker is, and the few calls that every case makes. A case waits for each step, as no application should. */
final class Broker {
    /** How long a step may take on a busy machine. */
    static final long WAIT_MS = 20_000;
    /** How long a queue is watched that must give nothing. */
    static final long QUIET_MS = 1_000;

    static int port() {
        return Integer.parseInt(System.getenv("FERRYBUS_PORT"));
    }

    static AmqpClientOptions options() {
        return options("localhost", System.getenv("FERRYBUS_KEY"));
    }

    static AmqpClientOptions options(String host, String key) {
        AmqpClientOptions options = new AmqpClientOptions().setHost(host).setPort(port());
        options.setUsername(System.getenv("FERRYBUS_KEY_NAME")).setPassword(key);
        if ("tls".equals(System.getenv("FERRYBUS_TRANSPORT"))) {
            options.setSsl(true).setHostnameVerificationAlgorithm("HTTPS");
            options.setTrustOptions(new PemTrustOptions().addCertPath(System.getenv("FERRYBUS_CA")));
        }
        return options;
    }

    static AmqpConnection connect() throws Exception {
        return connect(options());
    }

    static AmqpConnection connect(AmqpClientOptions options) throws Exception {
        return done(AmqpClient.create(options).connect());
    }

    /** As the client with this container-id. */
    static AmqpConnection connectAs(String client) throws Exception {
        return connect(options().setContainerId(client));
    }

    /** The result of a step, or its failure. */
    static <T> T done(Future<T> step) throws Exception {
        try {
            return step.toCompletionStage().toCompletableFuture().get(WAIT_MS, TimeUnit.MILLISECONDS);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        }
    }

    /** A receiver that accepts nothing by itself. */
    static AmqpReceiverOptions explicit() {
        return new AmqpReceiverOptions().setAutoAcknowledgement(false);
    }

    static Inbox receiver(AmqpConnection connection, String address) throws Exception {
        return receiver(connection, address, explicit());
    }

    static Inbox receiver(AmqpConnection connection, String address, AmqpReceiverOptions options) throws Exception {
        return new Inbox(done(connection.createReceiver(address, options)));
    }

    static AmqpMessage texted(String body) {
        return AmqpMessage.create().withBody(body).build();
    }

    static void send(AmqpConnection connection, String address, String... bodies) throws Exception {
        AmqpSender sender = done(connection.createSender(address));
        for (String body : bodies) {
            done(sender.sendWithAck(texted(body)));
        }
        done(sender.close());
    }

    /** Sends over a connection of its own. */
    static void sendTo(String address, String... bodies) throws Exception {
        AmqpConnection connection = connect();
        send(connection, address, bodies);
        done(connection.close());
    }

    static String deadLetters(String queue) {
        return queue + "/$DeadLetterQueue";
    }

    /** Returns when the broker has read what this connection has sent. */
    static void flush(AmqpConnection connection, String address) throws Exception {
        done(done(connection.createSender(address)).close());
    }

    /** Demands that the queue has no messages left, held ones and deferred ones included. */
    static void nothingLeft(String queue) throws Exception {
        AmqpConnection connection = connect();
        same(new Management(connection, queue).peek(1, 10).size(), 0, "left");
        same(new Management(connection, deadLetters(queue)).peek(1, 10).size(), 0, "dead letters");
        done(connection.close());
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
