import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TransactionRolledBackException;
import java.util.List;
import java.util.Map;

/** Transacted sessions. */
final class Transactions {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("transaction-commit", Transactions::commit);
        cases.put("transaction-rollback", Transactions::rollback);
        cases.put("transaction-several", Transactions::several);
        cases.put("transaction-of-a-thousand", Transactions::thousand);
        cases.put("transaction-connection-loss", Transactions::connectionLoss);
        cases.put("transaction-listener", Transactions::listener);
    }

    interface Body {
        void play(Session session, MessageProducer producer, MessageConsumer consumer) throws Exception;
    }

    private static void transacted(String queue, Body body) throws Exception {
        try (Connection connection = Client.connect()) {
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Queue there = session.createQueue(queue);
            body.play(session, session.createProducer(there), session.createConsumer(there));
        }
    }

    private static void commit(String queue) throws Exception {
        Client.sendTo(queue, "work");
        transacted(queue, (session, producer, consumer) -> {
            Client.expect(consumer, "work");
            producer.send(session.createTextMessage("one"));
            producer.send(session.createTextMessage("two"));
            Client.same(Receiving.browsed(queue), List.of("work"), "before the commit");
            session.commit();
            Client.expect(consumer, "one", "two");
            session.commit();
        });
        Client.same(Receiving.browsed(queue), List.of(), "after the commits");
    }

    private static void thousand(String queue) throws Exception {
        String[] bodies = Client.numbers(1_000).toArray(new String[0]);
        transacted(queue, (session, producer, consumer) -> {
            for (String body : bodies) {
                producer.send(session.createTextMessage(body));
            }
            session.commit();
            Client.expect(consumer, bodies);
            session.commit();
            Client.empty(consumer);
        });
    }

    private static void rollback(String queue) throws Exception {
        Client.sendTo(queue, "work");
        transacted(queue, (session, producer, consumer) -> {
            for (int deliveries = 1; deliveries <= 3; deliveries++) {
                Message message = Client.next(consumer);
                Client.same(Client.text(message), "work", "body");
                Client.same(Client.deliveries(message), deliveries, "deliveries");
                producer.send(session.createTextMessage("never"));
                session.rollback();
            }
            Client.expect(consumer, "work");
            session.commit();
            Client.empty(consumer);
        });
        Client.same(Receiving.browsed(queue), List.of(), "left");
    }

    private static void several(String queue) throws Exception {
        try (Connection connection = Client.connect()) {
            Session plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session one = connection.createSession(true, Session.SESSION_TRANSACTED);
            Session two = connection.createSession(true, Session.SESSION_TRANSACTED);
            Client.send(one, one.createQueue(queue), "one, kept");
            Client.send(two, two.createQueue(queue), "two, dropped");
            Client.send(plain, plain.createQueue(queue), "outside");
            two.rollback();
            one.commit();
            Client.send(one, one.createQueue(queue), "one, dropped");
            Client.send(two, two.createQueue(queue), "two, kept");
            two.commit();
            one.rollback();
        }
        Client.same(Receiving.browsed(queue), List.of("outside", "one, kept", "two, kept"), "kept");
    }

    /** A connection that ends rolls back; under `failover:` the next commit says so. */
    private static void connectionLoss(String queue) throws Exception {
        Client.sendTo(queue, "work");
        String address = "failover:(" + Client.address("") + ")?failover.maxReconnectAttempts=100";
        try (Connection connection = Client.factory(address).createConnection()) {
            connection.setClientID("loses-" + queue);
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Queue there = session.createQueue(queue);
            MessageConsumer consumer = session.createConsumer(there);
            MessageProducer producer = session.createProducer(there);
            Client.expect(consumer, "work");
            producer.send(session.createTextMessage("never"));
            Failures.cut("loses-" + queue);
            Client.refused(TransactionRolledBackException.class, session::commit);
            Client.expect(consumer, "work");
            session.commit();
            Client.empty(consumer);
        }
        Client.same(Receiving.browsed(queue), List.of(), "left");
    }

    /** A listener whose session is rolled back at each third message: every message is processed once. */
    private static void listener(String queue) throws Exception {
        String[] bodies = Client.numbers(30).toArray(new String[0]);
        Client.sendTo(queue, bodies);
        String results = queue + "-results";
        transacted(queue, (session, producer, consumer) -> {
            MessageProducer answers = session.createProducer(session.createQueue(results));
            int calls = 0;
            int committed = 0;
            while (committed < bodies.length) {
                String body = Client.text(Client.next(consumer));
                answers.send(session.createTextMessage("done " + body));
                calls++;
                if (calls % 3 == 0) {
                    session.rollback();
                } else {
                    session.commit();
                    committed++;
                }
            }
        });
        Client.same(Receiving.browsed(results).stream().distinct().count(), (long) bodies.length, "different results");
        Client.same(Receiving.browsed(results).size(), bodies.length, "results");
        Client.same(Receiving.browsed(queue), List.of(), "left");
    }

    private Transactions() {}
}
