import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Transactions: what is sent and settled in one, and what becomes of it. */
final class Transactions {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("transaction-commit", Transactions::commit);
        cases.put("transaction-rollback", Transactions::rollback);
        cases.put("transaction-several", Transactions::several);
        cases.put("transaction-across-entities", Transactions::across);
    }

    private static CompleteOptions in(ServiceBusTransactionContext transaction) {
        return new CompleteOptions().setTransactionContext(transaction);
    }

    private static void commit(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        Client.send(sender, "work");
        ServiceBusReceivedMessage work = Client.one(receiver, "work");
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(work, in(transaction));
        sender.sendMessage(Client.message("one"), transaction);
        sender.sendMessages(List.of(Client.message("two"), Client.message("three")), transaction);
        Client.empty(receiver);
        Client.same(Client.peeked(receiver), List.of("work"), "before the commit");
        receiver.commitTransaction(transaction);
        Client.complete(receiver, "one", "two", "three");
        Client.empty(receiver);
        Client.same(Client.peeked(receiver), List.of(), "left");
    }

    /** With a broker of its own, whose clock is moved beyond the lock. */
    private static void rollback(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        Client.send(sender, "work");
        ServiceBusReceivedMessage work = Client.one(receiver, "work");
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(work, in(transaction));
        sender.sendMessage(Client.message("never"), transaction);
        receiver.rollbackTransaction(transaction);
        Client.same(Client.peeked(receiver), List.of("work"), "after the rollback");
        Client.empty(receiver);
        // The message is still locked for this receiver, whose SDK takes it for settled: it comes again after its lock.
        Client.advanceClock(Duration.ofSeconds(61));
        Client.complete(receiver, "work");
        Client.same(Client.peeked(receiver), List.of(), "left");
    }

    private static void several(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusTransactionContext kept = sender.createTransaction();
        ServiceBusTransactionContext dropped = sender.createTransaction();
        sender.sendMessage(Client.message("kept"), kept);
        sender.sendMessage(Client.message("dropped"), dropped);
        Client.send(sender, "outside");
        sender.commitTransaction(kept);
        sender.rollbackTransaction(dropped);
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        Client.complete(receiver, "outside", "kept");
        Client.empty(receiver);
    }

    /** A client for several entities: everything goes through the one that it receives from. */
    private static void across(String queue) {
        ServiceBusClientBuilder builder = Client.builder().enableCrossEntityTransactions();
        String target = queue + "-target";
        Client.sendTo(queue, "first", "second");
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusReceivedMessage first = Client.one(receiver, "first");
        ServiceBusSenderClient sender = Client.sender(builder, target);
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        sender.sendMessage(Client.message("from the first"), transaction);
        receiver.complete(first, in(transaction));
        receiver.commitTransaction(transaction);
        ServiceBusReceivedMessage second = Client.one(receiver, "second");
        transaction = receiver.createTransaction();
        sender.sendMessage(Client.message("never"), transaction);
        receiver.abandon(second, new AbandonOptions().setTransactionContext(transaction));
        receiver.rollbackTransaction(transaction);
        ServiceBusReceiverClient there = Client.receiver(Client.builder(), target);
        Client.complete(there, "from the first");
        Client.empty(there);
        Client.same(Client.peeked(receiver), List.of("second"), "left");
    }

    private Transactions() {}
}
