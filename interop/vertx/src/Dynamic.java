import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpSender;
import java.util.Map;

/** Dynamic nodes: request and reply, and their owner. */
final class Dynamic {
    private static final int REQUESTS = 10;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("dynamic-request-reply", Dynamic::requestReply);
        cases.put("dynamic-owner", Dynamic::owner);
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

    private Dynamic() {}
}
