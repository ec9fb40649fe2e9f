// Runs Dapr's publish-and-subscribe components for queues and topics, and its queue binding, without the sidecar.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/dapr/components-contrib/bindings"
	binding "github.com/dapr/components-contrib/bindings/azure/servicebusqueues"
	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/components-contrib/pubsub"
	"github.com/dapr/components-contrib/pubsub/azure/servicebus/queues"
	"github.com/dapr/components-contrib/pubsub/azure/servicebus/topics"
	"github.com/dapr/kit/logger"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The component makes entities over HTTPS on port 443 of the host; here they are there.
func base(more map[string]string) metadata.Base {
	properties := map[string]string{
		"connectionString": os.Getenv("FERRYBUS_CONNECTION"), "disableEntityManagement": "true",
	}
	for name, value := range more {
		properties[name] = value
	}
	return metadata.Base{Properties: properties}
}

func waitFor(what string, arrived <-chan string, count int) {
	seen := map[string]bool{}
	for len(seen) < count {
		select {
		case body := <-arrived:
			seen[body] = true
		case <-time.After(30 * time.Second):
			log.Fatalf("%s: only %d of %d messages came", what, len(seen), count)
		}
	}
}

// The first message is refused once by its handler, and comes again.
func publishAndSubscribe(ctx context.Context, what, name string, component pubsub.PubSub, more map[string]string) {
	check(component.Init(ctx, pubsub.Metadata{Base: base(more)}))
	arrived := make(chan string, 100)
	var failed atomic.Bool
	check(component.Subscribe(ctx, pubsub.SubscribeRequest{Topic: name}, func(_ context.Context, message *pubsub.NewMessage) error {
		if failed.CompareAndSwap(false, true) {
			return errors.New("not yet")
		}
		arrived <- string(message.Data)
		return nil
	}))
	for number := range 20 {
		request := &pubsub.PublishRequest{Topic: name, Data: []byte(fmt.Sprint(number))}
		check(component.Publish(ctx, request))
	}
	var entries []pubsub.BulkMessageEntry
	for number := range 20 {
		entries = append(entries, pubsub.BulkMessageEntry{EntryId: fmt.Sprint(number), Event: []byte(fmt.Sprint(20 + number))})
	}
	answer, err := component.(pubsub.BulkPublisher).BulkPublish(ctx, &pubsub.BulkPublishRequest{Topic: name, Entries: entries})
	check(err)
	if len(answer.FailedEntries) > 0 {
		log.Fatalf("%s: %v", what, answer.FailedEntries)
	}
	waitFor(what, arrived, 40)
	check(component.Close())
	fmt.Printf("%s: 20 messages published, 20 in a batch, all handled, one of them after a failure\n", what)
}

func queueBinding(ctx context.Context) {
	component := binding.NewAzureServiceBusQueues(logger.NewLogger("binding"))
	check(component.Init(ctx, bindings.Metadata{Base: base(map[string]string{"queueName": "bound"})}))
	arrived := make(chan string, 10)
	check(component.Read(ctx, func(_ context.Context, answer *bindings.ReadResponse) ([]byte, error) {
		arrived <- string(answer.Data)
		return nil, nil
	}))
	for number := range 5 {
		_, err := component.Invoke(ctx, &bindings.InvokeRequest{Operation: bindings.CreateOperation, Data: []byte(fmt.Sprint(number))})
		check(err)
	}
	waitFor("binding", arrived, 5)
	check(component.Close())
	fmt.Println("binding: 5 messages written and read")
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	silent := func(name string) logger.Logger {
		made := logger.NewLogger(name)
		made.SetOutputLevel(logger.FatalLevel)
		return made
	}
	publishAndSubscribe(ctx, "queues", "orders", queues.NewAzureServiceBusQueues(silent("queues")), nil)
	consumer := map[string]string{"consumerID": "all"}
	publishAndSubscribe(ctx, "topics", "news", topics.NewAzureServiceBusTopics(silent("topics")), consumer)
	queueBinding(ctx)
}
