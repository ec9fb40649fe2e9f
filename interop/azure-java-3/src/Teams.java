import com.microsoft.azure.servicebus.ClientFactory;
import com.microsoft.azure.servicebus.IMessageReceiver;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.Message;
import com.microsoft.azure.servicebus.ReceiveMode;
import com.microsoft.azure.servicebus.primitives.ConnectionStringBuilder;
import com.microsoft.azure.servicebus.primitives.QuotaExceededException;
import com.microsoft.azure.servicebus.primitives.ServiceBusException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Three namespaces of one broker: each with its queue of one name and its own key, and with a limit. */
final class Teams {
    private static final String QUEUE = "orders";

    static void declare(Map<String, Main.Case> cases) {
        cases.put("namespaces", queue -> three());
        cases.put("namespace-max-bytes", queue -> maxBytes());
    }

    /** What an application of a team is told. */
    record Team(String name, String host, String key) {
        static List<Team> all() {
            return System.getenv("FERRYBUS_NAMESPACES").lines().map(line -> line.split(" "))
                .map(words -> new Team(words[0], words[1], words[2])).toList();
        }

        ConnectionStringBuilder place(String withKey) throws Exception {
            return Client.at(host, QUEUE, withKey);
        }

        IMessageSender sender() throws Exception {
            return ClientFactory.createMessageSenderFromConnectionStringBuilder(place(key));
        }

        IMessageReceiver receiver() throws Exception {
            return ClientFactory.createMessageReceiverFromConnectionStringBuilder(place(key), ReceiveMode.PEEKLOCK);
        }

        /** Changes the namespace as an administrator does: it has this limit and no other. */
        void put(String limit) throws Exception {
            URI there = URI.create("http://" + System.getenv("FERRYBUS_CONTROL") + "/$ferrybus/namespaces/" + name);
            String body = "{\"hostnames\":[\"" + host + "\"],\"limits\":{" + limit + "}}";
            HttpRequest request = HttpRequest.newBuilder(there)
                .header("Authorization", System.getenv("FERRYBUS_AUTHORIZATION"))
                .PUT(HttpRequest.BodyPublishers.ofString(body))
                .build();
            HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            Client.demand(answer.statusCode() / 100 == 2, "the namespace: " + answer.statusCode() + " " + answer.body());
        }
    }

    /** Clients of all at the same time: each finds in its queue what it has sent, and nothing else. */
    private static void three() throws Exception {
        List<Team> teams = Team.all();
        List<IMessageReceiver> receivers = new ArrayList<>();
        for (Team team : teams) {
            team.sender().send(new Message("for " + team.name()));
            receivers.add(team.receiver());
        }
        for (int index = 0; index < teams.size(); index++) {
            String body = "for " + teams.get(index).name();
            Client.same(Client.peeked(receivers.get(index), 1, 10), List.of(body), "messages");
            Client.complete(receivers.get(index), body);
        }
        for (int index = 0; index < teams.size(); index++) {
            ConnectionStringBuilder stranger = teams.get(index).place(teams.get((index + 1) % teams.size()).key());
            ServiceBusException error = Client.refused(
                ServiceBusException.class,
                () -> ClientFactory.createMessageSenderFromConnectionStringBuilder(stranger));
            Client.demand(error.getMessage().contains("InvalidSignature"), error.getMessage());
        }
    }

    private static void maxBytes() throws Exception {
        Team team = Team.all().get(1);
        String large = "x".repeat(30_000);
        IMessageSender sender = team.sender();
        sender.send(new Message(large));
        team.put("\"max_bytes\":20000");
        QuotaExceededException error = Client.refused(QuotaExceededException.class, () -> sender.send(new Message(large)));
        Client.demand(error.toString().contains("takes at most 20000"), error.toString());
        Client.complete(team.receiver(), large);
        sender.send(new Message("small"));
        team.put("");
        sender.send(new Message(large));
    }

    private Teams() {}
}
