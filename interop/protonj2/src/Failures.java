import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.exceptions.ClientException;

/** Connections that are lost, and a broker that ends. */
final class Failures {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("restart-before", Failures::restartBefore);
        cases.put("restart-between", queue -> Broker.sendTo(queue, "second"));
        cases.put("restart-after", Failures::restartAfter);
        cases.put("connection-loss", Failures::connectionLoss);
        cases.put("reconnect", Failures::reconnect);
    }

    /** Has the broker end the connection of the client with this id, as an operator does. */
    static void cut(String client) throws Exception {
        String all = Broker.ask("GET", "/$ferrybus/connections", "");
        Pattern one = Pattern.compile("\\{[^{}]*\"container_id\":\"" + Pattern.quote(client) + "\"[^{}]*\\}");
        Matcher found = one.matcher(all);
        Broker.demand(found.find(), "no connection of " + client + " in " + all);
        Matcher id = Pattern.compile("\"id\":(\\d+),").matcher(found.group());
        Broker.demand(id.find(), found.group());
        Broker.ask("DELETE", "/$ferrybus/connections/" + id.group(1), "");
        // Until it is gone, a commit on its way would still be done, and its answer lost.
        while (Broker.ask("GET", "/$ferrybus/connections", "").contains(id.group())) {
            Thread.onSpinWait();
        }
    }

    /** A message is stored, and held by a client, when the broker dies. */
    private static void restartBefore(String queue) throws Exception {
        Broker.sendTo(queue, "first");
        Delivery held = Broker.next(Broker.receiver(Broker.connect(), queue));
        Broker.same(Broker.text(held), "first", "body");
        // The process ends without a word to the broker.
        Runtime.getRuntime().halt(0);
    }

    private static void restartAfter(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.take(receiver, "first", "second");
            Broker.empty(receiver);
        }
    }

    /** A receiver asks by default that a message which it leaves open counts as one that failed. */
    private static void connectionLoss(String queue) throws Exception {
        ReceiverOptions releasing = Broker.explicit();
        releasing.sourceOptions().defaultOutcome(DeliveryState.released());
        lostWith(queue, releasing, 0);
        lostWith(queue, Broker.explicit(), 1);
    }

    private static void lostWith(String queue, ReceiverOptions options, long count) throws Exception {
        Broker.sendTo(queue, "mine");
        String client = "lost-" + count + "-" + queue;
        Connection lost = Broker.connectAs(client);
        Delivery held = Broker.next(Broker.receiver(lost, queue, options));
        Broker.same(Broker.text(held), "mine", "body");
        cut(client);
        try (Connection connection = Broker.connect()) {
            Delivery again = Broker.next(Broker.receiver(connection, queue));
            Broker.same(again.message().deliveryCount(), count, "delivery count");
            again.accept();
        }
        Broker.refused("amqp:connection:forced", () -> Broker.sender(lost, queue));
    }

    /**
     * Sends and receives with the client's own reconnection while `suite.py` kills and restarts the broker, which it does
     * when it reads that so many are sent. A send that the broker has not answered when the connection is lost fails, and
     * is done again. A message whose send was answered must come; some may come twice, none may be missing.
     */
    private static void reconnect(String queue) throws Exception {
        ConnectionOptions options = Broker.options().reconnectEnabled(true);
        options.reconnectOptions().reconnectDelay(20).useReconnectBackOff(false).maxReconnectAttempts(500);
        List<String> bodies = Arrays.asList(Broker.numbers(900));
        Set<String> received = new HashSet<>();
        try (LastingLink<Receiver> receiving = new LastingLink<>(options, own -> Broker.receiver(own, queue));
                LastingLink<Sender> sending = new LastingLink<>(options, own -> Broker.sender(own, queue))) {
            Thread listener = new Thread(() -> listen(receiving, received));
            listener.setDaemon(true);
            listener.start();
            for (int number = 0; number < bodies.size(); number++) {
                sendUntilAnswered(sending, bodies.get(number));
                if (number % 300 == 150) {
                    Broker.say("sent " + number);
                }
            }
            // The last restart is over.
            System.in.read();
            long until = System.currentTimeMillis() + Broker.WAIT_MS;
            synchronized (received) {
                while (received.size() < bodies.size() && System.currentTimeMillis() < until) {
                    received.wait(100);
                }
                Set<String> missing = new HashSet<>(bodies);
                missing.removeAll(received);
                Broker.demand(missing.isEmpty(), "sent and lost: " + missing);
            }
            // The listener takes those that come twice, too, and the client settles on a thread of its own.
            while (!Broker.browsed(queue).isEmpty() && System.currentTimeMillis() < until + Broker.WAIT_MS) {
                Thread.onSpinWait();
            }
        }
        Broker.same(Broker.browsed(queue), List.of(), "left");
        Broker.same(Broker.browsed(Broker.deadLetters(queue)), List.of(), "dead letters");
    }

    private static void sendUntilAnswered(LastingLink<Sender> sending, String body) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                if (sending.play(sender -> sender.send(Message.create(body)).awaitAccepted())) {
                    return;
                }
            } catch (ClientException error) {
                Broker.demand(tries < 10, "the send of " + body + " fails again and again: " + error);
            }
        }
    }

    /** Accepts all that comes, until the link is closed. */
    private static void listen(LastingLink<Receiver> receiving, Set<String> received) {
        while (!receiving.isClosed()) {
            try {
                receiving.play(receiver -> {
                    Delivery delivery = receiver.receive();
                    String body = Broker.text(delivery);
                    // First, for the connections are closed when all have come.
                    delivery.accept();
                    synchronized (received) {
                        received.add(body);
                        received.notifyAll();
                    }
                });
            } catch (Exception error) {
                // The connection is lost: the client opens it again.
            }
        }
    }

    private Failures() {}
}
