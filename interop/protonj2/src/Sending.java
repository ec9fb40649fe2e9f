import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.AdvancedMessage;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Rejected;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.client.Tracker;
import org.apache.qpid.protonj2.types.Binary;
import org.apache.qpid.protonj2.types.Symbol;
import org.apache.qpid.protonj2.types.UnsignedByte;
import org.apache.qpid.protonj2.types.UnsignedInteger;
import org.apache.qpid.protonj2.types.UnsignedLong;
import org.apache.qpid.protonj2.types.UnsignedShort;
import org.apache.qpid.protonj2.types.messaging.AmqpSequence;
import org.apache.qpid.protonj2.types.messaging.AmqpValue;
import org.apache.qpid.protonj2.types.messaging.Data;

/** What is sent, how it is answered, and that it comes back as it was. */
final class Sending {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("send-one", Sending::one);
        cases.put("send-batch", Sending::batch);
        cases.put("send-1000-pipelined", Sending::pipelined);
        cases.put("send-pre-settled", Sending::preSettled);
        cases.put("anonymous-relay", Sending::anonymousRelay);
        cases.put("oversized-message", Sending::oversized);
        cases.put("large-message", Sending::large);
        cases.put("annotations-and-header", Sending::header);
        cases.put("round-trip", Sending::roundTrip);
    }

    /** With every default of the client: it accepts what it hands out. */
    private static void one(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            connection.openSender(queue).send(Message.create("grüße ✓")).awaitAccepted();
            Receiver receiver = connection.openReceiver(queue);
            Broker.same(Broker.text(receiver.receive()), "grüße ✓", "body");
            Broker.empty(receiver);
        }
        Broker.same(Broker.browsed(queue), List.of(), "left");
    }

    private static final int BATCH = 0x80013700;

    private static void batch(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            AdvancedMessage<Object> batch = AdvancedMessage.create();
            batch.messageFormat(BATCH);
            for (String body : List.of("one", "two", "three")) {
                var encoded = Message.create(body).toAdvancedMessage().encode(Map.of());
                byte[] bytes = new byte[encoded.getReadableBytes()];
                encoded.readBytes(bytes, 0, bytes.length);
                batch.addBodySection(new Data(bytes));
            }
            Broker.sender(connection, queue).send(batch).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Receiver receiver = Broker.receiver(connection, queue);
            long first = 0;
            for (String body : List.of("one", "two", "three")) {
                Delivery delivery = Broker.next(receiver);
                Broker.same(Broker.text(delivery), body, "body");
                long number = (Long) delivery.message().annotation("x-opt-sequence-number");
                Broker.demand(first == 0 || number == first + 1, "consecutive: " + first + ", " + number);
                first = number;
                delivery.accept();
            }
            Broker.empty(receiver);
        }
    }

    private static void pipelined(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Sender sender = Broker.sender(connection, queue);
            List<Tracker> trackers = new ArrayList<>();
            for (String body : Broker.numbers(1_000)) {
                trackers.add(sender.send(Message.create(body)));
            }
            for (Tracker tracker : trackers) {
                tracker.awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            }
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.take(receiver, Broker.numbers(1_000));
            Broker.empty(receiver);
        }
    }

    private static void preSettled(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            SenderOptions options = new SenderOptions().deliveryMode(DeliveryMode.AT_MOST_ONCE);
            Sender sender = connection.openSender(queue, options);
            for (String body : Broker.numbers(1_000)) {
                Tracker tracker = sender.send(Message.create(body));
                Broker.demand(tracker.settled(), "it is settled as it is sent");
            }
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.take(receiver, Broker.numbers(1_000));
            Broker.empty(receiver);
        }
    }

    private static void anonymousRelay(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Sender sender = connection.openAnonymousSender();
            Tracker routed = sender.send(Message.create("routed").to(queue));
            routed.awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Tracker lost = sender.send(Message.create("lost").to(queue + "-missing"));
            lost.awaitSettlement(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            rejectedWith(lost.remoteState(), "amqp:not-found");
            // `Connection.send` is the same link under another name.
            connection.send(Message.create("goes on").to(queue)).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Broker.take(Broker.receiver(connection, queue), "routed", "goes on");
        }
    }

    static void rejectedWith(DeliveryState state, String condition) throws Exception {
        Broker.demand(state instanceof Rejected, "answered " + state);
        Broker.same(((Rejected) state).getCondition(), condition, "condition");
    }

    private static void oversized(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Sender sender = Broker.sender(connection, queue);
            Tracker tooLarge = sender.send(Message.create(new byte[2 << 20]));
            tooLarge.awaitSettlement(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            rejectedWith(tooLarge.remoteState(), "amqp:link:message-size-exceeded");
            sender.send(Message.create("fits")).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.take(receiver, "fits");
            Broker.empty(receiver);
        }
    }

    private static void large(String queue) throws Exception {
        byte[] body = new byte[900 << 10];
        for (int index = 0; index < body.length; index++) {
            body[index] = (byte) (index % 251);
        }
        ConnectionOptions options = Broker.options().maxFrameSize(4096);
        try (Connection connection = Broker.connect(options)) {
            Sender sender = Broker.sender(connection, queue);
            for (int round = 0; round < 3; round++) {
                sender.send(Message.create(body)).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            }
            Receiver receiver = Broker.receiver(connection, queue);
            for (int round = 0; round < 3; round++) {
                Delivery delivery = Broker.next(receiver);
                Message<byte[]> message = delivery.message();
                Broker.demand(Arrays.equals(message.body(), body), "byte for byte");
                delivery.accept();
            }
        }
    }

    private static void header(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            long sent = System.currentTimeMillis();
            Message<String> message = Message.create("annotated");
            message.durable(true).priority((byte) 7).timeToLive(60_000);
            message.annotation("x-opt-partition-key", "pk").annotation("x-opt-ours", UnsignedLong.valueOf(42));
            Broker.sender(connection, queue).send(message).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Receiver receiver = Broker.receiver(connection, queue);
            Delivery delivery = Broker.next(receiver);
            Message<Object> back = delivery.message();
            Broker.same(back.durable(), true, "durable");
            Broker.same(back.priority(), (byte) 7, "priority");
            Broker.same(back.timeToLive(), 60_000L, "time to live");
            Broker.same(back.firstAcquirer(), true, "first acquirer");
            Broker.same(back.deliveryCount(), 0L, "delivery count");
            Broker.same(back.annotation("x-opt-partition-key"), "pk", "partition key");
            Broker.same(back.annotation("x-opt-ours"), UnsignedLong.valueOf(42), "annotation of the sender");
            Broker.demand((Long) back.annotation("x-opt-sequence-number") >= 1, "it is numbered");
            long enqueued = time(back, "x-opt-enqueued-time");
            Broker.demand(Math.abs(enqueued - sent) < 60_000, "the time is now");
            long lock = time(back, "x-opt-locked-until") - enqueued;
            Broker.demand(lock >= 5_000 && lock < 60_000, "the lock is the queue's: " + lock);
            delivery.accept();
        }
    }

    private static long time(Message<Object> message, String annotation) throws Exception {
        Object value = message.annotation(annotation);
        return value instanceof Date date ? date.getTime() : (Long) value;
    }

    private static final List<Object> SIMPLE = List.of(
        true, UnsignedByte.valueOf((byte) 200), (byte) -100, UnsignedShort.valueOf(65_000), (short) -30_000,
        UnsignedInteger.valueOf(4_000_000_000L), -2_000_000_000, UnsignedLong.valueOf(-1L), Long.MIN_VALUE, 1.25f,
        -2.5e300, 'ß', new Date(1_896_321_906_789L), new UUID(1, 16), new Binary(new byte[] {0, -1, 127}), "grüße ✓",
        Symbol.valueOf("symbol"));

    private static void roundTrip(String queue) throws Exception {
        List<AdvancedMessage<Object>> messages = new ArrayList<>();
        for (Object value : SIMPLE) {
            messages.add(AdvancedMessage.create().addBodySection(new AmqpValue<>(value)));
        }
        Map<String, Object> nested = Map.of("a", List.of(1L, 2L), "b", Map.of("c", 2.5));
        messages.add(AdvancedMessage.create().addBodySection(new AmqpValue<>(nested)));
        messages.add(AdvancedMessage.create());
        messages.add(AdvancedMessage.create()
            .addBodySection(new Data("one".getBytes())).addBodySection(new Data(new byte[0])));
        messages.add(AdvancedMessage.create().addBodySection(new AmqpSequence<>(List.of(1L, "two")))
            .addBodySection(new AmqpSequence<>(List.of(3.0))));
        try (Connection connection = Broker.connect()) {
            Sender sender = Broker.sender(connection, queue);
            Receiver receiver = Broker.receiver(connection, queue);
            for (AdvancedMessage<Object> message : messages) {
                describe(message);
                sender.send(message).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
                Delivery delivery = Broker.next(receiver);
                AdvancedMessage<Object> back = delivery.message().toAdvancedMessage();
                Broker.same(sections(back), sections(message), "body");
                Broker.same(back.properties().toString(), message.properties().toString(), "properties");
                for (Object value : SIMPLE) {
                    Object found = back.property(value.getClass().getSimpleName());
                    Broker.same(found, value instanceof Date time ? time.getTime() : value, "application property");
                }
                Broker.same(back.footer("x-opt-sum"), -1L, "footer");
                delivery.accept();
            }
        }
    }

    private static void describe(AdvancedMessage<Object> message) throws Exception {
        message.messageId(new UUID(7, 9)).correlationId(UnsignedLong.valueOf(-1L)).userId("user".getBytes());
        message.to("there").subject("the subject").replyTo("back").contentType("text/plain").groupId("group");
        message.contentEncoding("identity");
        message.creationTime(1_796_321_906_789L).groupSequence(3).replyToGroupId("answers");
        for (Object value : SIMPLE) {
            message.property(value.getClass().getSimpleName(), value);
        }
        message.footer("x-opt-sum", -1L);
    }

    /** Bytes compare by their content as text. The client reads a time as a number of milliseconds. */
    private static List<String> sections(AdvancedMessage<Object> message) throws Exception {
        List<String> sections = new ArrayList<>();
        message.forEachBodySection(section -> {
            Object value = section.getValue();
            sections.add(value instanceof Date time ? new AmqpValue<>(time.getTime()).toString() : section.toString());
        });
        return sections;
    }

    private Sending() {}
}
