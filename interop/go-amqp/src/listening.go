package main

// Listeners that are slower than a lock lasts, and one that is killed. The client's default is one credit, so the window is asked for.

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/Azure/go-amqp"
)

const (
	listened = 600
	window   = 10
	// For the broker: the last message of a window has waited for longer than the lock of a minute.
	work = 10 * time.Second
)

func fill(queue string, count int) {
	c := connect()
	sender := c.sender(queue)
	receipts := []amqp.SendReceipt{}
	for number := range count {
		receipts = append(receipts, must(sender.SendWithReceipt(soon(), texted(strconv.Itoa(number)), nil)))
	}
	for _, receipt := range receipts {
		_, accepted := must(receipt.Wait(soon())).(*amqp.StateAccepted)
		holds(accepted, "a message is accepted")
	}
	c.close()
}

func (c *client) listener(queue string) *receiver {
	return c.receiverAs(queue, &amqp.ReceiverOptions{Credit: window})
}

func slowListener(queue string) {
	fill(queue, listened)
	c := connect()
	receiver := c.listener(queue)
	seen := map[string]bool{}
	for call := range listened {
		message := receiver.next()
		advanceClock(work)
		holds(!seen[body(message)], fmt.Sprintf("message %s is new at call %d", body(message), call))
		seen[body(message)] = true
		receiver.accept(message)
	}
	advanceClock(2 * time.Minute)
	receiver.isEmpty()
	c.close()
	nothingLeft(queue)
}

// The control of the case above: where locks have a timer, the same listener gets messages again.
func slowListenerWithTimer(queue string) {
	const count = 100
	fill(queue, count)
	c := connect()
	receiver := c.listener(queue)
	seen := map[string]bool{}
	again := false
	for call := 0; call < 2*count && !again; call++ {
		message := receiver.next()
		advanceClock(work)
		again = seen[body(message)]
		seen[body(message)] = true
		// It may come too late.
		_ = receiver.AcceptMessage(soon(), message)
	}
	holds(again, "a lock of a minute has ended while ten messages took ten seconds each")
	c.close()
}

func heldWithoutTimer(queue string) {
	c, other := connect(), connect()
	c.send(queue, "held")
	receiver := c.receiver(queue)
	message := receiver.next()
	advanceClock(time.Hour)
	waits := other.receiver(queue)
	waits.isEmpty()
	receiver.accept(message)
	waits.isEmpty()
	c.close()
	other.close()
	nothingLeft(queue)
}

// Says what it does, until somebody ends it; hangs in the message with this number of its own.
func listen(queue string, hangsAt int) {
	c := connect()
	receiver := c.listener(queue)
	fmt.Println("listening")
	for calls := 1; ; calls++ {
		message := must(receiver.Receive(context.Background(), nil))
		fmt.Println("begin", body(message))
		if calls == hangsAt {
			select {}
		}
		receiver.accept(message)
		fmt.Println("end", body(message))
	}
}

func nothingLeft(queue string) {
	c := connect()
	for _, address := range []string{queue, queue + "/$DeadLetterQueue"} {
		c.receiver(address).isEmpty()
	}
	c.close()
}
