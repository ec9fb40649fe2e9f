import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpMessageBuilder;
import io.vertx.amqp.AmqpSender;
import io.vertx.core.Future;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.json.JsonObject;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.qpid.proton.Proton;
import org.apache.qpid.proton.amqp.Symbol;
import org.apache.qpid.proton.amqp.UnsignedLong;
import org.apache.qpid.proton.amqp.messaging.AmqpValue;
import org.apache.qpid.proton.amqp.messaging.MessageAnnotations;
import org.apache.qpid.proton.message.Message;

/** What is sent, how it is answered, and that it comes back as it was. */
final class Sending {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("send-one", Sending::one);
        cases.put("send-1000-pipelined", Sending::pipelined);
        cases.put("anonymous-relay", Sending::anonymousRelay);
        cases.put("oversized-message", Sending::oversized);
        cases.put("large-message", Sending::large);
        cases.put("annotations-and-header", Sending::header);
        cases.put("round-trip", Sending::roundTrip);
    }

    /** With every default of the client: a message is accepted when its handler has returned. */
    private static void one(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createSender(queue));
        Broker.done(sender.sendWithAck(Broker.texted("grüße ✓")));
        LinkedBlockingQueue<String> bodies = new LinkedBlockingQueue<>();
        var receiver = Broker.done(connection.createReceiver(queue));
        receiver.handler(message -> bodies.add(message.bodyAsString()));
        Broker.same(bodies.poll(Broker.WAIT_MS, TimeUnit.MILLISECONDS), "grüße ✓", "body");
        Broker.demand(bodies.poll(Broker.QUIET_MS, TimeUnit.MILLISECONDS) == null, "another came");
        Broker.done(connection.close());
        Broker.nothingLeft(queue);
    }

    private static void pipelined(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createSender(queue));
        List<Future<Void>> sends = new ArrayList<>();
        for (String body : Broker.numbers(1_000)) {
            sends.add(sender.sendWithAck(Broker.texted(body)));
        }
        Broker.done(Future.all(sends));
        Inbox inbox = Broker.receiver(connection, queue);
        inbox.take(Broker.numbers(1_000));
        inbox.empty();
        Broker.done(connection.close());
    }

    private static void anonymousRelay(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createAnonymousSender());
        Broker.done(sender.sendWithAck(AmqpMessage.create().address(queue).withBody("routed").build()));
        AmqpMessage nowhere = AmqpMessage.create().address(queue + "-missing").withBody("lost").build();
        Broker.refused("REJECTED", () -> Broker.done(sender.sendWithAck(nowhere)));
        Broker.done(sender.sendWithAck(AmqpMessage.create().address(queue).withBody("goes on").build()));
        Broker.receiver(connection, queue).take("routed", "goes on");
        Broker.done(connection.close());
    }

    private static void oversized(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createSender(queue));
        AmqpMessage tooLarge = AmqpMessage.create().withBufferAsBody(Buffer.buffer(new byte[2 << 20])).build();
        Broker.refused("REJECTED", () -> Broker.done(sender.sendWithAck(tooLarge)));
        Broker.done(sender.sendWithAck(Broker.texted("fits")));
        Inbox inbox = Broker.receiver(connection, queue);
        inbox.take("fits");
        inbox.empty();
        Broker.done(connection.close());
    }

    private static void large(String queue) throws Exception {
        byte[] bytes = new byte[900 << 10];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) (index % 251);
        }
        Buffer body = Buffer.buffer(bytes);
        AmqpConnection connection = Broker.connect(Broker.options().setMaxFrameSize(4096));
        AmqpSender sender = Broker.done(connection.createSender(queue));
        Inbox inbox = Broker.receiver(connection, queue);
        for (int round = 0; round < 3; round++) {
            Broker.done(sender.sendWithAck(AmqpMessage.create().withBufferAsBody(body).build()));
        }
        for (int round = 0; round < 3; round++) {
            Broker.demand(inbox.next().accepted().bodyAsBinary().equals(body), "byte for byte");
        }
        Broker.done(connection.close());
    }

    private static void header(String queue) throws Exception {
        long sent = System.currentTimeMillis();
        AmqpConnection connection = Broker.connect();
        Message raw = Proton.message();
        Map<Symbol, Object> annotations = new HashMap<>();
        annotations.put(Symbol.valueOf("x-opt-partition-key"), "pk");
        annotations.put(Symbol.valueOf("x-opt-ours"), UnsignedLong.valueOf(42));
        raw.setMessageAnnotations(new MessageAnnotations(annotations));
        raw.setBody(new AmqpValue("annotated"));
        AmqpMessage message = AmqpMessage.create(raw).durable(true).priority((short) 7).ttl(60_000).build();
        Broker.done(Broker.done(connection.createSender(queue)).sendWithAck(message));
        AmqpMessage back = Broker.receiver(connection, queue).next();
        Broker.same(back.isDurable(), true, "durable");
        Broker.same(back.priority(), 7, "priority");
        Broker.same(back.ttl(), 60_000L, "time to live");
        Broker.same(back.isFirstAcquirer(), true, "first acquirer");
        Broker.same(back.deliveryCount(), 0, "delivery count");
        Map<Symbol, Object> found = back.unwrap().getMessageAnnotations().getValue();
        Broker.same(found.get(Symbol.valueOf("x-opt-partition-key")), "pk", "partition key");
        Broker.same(found.get(Symbol.valueOf("x-opt-ours")), UnsignedLong.valueOf(42), "annotation of the sender");
        Broker.demand(Receiving.number(back) >= 1, "it is numbered");
        long enqueued = ((Date) found.get(Symbol.valueOf("x-opt-enqueued-time"))).getTime();
        Broker.demand(Math.abs(enqueued - sent) < 60_000, "the time is now");
        long lock = Receiving.lockedUntil(back) - enqueued;
        Broker.demand(lock >= 5_000 && lock < 60_000, "the lock is the queue's: " + lock);
        back.accepted();
        Broker.done(connection.close());
    }

    /** A body as it is written, and how it is read. */
    record Kind(Object value, AmqpMessageBuilder written, Function<AmqpMessage, Object> read) {}

    private static List<Kind> kinds() {
        UUID id = new UUID(1, 16);
        Instant time = Instant.ofEpochMilli(1_896_321_906_789L);
        Buffer bytes = Buffer.buffer(new byte[] {0, -1, 127});
        return List.of(
            new Kind(true, AmqpMessage.create().withBooleanAsBody(true), AmqpMessage::bodyAsBoolean),
            new Kind((byte) -100, AmqpMessage.create().withByteAsBody((byte) -100), AmqpMessage::bodyAsByte),
            new Kind((short) -30_000, AmqpMessage.create().withShortAsBody((short) -30_000), AmqpMessage::bodyAsShort),
            new Kind(-2_000_000_000, AmqpMessage.create().withIntegerAsBody(-2_000_000_000), AmqpMessage::bodyAsInteger),
            new Kind(Long.MIN_VALUE, AmqpMessage.create().withLongAsBody(Long.MIN_VALUE), AmqpMessage::bodyAsLong),
            new Kind(1.25f, AmqpMessage.create().withFloatAsBody(1.25f), AmqpMessage::bodyAsFloat),
            new Kind(-2.5e300, AmqpMessage.create().withDoubleAsBody(-2.5e300), AmqpMessage::bodyAsDouble),
            new Kind('ß', AmqpMessage.create().withCharAsBody('ß'), AmqpMessage::bodyAsChar),
            new Kind(time, AmqpMessage.create().withInstantAsBody(time), AmqpMessage::bodyAsTimestamp),
            new Kind(id, AmqpMessage.create().withUuidAsBody(id), AmqpMessage::bodyAsUUID),
            new Kind("grüße ✓", AmqpMessage.create().withBody("grüße ✓"), AmqpMessage::bodyAsString),
            new Kind("symbol", AmqpMessage.create().withSymbolAsBody("symbol"), AmqpMessage::bodyAsSymbol),
            new Kind(bytes, AmqpMessage.create().withBufferAsBody(bytes), AmqpMessage::bodyAsBinary),
            new Kind(List.of(1L, "two", 3.0), AmqpMessage.create().withListAsBody(List.of(1L, "two", 3.0)),
                AmqpMessage::bodyAsList),
            new Kind(Map.of("a", Map.of("b", 2.5)), AmqpMessage.create().withMapAsBody(Map.of("a", Map.of("b", 2.5))),
                AmqpMessage::bodyAsMap));
    }

    private static void roundTrip(String queue) throws Exception {
        JsonObject properties = new JsonObject()
            .put("boolean", true).put("int", -2_000_000_000).put("long", Long.MIN_VALUE)
            .put("float", 1.25f).put("double", -2.5e300).put("string", "grüße ✓");
        AmqpConnection connection = Broker.connect();
        AmqpSender sender = Broker.done(connection.createSender(queue));
        Inbox inbox = Broker.receiver(connection, queue);
        for (Kind kind : kinds()) {
            AmqpMessage message = kind.written
                .id("id").correlationId("correlation").address("there").subject("the subject").replyTo("back")
                .contentType("text/plain").contentEncoding("identity").creationTime(1_796_321_906_789L)
                .groupId("group").replyToGroupId("answers").applicationProperties(properties).build();
            Broker.done(sender.sendWithAck(message));
            AmqpMessage back = inbox.next().accepted();
            Broker.same(kind.read.apply(back), kind.value, "body");
            Broker.same(back.id(), "id", "id");
            Broker.same(back.correlationId(), "correlation", "correlation id");
            Broker.same(back.address(), "there", "address");
            Broker.same(back.subject(), "the subject", "subject");
            Broker.same(back.replyTo(), "back", "reply to");
            Broker.same(back.contentType(), "text/plain", "content type");
            Broker.same(back.contentEncoding(), "identity", "content encoding");
            Broker.same(back.creationTime(), 1_796_321_906_789L, "creation time");
            Broker.same(back.groupId(), "group", "group");
            Broker.same(back.replyToGroupId(), "answers", "group of the answer");
            Broker.same(back.applicationProperties(), properties, "application properties");
        }
        Broker.done(connection.close());
    }

    private Sending() {}
}
