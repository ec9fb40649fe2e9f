import java.util.HashMap;
import java.util.Map;

/** Plays one case with ProtonJ2; `suite.py` starts it. */
public final class Main {
    interface Case {
        void play(String queue) throws Exception;
    }

    private static final Map<String, Case> CASES = new HashMap<>();

    static {
        Sending.declare(CASES);
        Receiving.declare(CASES);
        Links.declare(CASES);
        Login.declare(CASES);
        Topics.declare(CASES);
        Delays.declare(CASES);
        Dynamic.declare(CASES);
        Transactions.declare(CASES);
        Prefetch.declare(CASES);
        Failures.declare(CASES);
        Streams.declare(CASES);
        Largest.declare(CASES);
        Rollbacks.declare(CASES);
    }

    public static void main(String[] arguments) {
        Case body = arguments.length == 1 ? CASES.get(arguments[0]) : null;
        if (body == null) {
            System.err.println("usage: Main <case>; known are " + CASES.keySet());
            System.exit(2);
        }
        try {
            body.play(System.getenv("FERRYBUS_QUEUE"));
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.err.println(failure);
            System.exit(1);
        }
        // The client has threads that nothing ends.
        System.exit(0);
    }

    private Main() {}
}
