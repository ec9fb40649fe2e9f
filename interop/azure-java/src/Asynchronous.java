import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The asynchronous clients of the SDK. */
final class Asynchronous {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("async/send-one", Asynchronous::one);
        cases.put("async/send-1000-pipelined", Asynchronous::pipelined);
        cases.put("async/peek-lock-abandon", Asynchronous::abandon);
        cases.put("async/session-order", Asynchronous::sessions);
        cases.put("async/schedule-and-cancel", Asynchronous::schedule);
        cases.put("async/transaction-commit", Asynchronous::commit);
    }

    private static ServiceBusSenderAsyncClient sender(ServiceBusClientBuilder builder, String queue) {
        return builder.sender().queueName(queue).buildAsyncClient();
    }

    private static ServiceBusReceiverAsyncClient receiver(ServiceBusClientBuilder builder, String queue) {
        return builder.receiver().queueName(queue).disableAutoComplete().buildAsyncClient();
    }

    /** The bodies of the next messages, each completed before the next one is asked for. */
    private static List<String> completed(ServiceBusReceiverAsyncClient receiver, int count) {
        return receiver.receiveMessages()
            .concatMap(message -> receiver.complete(message).thenReturn(message.getBody().toString()), 1)
            .take(count)
            .collectList()
            .block(Client.WAIT);
    }

    /** The bodies of all messages of a queue, in pages. */
    private static List<String> peeked(ServiceBusReceiverAsyncClient receiver) {
        List<String> bodies = new ArrayList<>();
        long from = 1;
        while (true) {
            List<ServiceBusReceivedMessage> page = receiver.peekMessages(200, from).collectList().block(Client.WAIT);
            if (page.isEmpty()) {
                return bodies;
            }
            page.forEach(message -> bodies.add(message.getBody().toString()));
            from = page.get(page.size() - 1).getSequenceNumber() + 1;
        }
    }

    private static void one(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        sender(builder, queue).sendMessage(Client.message("one")).block(Client.WAIT);
        Client.same(completed(receiver(builder, queue), 1), List.of("one"), "received");
        Client.empty(Client.receiver(builder, queue));
    }

    /** Sends that do not wait for each other. */
    private static void pipelined(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderAsyncClient sender = sender(builder, queue);
        List<String> bodies = IntStream.range(0, 1_000).mapToObj(Integer::toString).collect(Collectors.toList());
        Flux<Void> sends = Flux.fromIterable(bodies).flatMap(body -> sender.sendMessage(Client.message(body)), 100);
        sends.then().block(Client.WAIT.multipliedBy(2));
        List<String> found = peeked(receiver(builder, queue));
        found.sort(null);
        bodies = bodies.stream().sorted().collect(Collectors.toList());
        Client.same(found, bodies, "received");
    }

    private static void abandon(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        sender(builder, queue).sendMessage(Client.message("again")).block(Client.WAIT);
        ServiceBusReceiverAsyncClient receiver = receiver(builder, queue);
        List<Long> counts = receiver.receiveMessages()
            .concatMap(message -> settled(receiver, message).thenReturn(message.getDeliveryCount()), 1)
            .take(2)
            .collectList()
            .block(Client.WAIT);
        Client.same(counts, List.of(0L, 1L), "deliveries before each");
        Client.empty(Client.receiver(builder, queue));
    }

    private static Mono<Void> settled(ServiceBusReceiverAsyncClient receiver, ServiceBusReceivedMessage message) {
        return message.getDeliveryCount() == 0 ? receiver.abandon(message) : receiver.complete(message);
    }

    private static void sessions(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderAsyncClient sender = sender(builder, queue);
        for (int number = 0; number < 20; number++) {
            for (String session : List.of("a", "b", "c")) {
                sender.sendMessage(Client.message(session + number).setSessionId(session)).block(Client.WAIT);
            }
        }
        ServiceBusSessionReceiverAsyncClient sessions =
            builder.sessionReceiver().queueName(queue).disableAutoComplete().buildAsyncClient();
        for (String session : List.of("a", "b", "c")) {
            ServiceBusReceiverAsyncClient receiver = sessions.acceptSession(session).block(Client.WAIT);
            List<String> wanted =
                IntStream.range(0, 20).mapToObj(number -> session + number).collect(Collectors.toList());
            Client.same(completed(receiver, 20), wanted, "order");
            receiver.close();
        }
    }

    private static void schedule(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderAsyncClient sender = sender(builder, queue);
        OffsetDateTime later = OffsetDateTime.now().plusHours(1);
        Long number = sender.scheduleMessage(Client.message("never"), later).block(Client.WAIT);
        ServiceBusReceiverAsyncClient receiver = receiver(builder, queue);
        Client.same(receiver.peekMessage(number).block(Client.WAIT).getBody().toString(), "never", "seen");
        sender.cancelScheduledMessage(number).block(Client.WAIT);
        Client.demand(receiver.peekMessage(number).block(Client.WAIT) == null, "cancelled");
    }

    private static void commit(String queue) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderAsyncClient sender = sender(builder, queue);
        ServiceBusReceiverAsyncClient receiver = receiver(builder, queue);
        sender.sendMessage(Client.message("work")).block(Client.WAIT);
        ServiceBusReceivedMessage work = receiver.receiveMessages().next().block(Client.WAIT);
        ServiceBusTransactionContext transaction = sender.createTransaction().block(Client.WAIT);
        sender.sendMessage(Client.message("result"), transaction).block(Client.WAIT);
        receiver.complete(work, new CompleteOptions().setTransactionContext(transaction)).block(Client.WAIT);
        sender.commitTransaction(transaction).block(Client.WAIT);
        Client.same(completed(receiver, 1), List.of("result"), "received");
        Client.empty(Client.receiver(builder, queue));
    }

    private Asynchronous() {}
}
