import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpResponse;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import java.net.MalformedURLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import reactor.core.publisher.Mono;

/** The administration client of the SDK, over HTTPS. */
final class Administration {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("administration", Administration::administration);
        cases.put("administration-missing", Administration::missing);
    }

    /** The client asks port 443 of the host, whatever the connection string says: a policy names another port. */
    record Port(int port) implements HttpPipelinePolicy {
        @Override
        public Mono<HttpResponse> process(HttpPipelineCallContext context, HttpPipelineNextPolicy next) {
            try {
                UrlBuilder url = UrlBuilder.parse(context.getHttpRequest().getUrl());
                context.getHttpRequest().setUrl(url.setPort(port).toUrl());
            } catch (MalformedURLException error) {
                return Mono.error(error);
            }
            return next.process();
        }
    }

    private static ServiceBusAdministrationClient client() {
        String port = System.getenv("FERRYBUS_TLS_PORT");
        String text = "Endpoint=sb://localhost:" + port + ";SharedAccessKeyName=" + System.getenv("FERRYBUS_KEY_NAME")
            + ";SharedAccessKey=" + System.getenv("FERRYBUS_KEY");
        return new ServiceBusAdministrationClientBuilder()
            .connectionString(text)
            .addPolicy(new Port(Integer.parseInt(port)))
            .buildClient();
    }

    private static void administration(String queue) throws Exception {
        ServiceBusAdministrationClient client = client();
        Client.same(client.getQueue(queue).getName(), queue, "name");
        String made = queue + "-made";
        CreateQueueOptions options = new CreateQueueOptions().setLockDuration(Duration.ofSeconds(30)).setMaxDeliveryCount(3)
            .setUserMetadata("ü<&>");
        Client.same(client.createQueue(made, options).getLockDuration(), Duration.ofSeconds(30), "lock duration");
        Client.refused(ResourceExistsException.class, () -> client.createQueue(made));
        QueueProperties read = client.getQueue(made);
        Client.same(read.getUserMetadata(), "ü<&>", "metadata");
        client.updateQueue(read.setMaxDeliveryCount(7));
        Client.same(client.getQueue(made).getMaxDeliveryCount(), 7, "changed");
        Client.sendTo(made, "counted");
        Client.same(client.getQueueRuntimeProperties(made).getActiveMessageCount(), 1, "messages");
        List<String> listed = new ArrayList<>();
        client.listQueues().forEach(found -> listed.add(found.getName()));
        Client.demand(listed.contains(made), "the queue is not listed: " + listed);
        client.deleteQueue(made);
        Client.same(client.getQueueExists(made), false, "the queue exists");
        topic(client, queue + "-topic");
        Client.demand(!client.getNamespaceProperties().getName().isEmpty(), "the namespace has a name");
    }

    private static void topic(ServiceBusAdministrationClient client, String topic) {
        client.createTopic(topic);
        client.createSubscription(topic, "s");
        client.deleteRule(topic, "s", "$Default");
        SqlRuleAction action = new SqlRuleAction("SET seen = 1");
        client.createRule(topic, "red", "s", new CreateRuleOptions(new SqlRuleFilter("colour = 'red'")).setAction(action));
        client.createRule(topic, "blue", "s", new CreateRuleOptions(new CorrelationRuleFilter().setLabel("blue")));
        RuleProperties blue = client.getRule(topic, "s", "blue");
        Client.same(((CorrelationRuleFilter) blue.getFilter()).getLabel(), "blue", "filter");
        client.updateRule(topic, "s", blue.setFilter(new CorrelationRuleFilter().setLabel("green")));
        Client.same(client.listRules(topic, "s").stream().count(), 2L, "rules");
        try (var sender = Topics.sender(Client.builder(), topic)) {
            for (String colour : List.of("red", "blue", "green")) {
                var message = Client.message(colour).setSubject(colour);
                message.getApplicationProperties().put("colour", colour);
                sender.sendMessage(message);
            }
        }
        Client.same(client.getSubscriptionRuntimeProperties(topic, "s").getActiveMessageCount(), 2, "messages");
        var receiver = Topics.subscriber(Client.builder(), topic, "s");
        Client.complete(receiver, "red", "green");
        Client.empty(receiver);
        client.deleteSubscription(topic, "s");
        client.deleteTopic(topic);
    }

    /** Each kind of entity that is missing is one for the SDK, not an answer that it cannot read. */
    private static void missing(String topic) throws Exception {
        ServiceBusAdministrationClient client = client();
        Client.same(client.getQueueExists("nowhere"), false, "queue");
        Client.same(client.getTopicExists("nowhere"), false, "topic");
        Client.same(client.getSubscriptionExists(topic, "nowhere"), false, "subscription");
        List<Client.Fails> asked = List.of(
            () -> client.getQueue("nowhere"), () -> client.getTopic("nowhere"),
            () -> client.getSubscription(topic, "nowhere"), () -> client.getSubscription("nowhere", "a"),
            () -> client.getRule(topic, "a", "nowhere"), () -> client.getQueueRuntimeProperties("nowhere"),
            () -> client.getSubscriptionRuntimeProperties(topic, "nowhere"), () -> client.deleteQueue("nowhere"),
            () -> client.deleteSubscription(topic, "nowhere"));
        for (Client.Fails ask : asked) {
            Client.refused(ResourceNotFoundException.class, ask);
        }
    }

    private Administration() {}
}
