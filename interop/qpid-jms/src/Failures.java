import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Connections that are lost, and a broker that ends. */
final class Failures {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("restart-before", Failures::restartBefore);
        cases.put("restart-between", queue -> Client.sendTo(queue, "second"));
        cases.put("restart-after", Failures::restartAfter);
        cases.put("connection-loss", Failures::connectionLoss);
        cases.put("reconnect", Failures::reconnect);
    }

    /** Has the broker end the connection of the client with this id, as an operator does. */
    static void cut(String client) throws Exception {
        String all = Client.ask("GET", "/$ferrybus/connections", "");
        Pattern one = Pattern.compile("\\{[^{}]*\"container_id\":\"" + Pattern.quote(client) + "\"[^{}]*\\}");
        Matcher found = one.matcher(all);
        Client.demand(found.find(), "no connection of " + client + " in " + all);
        Matcher id = Pattern.compile("\"id\":(\\d+),").matcher(found.group());
        Client.demand(id.find(), found.group());
        Client.ask("DELETE", "/$ferrybus/connections/" + id.group(1), "");
        // Until it is gone, a commit on its way would still be done, and its answer lost.
        while (Client.ask("GET", "/$ferrybus/connections", "").contains(id.group())) {
            Thread.onSpinWait();
        }
    }

    /** A message is stored, and held by a client, when the broker dies. */
    private static void restartBefore(String queue) throws Exception {
        Client.sendTo(queue, "first");
        Connection connection = Client.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Client.expect(session.createConsumer(session.createQueue(queue)), "first");
        // The process ends without a word to the broker.
        Runtime.getRuntime().halt(0);
    }

    private static void restartAfter(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            Client.expect(consumer, "first", "second");
            Client.empty(consumer);
        }
    }

    private static void connectionLoss(String queue) throws Exception {
        Client.sendTo(queue, "mine");
        Connection lost = Client.connectAs("lost-" + queue);
        Session session = lost.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Client.expect(session.createConsumer(session.createQueue(queue)), "mine");
        cut("lost-" + queue);
        try (Connection connection = Client.connect()) {
            Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Client.expect(other.createConsumer(other.createQueue(queue)), "mine");
        }
        Client.refused(JMSException.class, () -> lost.createSession(false, Session.AUTO_ACKNOWLEDGE));
    }

    /**
     * Sends and receives through `failover:` while `suite.py` kills and restarts the broker, which it does when it reads
     * that so many are sent. A message whose send has returned must come; some may come twice, none may be missing.
     */
    private static void reconnect(String queue) throws Exception {
        String address = "failover:(" + Client.address("") + ")"
            + "?failover.maxReconnectAttempts=500&failover.reconnectDelay=20&failover.useReconnectBackOff=false";
        Set<String> received = new HashSet<>();
        List<String> bodies = Client.numbers(900);
        try (Connection connection = Client.factory(address).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            MessageConsumer consumer = session.createConsumer(there);
            consumer.setMessageListener(message -> {
                try {
                    synchronized (received) {
                        received.add(Client.text(message));
                        received.notifyAll();
                    }
                } catch (JMSException error) {
                    error.printStackTrace();
                }
            });
            Session sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = sending.createProducer(there);
            for (int number = 0; number < bodies.size(); number++) {
                producer.send(sending.createTextMessage(bodies.get(number)));
                if (number % 300 == 150) {
                    System.out.println("sent " + number);
                    System.out.flush();
                }
            }
            // The last restart is over.
            System.in.read();
            long until = System.currentTimeMillis() + Client.WAIT_MS;
            synchronized (received) {
                while (received.size() < bodies.size() && System.currentTimeMillis() < until) {
                    received.wait(100);
                }
                Set<String> missing = new HashSet<>(bodies);
                missing.removeAll(received);
                Client.demand(missing.isEmpty(), "sent and lost: " + missing);
            }
            // The listener takes those that come twice, too.
            while (!Receiving.browsed(queue).isEmpty() && System.currentTimeMillis() < until + Client.WAIT_MS) {
                Thread.onSpinWait();
            }
        }
        Client.same(Receiving.browsed(queue), List.of(), "left");
        Client.same(Receiving.browsed(Client.deadLetters(queue)), List.of(), "dead letters");
    }

    private Failures() {}
}
