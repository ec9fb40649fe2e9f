import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Session;

/** A message whose transactions are rolled back again and again is not delivered for ever. */
final class Rollbacks {
    private static final int ROLLBACKS = 50;
    private static final int DELIVERIES_MAX = 3;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("rollbacks-to-dead-letter", Rollbacks::givenUp);
    }

    /** A receiver that settles in advance gives the message up at each rollback, which counts as a failed delivery. */
    private static void givenUp(String queue) throws Exception {
        Broker.sendTo(queue, "work");
        try (Connection connection = Broker.connect()) {
            Session session = connection.openSession();
            Receiver receiver = Broker.opened(session.openReceiver(queue, Broker.explicit()));
            long deliveries = 0;
            for (int round = 0; round < ROLLBACKS; round++) {
                long wait = deliveries < DELIVERIES_MAX ? Broker.WAIT_MS : Broker.QUIET_MS;
                Delivery delivery = receiver.receive(wait, TimeUnit.MILLISECONDS);
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
