import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.Tracker;

/** A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it. */
final class Largest {
    private static final int LIMIT = 256 << 10;
    private static final int LOWERED = 1 << 10;
    /** The longest texts that a client may give when it dead-letters. */
    private static final Map<String, Object> TEXTS =
        Map.of("DeadLetterReason", "r".repeat(4_096), "DeadLetterErrorDescription", "d".repeat(4_096));
    private static final Map<String, Object> APPLICATION = Map.of("number", 7, "text", "grüße ✓");

    static void declare(Map<String, Main.Case> cases) {
        cases.put("largest-message", Largest::play);
    }

    private static byte[] pattern(int length) {
        byte[] body = new byte[length];
        for (int index = 0; index < length; index++) {
            body[index] = (byte) (index % 251);
        }
        return body;
    }

    private static Message<byte[]> filled(int length) throws Exception {
        Message<byte[]> message = Message.create(pattern(length));
        message.messageId("largest").subject("the subject").correlationId("corr");
        for (Map.Entry<String, Object> property : APPLICATION.entrySet()) {
            message.property(property.getKey(), property.getValue());
        }
        return message;
    }

    private static int encodedSize(Message<byte[]> message) throws Exception {
        return message.toAdvancedMessage().encode(null).getReadableBytes();
    }

    private static int bodyOf(int size) throws Exception {
        return size - (encodedSize(filled(LOWERED)) - LOWERED);
    }

    /** A message whose encoding has so many bytes. */
    private static Message<byte[]> ofSize(int size) throws Exception {
        Message<byte[]> message = filled(bodyOf(size));
        Broker.same(encodedSize(message), size, "encoded size");
        return message;
    }

    private static void isRefused(Sender sender, int size) throws Exception {
        Tracker tooLarge = sender.send(ofSize(size));
        tooLarge.awaitSettlement(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
        Sending.rejectedWith(tooLarge.remoteState(), "amqp:link:message-size-exceeded");
    }

    /** Nothing was lost on the way, and it comes for the first time: no link was closed for its size. */
    private static Delivery nextWhole(Receiver receiver, Map<String, Object> added) throws Exception {
        receiver.addCredit(1);
        Delivery delivery = Broker.next(receiver);
        Message<byte[]> message = delivery.message();
        Broker.demand(Arrays.equals(message.body(), pattern(bodyOf(LIMIT))), "byte for byte");
        Broker.same(message.messageId(), "largest", "id");
        Broker.same(message.subject(), "the subject", "subject");
        Broker.same(message.correlationId(), "corr", "correlation");
        for (Map<String, Object> wanted : Arrays.asList(APPLICATION, added)) {
            for (Map.Entry<String, Object> property : wanted.entrySet()) {
                Broker.same(message.property(property.getKey()), property.getValue(), property.getKey());
            }
        }
        Broker.same(message.deliveryCount(), 0L, "delivery count");
        return delivery;
    }

    /** A receiver gets its credit when it is its turn. */
    private static Receiver receiver(Connection connection, String address, DeliveryMode mode) throws Exception {
        ReceiverOptions options = Broker.explicit().creditWindow(0).deliveryMode(mode);
        return Broker.receiver(connection, address, options);
    }

    private static void play(String queue) throws Exception {
        String letters = Broker.deadLetters(queue);
        try (Connection connection = Broker.connect()) {
            Receiver locking = receiver(connection, queue, DeliveryMode.AT_LEAST_ONCE);
            Receiver deleting = receiver(connection, queue, DeliveryMode.AT_MOST_ONCE);
            Receiver dead = receiver(connection, letters, DeliveryMode.AT_LEAST_ONCE);
            Receiver deletingDead = receiver(connection, letters, DeliveryMode.AT_MOST_ONCE);
            Sender sender = Broker.sender(connection, queue);
            isRefused(sender, LIMIT + 1);
            for (boolean isLowered : new boolean[] {false, true}) {
                for (int round = 0; round < 4; round++) {
                    sender.send(ofSize(LIMIT)).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
                }
                if (isLowered) {
                    limitMessages(queue, LOWERED);
                    isRefused(Broker.sender(connection, queue), LOWERED + 1);
                }
                Broker.same(nextWhole(deleting, Map.of()).remoteSettled(), true, "settled");
                nextWhole(locking, Map.of()).accept();
                for (int round = 0; round < 2; round++) {
                    DeliveryState why = DeliveryState.rejected("com.microsoft:dead-letter", "", TEXTS);
                    nextWhole(locking, Map.of()).disposition(why, true);
                }
                Broker.same(nextWhole(deletingDead, TEXTS).remoteSettled(), true, "settled");
                nextWhole(dead, TEXTS).accept();
            }
            for (Receiver receiver : new Receiver[] {locking, dead}) {
                receiver.addCredit(1);
                Broker.empty(receiver);
            }
        }
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
