import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Messages of queues, and every way to settle them. */
final class Receiving {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("peek-lock-complete", Receiving::complete);
        cases.put("peek-lock-abandon", Receiving::abandon);
        cases.put("peek-lock-dead-letter", Receiving::deadLetter);
        cases.put("peek-lock-defer", Receiving::defer);
        cases.put("deferred-by-number", Receiving::deferredByNumber);
        cases.put("deferred-receive-and-delete", Receiving::deferredAndDeleted);
        cases.put("receive-and-delete", Receiving::receiveAndDelete);
        cases.put("receive-time-out-on-empty-queue", Receiving::timeOut);
        cases.put("delivery-count-to-dead-letter", Receiving::countToDeadLetter);
        cases.put("peek", Receiving::peek);
        cases.put("two-competing-receivers", Receiving::competing);
        cases.put("subscribe", Receiving::processor);
    }

    /** A receiver of a queue that has these messages. */
    private static ServiceBusReceiverClient with(String queue, String... bodies) {
        ServiceBusClientBuilder builder = Client.builder();
        Client.send(Client.sender(builder, queue), bodies);
        return Client.receiver(builder, queue);
    }

    private static void complete(String queue) {
        ServiceBusReceiverClient receiver = with(queue, "a");
        ServiceBusReceivedMessage message = Client.one(receiver, "a");
        Client.same(message.getDeliveryCount(), 0L, "deliveries before this one");
        receiver.complete(message);
        Client.empty(receiver);
        Client.same(Client.peeked(receiver), List.of(), "left");
    }

    private static void abandon(String queue) {
        ServiceBusReceiverClient receiver = with(queue, "a", "b");
        ServiceBusReceivedMessage first = Client.one(receiver, "a");
        receiver.abandon(first, new AbandonOptions().setPropertiesToModify(Map.of("seen", "once")));
        ServiceBusReceivedMessage again = Client.one(receiver, "a");
        Client.same(again.getDeliveryCount(), 1L, "deliveries before this one");
        Client.same(again.getSequenceNumber(), first.getSequenceNumber(), "number");
        Client.demand(!again.getLockToken().equals(first.getLockToken()), "a new lock");
        Client.same(again.getApplicationProperties().get("seen"), "once", "property");
        receiver.complete(again);
        Client.complete(receiver, "b");
        Client.empty(receiver);
    }

    private static void deadLetter(String queue) {
        ServiceBusReceiverClient receiver = with(queue, "a", "b");
        ServiceBusReceiverClient dead = Client.deadLetters(Client.builder(), queue);
        DeadLetterOptions why = new DeadLetterOptions().setDeadLetterReason("why").setDeadLetterErrorDescription("in words");
        receiver.deadLetter(Client.one(receiver, "a"), why);
        ServiceBusReceivedMessage message = Client.one(dead, "a");
        Client.same(message.getDeadLetterReason(), "why", "reason");
        Client.same(message.getDeadLetterErrorDescription(), "in words", "description");
        dead.complete(message);
        receiver.deadLetter(Client.one(receiver, "b"));
        message = Client.one(dead, "b");
        Client.same(message.getDeadLetterReason(), null, "no reason");
        dead.complete(message);
        Client.empty(receiver);
    }

    private static void defer(String queue) {
        ServiceBusReceiverClient receiver = with(queue, "a", "b");
        receiver.defer(Client.one(receiver, "a"));
        Client.complete(receiver, "b");
        Client.empty(receiver);
        Client.same(Client.peeked(receiver), List.of("a"), "seen");
        Client.same(receiver.peekMessage(1).getState().toString(), "DEFERRED", "state");
    }

    private static void deferredByNumber(String queue) throws Exception {
        ServiceBusReceiverClient receiver = with(queue, "complete", "abandon", "dead", "again");
        List<Long> numbers = new ArrayList<>();
        for (ServiceBusReceivedMessage message : Client.next(receiver, 4)) {
            numbers.add(message.getSequenceNumber());
            receiver.defer(message);
        }
        List<ServiceBusReceivedMessage> messages = new ArrayList<>();
        receiver.receiveDeferredMessageBatch(numbers).forEach(messages::add);
        Client.same(messages.size(), 4, "messages");
        receiver.renewMessageLock(messages.get(0));
        receiver.complete(messages.get(0));
        receiver.abandon(messages.get(1));
        receiver.deadLetter(messages.get(2));
        receiver.defer(messages.get(3));
        for (int index : new int[] {1, 3}) {
            ServiceBusReceivedMessage again = receiver.receiveDeferredMessage(numbers.get(index));
            Client.same(again.getBody().toString(), index == 1 ? "abandon" : "again", "body");
            receiver.complete(again);
        }
        Client.refused(Exception.class, () -> receiver.receiveDeferredMessage(numbers.get(0)));
        Client.complete(Client.deadLetters(Client.builder(), queue), "dead");
    }

    private static ServiceBusReceiverClient deleting(String queue) {
        return Client.builder().receiver().queueName(queue).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient();
    }

    private static void deferredAndDeleted(String queue) throws Exception {
        ServiceBusReceiverClient receiver = with(queue, "a");
        ServiceBusReceivedMessage message = Client.one(receiver, "a");
        receiver.defer(message);
        ServiceBusReceiverClient deletes = deleting(queue);
        Client.same(deletes.receiveDeferredMessage(message.getSequenceNumber()).getBody().toString(), "a", "body");
        Client.refused(Exception.class, () -> receiver.receiveDeferredMessage(message.getSequenceNumber()));
    }

    private static void receiveAndDelete(String queue) {
        ServiceBusReceiverClient other = with(queue, "a", "b");
        ServiceBusReceiverClient receiver = deleting(queue);
        Client.one(receiver, "a");
        Client.one(receiver, "b");
        Client.same(Client.peeked(other), List.of(), "left");
    }

    private static void timeOut(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        Client.empty(receiver);
        Client.send(Client.sender(builder, queue), "late");
        Client.complete(receiver, "late");
    }

    private static void countToDeadLetter(String queue) {
        ServiceBusReceiverClient receiver = with(queue, "bad");
        for (long count = 0; count < 3; count++) {
            ServiceBusReceivedMessage message = Client.one(receiver, "bad");
            Client.same(message.getDeliveryCount(), count, "deliveries before this one");
            receiver.abandon(message);
        }
        ServiceBusReceivedMessage dead = Client.one(Client.deadLetters(Client.builder(), queue), "bad");
        Client.same(dead.getDeadLetterReason(), "MaxDeliveryCountExceeded", "reason");
    }

    private static void peek(String queue) {
        ServiceBusReceiverClient receiver = with(queue, "a", "b", "c", "d", "e");
        ServiceBusReceivedMessage locked = Client.one(receiver, "a");
        long first = locked.getSequenceNumber();
        Client.same(from(receiver, first, 3), "abc", "a page, the locked one too");
        Client.same(from(receiver, first + 3, 10), "de", "the rest");
        Client.same(from(receiver, first + 5, 10), "", "nothing more");
        receiver.complete(locked);
        Client.complete(receiver, "b", "c", "d", "e");
    }

    private static String from(ServiceBusReceiverClient receiver, long number, int count) {
        StringBuilder bodies = new StringBuilder();
        receiver.peekMessages(count, number).forEach(message -> bodies.append(message.getBody()));
        return bodies.toString();
    }

    private static void competing(String queue) {
        ServiceBusReceiverClient one = with(queue, "a", "b", "c", "d", "e", "f", "g", "h");
        ServiceBusReceiverClient two = Client.receiver(Client.builder(), queue);
        Set<String> bodies = new HashSet<>();
        for (int round = 0; round < 2; round++) {
            for (ServiceBusReceiverClient receiver : List.of(one, two)) {
                for (ServiceBusReceivedMessage message : Client.next(receiver, 2)) {
                    Client.demand(bodies.add(message.getBody().toString()), "it came twice");
                    receiver.complete(message);
                }
            }
        }
        Client.same(bodies.size(), 8, "messages");
        Client.empty(one);
    }

    /** Four calls at a time; a call that fails gives its message back, and it comes again. */
    private static void processor(String queue) throws Exception {
        int count = 40;
        CountDownLatch done = new CountDownLatch(count);
        Set<String> completed = Collections.synchronizedSet(new HashSet<>());
        List<String> errors = Collections.synchronizedList(new ArrayList<>());
        ServiceBusProcessorClient processor = Client.builder().processor().queueName(queue).maxConcurrentCalls(4)
            .processMessage(context -> {
                String body = context.getMessage().getBody().toString();
                if ("7".equals(body) && context.getMessage().getDeliveryCount() == 0) {
                    throw new IllegalStateException("the first try fails");
                }
                if (completed.add(body)) {
                    done.countDown();
                }
            })
            .processError(context -> errors.add(context.getException().getMessage()))
            .buildProcessorClient();
        processor.start();
        ServiceBusSenderClient sender = Client.sender(Client.builder(), queue);
        for (int number = 0; number < count; number++) {
            Client.send(sender, Integer.toString(number));
        }
        Client.demand(done.await(30, TimeUnit.SECONDS), "only " + completed.size() + " were processed: " + errors);
        Client.nothingLeft(queue);
        Client.demand(errors.stream().allMatch(error -> error.contains("the first try fails")), errors.toString());
        processor.close();
        Client.empty(Client.receiver(Client.builder(), queue));
    }

    private Receiving() {}
}
