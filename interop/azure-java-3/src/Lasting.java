import com.microsoft.azure.servicebus.IMessage;
import com.microsoft.azure.servicebus.IMessageReceiver;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.Message;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** Schedules, and what outlasts the broker's process. Each case has a broker of its own. */
final class Lasting {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("schedule-and-cancel", Lasting::schedule);
        cases.put("restart-before", Lasting::before);
        cases.put("restart-between", queue -> Client.sendTo(queue, "between"));
        cases.put("restart-after", Lasting::after);
    }

    private static void schedule(String queue) throws Exception {
        IMessageSender sender = Client.sender(queue);
        IMessageReceiver receiver = Client.receiver(queue);
        Instant due = Instant.now().plus(Duration.ofMinutes(10));
        long kept = sender.scheduleMessage(new Message("kept"), due);
        long cancelled = sender.scheduleMessage(new Message("cancelled"), due);
        Client.demand(kept != cancelled, "two numbers");
        Client.empty(receiver);
        Client.same(Client.peeked(receiver, 1, 10), List.of("kept", "cancelled"), "seen");
        sender.cancelScheduledMessage(cancelled);
        Client.advanceClock(Duration.ofMinutes(11));
        IMessage message = Client.one(receiver, "kept");
        Client.demand(message.getSequenceNumber() != kept, "a number anew");
        receiver.complete(message.getLockToken());
        Client.empty(receiver);
        Client.refused(Exception.class, () -> sender.cancelScheduledMessage(kept));
    }

    private static void before(String queue) throws Exception {
        Client.sendTo(queue, "before");
        // Locked when the broker dies.
        Client.one(Client.receiver(queue), "before");
    }

    private static void after(String queue) throws Exception {
        IMessageReceiver receiver = Client.receiver(queue);
        Client.complete(receiver, "before", "between");
        Client.empty(receiver);
    }

    private Lasting() {}
}
