package main

import (
	"errors"
	"net/http"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func subscriber(client *azservicebus.Client, topic, subscription string) *azservicebus.Receiver {
	return must(client.NewReceiverForSubscription(topic, subscription, nil))
}

func eachCopy(topic string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, topic)
	send(sender, "single")
	batch := must(sender.NewMessageBatch(everything, nil))
	for _, body := range []string{"one", "two"} {
		check(batch.AddMessage(&azservicebus.Message{Body: []byte(body)}, nil))
	}
	check(sender.SendMessageBatch(everything, batch, nil))
	for _, subscription := range []string{"a", "b"} {
		receiver := subscriber(client, topic, subscription)
		complete1(receiver, "single", "one", "two")
		empty(receiver)
	}
}

func settledApart(topic string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, topic), "m")
	a, b := subscriber(client, topic, "a"), subscriber(client, topic, "b")
	check(a.DeadLetterMessage(everything, one(a, "m"), nil))
	message := one(b, "m")
	check(b.AbandonMessage(everything, message, nil))
	message = one(b, "m")
	same(message.DeliveryCount, 2, "deliveries")
	check(b.DeferMessage(everything, message, nil))
	deferred := must(b.ReceiveDeferredMessages(everything, []int64{*message.SequenceNumber}, nil))
	check(b.CompleteMessage(everything, deferred[0], nil))
	options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
	complete1(must(client.NewReceiverForSubscription(topic, "a", options)), "m")
	empty(b)
}

func rulesChoose(topic string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, topic)
	for _, message := range []*azservicebus.Message{
		{Body: []byte("small"), Subject: pointer("order"), ApplicationProperties: map[string]any{"amount": int64(10)}},
		{Body: []byte("big"), Subject: pointer("order"), ApplicationProperties: map[string]any{"amount": int64(1000)}},
		{Body: []byte("red"), Subject: pointer("order"), ApplicationProperties: map[string]any{"colour": "red", "amount": int64(1)}},
	} {
		check(sender.SendMessage(everything, message, nil))
	}
	for subscription, bodies := range map[string][]string{
		"all": {"small", "big", "red"}, "none": {}, "big": {"big"}, "red": {"red"},
	} {
		receiver := subscriber(client, topic, subscription)
		complete1(receiver, bodies...)
		empty(receiver)
	}
}

// The client is always one of https, whatever the connection string says; the port that takes AMQP over TLS takes it.
func administrator() *admin.Client {
	text := "Endpoint=sb://" + os.Getenv("FERRYBUS_HOST") + ":" + os.Getenv("FERRYBUS_TLS_PORT") +
		";SharedAccessKeyName=" + os.Getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + os.Getenv("FERRYBUS_KEY")
	return must(admin.NewClientFromConnectionString(text, nil))
}

func administration(queue string) {
	client := administrator()
	same(must(client.GetQueue(everything, queue, nil)).QueueName, queue, "name")
	made := queue + "-made"
	properties := &admin.QueueProperties{LockDuration: pointer("PT30S"), MaxDeliveryCount: pointer(int32(3)), UserMetadata: pointer("ü<&>")}
	created := must(client.CreateQueue(everything, made, &admin.CreateQueueOptions{Properties: properties}))
	same(*created.LockDuration, "PT30S", "lock duration")
	_, err := client.CreateQueue(everything, made, nil)
	var conflict *azcore.ResponseError
	demand(errors.As(err, &conflict) && conflict.StatusCode == http.StatusConflict, "twice: %v", err)
	read := must(client.GetQueue(everything, made, nil)).QueueProperties
	same(*read.UserMetadata, "ü<&>", "metadata")
	read.MaxDeliveryCount = pointer(int32(7))
	must(client.UpdateQueue(everything, made, read, nil))
	same(*must(client.GetQueue(everything, made, nil)).MaxDeliveryCount, 7, "changed")
	messages := connect()
	defer messages.Close(everything)
	send(senderOf(messages, made), "counted")
	same(must(client.GetQueueRuntimeProperties(everything, made, nil)).ActiveMessageCount, 1, "messages")
	listed := false
	for pager := client.NewListQueuesPager(nil); pager.More(); {
		for _, item := range must(pager.NextPage(everything)).Queues {
			listed = listed || item.QueueName == made
		}
	}
	demand(listed, "the queue is not listed")
	must(client.DeleteQueue(everything, made, nil))
	gone := must(client.GetQueue(everything, made, nil))
	demand(gone == nil, "the queue is still there")
	administerTopic(client, messages, queue+"-topic")
	administerAsTheService(client, queue+"-as-the-service")
	demand(must(client.GetNamespaceProperties(everything, nil)).Name != "", "the namespace has a name")
}

