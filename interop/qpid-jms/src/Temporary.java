import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueConnection;
import jakarta.jms.QueueRequestor;
import jakarta.jms.QueueSession;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import java.util.Map;

/** Temporary queues and topics, and the requests and replies that need them. */
final class Temporary {
    private static final int REQUESTS = 10;
    /** Within which the end of a connection must show. */
    private static final long CLOSED_WITHIN_MS = 20_000;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("dynamic-request-reply", Temporary::requestReply);
        cases.put("dynamic-owner", Temporary::owner);
        cases.put("dynamic-end", Temporary::end);
        cases.put("dynamic-topic", Temporary::topic);
    }

    private static Session session(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    /** The helper of JMS, and then a temporary queue of one's own with correlation ids, as frameworks do it. */
    private static void requestReply(String name) throws Exception {
        try (Connection responder = Client.connect();
                QueueConnection requester = Client.factory(Client.address("")).createQueueConnection()) {
            Session answers = session(responder);
            MessageProducer anywhere = answers.createProducer(null);
            answers.createConsumer(answers.createQueue(name)).setMessageListener(request -> {
                try {
                    Message reply = answers.createTextMessage("re: " + Client.text(request));
                    reply.setJMSCorrelationID(request.getJMSCorrelationID());
                    anywhere.send(request.getJMSReplyTo(), reply);
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            });
            requester.start();
            QueueSession asking = requester.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = asking.createQueue(name);
            QueueRequestor requestor = new QueueRequestor(asking, queue);
            for (int number = 0; number < REQUESTS; number++) {
                Message reply = requestor.request(asking.createTextMessage("" + number));
                Client.same(Client.text(reply), "re: " + number, "reply");
            }
            requestor.close();
            Session own = session(requester);
            TemporaryQueue replies = own.createTemporaryQueue();
            MessageConsumer consumer = own.createConsumer(replies);
            MessageProducer producer = own.createProducer(queue);
            for (int number = 0; number < REQUESTS; number++) {
                Message request = own.createTextMessage("own " + number);
                request.setJMSReplyTo(replies);
                request.setJMSCorrelationID("id " + number);
                producer.send(request);
                Message reply = Client.next(consumer);
                Client.same(Client.text(reply), "re: own " + number, "reply");
                Client.same(reply.getJMSCorrelationID(), "id " + number, "correlation id");
            }
            consumer.close();
            replies.delete();
        }
    }

    private static void owner(String name) throws Exception {
        try (Connection connection = Client.connect(); Connection other = Client.connect()) {
            Session session = session(connection);
            Session foreign = session(other);
            TemporaryQueue own = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(own);
            Client.refused(InvalidDestinationException.class, () -> foreign.createConsumer(own));
            // The client refused that. Under its name alone the broker has to.
            Queue named = foreign.createQueue(own.getQueueName());
            JMSException refused = Client.refused(JMSException.class, () -> foreign.createConsumer(named));
            Client.demand(refused.getMessage().contains("amqp:resource-locked"), refused.getMessage());
            Client.send(foreign, own, "from another connection");
            Client.expect(consumer, "from another connection");
            Client.send(session, own, "from its own");
            Client.expect(consumer, "from its own");
        }
    }

    private static void end(String name) throws Exception {
        try (Connection other = Client.connect()) {
            Session foreign = session(other);
            Connection connection = Client.connect();
            Session session = session(connection);
            TemporaryQueue deleted = session.createTemporaryQueue();
            TemporaryQueue left = session.createTemporaryQueue();
            session.close();
            // A temporary queue belongs to the connection, not to its session.
            Client.send(foreign, left, "there");
            Session again = session(connection);
            Client.expect(again.createConsumer(left), "there");
            deleted.delete();
            gone(foreign, deleted.getQueueName());
            connection.close();
            gone(foreign, left.getQueueName());
        }
    }

    private static void gone(Session session, String name) throws Exception {
        Queue queue = session.createQueue(name);
        for (long end = System.currentTimeMillis() + CLOSED_WITHIN_MS; System.currentTimeMillis() < end;) {
            try {
                session.createProducer(queue).close();
            } catch (InvalidDestinationException missing) {
                return;
            }
        }
        throw new AssertionError(name + " is still there");
    }

    private static void topic(String name) throws Exception {
        try (Connection connection = Client.connect(); Connection other = Client.connect()) {
            Session session = session(connection);
            TemporaryTopic topic = session.createTemporaryTopic();
            MessageConsumer one = session.createConsumer(topic);
            MessageConsumer two = session.createConsumer(topic);
            Client.send(session(other), topic, "a", "b");
            Client.expect(one, "a", "b");
            Client.expect(two, "a", "b");
            one.close();
            two.close();
            topic.delete();
        }
    }

    private Temporary() {}
}
