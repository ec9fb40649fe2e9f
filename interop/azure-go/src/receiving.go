package main

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func complete(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "a")
	receiver := receiverOf(client, queue)
	message := one(receiver, "a")
	same(message.DeliveryCount, 1, "the SDK counts the delivery itself")
	check(receiver.CompleteMessage(everything, message, nil))
	empty(receiver)
}

func abandon(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "a", "b")
	receiver := receiverOf(client, queue)
	first := one(receiver, "a")
	changes := &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"seen": "once"}}
	check(receiver.AbandonMessage(everything, first, changes))
	again := one(receiver, "a")
	same(again.DeliveryCount, 2, "deliveries")
	demand(again.LockToken != first.LockToken, "a new lock")
	same(again.ApplicationProperties["seen"], any("once"), "property")
	check(receiver.CompleteMessage(everything, again, nil))
	complete1(receiver, "b")
	empty(receiver)
}

func deadLetter(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "a", "b")
	receiver, dead := receiverOf(client, queue), deadLettersOf(client, queue)
	why := &azservicebus.DeadLetterOptions{Reason: pointer("why"), ErrorDescription: pointer("in words")}
	check(receiver.DeadLetterMessage(everything, one(receiver, "a"), why))
	message := one(dead, "a")
	same(*message.DeadLetterReason, "why", "reason")
	same(*message.DeadLetterErrorDescription, "in words", "description")
	check(dead.AbandonMessage(everything, message, nil))
	message = one(dead, "a")
	same(message.DeliveryCount, uint32(1), "among the dead letters nothing counts")
	check(dead.CompleteMessage(everything, message, nil))
	check(receiver.DeadLetterMessage(everything, one(receiver, "b"), nil))
	message = one(dead, "b")
	demand(message.DeadLetterReason == nil || *message.DeadLetterReason == "", "no reason: %v", message.DeadLetterReason)
	check(dead.CompleteMessage(everything, message, nil))
	empty(receiver)
}

func deferred(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "a", "b")
	receiver := receiverOf(client, queue)
	check(receiver.DeferMessage(everything, one(receiver, "a"), nil))
	complete1(receiver, "b")
	empty(receiver)
	seen := must(receiver.PeekMessages(everything, 10, &azservicebus.PeekMessagesOptions{FromSequenceNumber: pointer(int64(0))}))
	same(len(seen), 1, "messages")
	same(seen[0].State, azservicebus.MessageStateDeferred, "state")
}

func deferredByNumber(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "complete", "abandon", "dead")
	receiver := receiverOf(client, queue)
	var numbers []int64
	for _, message := range next(receiver, 3) {
		numbers = append(numbers, *message.SequenceNumber)
		check(receiver.DeferMessage(everything, message, nil))
	}
	messages := must(receiver.ReceiveDeferredMessages(everything, numbers, nil))
	same(len(messages), 3, "messages")
	same(messages[1].DeliveryCount, uint32(2), "deferring counts as a delivery")
	check(receiver.CompleteMessage(everything, messages[0], nil))
	check(receiver.AbandonMessage(everything, messages[1], nil))
	check(receiver.DeadLetterMessage(everything, messages[2], nil))
	again := must(receiver.ReceiveDeferredMessages(everything, numbers[1:2], nil))
	same(string(again[0].Body), "abandon", "body")
	same(again[0].DeliveryCount, uint32(3), "abandoning counts as a delivery")
	check(receiver.CompleteMessage(everything, again[0], nil))
	_, err := receiver.ReceiveDeferredMessages(everything, numbers[:1], nil)
	demand(err != nil, "what is gone is refused")
	complete1(deadLettersOf(client, queue), "dead")
}

func receiveAndDelete(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "a", "b")
	options := &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
	receiver := must(client.NewReceiverForQueue(queue, options))
	one(receiver, "a")
	one(receiver, "b")
	check(receiver.Close(everything))
	empty(receiverOf(client, queue))
}

func timeOut(queue string) {
	client := connect()
	defer client.Close(everything)
	receiver := receiverOf(client, queue)
	empty(receiver)
	send(senderOf(client, queue), "late")
	complete1(receiver, "late")
}

