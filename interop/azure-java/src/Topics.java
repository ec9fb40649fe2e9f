import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.SubQueue;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Topics, their subscriptions and rules. */
final class Topics {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("topics/each-subscription-gets-its-copy", Topics::eachCopy);
        cases.put("topics/copies-are-settled-apart", Topics::settledApart);
        cases.put("topics/rules-choose", Topics::rulesChoose);
        cases.put("topics/rules-are-managed", Topics::rulesManaged);
        cases.put("topics/sessions", Topics::sessions);
    }

    static ServiceBusSenderClient sender(ServiceBusClientBuilder builder, String topic) {
        return builder.sender().topicName(topic).buildClient();
    }

    static ServiceBusReceiverClient subscriber(ServiceBusClientBuilder builder, String topic, String subscription) {
        return builder.receiver().topicName(topic).subscriptionName(subscription).disableAutoComplete().buildClient();
    }

    private static void eachCopy(String topic) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = sender(builder, topic);
        Client.send(sender, "single");
        sender.sendMessages(List.of(Client.message("one"), Client.message("two")));
        for (String subscription : List.of("a", "b")) {
            ServiceBusReceiverClient receiver = subscriber(builder, topic, subscription);
            Client.complete(receiver, "single", "one", "two");
            Client.empty(receiver);
        }
    }

    private static void settledApart(String topic) {
        ServiceBusClientBuilder builder = Client.builder();
        Client.send(sender(builder, topic), "m");
        ServiceBusReceiverClient a = subscriber(builder, topic, "a");
        ServiceBusReceiverClient b = subscriber(builder, topic, "b");
        a.deadLetter(Client.one(a, "m"));
        b.abandon(Client.one(b, "m"));
        ServiceBusReceivedMessage again = Client.one(b, "m");
        Client.same(again.getDeliveryCount(), 1L, "deliveries before this one");
        b.defer(again);
        b.complete(b.receiveDeferredMessage(again.getSequenceNumber()));
        ServiceBusReceiverClient dead = builder.receiver().topicName(topic).subscriptionName("a")
            .subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient();
        Client.complete(dead, "m");
        Client.empty(b);
    }

    private static ServiceBusMessage order(String body, String colour, long amount) {
        ServiceBusMessage message = Client.message(body).setSubject("order");
        message.getApplicationProperties().put("colour", colour);
        message.getApplicationProperties().put("amount", amount);
        return message;
    }

    private static void rulesChoose(String topic) {
        ServiceBusClientBuilder builder = Client.builder();
        sender(builder, topic).sendMessages(
            List.of(order("small", "blue", 10), order("big", "blue", 1_000), order("red", "red", 1)));
        Map<String, String[]> chosen = Map.of(
            "all", new String[] {"small", "big", "red"}, "none", new String[] {}, "big", new String[] {"big"},
            "red", new String[] {"red"});
        for (Map.Entry<String, String[]> subscription : chosen.entrySet()) {
            ServiceBusReceiverClient receiver = subscriber(builder, topic, subscription.getKey());
            Client.complete(receiver, subscription.getValue());
            Client.empty(receiver);
        }
    }

    private static List<String> rules(ServiceBusRuleManagerClient manager) {
        List<String> names = new ArrayList<>();
        manager.listRules().forEach(rule -> names.add(rule.getName()));
        return names;
    }

    private static void rulesManaged(String topic) throws Exception {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusRuleManagerClient manager = builder.ruleManager().topicName(topic).subscriptionName("s").buildClient();
        Client.same(rules(manager), List.of("$Default"), "rules");
        manager.deleteRule("$Default");
        Client.same(rules(manager), List.of(), "no rules");
        manager.createRule("red", new CreateRuleOptions(new CorrelationRuleFilter().setLabel("order")));
        SqlRuleAction action = new SqlRuleAction("SET seen = 'yes'");
        manager.createRule("big", new CreateRuleOptions(new SqlRuleFilter("amount > 100")).setAction(action));
        List<String> names = rules(manager);
        names.sort(null);
        Client.same(names, List.of("big", "red"), "rules");
        for (RuleProperties rule : manager.listRules()) {
            if ("big".equals(rule.getName())) {
                Client.same(((SqlRuleFilter) rule.getFilter()).getSqlExpression(), "amount > 100", "filter");
                Client.same(((SqlRuleAction) rule.getAction()).getSqlExpression(), "SET seen = 'yes'", "action");
            }
        }
        Client.refused(Exception.class, () -> manager.createRule("red", new CreateRuleOptions(new SqlRuleFilter("1 = 1"))));
        Client.refused(Exception.class, () -> manager.createRule("wrong", new CreateRuleOptions(new SqlRuleFilter("amount >"))));
        Client.refused(Exception.class, () -> manager.deleteRule("missing"));
        manager.deleteRule("red");
        sender(builder, topic).sendMessages(List.of(order("small", "blue", 10), order("big", "blue", 1_000)));
        ServiceBusReceiverClient receiver = subscriber(builder, topic, "s");
        ServiceBusReceivedMessage big = Client.one(receiver, "big");
        Client.same(big.getApplicationProperties().get("seen"), "yes", "changed by the action");
        receiver.complete(big);
        Client.empty(receiver);
    }

    private static void sessions(String topic) {
        ServiceBusClientBuilder builder = Client.builder();
        ServiceBusSenderClient sender = sender(builder, topic);
        Sessions.send(sender, "a", "a1", "a2");
        Sessions.send(sender, "b", "b1");
        var sessions = builder.sessionReceiver().topicName(topic).subscriptionName("s").disableAutoComplete().buildClient();
        try (ServiceBusReceiverClient named = sessions.acceptSession("b")) {
            Client.complete(named, "b1");
        }
        try (ServiceBusReceiverClient next = sessions.acceptNextSession()) {
            Client.same(next.getSessionId(), "a", "the next session");
            next.setSessionState(new byte[] {1, 2});
            Client.same(next.getSessionState().length, 2, "state");
            Client.same(Client.peeked(next), List.of("a1", "a2"), "seen");
            Client.complete(next, "a1", "a2");
        }
    }

    private Topics() {}
}
