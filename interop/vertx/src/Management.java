import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpSender;
import io.vertx.amqp.TargetOptions;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.qpid.proton.Proton;
import org.apache.qpid.proton.amqp.Binary;
import org.apache.qpid.proton.amqp.messaging.AmqpValue;
import org.apache.qpid.proton.amqp.messaging.ApplicationProperties;
import org.apache.qpid.proton.message.Message;

/** Requests to a queue's `$management` node. */
final class Management {
    private final AmqpSender sender;
    private final Inbox answers;
    private final String replies;
    private int requests;

    Management(AmqpConnection connection, String queue) throws Exception {
        String node = queue + "/$management";
        replies = queue + "-replies";
        TargetOptions target = new TargetOptions().setAddress(replies);
        answers = Broker.receiver(connection, node, Broker.explicit().setTargetOptions(target));
        sender = Broker.done(connection.createSender(node));
    }

    /** The answer's status and body. */
    record Answer(int status, Map<String, Object> body) {}

    @SuppressWarnings("unchecked")
    private Answer ask(String operation, Map<String, Object> fields) throws Exception {
        String id = "request-" + ++requests;
        Message request = Proton.message();
        request.setMessageId(id);
        request.setReplyTo(replies);
        request.setApplicationProperties(new ApplicationProperties(Map.of("operation", "com.microsoft:" + operation)));
        request.setBody(new AmqpValue(fields));
        Broker.done(sender.sendWithAck(AmqpMessage.create(request).build()));
        Message answer = answers.next().accepted().unwrap();
        Broker.same(answer.getCorrelationId(), id, "correlation id");
        Object body = answer.getBody() instanceof AmqpValue value ? value.getValue() : null;
        int status = (Integer) answer.getApplicationProperties().getValue().get("statusCode");
        return new Answer(status, (Map<String, Object>) body);
    }

    /** Renews a lock; the new end, or the status of the refusal. */
    Object renew(UUID token) throws Exception {
        Answer answer = ask("renew-lock", Map.of("lock-tokens", new UUID[] {token}));
        return answer.status == 200 ? ((Date[]) answer.body.get("expirations"))[0] : answer.status;
    }

    List<Message> peek(long from, int count) throws Exception {
        Answer answer = ask("peek-message", Map.of("from-sequence-number", from, "message-count", count));
        List<Message> peeked = new ArrayList<>();
        if (answer.status == 204) {
            return peeked;
        }
        Broker.same(answer.status, 200, "status");
        for (Object item : (List<?>) answer.body.get("messages")) {
            Binary bytes = (Binary) ((Map<?, ?>) item).get("message");
            Message message = Proton.message();
            message.decode(bytes.getArray(), bytes.getArrayOffset(), bytes.getLength());
            peeked.add(message);
        }
        return peeked;
    }

    /** The bodies of the first messages, which are texts. */
    List<String> bodies() throws Exception {
        return peek(1, 100).stream().map(Management::body).toList();
    }

    static String body(Message message) {
        return (String) ((AmqpValue) message.getBody()).getValue();
    }
}
