package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

const (
	// How long a step may take on a busy machine.
	patience = 30 * time.Second
	// After which a queue counts as empty.
	silence = time.Second
)

// The key that every case logs in with, unless it is about logging in.
func key() amqp.SASLType {
	return amqp.SASLTypePlain(os.Getenv("FERRYBUS_KEY_NAME"), os.Getenv("FERRYBUS_KEY"))
}

type client struct {
	conn    *amqp.Conn
	session *amqp.Session
}

// Connects; the authority of TLS is found by the SSL_CERT_FILE of the environment.
func dial(options *amqp.ConnOptions) (*amqp.Conn, error) {
	return dialTo(os.Getenv("FERRYBUS_HOST"), options)
}

func dialTo(host string, options *amqp.ConnOptions) (*amqp.Conn, error) {
	scheme := "amqp"
	if os.Getenv("FERRYBUS_TRANSPORT") == "tls" {
		scheme = "amqps"
	}
	address := fmt.Sprintf("%s://%s:%s", scheme, host, os.Getenv("FERRYBUS_PORT"))
	return amqp.Dial(soon(), address, options)
}

func connect() *client {
	return connectAs(&amqp.ConnOptions{SASLType: key()})
}

func connectAs(options *amqp.ConnOptions) *client {
	conn := must(dial(options))
	return &client{conn, must(conn.NewSession(soon(), nil))}
}

func (c *client) close() {
	check(c.conn.Close())
}

func (c *client) sender(address string) *amqp.Sender {
	return must(c.session.NewSender(soon(), address, nil))
}

func (c *client) receiver(address string) *receiver {
	return c.receiverAs(address, &amqp.ReceiverOptions{})
}

// On the Service Bus dialect: locks that last, whatever becomes of the link.
func (c *client) lockingReceiver(address string) *receiver {
	properties := map[string]any{"com.microsoft:receiver-name": "go"}
	return c.receiverAs(address, &amqp.ReceiverOptions{Properties: properties})
}

func (c *client) receiverAs(address string, options *amqp.ReceiverOptions) *receiver {
	return &receiver{must(c.session.NewReceiver(soon(), address, options))}
}

// Sends messages of these texts and waits until each is accepted.
func (c *client) send(address string, texts ...string) {
	sender := c.sender(address)
	for _, text := range texts {
		check(sender.Send(soon(), texted(text), nil))
	}
	check(sender.Close(soon()))
}

// Demands that the dead-letter queue has this message for this reason, and takes it.
func (c *client) takeDeadLetter(queue, text, reason string) *amqp.Message {
	letters := c.receiver(queue + "/$DeadLetterQueue")
	letter := letters.next()
	same(body(letter), text)
	if reason != "" {
		same(letter.ApplicationProperties["DeadLetterReason"], any(reason))
	}
	letters.accept(letter)
	letters.isEmpty()
	return letter
}

type receiver struct {
	*amqp.Receiver
}

func (r *receiver) next() *amqp.Message {
	return must(r.Receive(soon(), nil))
}

func (r *receiver) accept(message *amqp.Message) {
	check(r.AcceptMessage(soon(), message))
}

func (r *receiver) modify(message *amqp.Message, failed, undeliverable bool) {
	options := amqp.ModifyMessageOptions{DeliveryFailed: failed, UndeliverableHere: undeliverable}
	check(r.ModifyMessage(soon(), message, &options))
}

// Accepts the next message, which must have this text.
func (r *receiver) take(text string) {
	message := r.next()
	same(body(message), text)
	r.accept(message)
}

func (r *receiver) isEmpty() {
	brief, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	message, err := r.Receive(brief, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		panic(fmt.Sprint("not empty: ", message, err))
	}
}

func texted(text string) *amqp.Message {
	return amqp.NewMessage([]byte(text))
}

func body(message *amqp.Message) string {
	return string(message.GetData())
}

func sequenceNumber(message *amqp.Message) int64 {
	return message.Annotations["x-opt-sequence-number"].(int64)
}

func lockedUntil(message *amqp.Message) time.Time {
	return message.Annotations["x-opt-locked-until"].(time.Time)
}

func waitPast(end time.Time) {
	time.Sleep(time.Until(end) + 300*time.Millisecond)
}

// Demands that a step was refused with this condition.
func refused(err error, condition string) {
	if err == nil || !strings.Contains(err.Error(), condition) {
		panic(fmt.Sprintf("not refused with %s: %v", condition, err))
	}
}

func same(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("%#v is not %#v", got, wanted))
	}
}

func holds(condition bool, what string) {
	if !condition {
		panic("not so: " + what)
	}
}

func soon() context.Context {
	// The process ends before the timer matters.
	limited, _ := context.WithTimeout(context.Background(), patience)
	return limited
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
