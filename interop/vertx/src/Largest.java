import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpReceiverOptions;
import io.vertx.amqp.AmqpSender;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.json.JsonObject;
import java.util.Map;

/** A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it. */
final class Largest {
    private static final int LIMIT = 256 << 10;
    private static final int LOWERED = 1 << 10;
    private static final JsonObject APPLICATION = new JsonObject().put("number", 7).put("text", "grüße ✓");

    static void declare(Map<String, Main.Case> cases) {
        cases.put("largest-message", Largest::play);
    }

    /** The client writes the address of its sender into a message that has none. */
    private static AmqpMessage filled(String queue, int length) {
        byte[] body = new byte[length];
        for (int index = 0; index < length; index++) {
            body[index] = (byte) (index % 251);
        }
        return AmqpMessage.create().address(queue).id("largest").subject("the subject").correlationId("corr")
            .applicationProperties(APPLICATION).withBufferAsBody(Buffer.buffer(body)).build();
    }

    private static int encodedSize(AmqpMessage message) {
        byte[] space = new byte[2 * LIMIT];
        return message.unwrap().encode(space, 0, space.length);
    }

    /** A message whose encoding has so many bytes. */
    private static AmqpMessage ofSize(String queue, int size) {
        AmqpMessage message = filled(queue, size - (encodedSize(filled(queue, LOWERED)) - LOWERED));
        Broker.same(encodedSize(message), size, "encoded size");
        return message;
    }

    private static void isRefused(AmqpSender sender, String queue, int size) throws Exception {
        Broker.refused("REJECTED", () -> Broker.done(sender.sendWithAck(ofSize(queue, size))));
    }

    /** Nothing was lost on the way, and it comes for the first time: no link was closed for its size. */
    private static AmqpMessage nextWhole(Inbox inbox, String queue) throws Exception {
        AmqpMessage message = inbox.next();
        Broker.demand(message.bodyAsBinary().equals(ofSize(queue, LIMIT).bodyAsBinary()), "byte for byte");
        Broker.same(message.id(), "largest", "id");
        Broker.same(message.subject(), "the subject", "subject");
        Broker.same(message.correlationId(), "corr", "correlation");
        Broker.same(message.applicationProperties(), APPLICATION, "application properties");
        Broker.same(message.deliveryCount(), 0, "delivery count");
        return message;
    }

    private static void play(String queue) throws Exception {
        String letters = Broker.deadLetters(queue);
        AmqpReceiverOptions deletes = Broker.explicit().setQos("AT_MOST_ONCE");
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createSender(queue));
        isRefused(sender, queue, LIMIT + 1);
        for (boolean isLowered : new boolean[] {false, true}) {
            for (int round = 0; round < 4; round++) {
                Broker.done(sender.sendWithAck(ofSize(queue, LIMIT)));
            }
            if (isLowered) {
                limitMessages(queue, LOWERED);
                isRefused(Broker.done(connection.createSender(queue)), queue, LOWERED + 1);
            }
            // The client takes into its buffer what is there. What it has not settled is there again when the link is closed.
            Inbox locking = Broker.receiver(connection, queue);
            nextWhole(locking, queue).accepted();
            // The client has no call to give a reason.
            nextWhole(locking, queue).rejected();
            nextWhole(locking, queue).rejected();
            locking.close();
            Inbox deleting = Broker.receiver(connection, queue, deletes);
            nextWhole(deleting, queue);
            deleting.close();
            Inbox dead = Broker.receiver(connection, letters);
            nextWhole(dead, queue).accepted();
            dead.close();
            Inbox deletingDead = Broker.receiver(connection, letters, deletes);
            nextWhole(deletingDead, queue);
            deletingDead.close();
        }
        Broker.nothingLeft(queue);
        Broker.done(connection.close());
    }

    /** Changes the largest message that a queue takes, as an operator does. */
    private static void limitMessages(String queue, int most) throws Exception {
        String[] command =
            {System.getenv("FERRYBUS_BIN"), "queue", "update", queue, "--max-message-bytes", String.valueOf(most)};
        int code = new ProcessBuilder(command).inheritIO().start().waitFor();
        Broker.same(code, 0, "exit code of `ferrybus queue update`");
    }

    private Largest() {}
}
