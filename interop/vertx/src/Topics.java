import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import io.vertx.amqp.AmqpReceiverOptions;
import io.vertx.amqp.AmqpSender;
import io.vertx.core.json.JsonObject;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Receivers from a topic, and selectors. */
final class Topics {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("topic-volatile", Topics::volatileOnes);
        cases.put("topic-durable", Topics::durable);
        cases.put("topic-selector", Topics::selector);
        cases.put("topic-shared", Topics::shared);
        cases.put("topic-release", Topics::release);
        cases.put("subscription-by-name", Topics::byName);
        cases.put("queue-selector", Topics::queueSelector);
    }

    private static void volatileOnes(String topic) throws Exception {
        AmqpConnection connection = Broker.connect();
        Broker.send(connection, topic, "early");
        Inbox one = Broker.receiver(connection, topic);
        Inbox two = Broker.receiver(connection, topic);
        Broker.send(connection, topic, "a", "b");
        one.take("a", "b");
        two.take("a", "b");
        one.close();
        Broker.send(connection, topic, "late");
        two.take("late");
        Broker.receiver(connection, topic).empty();
        Broker.done(connection.close());
    }

    private static AmqpReceiverOptions news() {
        return Broker.explicit().setDurable(true).setLinkName("news");
    }

    /** The client detaches a durable receiver where others are closed. */
    private static void durable(String topic) throws Exception {
        String first = "first-" + topic;
        AmqpConnection connection = Broker.connectAs(first);
        Inbox inbox = Broker.receiver(connection, topic, news());
        Broker.send(connection, topic, "here");
        inbox.take("here");
        inbox.close();
        Broker.send(connection, topic, "receiver closed");
        Broker.done(connection.close());
        AmqpConnection other = Broker.connectAs("second-" + topic);
        Inbox apart = Broker.receiver(other, topic, news());
        Broker.send(other, topic, "connection closed");
        apart.take("connection closed");
        Broker.done(other.close());
        AmqpConnection later = Broker.connectAs(first);
        Inbox again = Broker.receiver(later, topic, news());
        again.take("receiver closed", "connection closed");
        again.empty();
        Broker.done(later.close());
    }

    private static void selector(String topic) throws Exception {
        AmqpConnection connection = Broker.connect();
        Inbox red = Broker.receiver(connection, topic, Broker.explicit().setSelector("colour = 'red' OR n > 10"));
        Inbox all = Broker.receiver(connection, topic);
        AmqpReceiverOptions wrong = Broker.explicit().setSelector("colour =");
        Broker.refused("amqp:", () -> Broker.receiver(connection, topic, wrong));
        coloured(connection, topic, "red", "blue", "green");
        red.take("red");
        red.empty();
        all.take("red", "blue", "green");
        Broker.done(connection.close());
    }

    private static void coloured(AmqpConnection connection, String address, String... colours) throws Exception {
        AmqpSender sender = Broker.done(connection.createSender(address));
        for (String colour : colours) {
            JsonObject properties = new JsonObject().put("colour", colour).put("n", colour.length() * 2);
            Broker.done(sender.sendWithAck(
                AmqpMessage.create().withBody(colour).applicationProperties(properties).build()));
        }
        Broker.done(sender.close());
    }

    private static void shared(String topic) throws Exception {
        AmqpConnection one = Broker.connectAs("shares-" + topic);
        AmqpConnection two = Broker.connectAs("shares-" + topic);
        AmqpReceiverOptions options = news().setMaxBufferedMessages(1).addCapability("shared");
        List<Inbox> inboxes = List.of(Broker.receiver(one, topic, options), Broker.receiver(two, topic, options));
        Broker.flush(one, topic);
        Broker.flush(two, topic);
        Broker.sendTo(topic, "a", "b");
        Set<String> bodies = new HashSet<>();
        for (Inbox inbox : inboxes) {
            bodies.add(inbox.next().accepted().bodyAsString());
        }
        Broker.same(bodies, Set.of("a", "b"), "each message to one of them");
        for (Inbox inbox : inboxes) {
            inbox.empty();
        }
        Broker.done(one.close());
        Broker.done(two.close());
    }

    private static void release(String topic) throws Exception {
        AmqpConnection connection = Broker.connect();
        Inbox inbox = Broker.receiver(connection, topic);
        Broker.send(connection, topic, "again");
        inbox.next().released();
        AmqpMessage again = inbox.next();
        Broker.same(again.bodyAsString(), "again", "body");
        Broker.same(again.deliveryCount(), 0, "delivery count");
        again.accepted();
        inbox.empty();
        Broker.done(connection.close());
    }

    private static void byName(String topic) throws Exception {
        Broker.sendTo(topic, "both");
        AmqpConnection connection = Broker.connect();
        for (String name : List.of("a", "b")) {
            Inbox inbox = Broker.receiver(connection, topic + "/Subscriptions/" + name);
            inbox.take("both");
            inbox.empty();
        }
        Broker.done(connection.close());
    }

    private static void queueSelector(String queue) throws Exception {
        AmqpConnection connection = Broker.connect();
        coloured(connection, queue, "red", "blue", "green", "red", "black");
        Inbox red = Broker.receiver(connection, queue, Broker.explicit().setSelector("colour = 'red' AND n < 8"));
        red.take("red", "red");
        red.empty();
        red.close();
        AmqpReceiverOptions wrong = Broker.explicit().setSelector("colour =");
        Broker.refused("amqp:", () -> Broker.receiver(connection, queue, wrong));
        Broker.receiver(connection, queue).take("blue", "green", "black");
        Broker.done(connection.close());
    }

    private Topics() {}
}
