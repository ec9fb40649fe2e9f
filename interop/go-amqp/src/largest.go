package main

// A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/Azure/go-amqp"
)

const (
	limit   = 256 << 10
	lowered = 1 << 10
)

// The longest texts that a client may give when it dead-letters.
var longest = map[string]any{
	"DeadLetterReason":           strings.Repeat("r", 4096),
	"DeadLetterErrorDescription": strings.Repeat("d", 4096),
}

func filled(length int) *amqp.Message {
	data := make([]byte, length)
	for index := range data {
		data[index] = byte(index % 251)
	}
	message := amqp.NewMessage(data)
	message.Properties = &amqp.MessageProperties{MessageID: "largest", Subject: text("the subject"), CorrelationID: "corr"}
	message.ApplicationProperties = map[string]any{"number": int64(7), "text": "grüße ✓"}
	return message
}

// A message whose encoding has so many bytes.
func ofSize(size int) *amqp.Message {
	overhead := len(must(filled(lowered).MarshalBinary())) - lowered
	message := filled(size - overhead)
	same(len(must(message.MarshalBinary())), size)
	return message
}

// Nothing was lost on the way, and it comes for the first time: no link was closed for its size.
func (r *receiver) nextWhole(added map[string]any) *amqp.Message {
	message, sent := r.next(), ofSize(limit)
	holds(bytes.Equal(message.GetData(), sent.GetData()), fmt.Sprint("it came whole: ", len(message.GetData())))
	same(message.Properties, sent.Properties)
	for name, value := range added {
		sent.ApplicationProperties[name] = value
	}
	same(message.ApplicationProperties, sent.ApplicationProperties)
	same(message.Header.DeliveryCount, uint32(0))
	return message
}

// Changes the largest message that a queue takes, as an operator does.
func limitMessages(queue string, most string) {
	command := exec.Command(os.Getenv("FERRYBUS_BIN"), "queue", "update", queue, "--max-message-bytes", most)
	said, err := command.CombinedOutput()
	holds(err == nil, "the limit was changed: "+string(said))
}

func largest(queue string) {
	c := connect()
	letters := queue + "/$DeadLetterQueue"
	// Credit is given when it is a receiver's turn.
	of := func(address string, mode amqp.SenderSettleMode) *receiver {
		return c.receiverAs(address, &amqp.ReceiverOptions{Credit: -1, RequestedSenderSettleMode: mode.Ptr()})
	}
	locking, dead := of(queue, amqp.SenderSettleModeUnsettled), of(letters, amqp.SenderSettleModeUnsettled)
	deleting, deletingDead := of(queue, amqp.SenderSettleModeSettled), of(letters, amqp.SenderSettleModeSettled)
	turn := func(r *receiver, added map[string]any) *amqp.Message {
		check(r.IssueCredit(1))
		return r.nextWhole(added)
	}
	sender := c.sender(queue)
	same(sender.MaxMessageSize(), uint64(limit))
	for _, isLowered := range []bool{false, true} {
		for round := 0; round < 4; round++ {
			check(sender.Send(soon(), ofSize(limit), nil))
		}
		if isLowered {
			limitMessages(queue, "1KiB")
			later := c.sender(queue)
			same(later.MaxMessageSize(), uint64(lowered))
			refused(later.Send(soon(), ofSize(lowered+1), nil), "amqp:link:message-size-exceeded")
		}
		turn(deleting, nil)
		locking.accept(turn(locking, nil))
		for round := 0; round < 2; round++ {
			why := &amqp.Error{Condition: "com.microsoft:dead-letter", Info: longest}
			check(locking.RejectMessage(soon(), turn(locking, nil), why))
		}
		turn(deletingDead, longest)
		dead.accept(turn(dead, longest))
	}
	// The client holds itself to the size that was announced.
	refused(sender.Send(soon(), ofSize(limit+1), nil), "amqp:link:message-size-exceeded")
	for _, r := range []*receiver{locking, dead} {
		check(r.IssueCredit(1))
		r.isEmpty()
	}
	c.close()
}
