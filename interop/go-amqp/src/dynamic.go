package main

// Dynamic nodes: request and reply, owner, end and topics.

import (
	"fmt"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// Within which the end of a connection must show.
const closedWithin = 20 * time.Second

// A receiver of a new node, of the kind that the capability names, or of any.
func (c *client) dynamic(capabilities ...string) *receiver {
	r := c.receiverAs("", &amqp.ReceiverOptions{DynamicAddress: true, SourceCapabilities: capabilities})
	holds(strings.HasPrefix(r.Address(), "$dynamic/"), "the broker gave the address "+r.Address())
	return r
}

// Waits until nothing is at an address any more.
func gone(address string) {
	c := connect()
	for end := time.Now().Add(closedWithin); time.Now().Before(end); {
		sender, err := c.session.NewSender(soon(), address, nil)
		if err != nil {
			refused(err, "amqp:not-found")
			c.close()
			return
		}
		check(sender.Close(soon()))
	}
	panic(address + " is still there")
}

func dynamicRequestReply(queue string) {
	const requests = 10
	requester, responder := connect(), connect()
	done := make(chan struct{})
	go func() {
		defer close(done)
		incoming := responder.receiver(queue)
		for number := 0; number < requests; number++ {
			request := incoming.next()
			reply := texted("re: " + body(request))
			reply.Properties = &amqp.MessageProperties{CorrelationID: request.Properties.CorrelationID}
			sender := responder.sender(*request.Properties.ReplyTo)
			check(sender.Send(soon(), reply, nil))
			check(sender.Close(soon()))
			incoming.accept(request)
		}
	}()
	replies, sender := requester.dynamic(), requester.sender(queue)
	address := replies.Address()
	for number := 0; number < requests; number++ {
		request := texted(fmt.Sprint(number))
		request.Properties = &amqp.MessageProperties{ReplyTo: &address, CorrelationID: uint64(number)}
		check(sender.Send(soon(), request, nil))
		reply := replies.next()
		same(body(reply), fmt.Sprintf("re: %d", number))
		same(reply.Properties.CorrelationID, any(uint64(number)))
		replies.accept(reply)
	}
	<-done
	requester.close()
	responder.close()
}

func dynamicOwner(string) {
	owner, other := connect(), connect()
	r := owner.dynamic("temporary-queue")
	_, err := other.session.NewReceiver(soon(), r.Address(), nil)
	refused(err, "amqp:resource-locked")
	other.send(r.Address(), "from another connection")
	r.take("from another connection")
	owner.send(r.Address(), "from its own")
	r.take("from its own")
	owner.close()
	other.close()
}

func dynamicEnd(string) {
	owner, other := connect(), connect()
	first, second := owner.dynamic(), owner.dynamic()
	sender := other.sender(first.Address())
	// A sender may ask for a node, too.
	asking := must(owner.session.NewSender(soon(), "", &amqp.SenderOptions{DynamicAddress: true}))
	check(asking.Send(soon(), texted("to my own"), nil))
	owner.receiver(asking.Address()).take("to my own")
	check(asking.Close(soon()))
	gone(asking.Address())
	check(first.Close(soon()))
	gone(first.Address())
	refused(sender.Send(soon(), texted("late"), nil), "amqp:resource-deleted")
	owner.close()
	gone(second.Address())
	other.close()
}

func dynamicTopic(string) {
	owner, other := connect(), connect()
	first := owner.dynamic("temporary-topic")
	second := owner.receiver(first.Address())
	other.send(first.Address(), "news")
	first.take("news")
	second.take("news")
	owner.close()
	other.close()
}