// The lock lasts 15 s.
func renewal(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "long work")
	receiver := receiverOf(client, queue)
	message := one(receiver, "long work")
	first := *message.LockedUntil
	time.Sleep(7 * time.Second)
	check(receiver.RenewMessageLock(everything, message, nil))
	demand(message.LockedUntil.After(first), "%v is not after %v", message.LockedUntil, first)
	time.Sleep(time.Until(first) + 500*time.Millisecond)
	empty(receiverOf(client, queue))
	check(receiver.CompleteMessage(everything, message, nil))
}

// The lock lasts 5 s.
func loss(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "lost")
	receiver := receiverOf(client, queue)
	message := one(receiver, "lost")
	time.Sleep(time.Until(*message.LockedUntil) + 500*time.Millisecond)
	refused(receiver.RenewMessageLock(everything, message, nil), azservicebus.CodeLockLost)
	refused(receiver.CompleteMessage(everything, message, nil), azservicebus.CodeLockLost)
	again := one(receiver, "lost")
	same(again.DeliveryCount, 2, "deliveries")
	check(receiver.CompleteMessage(everything, again, nil))
}

func countToDeadLetter(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "bad")
	receiver := receiverOf(client, queue)
	for count := uint32(1); count <= 3; count++ {
		message := one(receiver, "bad")
		same(message.DeliveryCount, count, "deliveries")
		check(receiver.AbandonMessage(everything, message, nil))
	}
	message := one(deadLettersOf(client, queue), "bad")
	same(*message.DeadLetterReason, "MaxDeliveryCountExceeded", "reason")
}

func peek(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "a", "b", "c", "d", "e")
	receiver := receiverOf(client, queue)
	locked := one(receiver, "a")
	from := func(number int64, count int) (bodies string) {
		options := &azservicebus.PeekMessagesOptions{FromSequenceNumber: &number}
		for _, message := range must(receiver.PeekMessages(everything, count, options)) {
			bodies += string(message.Body)
		}
		return bodies
	}
	same(from(0, 3), "abc", "a page")
	same(from(*locked.SequenceNumber+3, 10), "de", "the rest")
	same(from(*locked.SequenceNumber+5, 10), "", "nothing more")
	check(receiver.CompleteMessage(everything, locked, nil))
	complete1(receiver, "b", "c", "d", "e")
}

func competing(queue string) {
	client := connect()
	defer client.Close(everything)
	first, second := receiverOf(client, queue), receiverOf(client, queue)
	sender := senderOf(client, queue)
	counts := map[string]int{}
	for _, body := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		send(sender, body)
	}
	for range 2 {
		for _, receiver := range []receives{first, second} {
			for _, message := range next(receiver, 2) {
				counts[string(message.Body)]++
				check(receiver.CompleteMessage(everything, message, nil))
			}
		}
	}
	same(len(counts), 8, "messages")
	empty(first)
}

// With a broker of its own, whose clock is moved.
func schedule(queue string) {
	client := connect()
	defer client.Close(everything)
	sender, receiver := senderOf(client, queue), receiverOf(client, queue)
	later := time.Now().Add(time.Hour)
	messages := []*azservicebus.Message{{Body: []byte("cancelled")}, {Body: []byte("due")}}
	numbers := must(sender.ScheduleMessages(everything, messages, later, nil))
	check(sender.SendMessage(everything, &azservicebus.Message{Body: []byte("by property"), ScheduledEnqueueTime: &later}, nil))
	empty(receiver)
	seen := must(receiver.PeekMessages(everything, 10, nil))
	same(len(seen), 3, "messages")
	same(seen[0].State, azservicebus.MessageStateScheduled, "state")
	check(sender.CancelScheduledMessages(everything, numbers[:1], nil))
	advanceClock(time.Hour + time.Second)
	found := map[string]bool{}
	for _, message := range next(receiver, 2) {
		found[string(message.Body)] = true
		demand(*message.SequenceNumber > numbers[1], "a new number")
		check(receiver.CompleteMessage(everything, message, nil))
	}
	demand(found["due"] && found["by property"], "%v", found)
	empty(receiver)
	demand(sender.CancelScheduledMessages(everything, numbers[1:], nil) != nil, "too late to cancel")
}

// A message is stored and its lock is held when the broker dies.
func restartBefore(queue string) {
	client := connect()
	send(senderOf(client, queue), "first")
	one(receiverOf(client, queue), "first")
}

func restartBetween(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "second")
}

func restartAfter(queue string) {
	client := connect()
	defer client.Close(everything)
	receiver := receiverOf(client, queue)
	complete1(receiver, "first", "second")
	empty(receiver)
}
