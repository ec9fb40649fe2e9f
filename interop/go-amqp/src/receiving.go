package main

// Messages under a lock and what becomes of them, receiving without a lock, looking only.

import (
	"fmt"
	"time"

	"github.com/Azure/go-amqp"
)

func complete(queue string) {
	c := connect()
	c.send(queue, "one", "two")
	receiver := c.receiver(queue)
	for _, text := range []string{"one", "two"} {
		message := receiver.next()
		same(body(message), text)
		same(message.Header.DeliveryCount, uint32(0))
		receiver.accept(message)
	}
	receiver.isEmpty()
	check(receiver.Close(soon()))
	same(len(manage(c, queue).peek(1, 10)), 0)
	c.close()
}

// What is given back keeps its place, and has failed so often.
func givenBack(queue string, how func(*receiver, *amqp.Message), failed uint32) {
	c := connect()
	c.send(queue, "one", "two")
	receiver := c.receiver(queue)
	first := receiver.next()
	how(receiver, first)
	again := receiver.next()
	same(body(again), "one")
	same(sequenceNumber(again), sequenceNumber(first))
	same(again.Header.DeliveryCount, failed)
	receiver.accept(again)
	receiver.take("two")
	receiver.isEmpty()
	c.close()
}

func abandon(queue string) {
	givenBack(queue, func(r *receiver, m *amqp.Message) { r.modify(m, true, false) }, 1)
}

func modified(queue string) {
	givenBack(queue, func(r *receiver, m *amqp.Message) { r.modify(m, false, false) }, 0)
}

func release(queue string) {
	givenBack(queue, func(r *receiver, m *amqp.Message) { check(r.ReleaseMessage(soon(), m)) }, 0)
}

func deadLetter(queue string) {
	c := connect()
	c.send(queue, "bad")
	receiver := c.receiver(queue)
	info := map[string]any{"DeadLetterReason": "broken", "DeadLetterErrorDescription": "cannot be read"}
	said := &amqp.Error{Condition: "com.microsoft:dead-letter", Info: info}
	check(receiver.RejectMessage(soon(), receiver.next(), said))
	receiver.isEmpty()
	letter := c.takeDeadLetter(queue, "bad", "broken")
	same(letter.ApplicationProperties["DeadLetterErrorDescription"], any("cannot be read"))
	c.close()
}

func deferred(queue string) {
	c := connect()
	c.send(queue, "later", "now")
	receiver := c.lockingReceiver(queue)
	receiver.modify(receiver.next(), false, true)
	receiver.take("now")
	receiver.isEmpty()
	peeked := manage(c, queue).peek(1, 10)
	same(len(peeked), 1)
	same(body(peeked[0]), "later")
	same(peeked[0].Annotations["x-opt-message-state"], any(int32(1)))
	c.close()
}

func undeliverable(queue string) {
	c := connect()
	c.send(queue, "not here")
	receiver := c.receiver(queue)
	receiver.modify(receiver.next(), false, true)
	receiver.isEmpty()
	c.takeDeadLetter(queue, "not here", "UndeliverableHere")
	c.close()
}

// Both modes are said, and go-amqp fails to attach when others are answered; each settlement waits for the broker's.
func modeSecond(queue string) {
	c := connect()
	sender := must(c.session.NewSender(soon(), queue, &amqp.SenderOptions{
		SettlementMode:              amqp.SenderSettleModeUnsettled.Ptr(),
		RequestedReceiverSettleMode: amqp.ReceiverSettleModeFirst.Ptr(),
	}))
	for _, text := range []string{"accept", "release", "modify", "reject"} {
		check(sender.Send(soon(), texted(text), nil))
	}
	receiver := c.receiverAs(queue, &amqp.ReceiverOptions{
		Credit:                    4,
		SettlementMode:            amqp.ReceiverSettleModeSecond.Ptr(),
		RequestedSenderSettleMode: amqp.SenderSettleModeUnsettled.Ptr(),
	})
	messages := []*amqp.Message{receiver.next(), receiver.next(), receiver.next(), receiver.next()}
	receiver.accept(messages[0])
	check(receiver.ReleaseMessage(soon(), messages[1]))
	receiver.modify(messages[2], true, false)
	// The answer repeats the outcome: go-amqp returns a `rejected` as an error when it carries one.
	check(receiver.RejectMessage(soon(), messages[3], nil))
	for _, expected := range []struct {
		text   string
		failed uint32
	}{{"release", 0}, {"modify", 1}} {
		again := receiver.next()
		same(body(again), expected.text)
		same(again.Header.DeliveryCount, expected.failed)
		receiver.accept(again)
	}
	receiver.isEmpty()
	c.takeDeadLetter(queue, "reject", "")
	c.close()
}

func receiveAndDelete(queue string) {
	c := connect()
	c.send(queue, "a", "b", "c")
	options := &amqp.ReceiverOptions{RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr()}
	receiver := c.receiverAs(queue, options)
	for _, text := range []string{"a", "b", "c"} {
		same(body(receiver.next()), text)
	}
	receiver.isEmpty()
	check(receiver.Close(soon()))
	same(len(manage(c, queue).peek(1, 10)), 0)
	c.close()
}

