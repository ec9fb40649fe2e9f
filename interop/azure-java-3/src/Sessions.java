import com.microsoft.azure.servicebus.ClientFactory;
import com.microsoft.azure.servicebus.ExceptionPhase;
import com.microsoft.azure.servicebus.IMessage;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.IMessageSession;
import com.microsoft.azure.servicebus.ISessionHandler;
import com.microsoft.azure.servicebus.Message;
import com.microsoft.azure.servicebus.QueueClient;
import com.microsoft.azure.servicebus.ReceiveMode;
import com.microsoft.azure.servicebus.SessionHandlerOptions;
import com.microsoft.azure.servicebus.primitives.ConnectionStringBuilder;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Queues with sessions. */
final class Sessions {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("session-accept", Sessions::accept);
        cases.put("session-order", Sessions::order);
        cases.put("session-state", Sessions::state);
        cases.put("session-listing", Sessions::listing);
        cases.put("session-browsed", Sessions::browsed);
        cases.put("session-processor", Sessions::handler);
    }

    /** The next session, where no name is given. */
    private static IMessageSession session(String queue, String name) throws Exception {
        return ClientFactory.acceptSessionFromConnectionStringBuilder(Client.at(queue), name, ReceiveMode.PEEKLOCK);
    }

    private static void send(IMessageSender sender, String session, String... bodies) throws Exception {
        for (String body : bodies) {
            Message message = new Message(body);
            message.setSessionId(session);
            sender.send(message);
        }
    }

    private static void accept(String queue) throws Exception {
        ConnectionStringBuilder brief = Client.at(queue);
        brief.setOperationTimeout(Duration.ofSeconds(2));
        long started = System.nanoTime();
        Client.refused(Exception.class, () ->
            ClientFactory.acceptSessionFromConnectionStringBuilder(brief, null, ReceiveMode.PEEKLOCK));
        Client.demand(System.nanoTime() - started < Duration.ofSeconds(60).toNanos(), "the wait ends with the operation's time");
        IMessageSender sender = Client.sender(queue);
        send(sender, "b", "b1");
        send(sender, "a", "a1");
        IMessageSession first = session(queue, null);
        Client.same(first.getSessionId(), "b", "the next session");
        Client.refused(Exception.class, () -> session(queue, "b"));
        Client.same(Client.one(first, "b1").getDeliveryCount(), 1L, "deliveries");
        first.close();
        IMessageSession again = session(queue, "b");
        Client.complete(again, "b1");
        again.close();
        IMessageSession named = session(queue, "a");
        Client.complete(named, "a1");
        Client.empty(named);
        named.close();
        Client.empty(session(queue, "nobody's"));
        Client.refused(Exception.class, () -> Client.receiver(queue).receive(Client.QUIET));
        Client.refused(Exception.class, () -> sender.send(new Message("of no session")));
    }

    private static void order(String queue) throws Exception {
        IMessageSender sender = Client.sender(queue);
        List<String> names = List.of("a", "b", "c");
        for (int number = 0; number < 20; number++) {
            for (String session : names) {
                send(sender, session, session + number);
            }
        }
        for (String session : names) {
            IMessageSession receiver = session(queue, session);
            for (int number = 0; number < 20;) {
                IMessage message = Client.one(receiver, session + number);
                if (number % 4 == 2 && message.getDeliveryCount() == 1) {
                    receiver.abandon(message.getLockToken());
                    continue;
                }
                receiver.complete(message.getLockToken());
                number++;
            }
            receiver.close();
        }
    }

    private static void state(String queue) throws Exception {
        byte[] last = {0, -1, 'x'};
        IMessageSession receiver = session(queue, "s");
        Client.demand(receiver.getState() == null, "no state before one was set");
        for (byte[] state : new byte[][] {"one".getBytes(StandardCharsets.UTF_8), last}) {
            receiver.setState(state);
            Client.demand(Arrays.equals(receiver.getState(), state), "state");
        }
        Instant before = receiver.getLockedUntilUtc();
        Thread.sleep(100);
        receiver.renewSessionLock();
        Client.demand(receiver.getLockedUntilUtc().isAfter(before), "the renewed lock ends later");
        receiver.close();
        IMessageSession next = session(queue, "s");
        Client.demand(Arrays.equals(next.getState(), last), "the state is kept for the next holder");
        next.setState(null);
        Client.demand(next.getState() == null, "a state that was taken away");
    }

    /** The SDK's list of sessions, which its own package alone may call: those with messages or state, or those changed since. */
    @SuppressWarnings("unchecked")
    private static Collection<IMessageSession> listed(QueueClient client, Instant... since) throws Exception {
        Class<?>[] types = since.length == 0 ? new Class<?>[0] : new Class<?>[] {Instant.class};
        Method method = QueueClient.class.getDeclaredMethod("getMessageSessions", types);
        method.setAccessible(true);
        return (Collection<IMessageSession>) method.invoke(client, (Object[]) since);
    }

    private static TreeSet<String> names(Collection<IMessageSession> sessions) {
        TreeSet<String> names = new TreeSet<>();
        sessions.forEach(session -> names.add(session.getSessionId()));
        Client.same(names.size(), sessions.size(), "sessions without those that were listed twice");
        return names;
    }

    /** The SDK asks for 100 at a time, and names the last one that it has for the next page. */
    private static void listing(String queue) throws Exception {
        QueueClient client = new QueueClient(Client.at(queue), ReceiveMode.PEEKLOCK);
        Client.same(names(listed(client)).size(), 0, "sessions of an empty queue");
        IMessageSender sender = Client.sender(queue);
        TreeSet<String> expected = new TreeSet<>();
        for (int number = 0; number < 250; number++) {
            send(sender, "session " + number, "m");
            expected.add("session " + number);
        }
        IMessageSession withState = session(queue, "of state alone");
        Instant before = Instant.now().minusSeconds(60);
        withState.setState(new byte[] {1});
        withState.close();
        expected.add("of state alone");
        Client.same(names(listed(client)), expected, "sessions");
        Client.same(names(listed(client, before)), new TreeSet<>(List.of("of state alone")), "changed since then");
        Client.same(names(listed(client, Instant.now().plusSeconds(60))).size(), 0, "changed in the future");
    }

    /** What is listed can be peeked and its state be read, while another receiver holds it: no lock is taken. */
    private static void browsed(String queue) throws Exception {
        send(Client.sender(queue), "s", "a", "b");
        IMessageSession holder = session(queue, "s");
        holder.setState(new byte[] {7});
        QueueClient client = new QueueClient(Client.at(queue), ReceiveMode.PEEKLOCK);
        List<IMessageSession> sessions = new ArrayList<>(listed(client));
        Client.same(sessions.size(), 1, "sessions");
        IMessageSession browser = sessions.get(0);
        Client.same(Client.peeked(browser, 1, 10), List.of("a", "b"), "seen");
        Client.demand(Arrays.equals(browser.getState(), new byte[] {7}), "state");
        Client.complete(holder, "a", "b");
        holder.close();
        // The browser is still open, and keeps nobody from the session.
        IMessageSession next = session(queue, "s");
        Client.empty(next);
        next.close();
    }

    private static void handler(String queue) throws Exception {
        int count = 10;
        List<String> sessions = List.of("a", "b", "c", "d", "e");
        Map<String, List<Integer>> orders = new ConcurrentHashMap<>();
        List<String> errors = new ArrayList<>();
        CountDownLatch done = new CountDownLatch(count * sessions.size());
        QueueClient client = new QueueClient(Client.at(queue), ReceiveMode.PEEKLOCK);
        IMessageSender sender = Client.sender(queue);
        for (int number = 0; number < count; number++) {
            for (String session : sessions) {
                send(sender, session, Integer.toString(number));
            }
        }
        client.registerSessionHandler(new ISessionHandler() {
            @Override
            public CompletableFuture<Void> onMessageAsync(IMessageSession session, IMessage message) {
                List<Integer> order = orders.computeIfAbsent(session.getSessionId(), name -> new ArrayList<>());
                order.add(Integer.parseInt(Client.text(message)));
                done.countDown();
                return CompletableFuture.completedFuture(null);
            }

            @Override
            public CompletableFuture<Void> OnCloseSessionAsync(IMessageSession session) {
                return CompletableFuture.completedFuture(null);
            }

            @Override
            public synchronized void notifyException(Throwable error, ExceptionPhase phase) {
                errors.add(phase + " " + error);
            }
        }, new SessionHandlerOptions(2, 1, true, Duration.ofMinutes(1), Duration.ofSeconds(2)), Executors.newFixedThreadPool(4));
        Client.demand(done.await(50, TimeUnit.SECONDS), "only these were processed: " + orders + errors);
        client.close();
        for (String session : sessions) {
            List<Integer> sorted = new ArrayList<>(orders.get(session));
            sorted.sort(null);
            Client.same(orders.get(session), sorted, "order of " + session);
            Client.same(sorted.size(), count, "messages of " + session);
        }
    }

    private Sessions() {}
}
