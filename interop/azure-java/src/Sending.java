import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** What is sent, how it is answered, and that it comes back as it was. */
final class Sending {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("send-one", Sending::one);
        cases.put("send-batch", Sending::batch);
        cases.put("wrong-key", Sending::wrongKey);
        cases.put("missing-queue", Sending::missing);
        cases.put("missing-entity-at-once", Sending::missingAtOnce);
        cases.put("oversized-message", Sending::oversized);
        cases.put("large-message", Sending::large);
        cases.put("annotations-and-header", Sending::annotations);
        cases.put("round-trip", Sending::roundTrip);
        cases.put("footer-with-string-keys", Sending::footer);
        cases.put("link-close-and-reopen", Sending::reopen);
        cases.put("web-socket", Sending::webSocket);
        cases.put("schedule-and-cancel", Sending::schedule);
        cases.put("restart-before", Sending::restartBefore);
        cases.put("restart-between", queue -> Client.sendTo(queue, "second"));
        cases.put("restart-after", Sending::restartAfter);
    }

    private static void one(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        Client.send(Client.sender(builder, queue), "grüße ✓");
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        Client.complete(receiver, "grüße ✓");
        Client.empty(receiver);
    }

    private static void batch(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusMessageBatch batch = sender.createMessageBatch();
        for (String body : List.of("a", "b", "c")) {
            Client.demand(batch.tryAddMessage(Client.message(body)), "it fits");
        }
        ServiceBusMessage half = new ServiceBusMessage(BinaryData.fromBytes(new byte[600 << 10]));
        Client.demand(batch.tryAddMessage(half) && !batch.tryAddMessage(half), "a batch has a limit");
        sender.sendMessages(batch);
        sender.sendMessages(List.of(Client.message("d"), Client.message("e")));
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        List<ServiceBusReceivedMessage> messages = Client.next(receiver, 6);
        for (int index = 0; index < 6; index++) {
            ServiceBusReceivedMessage message = messages.get(index);
            if (index != 3) {
                Client.same(message.getBody().toString(), "abc-de".substring(index, index + 1), "body");
            }
            Client.same(message.getSequenceNumber(), messages.get(0).getSequenceNumber() + index, "number");
            receiver.complete(message);
        }
        Client.empty(receiver);
    }

    private static void wrongKey(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder("wrong");
        Client.refused(ServiceBusFailureReason.UNAUTHORIZED, () -> Client.sendWith(builder, queue));
        Client.refused(ServiceBusFailureReason.UNAUTHORIZED, () -> Client.next(Client.receiver(builder, queue), 1));
    }

    private static void missing(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusFailureReason notFound = ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND;
        Client.refused(notFound, () -> Client.sendWith(builder, queue + "-nowhere"));
        Client.send(Client.sender(builder, queue), "still here");
        Client.complete(Client.receiver(builder, queue), "still here");
    }

    /** Whatever can be missing is told by the SDK's own reason, without its retries. */
    private static void missingAtOnce(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        String nowhere = queue + "-nowhere";
        ServiceBusFailureReason notFound = ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND;
        // So that the time is not that of the first connection.
        Client.send(Client.sender(builder, queue), "there");
        long started = System.nanoTime();
        Client.refused(notFound, () -> Client.next(Client.receiver(builder, nowhere), 1));
        Client.refused(notFound, () -> Client.next(Client.deadLetters(builder, nowhere), 1));
        Client.refused(notFound, () -> Client.next(Topics.subscriber(builder, queue, "none"), 1));
        Client.refused(notFound, () -> Client.sendWith(builder, nowhere));
        Client.refused(notFound, () -> Client.receiver(builder, nowhere).peekMessage());
        Client.refused(notFound, () -> Sessions.receiver(builder, nowhere).acceptSession("s"));
        long seconds = Duration.ofNanos(System.nanoTime() - started).toSeconds();
        Client.demand(seconds < 20, "it took " + seconds + " s");
    }

    private static void oversized(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusMessage large = new ServiceBusMessage(BinaryData.fromBytes(new byte[2 << 20]));
        Client.refused(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED, () -> sender.sendMessage(large));
        Client.send(sender, "small");
        Client.complete(Client.receiver(builder, queue), "small");
    }

    static byte[] pattern(int length) {
        byte[] body = new byte[length];
        for (int index = 0; index < length; index++) {
            body[index] = (byte) (index % 251);
        }
        return body;
    }

    private static void large(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        byte[] body = pattern(900 << 10);
        Client.sender(builder, queue).sendMessage(new ServiceBusMessage(BinaryData.fromBytes(body)));
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusReceivedMessage message = Client.next(receiver, 1).get(0);
        Client.demand(Arrays.equals(message.getBody().toBytes(), body), "byte for byte");
        receiver.complete(message);
    }

    /** The lock lasts 5 s. */
    private static void annotations(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        Client.send(Client.sender(builder, queue), "first", "second");
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        List<ServiceBusReceivedMessage> messages = Client.next(receiver, 2);
        OffsetDateTime now = OffsetDateTime.now();
        for (ServiceBusReceivedMessage message : messages) {
            Client.same(message.getDeliveryCount(), 0L, "deliveries before this one");
            Client.same(message.getState().toString(), "ACTIVE", "state");
            Client.demand(message.getEnqueuedTime().isAfter(now.minusMinutes(1)), "enqueued " + message.getEnqueuedTime());
            Client.demand(message.getEnqueuedTime().isBefore(now.plusMinutes(1)), "enqueued " + message.getEnqueuedTime());
            Duration lock = Duration.between(message.getEnqueuedTime(), message.getLockedUntil());
            Client.demand(lock.toSeconds() >= 4 && lock.toSeconds() < 60, "locked for " + lock);
            Client.demand(!message.getLockToken().isEmpty(), "a lock token");
            Client.demand(!message.getMessageId().isEmpty(), "an id");
            receiver.complete(message);
        }
        Client.same(messages.get(1).getSequenceNumber(), messages.get(0).getSequenceNumber() + 1, "number");
    }

    private static final Map<String, Object> PROPERTIES = Map.of(
        "text", "ü", "long", Long.MIN_VALUE, "int", -1, "double", 1.5, "float", 0.25f, "bool", true, "byte", (byte) 7,
        "char", 'x');

    private static void roundTrip(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusMessage sent = Client.message("body")
            .setContentType("text/plain").setCorrelationId("correlation").setMessageId("id").setReplyTo("reply")
            .setReplyToSessionId("reply-session").setSessionId("session").setSubject("subject").setTo("to")
            .setTimeToLive(Duration.ofHours(1));
        sent.getApplicationProperties().putAll(PROPERTIES);
        sender.sendMessage(sent);
        ServiceBusReceivedMessage found = Client.next(receiver, 1).get(0);
        Client.same(found.getApplicationProperties(), PROPERTIES, "properties");
        Client.same(found.getContentType(), "text/plain", "content type");
        Client.same(found.getCorrelationId(), "correlation", "correlation");
        Client.same(found.getMessageId(), "id", "id");
        Client.same(found.getReplyTo(), "reply", "reply");
        Client.same(found.getReplyToSessionId(), "reply-session", "reply session");
        Client.same(found.getSessionId(), "session", "session");
        Client.same(found.getSubject(), "subject", "subject");
        Client.same(found.getTo(), "to", "to");
        Client.same(found.getTimeToLive(), Duration.ofHours(1), "time to live");
        receiver.complete(found);
        List<AmqpMessageBody> bodies = List.of(
            AmqpMessageBody.fromValue("a text"), AmqpMessageBody.fromValue(-7L),
            AmqpMessageBody.fromSequence(List.of(1L, "two", true)));
        for (AmqpMessageBody body : bodies) {
            sender.sendMessage(new ServiceBusMessage(body));
            ServiceBusReceivedMessage message = Client.next(receiver, 1).get(0);
            AmqpMessageBody back = message.getRawAmqpMessage().getBody();
            Client.same(back.getBodyType(), body.getBodyType(), "kind of body");
            switch (body.getBodyType()) {
                case VALUE -> Client.same(back.getValue(), body.getValue(), "value");
                default -> Client.same(back.getSequence(), body.getSequence(), "sequence");
            }
            receiver.complete(message);
        }
    }

    /** The SDK writes the keys of a footer as strings, and reads symbols only: without the broker's help it cannot receive it. */
    private static void footer(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusMessage sent = Client.message("with a footer");
        AmqpAnnotatedMessage raw = sent.getRawAmqpMessage();
        raw.getFooter().put("checksum", 7);
        sender.sendMessage(sent);
        Client.send(sender, "without");
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        ServiceBusReceivedMessage message = Client.one(receiver, "with a footer");
        Client.same(message.getRawAmqpMessage().getFooter().get("checksum"), 7, "footer");
        receiver.complete(message);
        Client.complete(receiver, "without");
        Client.empty(receiver);
    }

    private static void reopen(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        // Holds the connection that the clients of the rounds share.
        ServiceBusSenderClient keeps = Client.sender(builder, queue);
        keeps.createMessageBatch();
        for (int round = 0; round < 5; round++) {
            try (ServiceBusSenderClient sender = Client.sender(builder, queue);
                 ServiceBusReceiverClient receiver = Client.receiver(builder, queue)) {
                Client.send(sender, "round " + round);
                Client.complete(receiver, "round " + round);
            }
        }
    }

    /** The SDK speaks WebSocket over TLS only; without TLS, as to the emulator, it does not ask for one. */
    private static void webSocket(String queue) {
        String text = "Endpoint=sb://localhost:" + System.getenv("FERRYBUS_TLS_PORT") + ";SharedAccessKeyName="
            + System.getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + System.getenv("FERRYBUS_KEY");
        ServiceBusClientBuilder builder = new ServiceBusClientBuilder()
            .connectionString(text)
            .transportType(AmqpTransportType.AMQP_WEB_SOCKETS);
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        for (int number = 0; number < 100; number++) {
            Client.send(sender, "message " + number);
        }
        byte[] body = pattern(200_000);
        sender.sendMessage(new ServiceBusMessage(BinaryData.fromBytes(body)));
        for (int number = 0; number < 100; number++) {
            ServiceBusReceivedMessage message = Client.one(receiver, "message " + number);
            if (number % 50 == 3) {
                receiver.renewMessageLock(message);
                receiver.deadLetter(message);
            } else {
                receiver.complete(message);
            }
        }
        ServiceBusReceivedMessage large = Client.next(receiver, 1).get(0);
        Client.demand(Arrays.equals(large.getBody().toBytes(), body), "byte for byte");
        receiver.complete(large);
        Client.complete(Client.deadLetters(builder, queue), "message 3", "message 53");
    }

    /** With a broker of its own, whose clock is moved. */
    private static void schedule(String queue) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        ServiceBusReceiverClient receiver = Client.receiver(builder, queue);
        OffsetDateTime later = OffsetDateTime.now().plusHours(1);
        long cancelled = sender.scheduleMessage(Client.message("cancelled"), later);
        long due = sender.scheduleMessage(Client.message("due"), later);
        sender.sendMessage(Client.message("by property").setScheduledEnqueueTime(later));
        Client.empty(receiver);
        Client.same(Client.peeked(receiver), List.of("cancelled", "due", "by property"), "seen");
        Client.same(receiver.peekMessage(due).getState().toString(), "SCHEDULED", "state");
        sender.cancelScheduledMessage(cancelled);
        Client.advanceClock(Duration.ofHours(1).plusSeconds(1));
        List<String> bodies = new java.util.ArrayList<>();
        for (ServiceBusReceivedMessage message : Client.next(receiver, 2)) {
            Client.demand(message.getSequenceNumber() > due, "a new number");
            bodies.add(message.getBody().toString());
            receiver.complete(message);
        }
        bodies.sort(null);
        Client.same(bodies, List.of("by property", "due"), "what became due");
        Client.empty(receiver);
    }

    /** A message is stored, and locked by a client, when the broker dies. */
    private static void restartBefore(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        Client.send(Client.sender(builder, queue), "first");
        Client.one(Client.receiver(builder, queue), "first");
        Runtime.getRuntime().halt(0);
    }

    private static void restartAfter(String queue) {
        ServiceBusReceiverClient receiver = Client.receiver(Client.builder(), queue);
        Client.complete(receiver, "first", "second");
        Client.empty(receiver);
    }

    private Sending() {}
}
