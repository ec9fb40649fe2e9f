import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * How long single steps of the SDK take, for `cargo xtask bench --scenario sdk-latency`.
 *
 * <p>Prints a line for each time a step was done: its name, a tab, milliseconds. `FERRYBUS_CONNECTION` is the connection
 * string of a broker with the queues `latency` and `latency-sessions`, `FERRYBUS_REPETITIONS` says how often.
 */
public final class Latency {
    private static final String QUEUE = "latency";
    private static final String SESSIONS = "latency-sessions";
    private static final Duration WAIT = Duration.ofSeconds(30);
    /** Milliseconds until a receiver that was just told to wait does so. */
    private static final long SETTLED_MS = 100;
    private static final int REPETITIONS = Integer.parseInt(System.getenv("FERRYBUS_REPETITIONS"));
    private static final BinaryData BODY = BinaryData.fromString("x".repeat(1024));

    private static void told(String step, long begun, long over) {
        System.out.printf(java.util.Locale.ROOT, "%s\t%.3f%n", step, (over - begun) / 1e6);
    }

    private static void timed(String step, Runnable body) {
        long begun = System.nanoTime();
        body.run();
        told(step, begun, System.nanoTime());
    }

    private static ServiceBusClientBuilder builder() {
        return new ServiceBusClientBuilder().connectionString(System.getenv("FERRYBUS_CONNECTION"));
    }

    private static ServiceBusSenderClient sender(ServiceBusClientBuilder builder, String queue) {
        return builder.sender().queueName(queue).buildClient();
    }

    private static ServiceBusReceiverClient receiver(ServiceBusClientBuilder builder) {
        return builder.receiver().queueName(QUEUE).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).buildClient();
    }

    private static ServiceBusReceivedMessage one(ServiceBusReceiverClient receiver) {
        return receiver.receiveMessages(1, WAIT).iterator().next();
    }

    private static void arrivals() throws Exception {
        try (ServiceBusSenderClient sender = sender(builder(), QUEUE)) {
            try (ServiceBusReceiverClient receiver = receiver(builder())) {
                sender.sendMessage(new ServiceBusMessage(BODY));
                receiver.complete(one(receiver));
                for (int round = 0; round < REPETITIONS; round++) {
                    CompletableFuture<Long> came = CompletableFuture.supplyAsync(() -> {
                        ServiceBusReceivedMessage message = one(receiver);
                        long over = System.nanoTime();
                        receiver.complete(message);
                        return over;
                    });
                    Thread.sleep(SETTLED_MS);
                    long begun = System.nanoTime();
                    sender.sendMessage(new ServiceBusMessage(BODY));
                    told("a message arrives at a waiting receiver", begun, came.get());
                }
            }
            BlockingQueue<Long> arrived = new LinkedBlockingQueue<>();
            ServiceBusProcessorClient processor = builder().processor().queueName(QUEUE)
                .processMessage(context -> arrived.add(System.nanoTime()))
                .processError(context -> context.getException().printStackTrace())
                .buildProcessorClient();
            processor.start();
            for (int round = 0; round < REPETITIONS; round++) {
                Thread.sleep(SETTLED_MS);
                long begun = System.nanoTime();
                sender.sendMessage(new ServiceBusMessage(BODY));
                told("a message arrives at a subscribed receiver", begun, arrived.poll(30, TimeUnit.SECONDS));
            }
            processor.close();
        }
    }

    private static void connects() {
        for (int round = 0; round < REPETITIONS; round++) {
            long begun = System.nanoTime();
            try (ServiceBusSenderClient sender = sender(builder(), QUEUE)) {
                sender.sendMessage(new ServiceBusMessage(BODY));
                told("connect and send", begun, System.nanoTime());
            }
        }
    }

    private static void newReceivers(ServiceBusClientBuilder builder) {
        for (int round = 0; round < REPETITIONS; round++) {
            long begun = System.nanoTime();
            try (ServiceBusReceiverClient receiver = receiver(builder)) {
                ServiceBusReceivedMessage message = one(receiver);
                told("new receiver and first message", begun, System.nanoTime());
                receiver.complete(message);
            }
        }
    }

    private static void sessions(ServiceBusClientBuilder builder) {
        try (ServiceBusSenderClient sender = sender(builder, SESSIONS);
            ServiceBusSessionReceiverClient acceptor =
                builder.sessionReceiver().queueName(SESSIONS).disableAutoComplete().buildClient()) {
            for (int round = 0; round < REPETITIONS; round++) {
                sender.sendMessage(new ServiceBusMessage(BODY).setSessionId("s" + round));
                timed("accept a session, receive, complete, close", () -> {
                    try (ServiceBusReceiverClient receiver = acceptor.acceptNextSession()) {
                        receiver.complete(one(receiver));
                    }
                });
            }
        }
    }

    private static void requests(ServiceBusClientBuilder builder) {
        try (ServiceBusSenderClient sender = sender(builder, QUEUE); ServiceBusReceiverClient receiver = receiver(builder)) {
            OffsetDateTime tomorrow = OffsetDateTime.now().plusDays(1);
            sender.cancelScheduledMessage(sender.scheduleMessage(new ServiceBusMessage(BODY), tomorrow));
            receiver.peekMessage();
            for (int round = 0; round < REPETITIONS; round++) {
                long[] number = new long[1];
                timed("schedule", () -> number[0] = sender.scheduleMessage(new ServiceBusMessage(BODY), tomorrow));
                timed("cancel a schedule", () -> sender.cancelScheduledMessage(number[0]));
                sender.sendMessage(new ServiceBusMessage(BODY));
                timed("peek", receiver::peekMessage);
                ServiceBusReceivedMessage message = one(receiver);
                timed("renew a lock", () -> receiver.renewMessageLock(message));
                receiver.defer(message);
                ServiceBusReceivedMessage[] deferred = new ServiceBusReceivedMessage[1];
                timed("receive a deferred message",
                    () -> deferred[0] = receiver.receiveDeferredMessage(message.getSequenceNumber()));
                receiver.complete(deferred[0]);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        arrivals();
        connects();
        ServiceBusClientBuilder builder = builder();
        newReceivers(builder);
        sessions(builder);
        requests(builder);
        // The SDK leaves threads behind.
        System.exit(0);
    }
}
