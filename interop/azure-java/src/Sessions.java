import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Queues with sessions. */
final class Sessions {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("session-accept", Sessions::accept);
        cases.put("session-order", Sessions::order);
        cases.put("session-state", Sessions::state);
        cases.put("session-deferred", Sessions::deferred);
        cases.put("session-lost", Sessions::lost);
        cases.put("session-processor", Sessions::processor);
        cases.put("session-renewal-automatic", Sessions::automatic);
    }

    static ServiceBusSessionReceiverClient receiver(ServiceBusClientBuilder builder, String queue) {
        return builder.sessionReceiver().queueName(queue).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO)
            .buildClient();
    }

    static void send(ServiceBusSenderClient sender, String session, String... bodies) {
        for (String body : bodies) {
            sender.sendMessage(Client.message(body).setSessionId(session));
        }
    }

    private static void accept(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSessionReceiverClient sessions = receiver(builder, queue);
        long started = System.nanoTime();
        Client.refused(Exception.class, sessions::acceptNextSession);
        Client.demand(System.nanoTime() - started < Duration.ofSeconds(60).toNanos(), "the wait ends with the try's time");
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        send(sender, "b", "b1");
        send(sender, "a", "a1");
        try (ServiceBusReceiverClient first = sessions.acceptNextSession()) {
            Client.same(first.getSessionId(), "b", "the next session");
            Client.refused(Exception.class, () -> receiver(Client.builder(), queue).acceptSession("b"));
            Client.same(Client.one(first, "b1").getDeliveryCount(), 0L, "deliveries before this one");
        }
        try (ServiceBusReceiverClient again = sessions.acceptSession("b")) {
            Client.complete(again, "b1");
        }
        try (ServiceBusReceiverClient named = sessions.acceptSession("a")) {
            Client.complete(named, "a1");
            Client.empty(named);
        }
        Client.empty(sessions.acceptSession("nobody's"));
        Client.refused(Exception.class, () -> Client.next(Client.receiver(builder, queue), 1));
        Client.refused(Exception.class, () -> Client.send(sender, "of no session"));
    }

    private static void order(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        List<String> names = List.of("a", "b", "c");
        for (int number = 0; number < 20; number++) {
            for (String session : names) {
                send(sender, session, session + number);
            }
        }
        ServiceBusSessionReceiverClient sessions = receiver(builder, queue);
        for (String session : names) {
            try (ServiceBusReceiverClient receiver = sessions.acceptSession(session)) {
                for (int number = 0; number < 20;) {
                    ServiceBusReceivedMessage message = Client.one(receiver, session + number);
                    if (number % 4 == 2 && message.getDeliveryCount() == 0) {
                        receiver.abandon(message);
                        continue;
                    }
                    receiver.complete(message);
                    number++;
                }
            }
        }
    }

    private static void state(String queue) throws Exception {
        ServiceBusSessionReceiverClient sessions = receiver(Client.builder(), queue);
        byte[] last = {0, -1, 'x'};
        try (ServiceBusReceiverClient receiver = sessions.acceptSession("s")) {
            Client.demand(receiver.getSessionState() == null, "no state before one was set");
            for (byte[] state : new byte[][] {"one".getBytes(StandardCharsets.UTF_8), last}) {
                receiver.setSessionState(state);
                Client.demand(Arrays.equals(receiver.getSessionState(), state), "state");
            }
            OffsetDateTime before = receiver.renewSessionLock();
            Thread.sleep(100);
            OffsetDateTime after = receiver.renewSessionLock();
            Client.demand(after.isAfter(before), after + " is not after " + before);
        }
        // On another connection: the SDK finds its links by the session's id, and on the same one it sometimes returns the link that
        // is being closed, without attaching again.
        try (ServiceBusReceiverClient next = receiver(Client.builder(), queue).acceptSession("s")) {
            Client.demand(Arrays.equals(next.getSessionState(), last), "the state is kept for the next holder");
            next.setSessionState(null);
            Client.demand(next.getSessionState() == null, "a state that was taken away");
        }
    }

    private static void deferred(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        send(Client.sender(builder, queue), "s", "later", "now", "dead");
        try (ServiceBusReceiverClient receiver = receiver(builder, queue).acceptSession("s")) {
            ServiceBusReceivedMessage later = Client.one(receiver, "later");
            receiver.defer(later);
            Client.complete(receiver, "now");
            receiver.deadLetter(Client.one(receiver, "dead"));
            Client.same(Client.peeked(receiver), List.of("later"), "seen");
            ServiceBusReceivedMessage back = receiver.receiveDeferredMessage(later.getSequenceNumber());
            Client.same(back.getBody().toString(), "later", "body");
            receiver.complete(back);
        }
        ServiceBusReceivedMessage dead = Client.one(Client.deadLetters(builder, queue), "dead");
        Client.same(dead.getSessionId(), "s", "session of the dead letter");
    }

    /** With a broker of its own, whose clock is moved. */
    private static void lost(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        send(Client.sender(builder, queue), "s", "first", "second");
        ServiceBusReceiverClient receiver = receiver(builder, queue).acceptSession("s");
        ServiceBusReceivedMessage message = Client.one(receiver, "first");
        Client.advanceClock(Duration.ofMinutes(6));
        Client.refused(Exception.class, () -> receiver.complete(message));
        try (ServiceBusReceiverClient next = receiver(Client.builder(), queue).acceptSession("s")) {
            ServiceBusReceivedMessage again = Client.one(next, "first");
            Client.same(again.getDeliveryCount(), 1L, "deliveries before this one");
            next.complete(again);
            Client.complete(next, "second");
        }
    }

    /**
     * The processor takes the next session when one is empty: five sessions, two at a time, each in order. The idle time runs while a
     * message is processed and completed, too: a session that is given up in the middle gets its message again.
     */
    private static void processor(String queue) throws Exception {
        int count = 10;
        CountDownLatch done = new CountDownLatch(5 * count);
        Map<String, List<Integer>> orders = new ConcurrentHashMap<>();
        StringBuffer errors = new StringBuffer();
        ServiceBusProcessorClient processor = Client.builder().sessionProcessor().queueName(queue).maxConcurrentSessions(2)
            .sessionIdleTimeout(Duration.ofSeconds(5))
            .processMessage(context -> {
                ServiceBusReceivedMessage message = context.getMessage();
                orders.computeIfAbsent(message.getSessionId(), session -> new ArrayList<>())
                    .add(Integer.parseInt(message.getBody().toString()));
                done.countDown();
            })
            .processError(context -> errors.append(context.getException()))
            .buildProcessorClient();
        ServiceBusSenderClient sender = Client.sender(Client.builder(), queue);
        for (int number = 0; number < count; number++) {
            for (String session : List.of("a", "b", "c", "d", "e")) {
                send(sender, session, Integer.toString(number));
            }
        }
        processor.start();
        Client.demand(done.await(50, TimeUnit.SECONDS), "only these were processed: " + orders + errors);
        processor.close();
        for (Map.Entry<String, List<Integer>> session : orders.entrySet()) {
            List<Integer> sorted = new ArrayList<>(session.getValue());
            sorted.sort(null);
            Client.same(session.getValue(), sorted, "order of " + session.getKey());
            Client.same(sorted.size(), count, "messages of " + session.getKey());
        }
    }

    /** The session's lock lasts 20 s, the work 22. */
    private static void automatic(String queue) throws Exception {
        CountDownLatch done = new CountDownLatch(2);
        StringBuffer errors = new StringBuffer();
        ServiceBusProcessorClient processor = Client.builder().sessionProcessor().queueName(queue).maxConcurrentSessions(1)
            .maxAutoLockRenewDuration(Duration.ofMinutes(1))
            .processMessage(context -> {
                try {
                    Client.same(context.getMessage().getDeliveryCount(), 0L, "deliveries before this one");
                    Thread.sleep("long".equals(context.getMessage().getBody().toString()) ? 22_000 : 0);
                } catch (InterruptedException | AssertionError error) {
                    errors.append(error);
                }
                done.countDown();
            })
            .processError(context -> errors.append(context.getException()))
            .buildProcessorClient();
        processor.start();
        send(Client.sender(Client.builder(), queue), "s", "long", "short");
        Client.demand(done.await(60, TimeUnit.SECONDS), "not processed: " + errors);
        Client.nothingLeft(queue);
        Client.same(errors.toString(), "", "errors");
        processor.close();
    }

    private Sessions() {}
}
