// Sends to a topic and receives from its subscription with gocloud.dev's portable publish and subscribe.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/azuresb"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func demand(holds bool, format string, values ...any) {
	if !holds {
		log.Fatalf(format, values...)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	options := &azservicebus.ClientOptions{TLSConfig: &tls.Config{ServerName: os.Getenv("FERRYBUS_HOST")}}
	client := must(azuresb.NewClientFromConnectionString(os.Getenv("FERRYBUS_CONNECTION"), options))
	topic := must(azuresb.OpenTopic(ctx, must(azuresb.NewSender(client, "news", nil)), nil))
	receiver := must(azuresb.NewReceiver(client, "news", "all", nil))
	subscription := must(azuresb.OpenSubscription(ctx, client, receiver, nil))

	for number := range 50 {
		message := &pubsub.Message{Body: []byte(fmt.Sprint(number)), Metadata: map[string]string{"n": fmt.Sprint(number)}}
		check(topic.Send(ctx, message))
	}
	seen := map[string]bool{}
	for len(seen) < 50 {
		message := must(subscription.Receive(ctx))
		demand(message.Metadata["n"] == string(message.Body), "metadata %v of %s", message.Metadata, message.Body)
		demand(!seen[string(message.Body)], "%s came twice", message.Body)
		seen[string(message.Body)] = true
		message.Ack()
	}
	fmt.Println("50 messages sent to a topic, received, acknowledged")

	check(topic.Send(ctx, &pubsub.Message{Body: []byte("again")}))
	first := must(subscription.Receive(ctx))
	demand(first.Nackable(), "a message can be given back")
	first.Nack()
	again := must(subscription.Receive(ctx))
	demand(string(again.Body) == "again", "%s came again", again.Body)
	var raw *azservicebus.ReceivedMessage
	demand(again.As(&raw) && raw.DeliveryCount == 2, "deliveries: %v", raw)
	again.Ack()
	fmt.Println("a message that was given back came again, counted")

	missing := must(azuresb.OpenTopic(ctx, must(azuresb.NewSender(client, "nowhere", nil)), nil))
	err := missing.Send(ctx, &pubsub.Message{Body: []byte("lost")})
	demand(gcerrors.Code(err) == gcerrors.NotFound, "a missing topic: %v", err)
	fmt.Println("a missing topic is NotFound")

	short, end := context.WithTimeout(ctx, 2*time.Second)
	defer end()
	_, err = subscription.Receive(short)
	demand(errors.Is(err, context.DeadlineExceeded), "nothing is left: %v", err)
	check(subscription.Shutdown(ctx))
	check(topic.Shutdown(ctx))
}
