import com.microsoft.azure.servicebus.ClientFactory;
import com.microsoft.azure.servicebus.IMessage;
import com.microsoft.azure.servicebus.IMessageReceiver;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.Message;
import com.microsoft.azure.servicebus.ReceiveMode;
import com.microsoft.azure.servicebus.TransactionContext;
import com.microsoft.azure.servicebus.primitives.MessagingFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Transactions: what is sent and settled in one, and what becomes of it. */
final class Transactions {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("transaction-commit", Transactions::commit);
        cases.put("transaction-rollback", Transactions::rollback);
        cases.put("transaction-across-entities", Transactions::across);
    }

    /** Links of one connection. */
    private static final class Links {
        final MessagingFactory factory;
        final IMessageSender sender;
        final IMessageReceiver receiver;

        Links(String queue) throws Exception {
            factory = MessagingFactory.createFromConnectionStringBuilder(Client.at(queue));
            sender = ClientFactory.createMessageSenderFromEntityPath(factory, queue);
            receiver = ClientFactory.createMessageReceiverFromEntityPath(factory, queue, ReceiveMode.PEEKLOCK);
        }
    }

    private static void commit(String queue) throws Exception {
        Links links = new Links(queue);
        links.sender.send(new Message("work"));
        IMessage work = Client.one(links.receiver, "work");
        TransactionContext transaction = links.factory.startTransaction();
        links.receiver.complete(work.getLockToken(), transaction);
        links.sender.send(new Message("one"), transaction);
        links.sender.sendBatch(List.of(new Message("two"), new Message("three")), transaction);
        Client.empty(links.receiver);
        Client.same(Client.peeked(links.receiver, 1, 10), List.of("work"), "before the commit");
        links.factory.endTransaction(transaction, true);
        Client.complete(links.receiver, "one", "two", "three");
        Client.empty(links.receiver);
        Client.same(Client.peeked(links.receiver, 1, 10), List.of(), "left");
    }

    /** With a broker of its own, whose clock is moved beyond the lock. */
    private static void rollback(String queue) throws Exception {
        Links links = new Links(queue);
        links.sender.send(new Message("work"));
        IMessage work = Client.one(links.receiver, "work");
        TransactionContext transaction = links.factory.startTransaction();
        links.receiver.complete(work.getLockToken(), transaction);
        links.sender.send(new Message("never"), transaction);
        links.factory.endTransaction(transaction, false);
        Client.same(Client.peeked(links.receiver, 1, 10), List.of("work"), "after the rollback");
        Client.empty(links.receiver);
        Client.advanceClock(Duration.ofSeconds(61));
        Client.complete(links.receiver, "work");
        Client.same(Client.peeked(links.receiver, 1, 10), List.of(), "left");
    }

    /** What goes to the other queue goes through the one that is received from. */
    private static void across(String queue) throws Exception {
        String target = queue + "-target";
        Client.sendTo(queue, "first", "second");
        Links links = new Links(queue);
        IMessageSender via = ClientFactory.createTransferMessageSenderFromEntityPath(links.factory, target, queue);
        IMessage first = Client.one(links.receiver, "first");
        TransactionContext transaction = links.factory.startTransaction();
        via.send(new Message("from the first"), transaction);
        links.receiver.complete(first.getLockToken(), transaction);
        links.factory.endTransaction(transaction, true);
        IMessage second = Client.one(links.receiver, "second");
        transaction = links.factory.startTransaction();
        via.send(new Message("never"), transaction);
        links.receiver.abandon(second.getLockToken(), Map.of(), transaction);
        links.factory.endTransaction(transaction, false);
        IMessageReceiver there = Client.receiver(target);
        Client.complete(there, "from the first");
        Client.empty(there);
        Client.same(Client.peeked(links.receiver, 1, 10), List.of("second"), "left");
    }

    private Transactions() {}
}
