import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it. */
final class Largest {
    private static final int LIMIT = 256 << 10;
    private static final int LOWERED = 1 << 10;
    /** Bytes of a message beside its body. */
    private static final int OVERHEAD_MAX = 1 << 10;

    static void declare(Map<String, Main.Case> cases) {
        cases.put("largest-message", Largest::play);
    }

    private static BytesMessage filled(Session session, int length) throws JMSException {
        BytesMessage message = Sending.binary(session, Sending.pattern(length));
        message.setJMSType("the subject");
        message.setJMSCorrelationID("corr");
        message.setIntProperty("number", 7);
        message.setStringProperty("text", "grüße ✓");
        return message;
    }

    /** Whether a message with a body of this length is taken. */
    private static boolean isTaken(Session session, MessageProducer producer, int length) throws JMSException {
        try {
            producer.send(filled(session, length));
            return true;
        } catch (JMSException refused) {
            Client.demand(refused.getMessage().contains("message-size-exceeded"), "says why: " + refused);
            return false;
        }
    }

    /**
     * Searches the body with which a message has exactly the size of the limit: one byte more is refused. Takes away what
     * was sent meanwhile. The client numbers its messages in their ids, whose length counts: from the tenth to the last of
     * this case all have the same.
     */
    private static int searchBody(Session session, MessageProducer producer, MessageConsumer consumer) throws JMSException {
        int taken = LIMIT - OVERHEAD_MAX;
        int refused = LIMIT;
        List<Integer> lengths = new ArrayList<>();
        for (int ids = 0; ids < 10; ids++) {
            Client.demand(isTaken(session, producer, taken), OVERHEAD_MAX + " bytes beside the body suffice");
            lengths.add(taken);
        }
        while (refused - taken > 1) {
            int tried = (taken + refused) / 2;
            if (isTaken(session, producer, tried)) {
                taken = tried;
                lengths.add(tried);
            } else {
                refused = tried;
            }
        }
        for (int length : lengths) {
            nextWhole(consumer, length).acknowledge();
        }
        return taken;
    }

    /** Nothing was lost on the way, and it comes for the first time: no link was closed for its size. */
    private static Message nextWhole(MessageConsumer consumer, int length) throws JMSException {
        Message message = Client.next(consumer);
        Client.demand(Arrays.equals(Client.bytes(message), Sending.pattern(length)), "byte for byte");
        Client.same(message.getJMSType(), "the subject", "type");
        Client.same(message.getJMSCorrelationID(), "corr", "correlation");
        Client.same(message.getIntProperty("number"), 7, "number");
        Client.same(message.getStringProperty("text"), "grüße ✓", "text");
        Client.same(Client.deliveries(message), 1, "deliveries");
        return message;
    }

    private static void play(String queue) throws Exception {
        // Without prefetch, so that each receiver gets a message when it asks for it.
        String[] options = {"jms.prefetchPolicy.all=0", "jms.prefetchPolicy.all=0&jms.presettlePolicy.presettleConsumers=true"};
        try (Connection connection = Client.connect(options[0]); Connection deleting = Client.connect(options[1])) {
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Session deletes = deleting.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue there = session.createQueue(queue);
            Queue letters = session.createQueue(Client.deadLetters(queue));
            MessageProducer producer = session.createProducer(there);
            MessageConsumer locked = session.createConsumer(there);
            MessageConsumer dead = session.createConsumer(letters);
            MessageConsumer deleted = deletes.createConsumer(there);
            MessageConsumer deletedDead = deletes.createConsumer(letters);
            int length = searchBody(session, producer, locked);
            JMSException refused =
                Client.refused(JMSException.class, () -> producer.send(filled(session, length + 1)));
            String sizes = "has " + (LIMIT + 1) + " bytes; the link takes at most " + LIMIT;
            Client.demand(refused.getMessage().contains(sizes), "what the broker says of one byte more: " + refused);
            for (boolean isLowered : new boolean[] {false, true}) {
                for (int round = 0; round < 4; round++) {
                    Client.demand(isTaken(session, producer, length), "the largest is taken");
                }
                if (isLowered) {
                    limitMessages(queue, LOWERED);
                    Client.demand(!isTaken(session, session.createProducer(there), LOWERED), "the limit is lower");
                }
                nextWhole(deleted, length);
                nextWhole(locked, length).acknowledge();
                // JMS has no call to give a reason.
                for (int round = 0; round < 2; round++) {
                    Client.settle(nextWhole(locked, length), Client.REJECTED);
                }
                nextWhole(deletedDead, length);
                nextWhole(dead, length).acknowledge();
            }
            Client.empty(locked);
            Client.empty(dead);
        }
    }

    /** Changes the largest message that a queue takes, as an operator does. */
    private static void limitMessages(String queue, int most) throws Exception {
        String[] command =
            {System.getenv("FERRYBUS_BIN"), "queue", "update", queue, "--max-message-bytes", String.valueOf(most)};
        int code = new ProcessBuilder(command).inheritIO().start().waitFor();
        Client.same(code, 0, "exit code of `ferrybus queue update`");
    }

    private Largest() {}
}
