import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.Map;

/** Subscribers of topics: volatile, durable, shared, with selectors. */
final class Topics {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("topic-volatile", Topics::volatileOnes);
        cases.put("topic-durable", Topics::durable);
        cases.put("topic-selector", Topics::selector);
        cases.put("topic-unsubscribe", Topics::unsubscribe);
        cases.put("topic-in-use", Topics::inUse);
        cases.put("topic-shared", Topics::shared);
        cases.put("topic-release", Topics::release);
        cases.put("new-topic", Topics::newTopic);
        cases.put("new-queue", Topics::newQueue);
        cases.put("subscription-by-name", Topics::byName);
    }

    private static Session session(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    private static void volatileOnes(String name) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = session(connection);
            Topic topic = session.createTopic(name);
            Client.send(session, topic, "early");
            MessageConsumer one = session.createConsumer(topic);
            MessageConsumer two = session.createConsumer(topic);
            Client.send(session, topic, "a", "b");
            Client.expect(one, "a", "b");
            Client.expect(two, "a", "b");
            one.close();
            Client.send(session, topic, "late");
            Client.expect(two, "late");
            Client.empty(session.createConsumer(topic));
        }
    }

    private static void durable(String name) throws Exception {
        String first = "first-" + name;
        try (Connection connection = Client.connectAs(first)) {
            Session session = session(connection);
            Topic topic = session.createTopic(name);
            MessageConsumer news = session.createDurableConsumer(topic, "news");
            Client.send(session, topic, "here");
            Client.expect(news, "here");
            news.close();
            Client.send(session, topic, "consumer closed");
        }
        try (Connection other = Client.connectAs("second-" + name)) {
            Session session = session(other);
            Topic topic = session.createTopic(name);
            MessageConsumer apart = session.createDurableConsumer(topic, "news");
            Client.send(session, topic, "connection closed");
            Client.expect(apart, "connection closed");
        }
        try (Connection connection = Client.connectAs(first)) {
            Session session = session(connection);
            MessageConsumer news = session.createDurableConsumer(session.createTopic(name), "news");
            Client.expect(news, "consumer closed", "connection closed");
            Client.empty(news);
            news.close();
            session.unsubscribe("news");
        }
    }

    private static void selector(String name) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = session(connection);
            Topic topic = session.createTopic(name);
            MessageConsumer red = session.createConsumer(topic, "colour = 'red' OR n > 10");
            MessageConsumer all = session.createConsumer(topic);
            Client.refused(Exception.class, () -> session.createConsumer(topic, "colour ="));
            MessageProducer producer = session.createProducer(topic);
            for (String colour : new String[] {"red", "blue", "green"}) {
                Message message = session.createTextMessage(colour);
                message.setStringProperty("colour", colour);
                message.setIntProperty("n", colour.length() * 2);
                producer.send(message);
            }
            Client.expect(red, "red");
            Client.empty(red);
            Client.expect(all, "red", "blue", "green");
        }
    }

    private static void unsubscribe(String name) throws Exception {
        try (Connection connection = Client.connectAs("leaves-" + name)) {
            Session session = session(connection);
            Topic topic = session.createTopic(name);
            Client.refused(InvalidDestinationException.class, () -> session.unsubscribe("never"));
            MessageConsumer news = session.createDurableConsumer(topic, "news");
            Client.refused(JMSException.class, () -> session.unsubscribe("news"));
            news.close();
            Client.send(session, topic, "waits");
            session.unsubscribe("news");
            Client.empty(session.createDurableConsumer(topic, "news"));
        }
    }

    /** The client itself refuses a second consumer of one connection; over another one the newer client has the link. */
    private static void inUse(String name) throws Exception {
        try (Connection connection = Client.connectAs("twice-" + name)) {
            Session session = session(connection);
            Topic topic = session.createTopic(name);
            MessageConsumer news = session.createDurableConsumer(topic, "news");
            Client.refused(JMSException.class, () -> session.createDurableConsumer(topic, "news"));
            Client.send(session, topic, "still mine");
            Client.expect(news, "still mine");
        }
    }

    private static void shared(String name) throws Exception {
        // One without a client id is named alike for all: the same case over another transport has its own.
        String work = "work-" + name;
        for (boolean lasting : new boolean[] {false, true}) {
            try (Connection one = Client.connectAs("one-" + name); Connection two = Client.connect()) {
                Session first = session(one);
                Session second = session(one);
                Session global = session(two);
                Topic topic = first.createTopic(name);
                MessageConsumer a = sharedConsumer(first, topic, work, lasting);
                MessageConsumer b = sharedConsumer(second, topic, work, lasting);
                // Without a client id a shared subscription belongs to all clients without one.
                MessageConsumer apart = sharedConsumer(global, topic, work, lasting);
                String[] bodies = Client.numbers(20).toArray(new String[0]);
                Client.send(first, topic, bodies);
                Client.expect(apart, bodies);
                int received = 0;
                for (MessageConsumer consumer : new MessageConsumer[] {a, b}) {
                    while (consumer.receive(Client.QUIET_MS) != null) {
                        received++;
                    }
                }
                Client.same(received, bodies.length, "each message to one of the two");
                a.close();
                b.close();
                apart.close();
                if (lasting) {
                    first.unsubscribe(work);
                    global.unsubscribe(work);
                }
            }
        }
    }

    private static MessageConsumer sharedConsumer(Session session, Topic topic, String work, boolean lasting)
        throws JMSException {
        return lasting ? session.createSharedDurableConsumer(topic, work) : session.createSharedConsumer(topic, work);
    }

    private static void release(String name) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Topic topic = session.createTopic(name);
            MessageConsumer consumer = session.createConsumer(topic);
            Client.send(session, topic, "again");
            Client.settle(Client.next(consumer), Client.RELEASED);
            Message again = Client.next(consumer);
            Client.same(Client.text(again), "again", "body");
            Client.same(Client.deliveries(again), 1, "deliveries");
            again.acknowledge();
            Client.empty(consumer);
        }
    }

    /** A broker that makes what is missing makes a topic where a topic is asked for. */
    private static void newTopic(String name) throws Exception {
        try (Connection one = Client.connect(); Connection two = Client.connect()) {
            Session first = session(one);
            Session second = session(two);
            Topic topic = first.createTopic(name + "-new");
            MessageConsumer a = first.createConsumer(topic);
            MessageConsumer b = second.createConsumer(topic);
            String[] bodies = Client.numbers(10).toArray(new String[0]);
            Client.send(first, topic, bodies);
            Client.expect(a, bodies);
            Client.expect(b, bodies);
            // A producer that comes first makes a topic, too, and so does one without a destination.
            Topic sentFirst = first.createTopic(name + "-sent-first");
            Client.send(first, sentFirst, "nobody is there");
            first.createProducer(null).send(first.createTopic(name + "-relayed"), first.createMessage());
            for (String there : new String[] {"-new", "-sent-first", "-relayed"}) {
                Client.refused(JMSException.class, () -> first.createConsumer(first.createQueue(name + there)));
            }
        }
    }

    private static void newQueue(String name) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = session(connection);
            MessageConsumer one = session.createConsumer(session.createQueue(name + "-new"));
            Client.send(session, session.createQueue(name + "-new"), "to one of them");
            Client.expect(one, "to one of them");
        }
    }

    /** A subscription that somebody configured is read like a queue. */
    private static void byName(String name) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = session(connection);
            Client.send(session, session.createTopic(name), "copied");
            for (String subscription : new String[] {"a", "b"}) {
                MessageConsumer consumer = session.createConsumer(session.createQueue(name + "/Subscriptions/" + subscription));
                Client.expect(consumer, "copied");
                Client.empty(consumer);
            }
        }
    }

    private Topics() {}
}
