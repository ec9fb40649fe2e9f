import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it. */
final class Largest {
    /**
     * Of the size that the attach announced the SDK keeps 1 KiB in 64 for itself, and drops without a word a message that
     * fits into the whole and not into the rest. So its sender attaches while the limit is higher than the one it meets.
     */
    private static final int LIMIT_AT_ATTACH = 272 << 10;
    private static final int LIMIT = 256 << 10;
    private static final int LOWERED = 1 << 10;
    /** Bytes of a message beside its body. */
    private static final int OVERHEAD_MAX = 1 << 10;
    /** The longest texts that a client may give when it dead-letters. */
    private static final String REASON = "r".repeat(4_096);
    private static final String DESCRIPTION = "d".repeat(4_096);
    private static final Map<String, Object> APPLICATION = Map.of("number", 7, "text", "grüße ✓");

    static void declare(Map<String, Main.Case> cases) {
        cases.put("largest-message", Largest::play);
    }

    private static ServiceBusMessage filled(int length) {
        ServiceBusMessage message = new ServiceBusMessage(BinaryData.fromBytes(Sending.pattern(length)));
        message.setMessageId("largest").setSubject("the subject").setCorrelationId("corr");
        message.getApplicationProperties().putAll(APPLICATION);
        return message;
    }

    /** Whether a message with a body of this length is taken. */
    private static boolean isTaken(ServiceBusSenderClient sender, int length) {
        try {
            sender.sendMessage(filled(length));
            return true;
        } catch (ServiceBusException refused) {
            Client.same(refused.getReason(), ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED, refused.toString());
            return false;
        }
    }

    /**
     * Searches the body with which a message has exactly the size of the limit: one byte more is refused. Takes away what
     * was sent meanwhile.
     */
    private static int searchBody(ServiceBusSenderClient sender, ServiceBusReceiverClient deleting) {
        int taken = LIMIT - OVERHEAD_MAX;
        int refused = LIMIT;
        Client.demand(isTaken(sender, taken), OVERHEAD_MAX + " bytes beside the body suffice");
        List<Integer> lengths = new ArrayList<>(List.of(taken));
        while (refused - taken > 1) {
            int tried = (taken + refused) / 2;
            if (isTaken(sender, tried)) {
                taken = tried;
                lengths.add(tried);
            } else {
                refused = tried;
            }
        }
        for (int length : lengths) {
            nextWhole(deleting, length);
        }
        return taken;
    }

    /** Nothing was lost on the way, and it comes for the first time: no link was closed for its size. */
    private static ServiceBusReceivedMessage nextWhole(ServiceBusReceiverClient receiver, int length) {
        ServiceBusReceivedMessage message = Client.next(receiver, 1).get(0);
        isWhole(message, length);
        return message;
    }

    private static void isWhole(ServiceBusReceivedMessage message, int length) {
        Client.demand(Arrays.equals(message.getBody().toBytes(), Sending.pattern(length)), "byte for byte");
        Client.same(message.getMessageId(), "largest", "id");
        Client.same(message.getSubject(), "the subject", "subject");
        Client.same(message.getCorrelationId(), "corr", "correlation");
        APPLICATION.forEach((name, value) -> Client.same(message.getApplicationProperties().get(name), value, name));
        Client.same(message.getDeliveryCount(), 0L, "deliveries before this one");
    }

    private static ServiceBusReceivedMessage nextDeadLetter(ServiceBusReceiverClient receiver, int length) {
        ServiceBusReceivedMessage letter = Client.next(receiver, 1).get(0);
        isDeadLetter(letter, length);
        return letter;
    }

    private static void isDeadLetter(ServiceBusReceivedMessage letter, int length) {
        isWhole(letter, length);
        Client.same(letter.getDeadLetterReason(), REASON, "reason");
        Client.same(letter.getDeadLetterErrorDescription(), DESCRIPTION, "description");
    }

    private static void play(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusReceiverClient locking = Client.receiver(builder, queue);
        ServiceBusReceiverClient dead = Client.deadLetters(builder, queue);
        ServiceBusReceiverClient deleting = deleting(builder, queue, SubQueue.NONE);
        ServiceBusReceiverClient deletingDead = deleting(builder, queue, SubQueue.DEAD_LETTER_QUEUE);
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        Client.same(announced(sender), LIMIT_AT_ATTACH, "announced");
        limitMessages(queue, LIMIT);
        int length = searchBody(sender, deleting);
        // By the SDK's own measure it is the size that is now announced; of this sender nothing comes.
        ServiceBusSenderClient dropping = Client.sender(Client.builder(), queue);
        Client.same(announced(dropping), LIMIT, "announced after the change");
        Client.demand(isTaken(dropping, length) && !isTaken(dropping, length + 1), "it is the announced size");
        DeadLetterOptions why = new DeadLetterOptions().setDeadLetterReason(REASON).setDeadLetterErrorDescription(DESCRIPTION);
        for (boolean isLowered : new boolean[] {false, true}) {
            for (int round = 0; round < 4; round++) {
                Client.demand(isTaken(sender, length), "the largest is taken");
            }
            if (isLowered) {
                limitMessages(queue, LOWERED);
                ServiceBusSenderClient later = Client.sender(Client.builder(), queue);
                Client.same(announced(later), LOWERED, "announced later");
                Client.demand(!isTaken(later, LOWERED), "more than the lowered limit is refused");
            }
            // The answer to a request carries it as well.
            isWhole(locking.peekMessage(1), length);
            nextWhole(deleting, length);
            locking.complete(nextWhole(locking, length));
            for (int letters = 0; letters < 2; letters++) {
                locking.deadLetter(nextWhole(locking, length), why);
            }
            isDeadLetter(dead.peekMessage(1), length);
            nextDeadLetter(deletingDead, length);
            dead.complete(nextDeadLetter(dead, length));
        }
        Client.empty(locking);
        Client.empty(dead);
    }

    /** What the attach said; for a batch it is the same as for a message here, and the SDK tells that only. */
    private static int announced(ServiceBusSenderClient sender) {
        return sender.createMessageBatch().getMaxSizeInBytes();
    }

    private static ServiceBusReceiverClient deleting(ServiceBusClientBuilder builder, String queue, SubQueue part) {
        ServiceBusReceiveMode mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE;
        return builder.receiver().queueName(queue).subQueue(part).receiveMode(mode).buildClient();
    }

    /** Changes the largest message that a queue takes, as an operator does. */
    private static void limitMessages(String queue, int most) throws Exception {
        String[] command =
            {System.getenv("FERRYBUS_BIN"), "queue", "update", queue, "--max-message-bytes", String.valueOf(most)};
        int code = new ProcessBuilder(command).inheritIO().start().waitFor();
        Client.same(code, 0, "exit code of `ferrybus queue update`");
    }

    private Largest() {}
}
