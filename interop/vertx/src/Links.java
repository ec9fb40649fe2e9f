import io.vertx.amqp.AmqpClientOptions;
import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpSender;
import io.vertx.amqp.AmqpSenderOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Connections and links that are refused, come back, and are many. */
final class Links {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("wrong-key", queue -> Broker.refused(
            "Failed to authenticate", () -> Broker.connect(Broker.options("localhost", "WRONG_KEY"))));
        cases.put("anonymous-log-in", Links::anonymous);
        cases.put("namespaces", Links::namespaces);
        cases.put("missing-queue", Links::missing);
        cases.put("link-close-and-reopen", Links::reopen);
        cases.put("many-links", Links::manyLinks);
        cases.put("heartbeat", Links::heartbeat);
    }

    private static void anonymous(String queue) throws Exception {
        AmqpConnection connection = Broker.connect(Broker.options().setUsername(null).setPassword(null));
        Broker.send(connection, queue, "nobody's");
        Broker.receiver(connection, queue).take("nobody's");
        Broker.done(connection.close());
    }

    /** Three namespaces of one broker, by an address each and by the client's option for a virtual host. */
    private static void namespaces(String queue) throws Exception {
        List<String[]> teams = System.getenv("FERRYBUS_NAMESPACES").lines().map(line -> line.split(" ")).toList();
        Broker.same(teams.size(), 3, "namespaces");
        for (boolean byVirtualHost : new boolean[] {false, true}) {
            List<AmqpConnection> connections = new ArrayList<>();
            for (String[] team : teams) {
                AmqpConnection connection = entered(team, team[2], byVirtualHost);
                Broker.send(connection, queue, "for " + team[0]);
                connections.add(connection);
            }
            for (int index = 0; index < teams.size(); index++) {
                Inbox inbox = Broker.receiver(connections.get(index), queue);
                inbox.take("for " + teams.get(index)[0]);
                inbox.empty();
                Broker.done(connections.get(index).close());
                String others = teams.get((index + 1) % teams.size())[2];
                String[] team = teams.get(index);
                Broker.refused("", () -> entered(team, others, byVirtualHost));
            }
        }
    }

    private static AmqpConnection entered(String[] team, String key, boolean byVirtualHost) throws Exception {
        AmqpClientOptions options = Broker.options(byVirtualHost ? "localhost" : team[1], key);
        if (byVirtualHost) {
            options.setConnectionHostname("vhost:" + team[0]);
        }
        return Broker.connect(options);
    }

    private static void missing(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        Broker.refused("amqp:not-found", () -> Broker.done(connection.createSender("no-such-queue")));
        Broker.refused("amqp:not-found", () -> Broker.done(connection.createReceiver("no-such-queue")));
        Broker.send(connection, queue, "the connection goes on");
        Broker.done(connection.close());
    }

    private static void reopen(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        for (String round : Broker.numbers(20)) {
            AmqpSender sender = Broker.done(
                connection.createSender(queue, new AmqpSenderOptions().setLinkName("again")));
            Broker.done(sender.sendWithAck(Broker.texted(round)));
            Broker.done(sender.close());
            Inbox inbox = Broker.receiver(connection, queue, Broker.explicit().setLinkName("back"));
            inbox.take(round);
            inbox.close();
        }
        Broker.done(connection.close());
    }

    private static void manyLinks(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        List<AmqpSender> senders = new ArrayList<>();
        for (int count = 0; count < 200; count++) {
            senders.add(Broker.done(connection.createSender(queue)));
        }
        for (int count = 0; count < 200; count++) {
            Broker.done(senders.get(count).sendWithAck(Broker.texted(Integer.toString(count))));
        }
        Broker.receiver(connection, queue).take(Broker.numbers(200));
        Broker.done(connection.close());
    }

    /** The broker must send something every three seconds: the client ends a connection that is silent for six. */
    private static void heartbeat(String queue) throws Exception {
        AmqpConnection connection = Broker.connect(Broker.options().setHeartbeat(3_000));
        CountDownLatch lost = new CountDownLatch(1);
        connection.exceptionHandler(error -> lost.countDown());
        Inbox inbox = Broker.receiver(connection, queue);
        Broker.demand(!lost.await(10, TimeUnit.SECONDS), "the connection is lost");
        Broker.demand(!connection.isDisconnected(), "the connection is lost");
        Broker.send(connection, queue, "alive");
        inbox.take("alive");
        Broker.done(connection.close());
    }

    private Links() {}
}
