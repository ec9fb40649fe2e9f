package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// All that one case may take.
var everything, _ = context.WithTimeout(context.Background(), 80*time.Second)

// How long a queue is watched that must give nothing.
const quiet = time.Second

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func demand(holds bool, format string, values ...any) {
	if !holds {
		panic(fmt.Sprintf(format, values...))
	}
}

func same[T comparable](found, wanted T, what string) {
	demand(found == wanted, "%s: found %v, wanted %v", what, found, wanted)
}

// The error must be one of the SDK's own with this code.
func refused(err error, code azservicebus.Code) {
	var known *azservicebus.Error
	demand(errors.As(err, &known), "no error of the SDK: %v", err)
	same(known.Code, code, err.Error())
}

func overTLS() bool { return os.Getenv("FERRYBUS_TRANSPORT") == "tls" }

// Where the broker is, in the words of its users: with a port, and without TLS as for the emulator.
func connectionString(key string) string { return connectionStringOf(os.Getenv("FERRYBUS_HOST"), key) }

func connectionStringOf(host, key string) string {
	address := host + ":" + os.Getenv("FERRYBUS_PORT")
	text := "Endpoint=sb://" + address + ";SharedAccessKeyName=" + os.Getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + key
	if !overTLS() {
		text += ";UseDevelopmentEmulator=true"
	}
	return text
}

// The SDK takes the whole endpoint, port included, for the name in the certificate unless it is told another. The
// authority that signed it is found by SSL_CERT_FILE.
func options() *azservicebus.ClientOptions {
	return &azservicebus.ClientOptions{TLSConfig: &tls.Config{ServerName: os.Getenv("FERRYBUS_HOST")}}
}

func connect() *azservicebus.Client {
	return must(azservicebus.NewClientFromConnectionString(connectionString(os.Getenv("FERRYBUS_KEY")), options()))
}

func senderOf(client *azservicebus.Client, queue string) *azservicebus.Sender {
	return must(client.NewSender(queue, nil))
}

func receiverOf(client *azservicebus.Client, queue string) *azservicebus.Receiver {
	return must(client.NewReceiverForQueue(queue, nil))
}

func deadLettersOf(client *azservicebus.Client, queue string) *azservicebus.Receiver {
	options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
	return must(client.NewReceiverForQueue(queue, options))
}

func send(sender *azservicebus.Sender, bodies ...string) {
	for _, body := range bodies {
		check(sender.SendMessage(everything, &azservicebus.Message{Body: []byte(body)}, nil))
	}
}

// What receives from a queue, a subscription or a session.
type receives interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error
	AbandonMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.AbandonMessageOptions) error
}

// The next messages, as many as that.
func next(receiver receives, count int) []*azservicebus.ReceivedMessage {
	var messages []*azservicebus.ReceivedMessage
	for len(messages) < count {
		messages = append(messages, must(receiver.ReceiveMessages(everything, count-len(messages), nil))...)
	}
	return messages
}

func one(receiver receives, body string) *azservicebus.ReceivedMessage {
	message := next(receiver, 1)[0]
	same(string(message.Body), body, "body")
	return message
}

func complete1(receiver receives, bodies ...string) {
	for _, body := range bodies {
		check(receiver.CompleteMessage(everything, one(receiver, body), nil))
	}
}

func empty(receiver receives) {
	short, cancel := context.WithTimeout(everything, quiet)
	defer cancel()
	messages, err := receiver.ReceiveMessages(short, 1, nil)
	demand(len(messages) == 0 && errors.Is(err, context.DeadlineExceeded), "not empty: %v %v", messages, err)
}

// Moves the broker's time; when this returns, what became due is done.
func advanceClock(by time.Duration) {
	url := "http://" + os.Getenv("FERRYBUS_CONTROL") + "/$ferrybus/clock/advance"
	body := fmt.Sprintf(`{"by_ms":%d}`, by.Milliseconds())
	request := must(http.NewRequestWithContext(everything, http.MethodPost, url, bytes.NewBufferString(body)))
	request.Header.Set("Authorization", os.Getenv("FERRYBUS_AUTHORIZATION"))
	request.Header.Set("Content-Type", "application/json")
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	said := must(io.ReadAll(answer.Body))
	demand(answer.StatusCode/100 == 2, "the clock: %s %s", answer.Status, said)
}

func pointer[T any](value T) *T { return &value }
