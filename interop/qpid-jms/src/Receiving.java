import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Messages of queues, and every way to settle them. */
final class Receiving {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("peek-lock-complete", Receiving::complete);
        cases.put("peek-lock-abandon", queue -> comesAgain(queue, Client.MODIFIED_FAILED, 2));
        cases.put("peek-lock-release", queue -> comesAgain(queue, Client.RELEASED, 1));
        cases.put("peek-lock-dead-letter", queue -> deadLettered(queue, Client.REJECTED, null));
        cases.put("undeliverable-here", queue -> deadLettered(queue, Client.MODIFIED_UNDELIVERABLE, "UndeliverableHere"));
        cases.put("acknowledgement-modes", Receiving::modes);
        cases.put("receive-and-delete", Receiving::receiveAndDelete);
        cases.put("delivery-count-to-dead-letter", Receiving::countToDeadLetter);
        cases.put("peek", Receiving::browse);
        cases.put("two-competing-receivers", Receiving::competing);
        cases.put("receive-time-out-on-empty-queue", Receiving::timeOut);
        cases.put("queue-selector", Receiving::selector);
    }

    interface Body {
        void play(Session session, Queue queue) throws Exception;
    }

    /** With a session whose acknowledgement comes by call, and messages that are in the queue. */
    static void with(String queue, String[] messages, Body body) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            Client.send(session, there, messages);
            body.play(session, there);
        }
    }

    private static void complete(String queue) throws Exception {
        with(queue, new String[] {"one", "two"}, (session, there) -> {
            MessageConsumer consumer = session.createConsumer(there);
            for (String body : List.of("one", "two")) {
                Message message = Client.next(consumer);
                Client.same(Client.text(message), body, "body");
                Client.same(Client.deliveries(message), 1, "deliveries");
                message.acknowledge();
            }
            Client.empty(consumer);
        });
        Client.same(browsed(queue), List.of(), "left");
    }

    /** Without prefetch: else the next message is in the client's buffer when the first one comes again. */
    private static void comesAgain(String queue, int outcome, int deliveries) throws Exception {
        Client.sendTo(queue, "one", "two");
        try (Connection connection = Client.connect("jms.prefetchPolicy.all=0")) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            Message first = Client.next(consumer);
            Client.settle(first, outcome);
            Message again = Client.next(consumer);
            Client.same(Client.text(again), "one", "it keeps its place");
            Client.same(Client.deliveries(again), deliveries, "deliveries");
            Client.same(again.getJMSRedelivered(), deliveries > 1, "redelivered");
            again.acknowledge();
            Message second = Client.next(consumer);
            Client.same(Client.text(second), "two", "the next one");
            second.acknowledge();
            Client.empty(consumer);
        }
    }

    private static void deadLettered(String queue, int outcome, String reason) throws Exception {
        with(queue, new String[] {"bad", "good"}, (session, there) -> {
            MessageConsumer consumer = session.createConsumer(there);
            Client.settle(Client.next(consumer), outcome);
            Message good = Client.next(consumer);
            Client.same(Client.text(good), "good", "body");
            good.acknowledge();
            Client.empty(consumer);
            MessageConsumer dead = session.createConsumer(session.createQueue(Client.deadLetters(queue)));
            Message message = Client.next(dead);
            Client.same(Client.text(message), "bad", "dead letter");
            Client.same(message.getStringProperty("DeadLetterReason"), reason, "reason");
            message.acknowledge();
            Client.empty(dead);
        });
    }

    private static void modes(String queue) throws Exception {
        int individual = 101;
        for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE, individual}) {
            Client.sendTo(queue, "a", "b", "c");
            try (Connection connection = Client.connect()) {
                Session session = connection.createSession(false, mode);
                MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
                for (String body : List.of("a", "b", "c")) {
                    Message message = Client.next(consumer);
                    Client.same(Client.text(message), body, "body");
                    if (mode == individual && !"b".equals(body)) {
                        message.acknowledge();
                    }
                }
            }
            Client.same(browsed(queue), mode == individual ? List.of("b") : List.of(), "left in mode " + mode);
        }
        // One acknowledgement is for all that the session has given out, and for no other.
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            Client.send(session, there, "c", "d");
            MessageConsumer consumer = session.createConsumer(there);
            Client.expect(consumer, "b");
            Client.next(consumer).acknowledge();
        }
        Client.same(browsed(queue), List.of("d"), "left");
    }

    private static void receiveAndDelete(String queue) throws Exception {
        Client.sendTo(queue, "a", "b");
        try (Connection connection = Client.connect("jms.presettlePolicy.presettleConsumers=true")) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Client.expect(session.createConsumer(session.createQueue(queue)), "a", "b");
        }
        Client.same(browsed(queue), List.of(), "left");
    }

    private static void countToDeadLetter(String queue) throws Exception {
        with(queue, new String[] {"bad"}, (session, there) -> {
            MessageConsumer consumer = session.createConsumer(there);
            for (int count = 1; count <= 3; count++) {
                Message message = Client.next(consumer);
                Client.same(Client.deliveries(message), count, "deliveries");
                Client.settle(message, Client.MODIFIED_FAILED);
            }
            Message dead = Client.next(session.createConsumer(session.createQueue(Client.deadLetters(queue))));
            Client.same(dead.getStringProperty("DeadLetterReason"), "MaxDeliveryCountExceeded", "reason");
        });
    }

    /** The bodies that a browser of the queue sees. */
    static List<String> browsed(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            return bodies(session.createBrowser(session.createQueue(queue)));
        }
    }

    private static List<String> bodies(QueueBrowser browser) throws Exception {
        List<String> bodies = new ArrayList<>();
        for (Object message : Collections.list(browser.getEnumeration())) {
            bodies.add(Client.text((Message) message));
        }
        return bodies;
    }

    private static void browse(String queue) throws Exception {
        with(queue, new String[] {"a", "b", "c"}, (session, there) -> {
            Client.same(browsed(queue), List.of("a", "b", "c"), "browsed");
            Client.same(bodies(session.createBrowser(there)), List.of("a", "b", "c"), "browsed again");
            Client.same(bodies(session.createBrowser(there, "JMSType = 'none'")), List.of(), "chosen");
            MessageConsumer consumer = session.createConsumer(there);
            for (String body : List.of("a", "b", "c")) {
                Message message = Client.next(consumer);
                Client.same(Client.text(message), body, "body");
                Client.same(Client.deliveries(message), 1, "a look counts as no delivery");
                message.acknowledge();
            }
            Client.empty(consumer);
        });
    }

    private static void competing(String queue) throws Exception {
        try (Connection one = Client.connect("jms.prefetchPolicy.all=1");
             Connection two = Client.connect("jms.prefetchPolicy.all=1")) {
            List<MessageConsumer> consumers = new ArrayList<>();
            for (Connection connection : List.of(one, two)) {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                consumers.add(session.createConsumer(session.createQueue(queue)));
            }
            Client.sendTo(queue, Client.numbers(8).toArray(new String[0]));
            Set<String> bodies = new HashSet<>();
            for (MessageConsumer consumer : consumers) {
                Client.demand(bodies.add(Client.text(Client.next(consumer))), "each has its own");
            }
            // The next ones go to the consumer whose credit is there first.
            for (int turn = 0; bodies.size() < 8; turn++) {
                Client.demand(turn < 100, "only these came: " + bodies);
                Message message = consumers.get(turn % 2).receive(200);
                Client.demand(message == null || bodies.add(Client.text(message)), "it came twice: " + message);
            }
            Client.empty(consumers.get(0));
            Client.empty(consumers.get(1));
        }
    }

    /** Each receive that ends empty drains the link. */
    private static void timeOut(String queue) throws Exception {
        with(queue, new String[] {}, (session, there) -> {
            MessageConsumer consumer = session.createConsumer(there);
            Client.demand(consumer.receiveNoWait() == null, "empty at once");
            Client.empty(consumer);
            Client.send(session, there, "late");
            Client.expect(consumer, "late");
        });
    }

    private static void selector(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            var producer = session.createProducer(there);
            for (int number = 0; number < 6; number++) {
                Message message = session.createTextMessage(Integer.toString(number));
                message.setIntProperty("n", number);
                message.setStringProperty("colour", number % 2 == 0 ? "red" : "blue");
                message.setJMSType("order");
                producer.send(message);
            }
            QueueBrowser browser = session.createBrowser(there, "n BETWEEN 1 AND 3");
            Client.same(bodies(browser), List.of("1", "2", "3"), "browsed");
            MessageConsumer red = session.createConsumer(there, "colour = 'red' AND JMSType LIKE 'ord%' AND n > 0");
            Client.expect(red, "2", "4");
            Client.empty(red);
            red.close();
            Client.refused(Exception.class, () -> session.createConsumer(there, "colour ="));
            Client.expect(session.createConsumer(there), "0", "1", "3", "5");
        }
    }

    private Receiving() {}
}
