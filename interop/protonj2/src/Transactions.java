import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.Session;

/** Transactions of a session, one after the other. */
final class Transactions {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("transaction-commit", Transactions::commit);
        cases.put("transaction-rollback", Transactions::rollback);
        cases.put("transaction-several", Transactions::several);
        cases.put("transaction-across-entities", Transactions::acrossEntities);
        cases.put("transaction-refused-operation", Transactions::refusedOperation);
        cases.put("transaction-connection-loss", Transactions::connectionLoss);
    }

    interface Body {
        void play(Session session, Sender sender, Receiver receiver) throws Exception;
    }

    private static void transacted(String queue, Body body) throws Exception {
        try (Connection connection = Broker.connect()) {
            Session session = connection.openSession();
            Receiver receiver = Broker.opened(session.openReceiver(queue, Broker.explicit()));
            body.play(session, session.openSender(queue), receiver);
        }
    }

    private static void send(Sender sender, String... bodies) throws Exception {
        for (String body : bodies) {
            sender.send(Message.create(body)).awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
        }
    }

    private static void commit(String queue) throws Exception {
        Broker.sendTo(queue, "work");
        transacted(queue, (session, sender, receiver) -> {
            session.beginTransaction();
            Broker.take(receiver, "work");
            send(sender, "one", "two");
            Broker.same(Broker.browsed(queue), List.of("work"), "before the commit");
            session.commitTransaction();
            session.beginTransaction();
            Broker.take(receiver, "one", "two");
            session.commitTransaction();
        });
        Broker.same(Broker.browsed(queue), List.of(), "after the commits");
    }

    private static void rollback(String queue) throws Exception {
        Broker.sendTo(queue, "work");
        transacted(queue, (session, sender, receiver) -> {
            for (long count = 0; count < 3; count++) {
                session.beginTransaction();
                Delivery delivery = Broker.next(receiver);
                Broker.same(Broker.text(delivery), "work", "body");
                // The client settles in advance, so each return counts as a failed delivery.
                Broker.same(delivery.message().deliveryCount(), count, "delivery count");
                delivery.accept();
                send(sender, "never");
                session.rollbackTransaction();
            }
            session.beginTransaction();
            Broker.take(receiver, "work");
            session.commitTransaction();
            Broker.empty(receiver);
        });
        Broker.same(Broker.browsed(queue), List.of(), "left");
    }

    private static void several(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Session one = connection.openSession().beginTransaction();
            Session two = connection.openSession().beginTransaction();
            Sender ofOne = one.openSender(queue);
            Sender ofTwo = two.openSender(queue);
            send(ofOne, "one, kept");
            send(ofTwo, "two, dropped");
            Broker.send(connection, queue, "outside");
            two.rollbackTransaction();
            one.commitTransaction();
            one.beginTransaction();
            two.beginTransaction();
            send(ofOne, "one, dropped");
            send(ofTwo, "two, kept");
            two.commitTransaction();
            one.rollbackTransaction();
        }
        Broker.same(Broker.browsed(queue), List.of("outside", "one, kept", "two, kept"), "kept");
    }

    private static void acrossEntities(String queue) throws Exception {
        Broker.sendTo(queue, "work");
        String target = queue + "-target";
        transacted(queue, (session, sender, receiver) -> {
            Sender onward = session.openSender(target);
            for (boolean commits : new boolean[] {false, true}) {
                session.beginTransaction();
                Broker.take(receiver, "work");
                send(onward, "done");
                if (commits) {
                    session.commitTransaction();
                } else {
                    session.rollbackTransaction();
                }
                Broker.same(Broker.browsed(queue), commits ? List.of() : List.of("work"), "left");
                Broker.same(Broker.browsed(target), commits ? List.of("done") : List.of(), "passed on");
            }
        });
    }

    private static void refusedOperation(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            Session session = connection.openSession().beginTransaction();
            send(session.openSender(queue), "never");
            var lost = session.openAnonymousSender().send(Message.create("lost").to("no-such-queue"));
            lost.awaitSettlement(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            Broker.refused("ClientTransactionRolledBack", session::commitTransaction);
        }
        Broker.same(Broker.browsed(queue), List.of(), "stored");
    }

    private static void connectionLoss(String queue) throws Exception {
        Broker.sendTo(queue, "work");
        Connection lost = Broker.connectAs("loses-" + queue);
        Session session = lost.openSession().beginTransaction();
        Broker.take(Broker.opened(session.openReceiver(queue, Broker.explicit())), "work");
        send(session.openSender(queue), "never");
        Failures.cut("loses-" + queue);
        Broker.refused("amqp:connection:forced", session::commitTransaction);
        try (Connection connection = Broker.connect()) {
            Receiver receiver = Broker.receiver(connection, queue);
            Broker.take(receiver, "work");
            Broker.empty(receiver);
        }
    }

    private Transactions() {}
}
