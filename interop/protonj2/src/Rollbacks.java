import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Session;

/** What a message may go through when its transactions are rolled back again and again: it is neither lost nor endless. */
final class Rollbacks {
    private static final int ROLLBACKS = 50;
    private static final int DELIVERIES_MAX = 3;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("fifty-rollbacks", Rollbacks::stillHeld);
        cases.put("rollbacks-to-dead-letter", Rollbacks::givenUp);
    }

    /** A receiver that has not settled keeps its deliveries, and settles them then. */
    private static void stillHeld(String queue) throws Exception {
        Broker.sendTo(queue, "settled outside", "settled by a commit");
        try (Connection connection = Broker.connect(); Connection another = Broker.connect()) {
            Session session = connection.openSession();
            Receiver receiver = Broker.opened(session.openReceiver(queue, Broker.explicit()));
            Delivery outside = Broker.next(receiver);
            Delivery byCommit = Broker.next(receiver);
            Broker.same(Broker.text(outside), "settled outside", "the first");
            for (int round = 0; round < ROLLBACKS; round++) {
                session.beginTransaction();
                outside.disposition(DeliveryState.accepted(), false);
                byCommit.disposition(DeliveryState.accepted(), false);
                session.rollbackTransaction();
                Broker.demand(!outside.remoteSettled() && !byCommit.remoteSettled(), "settled at a rollback");
            }
            Broker.empty(Broker.receiver(another, queue));
            Broker.empty(Broker.receiver(another, Broker.deadLetters(queue)));
            outside.disposition(DeliveryState.accepted(), true);
            session.beginTransaction();
            byCommit.disposition(DeliveryState.accepted(), false);
            session.commitTransaction();
            receiver.close();
        }
        try (Connection connection = Broker.connect()) {
            Broker.empty(Broker.receiver(connection, queue));
        }
    }

    /** A receiver that settles in advance gives the message up at each rollback, which counts as a failed delivery. */
    private static void givenUp(String queue) throws Exception {
        Broker.sendTo(queue, "work");
        try (Connection connection = Broker.connect()) {
            Session session = connection.openSession();
            Receiver receiver = Broker.opened(session.openReceiver(queue, Broker.explicit()));
            long deliveries = 0;
            for (int round = 0; round < ROLLBACKS; round++) {
                Delivery delivery = receiver.receive(Broker.QUIET_MS, TimeUnit.MILLISECONDS);
                if (delivery == null) {
                    break;
                }
                Broker.same(delivery.message().deliveryCount(), deliveries, "delivery count");
                deliveries++;
                session.beginTransaction();
                delivery.accept();
                session.rollbackTransaction();
            }
            Broker.same(deliveries, (long) DELIVERIES_MAX, "deliveries before it is a dead letter");
            Receiving.takeDeadLetter(connection, queue, "work", "MaxDeliveryCountExceeded");
        }
    }

    private Rollbacks() {}
}
