import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.spring.cloud.service.servicebus.consumer.ServiceBusRecordMessageListener;
import com.azure.spring.cloud.service.servicebus.properties.ServiceBusEntityType;
import com.azure.spring.messaging.servicebus.core.DefaultServiceBusNamespaceProcessorFactory;
import com.azure.spring.messaging.servicebus.core.DefaultServiceBusNamespaceProducerFactory;
import com.azure.spring.messaging.servicebus.core.ServiceBusTemplate;
import com.azure.spring.messaging.servicebus.core.listener.ServiceBusMessageListenerContainer;
import com.azure.spring.messaging.servicebus.core.properties.NamespaceProperties;
import com.azure.spring.messaging.servicebus.core.properties.ServiceBusContainerProperties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.messaging.support.MessageBuilder;

/** Sends with Spring's template and receives with its listener container: a queue and a topic's subscription. */
public final class Main {
    private static void passes(NamespaceProperties namespace, String name, ServiceBusEntityType type, String subscription)
            throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Set<String> failed = ConcurrentHashMap.newKeySet();
        ServiceBusContainerProperties properties = new ServiceBusContainerProperties();
        properties.setEntityName(name);
        properties.setEntityType(type);
        properties.setSubscriptionName(subscription);
        // The first message is refused once, and comes again.
        properties.setMessageListener((ServiceBusRecordMessageListener) (ServiceBusReceivedMessageContext context) -> {
            String body = context.getMessage().getBody().toString();
            if ("0".equals(body) && failed.add(body)) {
                throw new IllegalStateException("not yet");
            }
            seen.add(body);
        });
        properties.setErrorHandler(context -> { });
        var container = new ServiceBusMessageListenerContainer(
            new DefaultServiceBusNamespaceProcessorFactory(namespace), properties);
        container.start();
        var template = new ServiceBusTemplate(new DefaultServiceBusNamespaceProducerFactory(namespace));
        template.setDefaultEntityType(type);
        for (int number = 0; number < 20; number++) {
            template.sendAsync(name, MessageBuilder.withPayload(Integer.toString(number)).setHeader("n", number).build()).block();
        }
        long until = System.currentTimeMillis() + 30_000;
        while (seen.size() < 20) {
            if (System.currentTimeMillis() > until) {
                throw new AssertionError(name + ": only " + seen);
            }
            Thread.sleep(20);
        }
        container.stop();
        System.out.println(type + ": 20 messages sent by the template, all heard by the container, one of them after a failure");
    }

    public static void main(String[] arguments) {
        try {
            NamespaceProperties namespace = new NamespaceProperties();
            namespace.setConnectionString(System.getenv("FERRYBUS_CONNECTION"));
            passes(namespace, "orders", ServiceBusEntityType.QUEUE, null);
            passes(namespace, "news", ServiceBusEntityType.TOPIC, "all");
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private Main() {}
}
