import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpReceiver;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Takes messages from a receiver one by one. What the case has not asked for waits in the receiver's buffer. */
final class Inbox {
    final AmqpReceiver receiver;
    private final LinkedBlockingQueue<AmqpMessage> messages = new LinkedBlockingQueue<>();
    /** A message was asked for that has not come. */
    private boolean asked;

    Inbox(AmqpReceiver receiver) {
        this.receiver = receiver;
        receiver.pause();
        receiver.handler(messages::add);
    }

    private AmqpMessage poll(long milliseconds) throws InterruptedException {
        if (!asked) {
            receiver.fetch(1);
        }
        AmqpMessage message = messages.poll(milliseconds, TimeUnit.MILLISECONDS);
        asked = message == null;
        return message;
    }

    AmqpMessage next() throws InterruptedException {
        AmqpMessage message = poll(Broker.WAIT_MS);
        Broker.demand(message != null, "no message came");
        return message;
    }

    /** Accepts the next messages, which must be these. */
    void take(String... bodies) throws InterruptedException {
        for (String body : bodies) {
            AmqpMessage message = next();
            Broker.same(message.bodyAsString(), body, "body");
            message.accepted();
        }
    }

    void empty() throws InterruptedException {
        AmqpMessage message = poll(Broker.QUIET_MS);
        Broker.demand(message == null, "not empty: " + message);
    }

    void close() throws Exception {
        Broker.done(receiver.close());
    }
}
