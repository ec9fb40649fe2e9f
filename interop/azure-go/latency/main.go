// How long single steps of the SDK take, for `cargo xtask bench --scenario sdk-latency`.
//
// Prints a line for each time a step was done: its name, a tab, milliseconds. `FERRYBUS_CONNECTION` is the connection
// string of a broker with the queues `latency` and `latency-sessions`, `FERRYBUS_REPETITIONS` says how often.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	queue    = "latency"
	sessions = "latency-sessions"
	// Until a receiver that was just told to wait does so.
	settled = 100 * time.Millisecond
)

var (
	everything, _ = context.WithTimeout(context.Background(), 5*time.Minute)
	repetitions   = must(strconv.Atoi(os.Getenv("FERRYBUS_REPETITIONS")))
	body          = []byte(strings.Repeat("x", 1024))
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func told(step string, begun, over time.Time) {
	fmt.Printf("%s\t%.3f\n", step, float64(over.Sub(begun).Microseconds())/1000)
}

func timed(step string, do func()) {
	begun := time.Now()
	do()
	told(step, begun, time.Now())
}

func connect() *azservicebus.Client {
	return must(azservicebus.NewClientFromConnectionString(os.Getenv("FERRYBUS_CONNECTION"), nil))
}

func send(sender *azservicebus.Sender) {
	check(sender.SendMessage(everything, &azservicebus.Message{Body: body}, nil))
}

func one(receiver *azservicebus.Receiver) *azservicebus.ReceivedMessage {
	return must(receiver.ReceiveMessages(everything, 1, nil))[0]
}

func complete(receiver *azservicebus.Receiver, message *azservicebus.ReceivedMessage) {
	check(receiver.CompleteMessage(everything, message, nil))
}

func arrivals() {
	sending, receiving := connect(), connect()
	sender := must(sending.NewSender(queue, nil))
	receiver := must(receiving.NewReceiverForQueue(queue, nil))
	send(sender)
	complete(receiver, one(receiver))
	for range repetitions {
		came := make(chan time.Time)
		go func() {
			message := one(receiver)
			over := time.Now()
			complete(receiver, message)
			came <- over
		}()
		time.Sleep(settled)
		begun := time.Now()
		send(sender)
		told("a message arrives at a waiting receiver", begun, <-came)
	}
	check(sending.Close(everything))
	check(receiving.Close(everything))
}

func connects() {
	for range repetitions {
		begun := time.Now()
		client := connect()
		send(must(client.NewSender(queue, nil)))
		told("connect and send", begun, time.Now())
		check(client.Close(everything))
	}
}

func newReceivers(client *azservicebus.Client) {
	for range repetitions {
		begun := time.Now()
		receiver := must(client.NewReceiverForQueue(queue, nil))
		message := one(receiver)
		told("new receiver and first message", begun, time.Now())
		complete(receiver, message)
		check(receiver.Close(everything))
	}
}

func acceptSessions(client *azservicebus.Client) {
	sender := must(client.NewSender(sessions, nil))
	for number := range repetitions {
		id := fmt.Sprintf("s%d", number)
		check(sender.SendMessage(everything, &azservicebus.Message{Body: body, SessionID: &id}, nil))
		timed("accept a session, receive, complete, close", func() {
			receiver := must(client.AcceptNextSessionForQueue(everything, sessions, nil))
			message := must(receiver.ReceiveMessages(everything, 1, nil))[0]
			check(receiver.CompleteMessage(everything, message, nil))
			check(receiver.Close(everything))
		})
	}
}

func requests(client *azservicebus.Client) {
	sender := must(client.NewSender(queue, nil))
	receiver := must(client.NewReceiverForQueue(queue, nil))
	tomorrow := time.Now().Add(24 * time.Hour)
	schedule := func() []int64 {
		messages := []*azservicebus.Message{{Body: body}}
		return must(sender.ScheduleMessages(everything, messages, tomorrow, nil))
	}
	check(sender.CancelScheduledMessages(everything, schedule(), nil))
	must(receiver.PeekMessages(everything, 1, nil))
	for range repetitions {
		var numbers []int64
		timed("schedule", func() { numbers = schedule() })
		timed("cancel a schedule", func() { check(sender.CancelScheduledMessages(everything, numbers, nil)) })
		send(sender)
		timed("peek", func() { must(receiver.PeekMessages(everything, 1, nil)) })
		message := one(receiver)
		timed("renew a lock", func() { check(receiver.RenewMessageLock(everything, message, nil)) })
		check(receiver.DeferMessage(everything, message, nil))
		var deferred []*azservicebus.ReceivedMessage
		timed("receive a deferred message", func() {
			deferred = must(receiver.ReceiveDeferredMessages(everything, []int64{*message.SequenceNumber}, nil))
		})
		complete(receiver, deferred[0])
	}
}

func main() {
	arrivals()
	connects()
	client := connect()
	newReceivers(client)
	acceptSessions(client)
	requests(client)
	check(client.Close(everything))
}
