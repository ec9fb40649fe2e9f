import com.microsoft.azure.servicebus.ClientFactory;
import com.microsoft.azure.servicebus.ExceptionPhase;
import com.microsoft.azure.servicebus.IMessage;
import com.microsoft.azure.servicebus.IMessageHandler;
import com.microsoft.azure.servicebus.IMessageReceiver;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.Message;
import com.microsoft.azure.servicebus.MessageHandlerOptions;
import com.microsoft.azure.servicebus.QueueClient;
import com.microsoft.azure.servicebus.ReceiveMode;
import com.microsoft.azure.servicebus.primitives.MessagingEntityNotFoundException;
import com.microsoft.azure.servicebus.primitives.ServiceBusException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Messages of queues, and every way to settle them. */
final class Queues {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("send-one", Queues::sendOne);
        cases.put("send-batch", Queues::sendBatch);
        cases.put("peek-lock-complete", Queues::complete);
        cases.put("peek-lock-abandon", Queues::abandon);
        cases.put("peek-lock-dead-letter", Queues::deadLetter);
        cases.put("peek-lock-defer", Queues::defer);
        cases.put("deferred-by-number", Queues::deferredByNumber);
        cases.put("receive-and-delete", Queues::receiveAndDelete);
        cases.put("receive-time-out-on-empty-queue", Queues::timeOut);
        cases.put("peek", Queues::peek);
        cases.put("subscribe", Queues::handler);
        cases.put("lock-renewal", Queues::renewal);
        cases.put("wrong-key", Queues::wrongKey);
        cases.put("missing-queue", Queues::missing);
        cases.put("entity-of-another-kind", Queues::anotherKind);
    }

    private static void sendOne(String queue) throws Exception {
        Client.sendTo(queue, "hello");
        IMessageReceiver receiver = Client.receiver(queue);
        Client.complete(receiver, "hello");
        Client.empty(receiver);
    }

    private static void sendBatch(String queue) throws Exception {
        List<IMessage> messages = new ArrayList<>();
        for (int number = 0; number < 50; number++) {
            messages.add(new Message(Integer.toString(number)));
        }
        Client.sender(queue).sendBatch(messages);
        IMessageReceiver receiver = Client.receiver(queue);
        long first = 0;
        for (int number = 0; number < 50; number++) {
            IMessage message = Client.one(receiver, Integer.toString(number));
            first = number == 0 ? message.getSequenceNumber() : first;
            Client.same(message.getSequenceNumber(), first + number, "number");
            receiver.complete(message.getLockToken());
        }
        Client.empty(receiver);
    }

    /** The SDK counts the delivery at hand, too. */
    private static void complete(String queue) throws Exception {
        Client.sendTo(queue, "a");
        IMessageReceiver receiver = Client.receiver(queue);
        IMessage message = Client.one(receiver, "a");
        Client.same(message.getDeliveryCount(), 1L, "deliveries");
        receiver.complete(message.getLockToken());
        Client.empty(receiver);
        Client.same(Client.peeked(receiver, 1, 10), List.of(), "left");
    }

    private static void abandon(String queue) throws Exception {
        Client.sendTo(queue, "a", "b");
        IMessageReceiver receiver = Client.receiver(queue);
        IMessage first = Client.one(receiver, "a");
        receiver.abandon(first.getLockToken(), Map.of("seen", "once"));
        IMessage again = Client.one(receiver, "a");
        Client.same(again.getDeliveryCount(), 2L, "deliveries");
        Client.same(again.getSequenceNumber(), first.getSequenceNumber(), "number");
        Client.demand(!again.getLockToken().equals(first.getLockToken()), "a new lock");
        Client.same(again.getProperties().get("seen"), "once", "property");
        receiver.complete(again.getLockToken());
        Client.complete(receiver, "b");
        Client.empty(receiver);
    }

    private static void deadLetter(String queue) throws Exception {
        Client.sendTo(queue, "a", "b");
        IMessageReceiver receiver = Client.receiver(queue);
        IMessageReceiver dead = Client.deadLetters(queue);
        receiver.deadLetter(Client.one(receiver, "a").getLockToken(), "why", "in words");
        IMessage message = Client.one(dead, "a");
        Client.same(message.getProperties().get("DeadLetterReason"), "why", "reason");
        Client.same(message.getProperties().get("DeadLetterErrorDescription"), "in words", "description");
        dead.complete(message.getLockToken());
        receiver.deadLetter(Client.one(receiver, "b").getLockToken());
        message = Client.one(dead, "b");
        Client.same(message.getProperties().get("DeadLetterReason"), null, "no reason");
        dead.complete(message.getLockToken());
        Client.empty(receiver);
    }

    private static void defer(String queue) throws Exception {
        Client.sendTo(queue, "a", "b");
        IMessageReceiver receiver = Client.receiver(queue);
        receiver.defer(Client.one(receiver, "a").getLockToken());
        Client.complete(receiver, "b");
        Client.empty(receiver);
        Client.same(Client.peeked(receiver, 1, 10), List.of("a"), "seen");
    }

    private static void deferredByNumber(String queue) throws Exception {
        Client.sendTo(queue, "complete", "abandon", "dead", "again");
        IMessageReceiver receiver = Client.receiver(queue);
        List<Long> numbers = new ArrayList<>();
        for (String body : List.of("complete", "abandon", "dead", "again")) {
            IMessage message = Client.one(receiver, body);
            numbers.add(message.getSequenceNumber());
            receiver.defer(message.getLockToken());
        }
        List<IMessage> messages = new ArrayList<>(receiver.receiveDeferredMessageBatch(numbers));
        Client.same(messages.size(), 4, "messages");
        receiver.renewMessageLock(messages.get(0));
        receiver.complete(messages.get(0).getLockToken());
        receiver.abandon(messages.get(1).getLockToken());
        receiver.deadLetter(messages.get(2).getLockToken());
        receiver.defer(messages.get(3).getLockToken());
        for (int index : new int[] {1, 3}) {
            IMessage again = receiver.receiveDeferredMessage(numbers.get(index));
            Client.same(Client.text(again), index == 1 ? "abandon" : "again", "body");
            receiver.complete(again.getLockToken());
        }
        Client.refused(Exception.class, () -> receiver.receiveDeferredMessage(numbers.get(0)));
        Client.complete(Client.deadLetters(queue), "dead");
    }

    private static void receiveAndDelete(String queue) throws Exception {
        Client.sendTo(queue, "a", "b");
        IMessageReceiver receiver = Client.receiver(queue, ReceiveMode.RECEIVEANDDELETE);
        Client.one(receiver, "a");
        Client.one(receiver, "b");
        Client.same(Client.peeked(receiver, 1, 10), List.of(), "left");
    }

    private static void timeOut(String queue) throws Exception {
        IMessageReceiver receiver = Client.receiver(queue);
        Client.empty(receiver);
        Client.sendTo(queue, "late");
        Client.complete(receiver, "late");
    }

    private static void peek(String queue) throws Exception {
        Client.sendTo(queue, "a", "b", "c", "d", "e");
        IMessageReceiver receiver = Client.receiver(queue);
        IMessage locked = Client.one(receiver, "a");
        long first = locked.getSequenceNumber();
        Client.same(Client.peeked(receiver, first, 3), List.of("a", "b", "c"), "a page, the locked one too");
        Client.same(Client.peeked(receiver, first + 3, 10), List.of("d", "e"), "the rest");
        Client.same(Client.peeked(receiver, first + 5, 10), List.of(), "nothing more");
        receiver.complete(locked.getLockToken());
        Client.complete(receiver, "b", "c", "d", "e");
    }

    /** Four calls at a time; a call that fails gives its message back, and it comes again. */
    private static void handler(String queue) throws Exception {
        int count = 40;
        CountDownLatch done = new CountDownLatch(count);
        Set<String> completed = Collections.synchronizedSet(new HashSet<>());
        List<String> errors = Collections.synchronizedList(new ArrayList<>());
        ExecutorService threads = Executors.newFixedThreadPool(4);
        QueueClient client = new QueueClient(Client.at(queue), ReceiveMode.PEEKLOCK);
        client.registerMessageHandler(new IMessageHandler() {
            @Override
            public CompletableFuture<Void> onMessageAsync(IMessage message) {
                return CompletableFuture.runAsync(() -> {
                    String body = Client.text(message);
                    if ("7".equals(body) && message.getDeliveryCount() == 1) {
                        throw new IllegalStateException("the first try fails");
                    }
                    if (completed.add(body)) {
                        done.countDown();
                    }
                }, threads);
            }

            @Override
            public void notifyException(Throwable error, ExceptionPhase phase) {
                errors.add(phase + " " + error);
            }
        }, new MessageHandlerOptions(4, true, Duration.ofMinutes(1)), threads);
        IMessageSender sender = Client.sender(queue);
        for (int number = 0; number < count; number++) {
            sender.send(new Message(Integer.toString(number)));
        }
        Client.demand(done.await(30, TimeUnit.SECONDS), "only " + completed.size() + " were processed: " + errors);
        IMessageReceiver receiver = Client.receiver(queue);
        Client.settled(receiver);
        Client.demand(errors.stream().allMatch(error -> error.contains("the first try fails")), errors.toString());
        // The SDK reports a completion as failed that it closes in the middle of, so the errors are looked at before.
        client.close();
        Client.empty(receiver);
    }

    private static void renewal(String queue) throws Exception {
        Client.sendTo(queue, "a");
        IMessageReceiver receiver = Client.receiver(queue);
        IMessage message = Client.one(receiver, "a");
        Instant before = message.getLockedUntilUtc();
        Thread.sleep(7_000);
        Instant after = receiver.renewMessageLock(message);
        Client.demand(after.isAfter(before), "locked until " + after + ", before " + before);
        IMessageReceiver other = Client.receiver(queue);
        // Beyond the end of the first lock.
        Thread.sleep(9_000);
        Client.empty(other);
        receiver.complete(message.getLockToken());
        Client.same(Client.peeked(receiver, 1, 10), List.of(), "left");
    }

    /** The answer at `$cbs` has a status and a text, from which the SDK makes no exception of its own. */
    private static void wrongKey(String queue) throws Exception {
        try {
            ClientFactory.createMessageSenderFromConnectionStringBuilder(Client.at(queue, "WRONG_KEY"));
        } catch (ServiceBusException error) {
            Client.demand(error.getMessage().contains("InvalidSignature"), error.getMessage());
            return;
        }
        throw new AssertionError("it was not refused");
    }

    private static void missing(String queue) throws Exception {
        Client.refused(MessagingEntityNotFoundException.class, () -> Client.sendTo("no-such-queue", "lost"));
        Client.refused(MessagingEntityNotFoundException.class, () -> Client.receiver("no-such-queue").receive(Client.QUIET));
        sendOne(queue);
    }

    /** A client for queues says what it is at the attach (`com.microsoft:entity-type`), and is refused at a topic. */
    private static void anotherKind(String queue) throws Exception {
        Client.refused(UnsupportedOperationException.class, () -> {
            QueueClient client = new QueueClient(Client.at(queue + "-topic"), ReceiveMode.PEEKLOCK);
            client.send(new Message("a"));
        });
        new QueueClient(Client.at(queue), ReceiveMode.PEEKLOCK).send(new Message("a"));
        Client.complete(Client.receiver(queue), "a");
    }

    private Queues() {}
}
