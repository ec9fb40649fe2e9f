import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Locks that are renewed, and locks that are lost. */
final class Locks {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("lock-renewal", Locks::renewal);
        cases.put("lock-renewal-automatic", Locks::automatic);
        cases.put("lock-loss", Locks::loss);
        cases.put("clock-advance", Locks::clock);
        cases.put("settle-after-the-link-is-gone", Locks::linkGone);
    }

    private static void sleepUntil(OffsetDateTime time) throws InterruptedException {
        Thread.sleep(Math.max(0, Duration.between(OffsetDateTime.now(), time).toMillis()) + 500);
    }

    /** The lock lasts 15 s. */
    private static void renewal(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        Client.send(Client.sender(builder, queue), "long work");
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusReceivedMessage message = Client.one(receiver, "long work");
        OffsetDateTime first = message.getLockedUntil();
        // Connects now, for that would take from the time of the renewed lock.
        ServiceBusReceiverClient other = Client.receiver(Client.builder(), queue);
        Client.same(Client.peeked(other), List.of("long work"), "seen");
        Thread.sleep(7_000);
        OffsetDateTime renewed = receiver.renewMessageLock(message);
        Client.demand(renewed.isAfter(first), renewed + " is not after " + first);
        sleepUntil(first);
        Client.empty(other);
        receiver.complete(message);
    }

    /** The lock lasts 20 s, the work 22. */
    private static void automatic(String queue) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger calls = new AtomicInteger();
        StringBuffer errors = new StringBuffer();
        ServiceBusProcessorClient processor = Client.builder().processor().queueName(queue)
            .maxAutoLockRenewDuration(Duration.ofMinutes(1))
            .processMessage(context -> {
                calls.incrementAndGet();
                try {
                    Thread.sleep(22_000);
                } catch (InterruptedException error) {
                    errors.append(error);
                }
                done.countDown();
            })
            .processError(context -> errors.append(context.getException()))
            .buildProcessorClient();
        processor.start();
        Client.sendTo(queue, "long work");
        Client.demand(done.await(60, TimeUnit.SECONDS), "not processed: " + errors);
        Client.nothingLeft(queue);
        Client.same(calls.get(), 1, "calls");
        Client.same(errors.toString(), "", "errors");
        processor.close();
    }

    /** The lock lasts 5 s. */
    private static void loss(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        Client.send(Client.sender(builder, queue), "lost");
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusReceivedMessage message = Client.one(receiver, "lost");
        sleepUntil(message.getLockedUntil());
        Client.refused(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.renewMessageLock(message));
        Client.refused(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.complete(message));
        comesAgain(receiver);
    }

    private static void comesAgain(ServiceBusReceiverClient receiver) {
        ServiceBusReceivedMessage again = Client.one(receiver, "lost");
        Client.same(again.getDeliveryCount(), 1L, "deliveries before this one");
        receiver.complete(again);
    }

    /** With a broker of its own, whose clock is moved beyond a lock of five minutes and a message's lifetime. */
    private static void clock(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        var sender = Client.sender(builder, queue);
        Client.send(sender, "lost");
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusReceivedMessage message = Client.one(receiver, "lost");
        sender.sendMessage(Client.message("expires").setTimeToLive(Duration.ofMinutes(3)));
        Client.advanceClock(Duration.ofMinutes(6));
        Client.refused(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.complete(message));
        comesAgain(receiver);
        Client.empty(receiver);
    }

    /** A message that came over a link which is closed is settled by its lock token. */
    private static void linkGone(String queue) {
        Client.sendTo(queue, "m");
        ServiceBusReceivedMessage message;
        try (ServiceBusReceiverClient first = Client.receiver(Client.builder(), queue)) {
            message = Client.one(first, "m");
        }
        ServiceBusReceiverClient second = Client.receiver(Client.builder(), queue);
        Client.empty(second);
        second.complete(message);
        Client.same(Client.peeked(second).size(), 0, "left");
    }

    private Locks() {}
}
