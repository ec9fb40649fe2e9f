import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Map;

/** A message whose transactions are rolled back again and again does not come for ever. */
final class Rollbacks {
    private static final int ROLLBACKS = 50;
    private static final int DELIVERIES_MAX = 3;
    private static final Duration BEYOND_THE_LOCK = Duration.ofSeconds(61);

    static void declare(Map<String, Main.Case> cases) {
        cases.put("rollbacks-to-dead-letter", Rollbacks::play);
    }

    /** With a broker of its own, whose clock is moved beyond the lock. */
    private static void play(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusReceiverClient other = Client.receiver(Client.builder(), queue);
        Client.sendTo(queue, "work");
        for (long count = 0; count < DELIVERIES_MAX; count++) {
            ServiceBusReceivedMessage work = Client.one(receiver, "work");
            Client.same(work.getDeliveryCount(), count, "deliveries before this one");
            rolledBack(receiver, work);
            OffsetDateTime until = receiver.renewMessageLock(work);
            Client.demand(!until.isBefore(work.getLockedUntil()), "after the rollback it is still locked: " + until);
            Client.empty(other);
            Client.advanceClock(BEYOND_THE_LOCK);
        }
        Client.empty(receiver);
        ServiceBusReceiverClient dead = Client.deadLetters(builder, queue);
        ServiceBusReceivedMessage letter = Client.one(dead, "work");
        Client.same(letter.getDeadLetterReason(), "MaxDeliveryCountExceeded", "reason");
        dead.complete(letter);
    }

    /** The SDK lets a message be settled once, whatever becomes of the transaction: all others end without it. */
    private static void rolledBack(ServiceBusReceiverClient receiver, ServiceBusReceivedMessage message) throws Exception {
        for (int round = 0; round < ROLLBACKS; round++) {
            ServiceBusTransactionContext transaction = receiver.createTransaction();
            CompleteOptions inside = new CompleteOptions().setTransactionContext(transaction);
            if (round == 0) {
                receiver.complete(message, inside);
            } else {
                IllegalArgumentException refused =
                    Client.refused(IllegalArgumentException.class, () -> receiver.complete(message, inside));
                Client.demand(refused.getMessage().contains("already settled"), refused.toString());
            }
            receiver.rollbackTransaction(transaction);
        }
    }

    private Rollbacks() {}
}
