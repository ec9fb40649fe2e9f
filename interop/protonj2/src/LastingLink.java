import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;

/**
 * The one link of a connection that the client opens again by itself when it is lost. The client can come to stand with a new socket
 * on which it sends nothing, after each of its tries (seen with 1.1.0 when a broker was killed: its threads wait in `send`). Then
 * another connection takes the place of this one.
 */
final class LastingLink<L> implements AutoCloseable {
    /** A client that has got no further for so long has come to stand. */
    static final long SILENCE_MS = 5_000;

    interface Opening<L> {
        L open(Connection connection) throws Exception;
    }

    interface Step<L> {
        void play(L link) throws Exception;
    }

    private final ConnectionOptions options;
    private final Opening<L> opening;
    private Connection connection;
    private L link;
    private volatile boolean isClosed;

    LastingLink(ConnectionOptions options, Opening<L> opening) throws Exception {
        this.options = options;
        this.opening = opening;
        open();
    }

    private void open() throws Exception {
        connection = Broker.connect(options);
        link = opening.open(connection);
    }

    /** Does something with the link. False: it has come to stand, and there is another link. Errors of the step are the caller's. */
    boolean play(Step<L> step) throws Exception {
        L current = link;
        FutureTask<Void> played = new FutureTask<>(() -> {
            step.play(current);
            return null;
        });
        Thread thread = new Thread(played);
        thread.setDaemon(true);
        thread.start();
        try {
            played.get(SILENCE_MS, TimeUnit.MILLISECONDS);
            return true;
        } catch (java.util.concurrent.ExecutionException error) {
            throw (Exception) error.getCause();
        } catch (TimeoutException silence) {
            if (!isClosed) {
                connection.closeAsync();
                open();
            }
            return false;
        }
    }

    boolean isClosed() {
        return isClosed;
    }

    @Override
    public void close() {
        isClosed = true;
        connection.closeAsync();
    }
}
