import java.util.HashMap;
import java.util.Map;

/** Plays one case with the frozen Java SDK of Azure Service Bus; `suite.py` starts it. */
public final class Main {
    interface Case {
        void play(String queue) throws Exception;
    }

    private static final Map<String, Case> CASES = new HashMap<>();

    static {
        Queues.declare(CASES);
        Sessions.declare(CASES);
        Topics.declare(CASES);
        Transactions.declare(CASES);
        Lasting.declare(CASES);
        Teams.declare(CASES);
    }

    public static void main(String[] arguments) {
        Case body = arguments.length == 1 ? CASES.get(arguments[0]) : null;
        if (body == null) {
            System.err.println("usage: Main <case>; known are " + CASES.keySet());
            System.exit(2);
        }
        try {
            Client.trustAuthority();
            body.play(System.getenv("FERRYBUS_QUEUE"));
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.err.println(failure);
            System.exit(1);
        }
        // The SDK has threads that nothing ends.
        System.exit(0);
    }

    private Main() {}
}
