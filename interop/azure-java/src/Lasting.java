import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Processors that last for longer than a lock, and through an absence of the broker. */
final class Lasting {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("slow-listener", Lasting::slowListener);
        cases.put("reconnect", Lasting::reconnect);
    }

    /**
     * With a broker of its own. A message takes a second of the broker's time and the lock lasts a minute: without prefetch,
     * which is the default, the processor holds no more messages than it processes.
     */
    private static void slowListener(String queue) throws Exception {
        int count = 600;
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = Client.sender(builder, queue);
        for (int from = 0; from < count; from += 100) {
            List<ServiceBusMessage> batch = new ArrayList<>();
            for (int number = from; number < from + 100; number++) {
                batch.add(Client.message(Integer.toString(number)));
            }
            sender.sendMessages(batch);
        }
        LinkedBlockingQueue<String> calls = new LinkedBlockingQueue<>();
        ServiceBusProcessorClient processor = builder.processor().queueName(queue)
            .processMessage(context -> {
                try {
                    Client.advanceClock(Duration.ofSeconds(1));
                    calls.add(context.getMessage().getBody().toString());
                } catch (Exception error) {
                    // Seen by the case, which waits for a number.
                    calls.add(error.toString());
                }
            })
            .processError(context -> calls.add(context.getException().toString()))
            .buildProcessorClient();
        processor.start();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        for (int call = 0; call < count; call++) {
            String body = calls.poll(Client.WAIT.toMillis(), TimeUnit.MILLISECONDS);
            Client.demand(body != null, "after " + call + " calls no other came");
            Client.demand(seen.add(body), "message " + body + " came again at call " + call);
        }
        Client.nothingLeft(queue);
        Client.advanceClock(Duration.ofMinutes(2));
        String more = calls.poll(Client.QUIET.toMillis(), TimeUnit.MILLISECONDS);
        Client.demand(more == null, "call " + (count + 1) + " is for message " + more);
        processor.close();
        Client.same(Client.peeked(Client.deadLetters(Client.builder(), queue)), List.of(), "dead letters");
    }

    /**
     * Sends and processes while `suite.py` kills and restarts the broker, which it does when it reads that so many are sent.
     * The SDK opens its links again in its own tries. A message whose send has returned must come; some may come twice.
     */
    private static void reconnect(String queue) throws Exception {
        AmqpRetryOptions retries = new AmqpRetryOptions().setMode(AmqpRetryMode.FIXED).setDelay(Duration.ofSeconds(1))
            .setMaxRetries(20).setTryTimeout(Duration.ofSeconds(5));
        int count = 300;
        Set<String> seen = ConcurrentHashMap.newKeySet();
        // What is lost while the broker is away is told here too, and is no failure of the case.
        ServiceBusProcessorClient processor = Client.builder().retryOptions(retries).processor().queueName(queue)
            .processMessage(context -> seen.add(context.getMessage().getBody().toString()))
            .processError(context -> { })
            .buildProcessorClient();
        processor.start();
        ServiceBusSenderClient sender = Client.sender(Client.builder().retryOptions(retries), queue);
        for (int number = 0; number < count; number++) {
            Client.send(sender, Integer.toString(number));
            if (number % 100 == 50) {
                System.out.println("sent " + number);
                System.out.flush();
            }
        }
        // The last restart is over.
        System.in.read();
        long until = System.nanoTime() + Duration.ofSeconds(40).toNanos();
        while (seen.size() < count && System.nanoTime() < until) {
            Thread.sleep(50);
        }
        List<String> missing = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            if (!seen.contains(Integer.toString(number))) {
                missing.add(Integer.toString(number));
            }
        }
        Client.same(missing, List.of(), "sent and lost");
        processor.close();
    }

    private Lasting() {}
}
