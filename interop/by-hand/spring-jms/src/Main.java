import jakarta.jms.ConnectionFactory;
import jakarta.jms.Message;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.adapter.MessageListenerAdapter;

/** `JmsTemplate` and Spring's listener container on Qpid JMS: messages, one after its listener has failed, request and reply. */
public final class Main {
    private static final int MESSAGES = 20;

    /** Its answer goes to the temporary queue that the request names. */
    public static final class Answers {
        public String handleMessage(String text) {
            return "answer to " + text;
        }
    }

    private static void demand(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    private static DefaultMessageListenerContainer listener(ConnectionFactory connections, String queue, Object handler) {
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(connections);
        container.setDestinationName(queue);
        container.setSessionTransacted(true);
        container.setMessageListener(handler);
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    public static void main(String[] arguments) throws Exception {
        String address = "amqp://localhost:" + System.getenv("FERRYBUS_PORT");
        CachingConnectionFactory connections = new CachingConnectionFactory(
            new JmsConnectionFactory(System.getenv("FERRYBUS_KEY_NAME"), System.getenv("FERRYBUS_KEY"), address));
        JmsTemplate template = new JmsTemplate(connections);
        template.setReceiveTimeout(20_000);

        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        AtomicBoolean failed = new AtomicBoolean();
        DefaultMessageListenerContainer works = listener(connections, "bound", (jakarta.jms.MessageListener) message -> {
            try {
                String text = ((TextMessage) message).getText();
                if (text.equals("message 3") && !failed.getAndSet(true)) {
                    throw new IllegalArgumentException("the listener fails once");
                }
                seen.add(text);
            } catch (jakarta.jms.JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        for (int number = 0; number < MESSAGES; number++) {
            template.convertAndSend("bound", "message " + number);
        }
        List<String> all = new ArrayList<>();
        for (int number = 0; number < MESSAGES; number++) {
            String text = seen.poll(20, TimeUnit.SECONDS);
            demand(text != null, "no message came after " + all);
            demand(!all.contains(text), text + " came twice");
            all.add(text);
        }
        demand(failed.get(), "the listener has not failed");
        works.shutdown();
        System.out.println(MESSAGES + " messages, one after its listener had failed");

        DefaultMessageListenerContainer answers =
            listener(connections, "asked", new MessageListenerAdapter(new Answers()));
        for (int number = 0; number < 10; number++) {
            String question = "question " + number;
            Message answer = template.sendAndReceive("asked", session -> session.createTextMessage(question));
            demand(answer != null, "no answer to " + question);
            String text = ((TextMessage) answer).getText();
            demand(text.equals("answer to " + question), text);
        }
        answers.shutdown();
        System.out.println("10 requests, each answered at its temporary queue");
        template.setReceiveTimeout(1_000);
        demand(template.receive("bound") == null && template.receive("asked") == null, "something is left");
        connections.destroy();
        System.exit(0);
    }

    private Main() {}
}
