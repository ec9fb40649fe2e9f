import io.vertx.amqp.AmqpConnection;
import io.vertx.amqp.AmqpMessage;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Connections that are lost, and a broker that ends. */
final class Failures {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("restart-before", Failures::restartBefore);
        cases.put("restart-between", queue -> Broker.sendTo(queue, "second"));
        cases.put("restart-after", Failures::restartAfter);
        cases.put("connection-loss", Failures::connectionLoss);
    }

    /** Has the broker end the connection of the client with this id, as an operator does. */
    private static void cut(String client) throws Exception {
        String all = Broker.ask("GET", "/$ferrybus/connections", "");
        Pattern one = Pattern.compile("\\{[^{}]*\"container_id\":\"" + Pattern.quote(client) + "\"[^{}]*\\}");
        Matcher found = one.matcher(all);
        Broker.demand(found.find(), "no connection of " + client + " in " + all);
        Matcher id = Pattern.compile("\"id\":(\\d+),").matcher(found.group());
        Broker.demand(id.find(), found.group());
        Broker.ask("DELETE", "/$ferrybus/connections/" + id.group(1), "");
    }

    /** A message is stored, and held by a client, when the broker dies. */
    private static void restartBefore(String queue) throws Exception {
        Broker.sendTo(queue, "first");
        Broker.same(Broker.receiver(Broker.connect(), queue).next().bodyAsString(), "first", "body");
        // The process ends without a word to the broker.
        Runtime.getRuntime().halt(0);
    }

    private static void restartAfter(String queue) throws Exception {
        Inbox inbox = Broker.receiver(Broker.connect(), queue);
        inbox.take("first", "second");
        inbox.empty();
        Broker.nothingLeft(queue);
    }

    private static void connectionLoss(String queue) throws Exception {
        Broker.sendTo(queue, "mine");
        AmqpConnection lost = Broker.connectAs("lost-" + queue);
        CountDownLatch told = new CountDownLatch(1);
        lost.exceptionHandler(error -> told.countDown());
        Broker.same(Broker.receiver(lost, queue).next().bodyAsString(), "mine", "body");
        cut("lost-" + queue);
        AmqpConnection connection = Broker.connect();
        AmqpMessage again = Broker.receiver(connection, queue).next();
        Broker.same(again.bodyAsString(), "mine", "body");
        Broker.same(again.deliveryCount(), 0, "delivery count");
        again.accepted();
        Broker.demand(told.await(Broker.WAIT_MS, TimeUnit.MILLISECONDS), "the client is not told");
        // It is told when the connection is closed, and may not have left the socket yet.
        for (long until = System.currentTimeMillis() + Broker.WAIT_MS; !lost.isDisconnected();) {
            Broker.demand(System.currentTimeMillis() < until, "the client knows");
        }
        Broker.done(connection.close());
    }

    private Failures() {}
}
