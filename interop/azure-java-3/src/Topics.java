import com.microsoft.azure.servicebus.IMessage;
import com.microsoft.azure.servicebus.IMessageReceiver;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.Message;
import com.microsoft.azure.servicebus.ReceiveMode;
import com.microsoft.azure.servicebus.SubscriptionClient;
import com.microsoft.azure.servicebus.rules.CorrelationFilter;
import com.microsoft.azure.servicebus.rules.RuleDescription;
import com.microsoft.azure.servicebus.rules.SqlFilter;
import com.microsoft.azure.servicebus.rules.SqlRuleAction;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Rules of a subscription. */
final class Topics {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("topics/rules-are-managed", Topics::rulesManaged);
    }

    private static List<String> rules(SubscriptionClient client) throws Exception {
        List<String> names = new ArrayList<>();
        client.getRules().forEach(rule -> names.add(rule.getName()));
        return names;
    }

    private static Message order(String body, int amount) {
        Message message = new Message(body);
        message.setLabel("order");
        message.setProperties(Map.of("amount", amount));
        return message;
    }

    private static void rulesManaged(String topic) throws Exception {
        String path = topic + "/subscriptions/s";
        SubscriptionClient client = new SubscriptionClient(Client.at(path), ReceiveMode.PEEKLOCK);
        Client.same(rules(client), List.of("$Default"), "rules");
        client.removeRule("$Default");
        Client.same(rules(client), List.of(), "no rules");
        CorrelationFilter ofOrders = new CorrelationFilter();
        ofOrders.setLabel("order");
        client.addRule("red", ofOrders);
        RuleDescription big = new RuleDescription("big", new SqlFilter("amount > 100"));
        big.setAction(new SqlRuleAction("SET seen = 'yes'"));
        client.addRule(big);
        List<String> names = rules(client);
        names.sort(null);
        Client.same(names, List.of("big", "red"), "rules");
        for (RuleDescription rule : client.getRules()) {
            if ("big".equals(rule.getName())) {
                Client.same(((SqlFilter) rule.getFilter()).getSqlExpression(), "amount > 100", "filter");
                Client.same(((SqlRuleAction) rule.getAction()).getSqlExpression(), "SET seen = 'yes'", "action");
            }
        }
        Client.refused(Exception.class, () -> client.addRule("red", new SqlFilter("1 = 1")));
        Client.refused(Exception.class, () -> client.addRule("wrong", new SqlFilter("amount >")));
        Client.refused(Exception.class, () -> client.removeRule("missing"));
        client.removeRule("red");
        IMessageSender sender = Client.sender(topic);
        sender.send(order("small", 10));
        sender.send(order("big", 1_000));
        IMessageReceiver receiver = Client.receiver(path);
        IMessage chosen = Client.one(receiver, "big");
        Client.same(chosen.getProperties().get("seen"), "yes", "changed by the action");
        receiver.complete(chosen.getLockToken());
        Client.empty(receiver);
    }

    private Topics() {}
}
