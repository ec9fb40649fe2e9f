import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.client.Session;

/** Connections and links that are refused, come back, and are many. */
final class Links {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("wrong-key", Links::wrongKey);
        cases.put("anonymous-log-in", Links::anonymous);
        cases.put("without-sasl", Links::withoutSasl);
        cases.put("namespaces", Links::namespaces);
        cases.put("missing-queue", Links::missing);
        cases.put("link-close-and-reopen", Links::reopen);
        cases.put("many-links", Links::manyLinks);
        cases.put("many-sessions", Links::manySessions);
        cases.put("heartbeat", Links::heartbeat);
    }

    private static void wrongKey(String queue) throws Exception {
        Broker.refused("ClientConnectionSecurity", () -> Broker.connect(Broker.options("WRONG_KEY")));
    }

    private static void anonymous(String queue) throws Exception {
        sendsAndTakes(Broker.anonymous(), queue);
    }

    private static void withoutSasl(String queue) throws Exception {
        ConnectionOptions options = Broker.anonymous();
        options.saslOptions().saslEnabled(false);
        sendsAndTakes(options, queue);
    }

    private static void sendsAndTakes(ConnectionOptions options, String queue) throws Exception {
        try (Connection connection = Broker.connect(options)) {
            Broker.send(connection, queue, "nobody's");
            Broker.take(Broker.receiver(connection, queue), "nobody's");
        }
    }

    /** Three namespaces of one broker, by an address each and by the client's option for a virtual host. */
    private static void namespaces(String queue) throws Exception {
        List<String[]> teams = System.getenv("FERRYBUS_NAMESPACES").lines().map(line -> line.split(" ")).toList();
        Broker.same(teams.size(), 3, "namespaces");
        for (boolean byVirtualHost : new boolean[] {false, true}) {
            List<Connection> connections = new ArrayList<>();
            for (String[] team : teams) {
                Connection connection = entered(team, team[2], byVirtualHost);
                Broker.send(connection, queue, "for " + team[0]);
                connections.add(connection);
            }
            for (int index = 0; index < teams.size(); index++) {
                Receiver receiver = Broker.receiver(connections.get(index), queue);
                Broker.take(receiver, "for " + teams.get(index)[0]);
                Broker.empty(receiver);
                connections.get(index).close();
                String others = teams.get((index + 1) % teams.size())[2];
                String[] team = teams.get(index);
                // The host name of the log-in, or an address of its own, tells the namespace. Else the client takes the
                // connection for open that is answered and closed at once: its next step fails.
                boolean atLogIn = byVirtualHost || !"localhost".equals(team[1]);
                Broker.refused(atLogIn ? "ClientConnectionSecuritySaslException" : "amqp:unauthorized-access",
                    () -> Broker.sender(entered(team, others, byVirtualHost), queue));
            }
        }
    }

    private static Connection entered(String[] team, String key, boolean byVirtualHost) throws Exception {
        ConnectionOptions options = Broker.options(key);
        if (byVirtualHost) {
            options.virtualHost("vhost:" + team[0]);
        }
        String host = byVirtualHost ? "localhost" : team[1];
        return Broker.opened(Client.create().connect(host, Broker.port(), options));
    }

    private static void missing(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Broker.refused("amqp:not-found", () -> Broker.sender(connection, "no-such-queue"));
            Broker.refused("amqp:not-found", () -> Broker.receiver(connection, "no-such-queue"));
            Broker.send(connection, queue, "the connection goes on");
        }
    }

    private static void reopen(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            for (String round : Broker.numbers(20)) {
                Sender sender = connection.openSender(queue, new SenderOptions().linkName("again"));
                sender.send(Message.create(round)).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
                sender.close();
                ReceiverOptions options = Broker.explicit().linkName("back");
                Receiver receiver = Broker.receiver(connection, queue, options);
                Broker.take(receiver, round);
                receiver.close();
            }
        }
    }

    private static void manyLinks(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            List<Sender> senders = new ArrayList<>();
            for (int count = 0; count < 200; count++) {
                senders.add(connection.openSender(queue));
            }
            for (int count = 0; count < 200; count++) {
                Message<String> message = Message.create(Integer.toString(count));
                senders.get(count).send(message).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            }
            Broker.take(Broker.receiver(connection, queue), Broker.numbers(200));
        }
    }

    private static void manySessions(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            List<Session> sessions = new ArrayList<>();
            for (String body : Broker.numbers(20)) {
                Session session = connection.openSession();
                Sender sender = session.openSender(queue);
                sender.send(Message.create(body)).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
                sessions.add(session);
            }
            for (String body : Broker.numbers(20)) {
                Session session = sessions.remove(sessions.size() - 1);
                Receiver receiver = session.openReceiver(queue, Broker.explicit().creditWindow(0));
                receiver.addCredit(1);
                Broker.take(Broker.opened(receiver), body);
                session.close();
            }
        }
    }

    /** The broker must send something every three seconds: the client ends a connection that is silent for six. */
    private static void heartbeat(String queue) throws Exception {
        CountDownLatch lost = new CountDownLatch(1);
        ConnectionOptions options = Broker.options().idleTimeout(6_000);
        options.disconnectedHandler((connection, event) -> lost.countDown());
        try (Connection connection = Broker.connect(options)) {
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.demand(!lost.await(10, TimeUnit.SECONDS), "the connection is lost");
            Broker.send(connection, queue, "alive");
            Broker.take(receiver, "alive");
        }
    }

    private Links() {}
}
