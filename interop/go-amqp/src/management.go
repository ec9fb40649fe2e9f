package main

import (
	"fmt"
	"time"

	"github.com/Azure/go-amqp"
)

// Requests to a queue's `$management` node.
type management struct {
	sender   *amqp.Sender
	receiver *receiver
	replies  string
	count    int
}

func manage(c *client, queue string) *management {
	node, replies := queue+"/$management", queue+"-replies"
	receiver := c.receiverAs(node, &amqp.ReceiverOptions{TargetAddress: replies})
	return &management{c.sender(node), receiver, replies, 0}
}

func (m *management) request(operation string, fields map[string]any) (int32, any) {
	m.count++
	id := fmt.Sprint("request-", m.count)
	request := &amqp.Message{
		Properties:            &amqp.MessageProperties{MessageID: id, ReplyTo: &m.replies},
		ApplicationProperties: map[string]any{"operation": "com.microsoft:" + operation},
		Value:                 fields,
	}
	check(m.sender.Send(soon(), request, nil))
	reply := m.receiver.next()
	m.receiver.accept(reply)
	same(reply.Properties.CorrelationID, any(id))
	return reply.ApplicationProperties["statusCode"].(int32), reply.Value
}

// Renews a lock; says the status and the new end.
func (m *management) renew(token amqp.UUID) (int32, time.Time) {
	status, value := m.request("renew-lock", map[string]any{"lock-tokens": []amqp.UUID{token}})
	if status != 200 {
		return status, time.Time{}
	}
	return status, value.(map[string]any)["expirations"].([]time.Time)[0]
}

func (m *management) peek(from int64, count int32) []*amqp.Message {
	fields := map[string]any{"from-sequence-number": from, "message-count": count}
	status, value := m.request("peek-message", fields)
	if status == 204 {
		return nil
	}
	same(status, int32(200))
	var peeked []*amqp.Message
	for _, item := range value.(map[string]any)["messages"].([]any) {
		message := &amqp.Message{}
		check(message.UnmarshalBinary(item.(map[string]any)["message"].([]byte)))
		peeked = append(peeked, message)
	}
	return peeked
}

func lockToken(message *amqp.Message) amqp.UUID {
	return message.DeliveryAnnotations["x-opt-lock-token"].(amqp.UUID)
}
