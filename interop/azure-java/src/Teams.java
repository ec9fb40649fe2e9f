import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.exception.HttpResponseException;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Three namespaces of one broker: each with its queue of one name and its own key, and with limits. */
final class Teams {
    private static final String QUEUE = "orders";

    static void declare(Map<String, Main.Case> cases) {
        cases.put("namespaces", queue -> three(AmqpTransportType.AMQP));
        cases.put("namespaces-web-socket", queue -> three(AmqpTransportType.AMQP_WEB_SOCKETS));
        cases.put("namespace-held", queue -> held());
        cases.put("namespace-max-connections", queue -> maxConnections());
        cases.put("namespace-max-bytes", queue -> maxBytes());
        cases.put("administration-of-namespaces", queue -> administration());
    }

    /** What an application of a team is told. */
    record Team(String name, String host, String key) {
        static List<Team> all() {
            return System.getenv("FERRYBUS_NAMESPACES").lines().map(line -> line.split(" "))
                .map(words -> new Team(words[0], words[1], words[2])).toList();
        }

        ServiceBusClientBuilder builder() {
            return builder(key);
        }

        ServiceBusClientBuilder builder(String withKey) {
            AmqpRetryOptions retries = new AmqpRetryOptions().setTryTimeout(Duration.ofSeconds(6)).setMaxRetries(1)
                .setDelay(Duration.ofMillis(100));
            return new ServiceBusClientBuilder().connectionString(Client.connectionString(host, withKey)).retryOptions(retries);
        }

        /** Changes the namespace as an administrator does: it has this limit and no other. */
        void put(boolean held, String limit) throws Exception {
            URI there = URI.create("http://" + System.getenv("FERRYBUS_CONTROL") + "/$ferrybus/namespaces/" + name);
            String body = "{\"hostnames\":[\"" + host + "\"],\"held\":" + held + ",\"limits\":{" + limit + "}}";
            HttpRequest request = HttpRequest.newBuilder(there)
                .header("Authorization", System.getenv("FERRYBUS_AUTHORIZATION"))
                .PUT(HttpRequest.BodyPublishers.ofString(body))
                .build();
            HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            Client.demand(answer.statusCode() / 100 == 2, "the namespace: " + answer.statusCode() + " " + answer.body());
        }

        ServiceBusAdministrationClient administrator(String withKey) {
            String port = System.getenv("FERRYBUS_TLS_PORT");
            return new ServiceBusAdministrationClientBuilder()
                .connectionString("Endpoint=sb://" + host + ":" + port + ";SharedAccessKeyName="
                    + System.getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + withKey)
                .addPolicy(new Administration.Port(Integer.parseInt(port)))
                .buildClient();
        }
    }

    /** The SDK keeps the reason to itself, connects again and again, and ends the wait of the call. */
    private static void timesOut(Client.Fails body) throws Exception {
        IllegalStateException error = Client.refused(IllegalStateException.class, body);
        Client.demand(error.toString().contains("Timeout on blocking read"), error.toString());
    }

    /** Clients of all at the same time: each finds in its queue what it has sent, and nothing else. */
    private static void three(AmqpTransportType transport) throws Exception {
        List<Team> teams = Team.all();
        List<ServiceBusReceiverClient> receivers = new ArrayList<>();
        for (Team team : teams) {
            ServiceBusClientBuilder builder = team.builder().transportType(transport);
            Client.send(Client.sender(builder, QUEUE), "for " + team.name());
            receivers.add(Client.receiver(builder, QUEUE));
        }
        for (int index = 0; index < teams.size(); index++) {
            String body = "for " + teams.get(index).name();
            Client.same(Client.peeked(receivers.get(index)), List.of(body), "messages");
            Client.complete(receivers.get(index), body);
        }
        for (int index = 0; index < teams.size(); index++) {
            String other = teams.get((index + 1) % teams.size()).key();
            ServiceBusClientBuilder builder = teams.get(index).builder(other).transportType(transport);
            Client.refused(ServiceBusFailureReason.UNAUTHORIZED, () -> Client.sendWith(builder, QUEUE));
        }
    }

    private static void held() throws Exception {
        Team team = Team.all().get(1);
        ServiceBusClientBuilder builder = team.builder();
        ServiceBusSenderClient sender = Client.sender(builder, QUEUE);
        Client.send(sender, "before");
        team.put(true, "");
        timesOut(() -> Client.send(sender, "never"));
        team.put(false, "");
        Client.send(sender, "after");
        Client.complete(Client.receiver(builder, QUEUE), "before", "after");
    }

    private static void maxConnections() throws Exception {
        Team team = Team.all().get(1);
        ServiceBusSenderClient first = Client.sender(team.builder(), QUEUE);
        ServiceBusSenderClient second = Client.sender(team.builder(), QUEUE);
        Client.send(first, "first");
        team.put(false, "\"max_connections\":1");
        timesOut(() -> Client.send(second, "never"));
        Client.send(first, "goes on");
        team.put(false, "");
        Client.send(second, "second");
    }

    private static void maxBytes() throws Exception {
        Team team = Team.all().get(1);
        String large = "x".repeat(30_000);
        team.put(false, "\"max_bytes\":20000");
        ServiceBusClientBuilder builder = team.builder();
        ServiceBusSenderClient sender = Client.sender(builder, QUEUE);
        ServiceBusException error = Client.refused(ServiceBusException.class, () -> Client.send(sender, large, large, large));
        Client.same(error.getReason(), ServiceBusFailureReason.QUOTA_EXCEEDED, error.toString());
        Client.demand(error.toString().contains("takes at most 20000"), error.toString());
        Client.complete(Client.receiver(builder, QUEUE), large);
        Client.send(sender, "small");
        team.put(false, "");
        Client.send(sender, large);
    }

    private static void administration() throws Exception {
        List<Team> teams = Team.all();
        for (Team team : teams) {
            team.administrator(team.key()).createQueue("of-" + team.name());
        }
        for (Team team : teams) {
            List<String> names = team.administrator(team.key()).listQueues().stream().map(found -> found.getName()).toList();
            Client.same(names, List.of("of-" + team.name(), QUEUE), "queues");
        }
        Team team = teams.get(1);
        ServiceBusAdministrationClient stranger = team.administrator(teams.get(2).key());
        Client.refused(Exception.class, () -> stranger.createQueue("never"));
        team.put(false, "\"max_entities\":2");
        ServiceBusAdministrationClient client = team.administrator(team.key());
        HttpResponseException error = Client.refused(HttpResponseException.class, () -> client.createQueue("one-too-many"));
        Client.same(error.getResponse().getStatusCode(), 403, error.toString());
        Client.demand(error.toString().contains("The limit of 2 entities is reached"), error.toString());
        teams.get(2).administrator(teams.get(2).key()).createQueue("elsewhere");
        team.put(false, "");
        client.createQueue("one-too-many");
    }

    private Teams() {}
}
