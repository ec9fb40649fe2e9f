import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;

/** Dynamic nodes: request and reply, their owner, and their end. */
final class Dynamic {
    private static final int REQUESTS = 10;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("dynamic-request-reply", Dynamic::requestReply);
        cases.put("dynamic-owner", Dynamic::owner);
        cases.put("dynamic-end", Dynamic::end);
        cases.put("dynamic-topic", Dynamic::topic);
    }

    private static Receiver receiver(Connection connection) throws Exception {
        return Broker.opened(connection.openDynamicReceiver(Broker.explicit()));
    }

    private static void requestReply(String queue) throws Exception {
        try (Connection requester = Broker.connect(); Connection responder = Broker.connect()) {
            CompletableFuture<Void> answered = CompletableFuture.runAsync(() -> {
                try {
                    Receiver requests = Broker.receiver(responder, queue);
                    Sender anywhere = responder.openAnonymousSender();
                    for (int number = 0; number < REQUESTS; number++) {
                        Delivery request = Broker.next(requests);
                        Message<Object> asked = request.message();
                        Message<String> reply = Message.create("re: " + asked.body());
                        reply.to(asked.replyTo()).correlationId(asked.correlationId());
                        anywhere.send(reply).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
                        request.accept();
                    }
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            Receiver replies = receiver(requester);
            Sender sender = Broker.sender(requester, queue);
            for (int number = 0; number < REQUESTS; number++) {
                Message<String> request = Message.create("" + number);
                request.replyTo(replies.address()).correlationId("id " + number);
                sender.send(request).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
                Delivery reply = Broker.next(replies);
                Broker.same(Broker.text(reply), "re: " + number, "reply");
                Broker.same(reply.message().correlationId(), "id " + number, "correlation id");
                reply.accept();
            }
            answered.get(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
        }
    }

    private static void owner(String queue) throws Exception {
        try (Connection owner = Broker.connect(); Connection other = Broker.connect()) {
            Receiver receiver = receiver(owner);
            String address = receiver.address();
            Broker.refused("amqp:resource-locked", () -> Broker.receiver(other, address));
            Broker.send(other, address, "from another connection");
            Broker.take(receiver, "from another connection");
            Broker.send(owner, address, "from its own");
            Broker.take(receiver, "from its own");
        }
    }

    private static void end(String queue) throws Exception {
        Connection owner = Broker.connect();
        try (Connection other = Broker.connect()) {
            Receiver first = receiver(owner);
            Receiver second = receiver(owner);
            String gone = first.address();
            String left = second.address();
            Sender sender = Broker.sender(other, gone);
            first.close();
            Broker.refused("amqp:not-found", () -> Broker.sender(other, gone));
            Broker.refused("amqp:resource-deleted",
                () -> sender.send(Message.create("late")).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS));
            Broker.send(other, left, "still there");
            Broker.take(second, "still there");
            owner.close();
            Broker.refused("amqp:not-found", () -> Broker.sender(other, left));
        }
    }

    private static void topic(String queue) throws Exception {
        try (Connection owner = Broker.connect(); Connection other = Broker.connect()) {
            ReceiverOptions options = Broker.explicit();
            options.sourceOptions().capabilities("temporary-topic");
            Receiver first = Broker.opened(owner.openDynamicReceiver(options));
            Receiver second = Broker.receiver(owner, first.address());
            Broker.send(other, first.address(), "news");
            Broker.take(first, "news");
            Broker.take(second, "news");
        }
    }

    private Dynamic() {}
}
