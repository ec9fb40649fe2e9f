import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.types.UnsignedLong;

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

    /** The descriptor of a selector, as the registry of filters has it. */
    private static final UnsignedLong SELECTOR = UnsignedLong.valueOf(0x0000468C_00000004L);

    private static ReceiverOptions selecting(ReceiverOptions options, String selector) {
        options.sourceOptions().addFilter("apache.org:selector-filter:string", SELECTOR, selector);
        return options;
    }

    private static void volatileOnes(String topic) throws Exception {
        try (Connection connection = Broker.connect()) {
            Broker.send(connection, topic, "early");
            Receiver one = Broker.receiver(connection, topic);
            Receiver two = Broker.receiver(connection, topic);
            Broker.send(connection, topic, "a", "b");
            Broker.take(one, "a", "b");
            Broker.take(two, "a", "b");
            one.close();
            Broker.send(connection, topic, "late");
            Broker.take(two, "late");
            Broker.empty(Broker.receiver(connection, topic));
        }
    }

    private static void durable(String topic) throws Exception {
        String first = "first-" + topic;
        try (Connection connection = Broker.connectAs(first)) {
            Receiver news = subscribed(connection, topic);
            Broker.send(connection, topic, "here");
            Broker.take(news, "here");
            news.detach();
            Broker.send(connection, topic, "detached");
        }
        try (Connection other = Broker.connectAs("second-" + topic)) {
            Receiver apart = subscribed(other, topic);
            Broker.send(other, topic, "connection closed");
            Broker.take(apart, "connection closed");
            apart.close();
        }
        try (Connection connection = Broker.connectAs(first)) {
            Receiver news = subscribed(connection, topic);
            Broker.take(news, "detached", "connection closed");
            news.close();
            Broker.send(connection, topic, "too late");
            Broker.empty(subscribed(connection, topic));
        }
    }

    private static Receiver subscribed(Connection connection, String topic) throws Exception {
        return Broker.opened(connection.openDurableReceiver(topic, "news", Broker.explicit()));
    }

    private static void selector(String topic) throws Exception {
        try (Connection connection = Broker.connect()) {
            ReceiverOptions choosing = selecting(Broker.explicit(), "colour = 'red' OR n > 10");
            Receiver red = Broker.receiver(connection, topic, choosing);
            Receiver all = Broker.receiver(connection, topic);
            ReceiverOptions wrong = selecting(Broker.explicit(), "colour =");
            Broker.refused("amqp:", () -> Broker.receiver(connection, topic, wrong));
            coloured(connection, topic, "red", "blue", "green");
            Broker.take(red, "red");
            Broker.empty(red);
            Broker.take(all, "red", "blue", "green");
        }
    }

    private static void coloured(Connection connection, String address, String... colours) throws Exception {
        Sender sender = Broker.sender(connection, address);
        for (String colour : colours) {
            Message<String> message = Message.create(colour);
            message.property("colour", colour).property("n", colour.length() * 2);
            sender.send(message).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
        }
        sender.close();
    }

    /** Two receivers of one name, whose source says that they share. */
    private static void shared(String topic) throws Exception {
        String client = "shares-" + topic;
        try (Connection one = Broker.connectAs(client); Connection two = Broker.connectAs(client)) {
            Receiver left = sharing(one, topic);
            Receiver right = sharing(two, topic);
            left.addCredit(2);
            right.addCredit(2);
            Broker.flush(one, topic);
            Broker.flush(two, topic);
            Broker.sendTo(topic, "a", "b", "c", "d");
            for (Receiver receiver : List.of(left, right)) {
                Broker.next(receiver).accept();
                Broker.next(receiver).accept();
            }
            left.addCredit(1);
            Broker.empty(left);
        }
    }

    private static Receiver sharing(Connection connection, String topic) throws Exception {
        ReceiverOptions options = Broker.explicit().creditWindow(0);
        options.sourceOptions().capabilities("shared");
        return Broker.opened(connection.openDurableReceiver(topic, "news", options));
    }

    private static void release(String topic) throws Exception {
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, topic, Broker.explicit().creditWindow(0));
            Broker.send(connection, topic, "again");
            receiver.addCredit(1);
            Broker.next(receiver).release();
            receiver.addCredit(1);
            Delivery again = Broker.next(receiver);
            Broker.same(Broker.text(again), "again", "body");
            Broker.same(again.message().deliveryCount(), 0L, "delivery count");
            again.accept();
            receiver.addCredit(1);
            Broker.empty(receiver);
        }
    }

    private static void byName(String topic) throws Exception {
        Broker.sendTo(topic, "both");
        try (Connection connection = Broker.connect()) {
            for (String name : List.of("a", "b")) {
                Receiver receiver = Broker.receiver(connection, topic + "/Subscriptions/" + name);
                Broker.take(receiver, "both");
                Broker.empty(receiver);
            }
        }
    }

    private static void queueSelector(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            coloured(connection, queue, "red", "blue", "green", "red", "black");
            ReceiverOptions browsing = selecting(Broker.browsing(), "n BETWEEN 8 AND 9");
            Broker.same(Broker.browsed(connection, queue, browsing), List.of("blue"), "browsed");
            Receiver red = Broker.receiver(connection, queue, selecting(Broker.explicit(), "colour = 'red'"));
            Broker.take(red, "red", "red");
            Broker.empty(red);
            red.close();
            ReceiverOptions wrong = selecting(Broker.explicit(), "colour =");
            Broker.refused("amqp:", () -> Broker.receiver(connection, queue, wrong));
            Broker.take(Broker.receiver(connection, queue), "blue", "green", "black");
        }
    }

    private Topics() {}
}
