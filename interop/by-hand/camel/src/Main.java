import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.camel.CamelContext;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.amqp.AMQPComponent;
import org.apache.camel.component.azure.servicebus.ServiceBusComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Routes of Camel: its component for Service Bus on a queue and a topic, and its component for AMQP, in and out. */
public final class Main {
    private static final Set<String> SEEN = ConcurrentHashMap.newKeySet();

    private static void arrives(String what, int count) throws Exception {
        long until = System.currentTimeMillis() + 30_000;
        while (SEEN.stream().filter(body -> body.startsWith(what)).count() < count) {
            if (System.currentTimeMillis() > until) {
                throw new AssertionError(what + ": only " + SEEN);
            }
            Thread.sleep(20);
        }
        System.out.println(what + ": " + count + " messages through a route");
    }

    private static void run(CamelContext camel) throws Exception {
        ServiceBusComponent serviceBus = new ServiceBusComponent();
        serviceBus.getConfiguration().setConnectionString(System.getenv("FERRYBUS_CONNECTION"));
        camel.addComponent("azure-servicebus", serviceBus);
        String address = "amqp://localhost:" + System.getenv("FERRYBUS_PORT");
        JmsConnectionFactory connections = new JmsConnectionFactory(
            System.getenv("FERRYBUS_KEY_NAME"), System.getenv("FERRYBUS_KEY"), address);
        camel.addComponent("amqp", new AMQPComponent(connections));
        camel.addRoutes(new RouteBuilder() {
            @Override
            public void configure() {
                from("direct:queue").to("azure-servicebus:orders");
                from("azure-servicebus:orders").process(exchange -> SEEN.add(exchange.getMessage().getBody(String.class)));
                from("direct:topic").to("azure-servicebus:news?serviceBusType=topic");
                from("azure-servicebus:news?serviceBusType=topic&subscriptionName=all")
                    .process(exchange -> SEEN.add(exchange.getMessage().getBody(String.class)));
                from("direct:amqp").to("amqp:queue:bound");
                from("amqp:queue:bound").process(exchange -> SEEN.add(exchange.getMessage().getBody(String.class)));
                from("amqp:queue:asked").setBody(simple("answer to ${body}"));
            }
        });
        camel.start();
        ProducerTemplate producer = camel.createProducerTemplate();
        for (String what : new String[] {"queue", "topic", "amqp"}) {
            for (int number = 0; number < 20; number++) {
                producer.sendBody("direct:" + what, what + " " + number);
            }
            arrives(what, 20);
        }
        // The answer comes over a queue that the component asks the broker for.
        Object answer = producer.requestBody("amqp:queue:asked", "question");
        if (!"answer to question".equals(answer)) {
            throw new AssertionError("asked, and told " + answer);
        }
        System.out.println("request and reply: answered");
    }

    public static void main(String[] arguments) {
        try (DefaultCamelContext camel = new DefaultCamelContext()) {
            run(camel);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private Main() {}
}