func renewal(queue string) {
	c, other := connect(), connect()
	c.send(queue, "long work")
	receiver := c.lockingReceiver(queue)
	message := receiver.next()
	end := lockedUntil(message)
	node := manage(c, queue)
	time.Sleep(7 * time.Second) // so that the renewed lock outlives the first one by as much
	status, renewed := node.renew(lockToken(message))
	same(status, int32(200))
	holds(renewed.Sub(end) >= 4500*time.Millisecond, "the lock is longer")
	waitPast(end)
	other.receiver(queue).isEmpty()
	receiver.accept(message)
	receiver.isEmpty()
	check(receiver.Close(soon()))
	same(len(node.peek(1, 10)), 0)
	c.close()
}

func loss(queue string) {
	c := connect()
	c.send(queue, "too slow")
	receiver := c.lockingReceiver(queue)
	first := receiver.next()
	node := manage(c, queue)
	waitPast(lockedUntil(first))
	status, _ := node.renew(lockToken(first))
	same(status, int32(410))
	receiver.accept(first) // too late: must complete nothing
	again := receiver.next()
	same(body(again), "too slow")
	same(again.Header.DeliveryCount, uint32(1))
	receiver.accept(again)
	receiver.isEmpty()
	lossIsAnswered(c, queue)
	c.close()
}

// In mode second the late settlement is answered by an error that says so.
func lossIsAnswered(c *client, queue string) {
	c.send(queue, "late")
	receiver := c.receiverAs(queue, &amqp.ReceiverOptions{
		SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
		Properties:     map[string]any{"com.microsoft:receiver-name": "go"},
	})
	message := receiver.next()
	waitPast(lockedUntil(message))
	refused(receiver.AcceptMessage(soon(), message), "com.microsoft:message-lock-lost")
}

func countToDeadLetter(queue string) {
	c := connect()
	c.send(queue, "poison")
	receiver := c.receiver(queue)
	for failed := uint32(0); failed < 3; failed++ {
		message := receiver.next()
		same(message.Header.DeliveryCount, failed)
		receiver.modify(message, true, false)
	}
	receiver.isEmpty()
	letter := c.takeDeadLetter(queue, "poison", "MaxDeliveryCountExceeded")
	holds(letter.ApplicationProperties["DeadLetterErrorDescription"] != nil, "it is described")
	c.close()
}

func numbers() []string {
	return []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
}

func peek(queue string) {
	c := connect()
	c.send(queue, numbers()...)
	node := manage(c, queue)
	from := int64(1)
	for seen := 0; seen < 10; {
		page := node.peek(from, 4)
		holds(len(page) > 0, "there is more")
		for _, message := range page {
			same(body(message), fmt.Sprint(seen))
			same(message.Annotations["x-opt-message-state"], any(int32(0)))
			seen++
		}
		from = sequenceNumber(page[len(page)-1]) + 1
	}
	same(len(node.peek(from, 1)), 0)
	receiver := c.receiver(queue)
	for _, text := range numbers() {
		message := receiver.next()
		same(body(message), text)
		same(message.Header.DeliveryCount, uint32(0)) // peeking is not delivering
		receiver.accept(message)
	}
	c.close()
}

func competing(queue string) {
	left, right := connect(), connect()
	left.send(queue, numbers()...)
	options := &amqp.ReceiverOptions{Credit: 5}
	mine, theirs := left.receiverAs(queue, options), right.receiverAs(queue, options)
	seen := map[string]bool{}
	var ofLeft, ofRight []*amqp.Message
	for round := 0; round < 5; round++ {
		one, other := mine.next(), theirs.next()
		seen[body(one)], seen[body(other)] = true, true
		ofLeft, ofRight = append(ofLeft, one), append(ofRight, other)
	}
	same(len(seen), 10) // none came twice
	for round := 0; round < 5; round++ {
		mine.accept(ofLeft[round])
		theirs.accept(ofRight[round])
	}
	mine.isEmpty()
	left.close()
	right.close()
}

// Credit is given by hand: the client gives none on top of what the case asks for.
func drain(queue string) {
	c := connect()
	receiver := c.receiverAs(queue, &amqp.ReceiverOptions{Credit: -1})
	check(receiver.IssueCredit(10))
	check(receiver.DrainCredit(soon(), nil))
	c.send(queue, "a", "b", "c")
	receiver.isEmpty()
	check(receiver.IssueCredit(2))
	receiver.take("a")
	receiver.take("b")
	check(receiver.IssueCredit(5))
	receiver.take("c")
	check(receiver.DrainCredit(soon(), nil))
	c.send(queue, "d")
	receiver.isEmpty()
	check(receiver.IssueCredit(1))
	receiver.take("d")
	c.close()
}

func selector(topic string) {
	c := connect()
	filter := amqp.NewSelectorFilter("colour = 'red' AND n > 1")
	receiver := c.receiverAs(topic, &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{filter}})
	sender := c.sender(topic)
	for _, each := range []struct {
		text, colour string
		n            int32
	}{{"few", "red", 1}, {"blue", "blue", 2}, {"both", "red", 2}} {
		message := texted(each.text)
		message.ApplicationProperties = map[string]any{"colour": each.colour, "n": each.n}
		check(sender.Send(soon(), message, nil))
	}
	receiver.take("both")
	receiver.isEmpty()
	c.close()
}
