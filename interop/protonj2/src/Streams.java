import java.io.InputStream;
import java.io.OutputStream;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.OutputStreamOptions;
import org.apache.qpid.protonj2.client.StreamDelivery;
import org.apache.qpid.protonj2.client.StreamReceiver;
import org.apache.qpid.protonj2.client.StreamReceiverOptions;
import org.apache.qpid.protonj2.client.StreamSender;
import org.apache.qpid.protonj2.client.StreamSenderMessage;

/** A message that no side has in memory as a whole: written and read as a stream. */
final class Streams {
    static void declare(Map<String, Main.Case> cases) {
        cases.put("large-message-stream", Streams::stream);
    }

    private static final int CHUNK = 64 << 10;

    /** 100 MB over plain TCP, a tenth of it over TLS. */
    private static int chunks() {
        return (Broker.overTls() ? 10_000_000 : 100_000_000) / CHUNK + 1;
    }

    /** The bytes of a chunk follow from its place, so one that is missing, double or moved is seen. */
    private static void fill(byte[] chunk, int place) {
        for (int index = 0; index < chunk.length; index++) {
            chunk[index] = (byte) (index * 31 + place * 7 + (place >> 8));
        }
    }

    private static void stream(String queue) throws Exception {
        try (Connection connection = Broker.connect()) {
            StreamSender sender = connection.openStreamSender(queue);
            StreamSenderMessage message = sender.beginMessage();
            message.durable(true);
            message.property("chunks", chunks());
            byte[] chunk = new byte[CHUNK];
            OutputStreamOptions whole = new OutputStreamOptions().bodyLength(chunks() * CHUNK);
            try (OutputStream body = message.body(whole)) {
                for (int place = 0; place < chunks(); place++) {
                    fill(chunk, place);
                    body.write(chunk);
                }
            }
            message.tracker().awaitAccepted(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
            sender.close();
            receive(connection, queue);
        }
        Broker.same(Broker.browsed(queue), List.of(), "left");
    }

    private static void receive(Connection connection, String queue) throws Exception {
        StreamReceiver receiver = connection.openStreamReceiver(queue, new StreamReceiverOptions().autoAccept(false));
        StreamDelivery delivery = receiver.receive(Broker.WAIT_MS, TimeUnit.MILLISECONDS);
        Broker.demand(delivery != null, "no message came");
        Broker.same(delivery.message().property("chunks"), chunks(), "property");
        byte[] wanted = new byte[CHUNK];
        try (InputStream body = delivery.message().body()) {
            for (int place = 0; place < chunks(); place++) {
                fill(wanted, place);
                byte[] found = body.readNBytes(CHUNK);
                Broker.demand(java.util.Arrays.equals(found, wanted), "chunk " + place + " of " + chunks());
            }
            Broker.same(body.read(), -1, "end");
        }
        delivery.accept();
        receiver.close();
    }

    private Streams() {}
}
