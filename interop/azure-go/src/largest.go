package main

// A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it.

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	limit   = 256 << 10
	lowered = 1 << 10
	// Bytes of a message beside its body.
	overheadMax = 1 << 10
)

// The longest texts that a client may give when it dead-letters.
var longReason, longDescription = strings.Repeat("r", 4096), strings.Repeat("d", 4096)

func filled(length int) *azservicebus.Message {
	body := make([]byte, length)
	for index := range body {
		body[index] = byte(index % 251)
	}
	return &azservicebus.Message{
		Body: body, MessageID: pointer("largest"), Subject: pointer("the subject"), CorrelationID: pointer("corr"),
		ApplicationProperties: map[string]any{"number": int64(7), "text": "grüße ✓"},
	}
}

// Whether a message with a body of this length is taken. The SDK compares its encoding with what the attach announced.
func isTaken(sender *azservicebus.Sender, length int) bool {
	err := sender.SendMessage(everything, filled(length), nil)
	if !errors.Is(err, azservicebus.ErrMessageTooLarge) {
		check(err)
	}
	return err == nil
}

// Searches the body with which a message has exactly the size of the limit: one byte more is refused. Takes away what was
// sent meanwhile.
func searchBody(sender *azservicebus.Sender, deleting *azservicebus.Receiver) int {
	taken, refused := limit-overheadMax, limit
	demand(isTaken(sender, taken), "%d bytes beside the body suffice", overheadMax)
	lengths := []int{taken}
	for refused-taken > 1 {
		tried := (taken + refused) / 2
		if isTaken(sender, tried) {
			taken = tried
			lengths = append(lengths, tried)
		} else {
			refused = tried
		}
	}
	for _, length := range lengths {
		nextWhole(deleting, length)
	}
	return taken
}

// Nothing was lost on the way, and it comes for the first time: no link was closed for its size.
func nextWhole(receiver receives, length int) *azservicebus.ReceivedMessage {
	message := next(receiver, 1)[0]
	isWhole(message, length)
	return message
}

func isWhole(message *azservicebus.ReceivedMessage, length int) {
	sent := filled(length)
	demand(bytes.Equal(message.Body, sent.Body), "%d bytes came", len(message.Body))
	same(message.MessageID, "largest", "id")
	same(*message.Subject, "the subject", "subject")
	same(*message.CorrelationID, "corr", "correlation")
	for name, value := range sent.ApplicationProperties {
		demand(reflect.DeepEqual(message.ApplicationProperties[name], value), "%s: %v", name, message.ApplicationProperties[name])
	}
	demand(message.DeliveryCount <= 1, "delivered %d times", message.DeliveryCount)
}

// The first message that is there, which the answer to a request carries.
func first(receiver *azservicebus.Receiver) *azservicebus.ReceivedMessage {
	fromStart := &azservicebus.PeekMessagesOptions{FromSequenceNumber: pointer(int64(0))}
	messages := must(receiver.PeekMessages(everything, 1, fromStart))
	same(len(messages), 1, "messages")
	return messages[0]
}

func nextDeadLetter(receiver receives, length int) *azservicebus.ReceivedMessage {
	letter := next(receiver, 1)[0]
	isDeadLetter(letter, length)
	return letter
}

func isDeadLetter(letter *azservicebus.ReceivedMessage, length int) {
	isWhole(letter, length)
	same(*letter.DeadLetterReason, longReason, "reason")
	same(*letter.DeadLetterErrorDescription, longDescription, "description")
}

// Changes the largest message that a queue takes, as an operator does.
func limitMessages(queue string, most string) {
	command := exec.Command(os.Getenv("FERRYBUS_BIN"), "queue", "update", queue, "--max-message-bytes", most)
	said, err := command.CombinedOutput()
	demand(err == nil, "queue update: %s", said)
}

func largest(queue string) {
	client := connect()
	defer client.Close(everything)
	of := func(mode azservicebus.ReceiveMode, part azservicebus.SubQueue) *azservicebus.Receiver {
		return must(client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{ReceiveMode: mode, SubQueue: part}))
	}
	locking, dead := receiverOf(client, queue), deadLettersOf(client, queue)
	deleting := of(azservicebus.ReceiveModeReceiveAndDelete, 0)
	deletingDead := of(azservicebus.ReceiveModeReceiveAndDelete, azservicebus.SubQueueDeadLetter)
	sender := senderOf(client, queue)
	length := searchBody(sender, deleting)
	for _, isLowered := range []bool{false, true} {
		for range 4 {
			demand(isTaken(sender, length), "the largest is taken")
		}
		if isLowered {
			limitMessages(queue, "1KiB")
			// A sender reads the limit when it attaches.
			later := must(connect().NewSender(queue, nil))
			demand(!isTaken(later, lowered), "more than the lowered limit is refused")
		}
		isWhole(first(locking), length)
		nextWhole(deleting, length)
		check(locking.CompleteMessage(everything, nextWhole(locking, length), nil))
		for range 2 {
			why := &azservicebus.DeadLetterOptions{Reason: &longReason, ErrorDescription: &longDescription}
			check(locking.DeadLetterMessage(everything, nextWhole(locking, length), why))
		}
		isDeadLetter(first(dead), length)
		nextDeadLetter(deletingDead, length)
		check(dead.CompleteMessage(everything, nextDeadLetter(dead, length), nil))
	}
	empty(locking)
	empty(dead)
}