// What is missing is no entity and no error when it is asked for, and an error of the SDK when it is changed.
func administrationMissing(topic string) {
	client := administrator()
	demand(must(client.GetQueue(everything, "nowhere", nil)) == nil, "a queue")
	demand(must(client.GetQueueRuntimeProperties(everything, "nowhere", nil)) == nil, "counts of a queue")
	demand(must(client.GetTopic(everything, "nowhere", nil)) == nil, "a topic")
	demand(must(client.GetSubscription(everything, topic, "nowhere", nil)) == nil, "a subscription")
	demand(must(client.GetSubscription(everything, "nowhere", "a", nil)) == nil, "a subscription of nothing")
	demand(must(client.GetRule(everything, topic, "a", "nowhere", nil)) == nil, "a rule")
	var unknown *azcore.ResponseError
	_, queue := client.DeleteQueue(everything, "nowhere", nil)
	_, subscription := client.DeleteSubscription(everything, topic, "nowhere", nil)
	_, rule := client.DeleteRule(everything, topic, "a", "nowhere", nil)
	_, updated := client.UpdateQueue(everything, "nowhere", admin.QueueProperties{}, nil)
	for what, err := range map[string]error{"queue": queue, "subscription": subscription, "rule": rule, "update": updated} {
		demand(errors.As(err, &unknown) && unknown.StatusCode == http.StatusNotFound, "%s: %v", what, err)
	}
}

func administerTopic(client *admin.Client, messages *azservicebus.Client, topic string) {
	must(client.CreateTopic(everything, topic, nil))
	rule := &admin.RuleProperties{
		Name: "red", Filter: &admin.SQLFilter{Expression: "colour = 'red'"}, Action: &admin.SQLAction{Expression: "SET seen = 1"},
	}
	subscription := &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{DefaultRule: rule}}
	must(client.CreateSubscription(everything, topic, "s", subscription))
	correlation := &admin.CreateRuleOptions{Name: pointer("blue"), Filter: &admin.CorrelationFilter{Subject: pointer("blue")}}
	must(client.CreateRule(everything, topic, "s", correlation))
	found := must(client.GetRule(everything, topic, "s", "blue", nil))
	same(*found.Filter.(*admin.CorrelationFilter).Subject, "blue", "filter")
	changed := found.RuleProperties
	changed.Filter = &admin.CorrelationFilter{Subject: pointer("green")}
	must(client.UpdateRule(everything, topic, "s", changed))
	rules := 0
	for pager := client.NewListRulesPager(topic, "s", nil); pager.More(); {
		rules += len(must(pager.NextPage(everything)).Rules)
	}
	same(rules, 2, "rules")
	sender := senderOf(messages, topic)
	for _, colour := range []string{"red", "blue", "green"} {
		properties := map[string]any{"colour": colour}
		message := &azservicebus.Message{Body: []byte(colour), Subject: &colour, ApplicationProperties: properties}
		check(sender.SendMessage(everything, message, nil))
	}
	receiver := subscriber(messages, topic, "s")
	complete1(receiver, "red", "green")
	empty(receiver)
	must(client.DeleteRule(everything, topic, "s", "blue", nil))
	must(client.DeleteSubscription(everything, topic, "s", nil))
	demand(must(client.GetSubscription(everything, topic, "s", nil)) == nil, "the subscription is still there")
	must(client.DeleteTopic(everything, topic, nil))
}
