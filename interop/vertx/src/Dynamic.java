import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpReceiverOptions;
import io.vertx.amqp.AmqpSender;
import java.util.Map;

/** Dynamic nodes: request and reply, their owner, and their end. */
final class Dynamic {
    private static final int REQUESTS = 10;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("dynamic-request-reply", Dynamic::requestReply);
        cases.put("dynamic-owner", Dynamic::owner);
        cases.put("dynamic-end", Dynamic::end);
        cases.put("dynamic-topic", Dynamic::topic);
    }

    private static void requestReply(String queue) throws Exception {
        AmqpConnection requester = Broker.connect();
        AmqpConnection responder = Broker.connect();
        Inbox replies = new Inbox(Broker.done(requester.createDynamicReceiver()));
        Inbox requests = Broker.receiver(responder, queue);
        AmqpSender anywhere = Broker.done(responder.createAnonymousSender());
        AmqpSender sender = Broker.done(requester.createSender(queue));
        for (int number = 0; number < REQUESTS; number++) {
            String id = "id " + number;
            String body = "request " + number;
            Broker.done(sender.sendWithAck(
                AmqpMessage.create().withBody(body).replyTo(replies.receiver.address()).correlationId(id).build()));
            AmqpMessage request = requests.next();
            Broker.done(anywhere.sendWithAck(AmqpMessage.create()
                .withBody("re: " + request.bodyAsString())
                .address(request.replyTo())
                .correlationId(request.correlationId())
                .build()));
            request.accepted();
            AmqpMessage reply = replies.next();
            Broker.same(reply.bodyAsString(), "re: " + body, "reply");
            Broker.same(reply.correlationId(), id, "correlation id");
        }
        Broker.done(requester.close());
        Broker.done(responder.close());
    }

    private static void owner(String queue) throws Exception {
        AmqpConnection owner = Broker.connect();
        AmqpConnection other = Broker.connect();
        Inbox inbox = new Inbox(Broker.done(owner.createDynamicReceiver()));
        String address = inbox.receiver.address();
        Broker.refused("amqp:resource-locked", () -> Broker.receiver(other, address));
        Broker.send(other, address, "from another connection");
        Broker.same(inbox.next().bodyAsString(), "from another connection", "body");
        Broker.done(owner.close());
        Broker.done(other.close());
    }

    private static void end(String queue) throws Exception {
        AmqpConnection owner = Broker.connect();
        AmqpConnection other = Broker.connect();
        Inbox first = new Inbox(Broker.done(owner.createDynamicReceiver()));
        Inbox second = new Inbox(Broker.done(owner.createDynamicReceiver()));
        String gone = first.receiver.address();
        String left = second.receiver.address();
        first.close();
        Broker.refused("amqp:not-found", () -> Broker.done(other.createSender(gone)));
        Broker.send(other, left, "still there");
        second.take("still there");
        Broker.done(owner.close());
        Broker.refused("amqp:not-found", () -> Broker.done(other.createSender(left)));
        Broker.done(other.close());
    }

    private static void topic(String queue) throws Exception {
        AmqpConnection owner = Broker.connect();
        AmqpConnection other = Broker.connect();
        AmqpReceiverOptions options = Broker.explicit().setDynamic(true).addCapability("temporary-topic");
        Inbox first = new Inbox(Broker.done(owner.createReceiver(null, options)));
        Inbox second = Broker.receiver(owner, first.receiver.address());
        Broker.send(other, first.receiver.address(), "news");
        first.take("news");
        second.take("news");
        Broker.done(owner.close());
        Broker.done(other.close());
    }

    private Dynamic() {}
}
