import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** What is sent, how it is answered, and that it comes back as it was. */
final class Sending {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("send-one", Sending::one);
        cases.put("send-1000-pipelined", Sending::pipelined);
        cases.put("send-pre-settled", Sending::preSettled);
        cases.put("anonymous-relay", Sending::anonymousRelay);
        cases.put("wrong-key", Sending::wrongKey);
        cases.put("namespaces", Sending::namespaces);
        cases.put("missing-queue", Sending::missing);
        cases.put("oversized-message", Sending::oversized);
        cases.put("large-message", Sending::large);
        cases.put("message-beyond-the-tier", Sending::beyondTheTier);
        cases.put("annotations-and-header", Sending::header);
        cases.put("round-trip", Sending::roundTrip);
        cases.put("link-close-and-reopen", Sending::reopen);
        cases.put("heartbeat", Sending::heartbeat);
        cases.put("many-sessions", Sending::manySessions);
    }

    /** Counts sends that the broker has accepted. */
    record Counted(CountDownLatch accepted) implements CompletionListener {
        @Override
        public void onCompletion(Message message) {
            accepted.countDown();
        }

        @Override
        public void onException(Message message, Exception error) {
            error.printStackTrace();
        }
    }

    private static void one(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            Client.send(session, there, "grüße ✓");
            MessageConsumer consumer = session.createConsumer(there);
            Client.expect(consumer, "grüße ✓");
            Client.empty(consumer);
        }
    }

    private static void pipelined(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageProducer producer = session.createProducer(there);
            List<String> bodies = Client.numbers(1_000);
            CountDownLatch accepted = new CountDownLatch(bodies.size());
            for (String body : bodies) {
                producer.send(session.createTextMessage(body), new Counted(accepted));
            }
            Client.demand(accepted.await(Client.WAIT_MS, TimeUnit.MILLISECONDS), "not all are accepted");
            Client.expect(session.createConsumer(there), bodies.toArray(new String[0]));
        }
    }

    private static void preSettled(String queue) throws Exception {
        try (Connection connection = Client.connect("jms.presettlePolicy.presettleProducers=true")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            String[] bodies = Client.numbers(1_000).toArray(new String[0]);
            Client.send(session, there, bodies);
            Client.expect(session.createConsumer(there), bodies);
        }
    }

    private static void anonymousRelay(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageProducer producer = session.createProducer(null);
            producer.send(there, session.createTextMessage("routed"));
            Queue nowhere = session.createQueue(queue + "-missing");
            Client.refused(JMSException.class, () -> producer.send(nowhere, session.createTextMessage("lost")));
            producer.send(there, session.createTextMessage("goes on"));
            Client.expect(session.createConsumer(there), "routed", "goes on");
        }
    }

    /** Three namespaces of one broker, by an address each and by the client's option for a virtual host. */
    private static void namespaces(String queue) throws Exception {
        List<String[]> teams = System.getenv("FERRYBUS_NAMESPACES").lines().map(line -> line.split(" ")).toList();
        for (boolean byVirtualHost : new boolean[] {false, true}) {
            List<Connection> connections = new ArrayList<>();
            for (String[] team : teams) {
                Connection connection = Client.factory(addressOf(team, byVirtualHost), team[2]).createConnection();
                connection.start();
                connections.add(connection);
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                Client.send(session, session.createQueue(queue), "for " + team[0]);
            }
            for (int index = 0; index < teams.size(); index++) {
                try (Connection connection = connections.get(index)) {
                    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                    Client.expect(session.createConsumer(session.createQueue(queue)), "for " + teams.get(index)[0]);
                }
            }
            String address = addressOf(teams.get(1), byVirtualHost);
            Client.refused(JMSSecurityException.class, () -> Client.factory(address, teams.get(2)[2]).createConnection().start());
        }
    }

    private static String addressOf(String[] team, boolean byVirtualHost) {
        String scheme = Client.overTls() ? "amqps" : "amqp";
        String host = byVirtualHost ? "localhost" : team[1];
        String address = scheme + "://" + host + ":" + System.getenv("FERRYBUS_PORT");
        return byVirtualHost ? address + "?amqp.vhost=vhost:" + team[0] : address;
    }

    private static void wrongKey(String queue) throws Exception {
        Client.refused(JMSSecurityException.class, () -> {
            Connection connection = Client.factory(Client.address(""), "wrong").createConnection();
            connection.start();
        });
        Client.sendTo(queue, "with the right one");
    }

    private static void missing(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue nowhere = session.createQueue(queue + "-missing");
            Client.refused(InvalidDestinationException.class, () -> session.createProducer(nowhere));
            Client.refused(InvalidDestinationException.class, () -> session.createConsumer(nowhere));
            Queue there = session.createQueue(queue);
            Client.send(session, there, "goes on");
            Client.expect(session.createConsumer(there), "goes on");
        }
    }

    static BytesMessage binary(Session session, byte[] body) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body);
        return message;
    }

    /** The queue takes a mebibyte. */
    private static void oversized(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageProducer producer = session.createProducer(there);
            JMSException error =
                Client.refused(JMSException.class, () -> producer.send(binary(session, new byte[2 << 20])));
            Client.demand(error.getMessage().contains("message-size-exceeded"), "says why: " + error);
            producer.send(session.createTextMessage("fits"));
            MessageConsumer consumer = session.createConsumer(there);
            Client.expect(consumer, "fits");
            Client.empty(consumer);
        }
    }

    /** 20 MiB: more than any client of Service Bus may send by default. */
    private static void beyondTheTier(String queue) throws Exception {
        byte[] body = pattern(20 << 20);
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            session.createProducer(there).send(binary(session, body));
            MessageConsumer consumer = session.createConsumer(there);
            Client.demand(Arrays.equals(Client.bytes(Client.next(consumer)), body), "the body has changed");
            Client.empty(consumer);
        }
    }

    static byte[] pattern(int length) {
        byte[] body = new byte[length];
        for (int index = 0; index < length; index++) {
            body[index] = (byte) (index % 251);
        }
        return body;
    }

    private static void large(String queue) throws Exception {
        byte[] body = pattern(900 << 10);
        try (Connection connection = Client.connect("amqp.maxFrameSize=4096")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageProducer producer = session.createProducer(there);
            MessageConsumer consumer = session.createConsumer(there);
            for (int round = 0; round < 3; round++) {
                producer.send(binary(session, body));
            }
            for (int round = 0; round < 3; round++) {
                Client.demand(Arrays.equals(Client.bytes(Client.next(consumer)), body), "byte for byte");
            }
        }
    }

    private static void header(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageProducer producer = session.createProducer(there);
            long sent = System.currentTimeMillis();
            producer.send(session.createTextMessage("urgent"), DeliveryMode.PERSISTENT, 7, 60_000);
            producer.send(session.createTextMessage("plain"), DeliveryMode.NON_PERSISTENT, 4, 0);
            MessageConsumer consumer = session.createConsumer(there);
            Message back = Client.next(consumer);
            Client.same(back.getJMSPriority(), 7, "priority");
            Client.same(back.getJMSDeliveryMode(), DeliveryMode.PERSISTENT, "delivery mode");
            Client.demand(Math.abs(back.getJMSExpiration() - sent - 60_000) < 30_000, "expires in a minute");
            Client.demand(Math.abs(back.getJMSTimestamp() - sent) < 30_000, "sent now");
            Client.demand(back.getJMSMessageID().startsWith("ID:"), "its id: " + back.getJMSMessageID());
            Client.same(back.getJMSDestination(), there, "destination");
            Client.same(back.getJMSRedelivered(), false, "redelivered");
            Client.same(Client.deliveries(back), 1, "deliveries");
            Message plain = Client.next(consumer);
            Client.same(plain.getJMSDeliveryMode(), DeliveryMode.NON_PERSISTENT, "delivery mode");
            Client.same(plain.getJMSExpiration(), 0L, "no expiration");
            Client.same(plain.getJMSPriority(), 4, "priority");
        }
    }

    private static void roundTrip(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageProducer producer = session.createProducer(there);
            for (Message message : everyKind(session)) {
                message.setJMSCorrelationID("ID:AMQP_ULONG:18446744073709551615");
                message.setJMSType("the type");
                message.setJMSReplyTo(session.createQueue("answers"));
                message.setStringProperty("JMSXGroupID", "group");
                message.setIntProperty("JMSXGroupSeq", 3);
                for (Object value : SIMPLE) {
                    message.setObjectProperty(value.getClass().getSimpleName(), value);
                }
                producer.send(message);
            }
            MessageConsumer consumer = session.createConsumer(there);
            for (int kind = 0; kind < 6; kind++) {
                Message back = Client.next(consumer);
                Client.same(back.getJMSCorrelationID(), "ID:AMQP_ULONG:18446744073709551615", "correlation id");
                Client.same(back.getJMSType(), "the type", "type");
                Client.same(back.getJMSReplyTo(), session.createQueue("answers"), "reply to");
                Client.same(back.getStringProperty("JMSXGroupID"), "group", "group");
                Client.same(back.getIntProperty("JMSXGroupSeq"), 3, "group sequence");
                for (Object value : SIMPLE) {
                    Client.same(back.getObjectProperty(value.getClass().getSimpleName()), value, "property");
                }
                sameBody(back, kind);
            }
        }
    }

    private static final List<Object> SIMPLE = List.of(
        true, (byte) -100, (short) -30_000, -2_000_000_000, Long.MIN_VALUE, 1.25f, -2.5e300, "grüße ✓");

    private static List<Message> everyKind(Session session) throws JMSException {
        List<Message> kinds = new ArrayList<>();
        kinds.add(session.createMessage());
        kinds.add(session.createTextMessage("grüße ✓"));
        kinds.add(binary(session, new byte[] {0, -1, 127}));
        MapMessage map = session.createMapMessage();
        map.setBytes("bytes", new byte[] {1, 2});
        StreamMessage stream = session.createStreamMessage();
        for (Object value : SIMPLE) {
            map.setObject(value.getClass().getSimpleName(), value);
            stream.writeObject(value);
        }
        kinds.add(map);
        kinds.add(stream);
        kinds.add(session.createObjectMessage(new ArrayList<>(List.of("a", "b"))));
        return kinds;
    }

    private static void sameBody(Message back, int kind) throws JMSException {
        switch (kind) {
            case 0 -> Client.demand(!(back instanceof BytesMessage), "no body: " + back);
            case 1 -> Client.same(Client.text(back), "grüße ✓", "text");
            case 2 -> Client.demand(Arrays.equals(Client.bytes(back), new byte[] {0, -1, 127}), "bytes");
            case 3 -> {
                MapMessage map = (MapMessage) back;
                Client.demand(Arrays.equals(map.getBytes("bytes"), new byte[] {1, 2}), "bytes of a map");
                for (Object value : SIMPLE) {
                    Client.same(map.getObject(value.getClass().getSimpleName()), value, "entry");
                }
            }
            case 4 -> {
                for (Object value : SIMPLE) {
                    Client.same(((StreamMessage) back).readObject(), value, "item");
                }
            }
            default -> Client.same(((ObjectMessage) back).getObject(), List.of("a", "b"), "object");
        }
    }

    private static void reopen(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            for (String round : Client.numbers(20)) {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                Queue there = session.createQueue(queue);
                Client.send(session, there, round);
                MessageConsumer consumer = session.createConsumer(there);
                Client.expect(consumer, round);
                consumer.close();
                session.close();
            }
        }
    }

    /** The broker must send something every three seconds: the client ends a connection that is silent for six. */
    private static void heartbeat(String queue) throws Exception {
        try (Connection connection = Client.connect("amqp.idleTimeout=6000")) {
            CountDownLatch lost = new CountDownLatch(1);
            connection.setExceptionListener(error -> lost.countDown());
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            Client.demand(!lost.await(10, TimeUnit.SECONDS), "the connection is lost");
            Client.send(session, session.createQueue(queue), "alive");
            Client.expect(consumer, "alive");
        }
    }

    private static void manySessions(String queue) throws Exception {
        try (Connection connection = Client.connect("jms.prefetchPolicy.all=0")) {
            List<Session> sessions = new ArrayList<>();
            for (String body : Client.numbers(20)) {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                Client.send(session, session.createQueue(queue), body);
                sessions.add(session);
            }
            for (String body : Client.numbers(20)) {
                Session session = sessions.remove(sessions.size() - 1);
                Client.expect(session.createConsumer(session.createQueue(queue)), body);
                session.close();
            }
        }
    }

    private Sending() {}
}
