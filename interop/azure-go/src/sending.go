package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/coder/websocket"
)

func sendOne(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "hello")
	receiver := receiverOf(client, queue)
	complete1(receiver, "hello")
	empty(receiver)
}

func sendBatch(queue string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, queue)
	batch := must(sender.NewMessageBatch(everything, nil))
	for _, body := range []string{"a", "b", "c"} {
		check(batch.AddMessage(&azservicebus.Message{Body: []byte(body)}, nil))
	}
	tooMuch := batch.AddMessage(&azservicebus.Message{Body: make([]byte, 2<<20)}, nil)
	demand(errors.Is(tooMuch, azservicebus.ErrMessageTooLarge), "a batch has a limit: %v", tooMuch)
	check(sender.SendMessageBatch(everything, batch, nil))
	receiver := receiverOf(client, queue)
	messages := next(receiver, 3)
	for index, body := range []string{"a", "b", "c"} {
		same(string(messages[index].Body), body, "body")
		same(*messages[index].SequenceNumber, *messages[0].SequenceNumber+int64(index), "number")
		check(receiver.CompleteMessage(everything, messages[index], nil))
	}
	empty(receiver)
}

func oversized(queue string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, queue)
	err := sender.SendMessage(everything, &azservicebus.Message{Body: make([]byte, 2<<20)}, nil)
	demand(errors.Is(err, azservicebus.ErrMessageTooLarge), "too large: %v", err)
	send(sender, "small")
	complete1(receiverOf(client, queue), "small")
}

func large(queue string) {
	client := connect()
	defer client.Close(everything)
	body := bytes.Repeat([]byte("0123456789abcdef"), 900<<10/16)
	check(senderOf(client, queue).SendMessage(everything, &azservicebus.Message{Body: body}, nil))
	receiver := receiverOf(client, queue)
	message := next(receiver, 1)[0]
	demand(bytes.Equal(message.Body, body), "%d bytes came", len(message.Body))
	check(receiver.CompleteMessage(everything, message, nil))
}

func annotations(queue string) {
	client := connect()
	defer client.Close(everything)
	before := time.Now().Add(-time.Second)
	send(senderOf(client, queue), "first", "second")
	receiver := receiverOf(client, queue)
	messages := next(receiver, 2)
	for index, message := range messages {
		same(message.DeliveryCount, 1, "the SDK counts the delivery itself")
		same(message.State, azservicebus.MessageStateActive, "state")
		same(*message.SequenceNumber, *messages[0].SequenceNumber+int64(index), "number")
		demand(message.EnqueuedTime.After(before) && message.EnqueuedTime.Before(time.Now().Add(time.Second)), "enqueued")
		locked := time.Until(*message.LockedUntil)
		demand(locked > 0 && locked <= 6*time.Second, "locked for %v", locked)
		demand(message.LockToken != [16]byte{}, "a lock token")
		demand(message.MessageID != "", "an id")
		check(receiver.CompleteMessage(everything, message, nil))
	}
}

func roundTrip(queue string) {
	client := connect()
	defer client.Close(everything)
	sender, receiver := senderOf(client, queue), receiverOf(client, queue)
	sent := &azservicebus.Message{
		Body: []byte("body"), ContentType: pointer("text/plain"), CorrelationID: pointer("correlation"),
		MessageID: pointer("id"), ReplyTo: pointer("reply"), ReplyToSessionID: pointer("reply-session"),
		SessionID: pointer("session"), Subject: pointer("subject"), TimeToLive: pointer(time.Hour), To: pointer("to"),
		ApplicationProperties: map[string]any{
			"text": "ü", "int": int64(math.MinInt64), "uint": uint32(math.MaxUint32), "float": 1.5, "bool": true,
			"time": time.UnixMilli(1_700_000_000_123).UTC(), "bytes": []byte{0, 255}, "none": nil,
		},
	}
	check(sender.SendMessage(everything, sent, nil))
	message := next(receiver, 1)[0]
	found := message.Message()
	// A time is equal in any location, which DeepEqual does not know.
	found.ApplicationProperties["time"] = found.ApplicationProperties["time"].(time.Time).UTC()
	demand(reflect.DeepEqual(found.ApplicationProperties, sent.ApplicationProperties), "%v", found.ApplicationProperties)
	for name, pair := range map[string][2]*string{
		"content type": {found.ContentType, sent.ContentType}, "correlation": {found.CorrelationID, sent.CorrelationID},
		"id": {found.MessageID, sent.MessageID}, "reply": {found.ReplyTo, sent.ReplyTo},
		"reply session": {found.ReplyToSessionID, sent.ReplyToSessionID}, "session": {found.SessionID, sent.SessionID},
		"subject": {found.Subject, sent.Subject}, "to": {found.To, sent.To},
	} {
		demand(pair[0] != nil && *pair[0] == *pair[1], "%s: %v", name, pair[0])
	}
	same(*message.TimeToLive, time.Hour, "time to live")
	check(receiver.CompleteMessage(everything, message, nil))
	for _, body := range []azservicebus.AMQPAnnotatedMessageBody{
		{Value: "a text"}, {Value: int32(-7)}, {Data: [][]byte{[]byte("one"), []byte("two")}},
		{Sequence: [][]any{{int64(1), "two"}, {true}}},
	} {
		check(sender.SendAMQPAnnotatedMessage(everything, &azservicebus.AMQPAnnotatedMessage{Body: body}, nil))
		message := next(receiver, 1)[0]
		demand(reflect.DeepEqual(message.RawAMQPMessage.Body, body), "%#v came as %#v", body, message.RawAMQPMessage.Body)
		check(receiver.CompleteMessage(everything, message, nil))
	}
}

func wrongKey(queue string) {
	client := must(azservicebus.NewClientFromConnectionString(connectionString("wrong"), options()))
	defer client.Close(everything)
	err := senderOf(client, queue).SendMessage(everything, &azservicebus.Message{Body: []byte("never")}, nil)
	refused(err, azservicebus.CodeUnauthorizedAccess)
	_, err = receiverOf(client, queue).ReceiveMessages(everything, 1, nil)
	refused(err, azservicebus.CodeUnauthorizedAccess)
}

// Without a name of its own in the TLS settings the SDK sends `host:port` as TLS's server name.
func serverNameWithPort(queue string) {
	text := "Endpoint=sb://" + os.Getenv("FERRYBUS_HOST") + ":" + os.Getenv("FERRYBUS_TLS_PORT") +
		";SharedAccessKeyName=" + os.Getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + os.Getenv("FERRYBUS_KEY")
	once := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}
	client := must(azservicebus.NewClientFromConnectionString(text, once))
	defer client.Close(everything)
	err := senderOf(client, queue).SendMessage(everything, &azservicebus.Message{}, nil)
	demand(err != nil && strings.Contains(err.Error(), "illegal parameter"), "refused by the broker: %v", err)
}

func missing(queue string) {
	client := connect()
	defer client.Close(everything)
	nowhere := queue + "-nowhere"
	refused(senderOf(client, nowhere).SendMessage(everything, &azservicebus.Message{}, nil), azservicebus.CodeNotFound)
	send(senderOf(client, queue), "still here")
	complete1(receiverOf(client, queue), "still here")
}

// Everything that can be missing is told by the SDK's own code, without its retries.
func missingAtOnce(queue string) {
	client := connect()
	defer client.Close(everything)
	nowhere := queue + "-nowhere"
	started := time.Now()
	_, err := receiverOf(client, nowhere).ReceiveMessages(everything, 1, nil)
	refused(err, azservicebus.CodeNotFound)
	_, err = deadLettersOf(client, nowhere).ReceiveMessages(everything, 1, nil)
	refused(err, azservicebus.CodeNotFound)
	_, err = must(client.NewReceiverForSubscription(queue, "none", nil)).ReceiveMessages(everything, 1, nil)
	refused(err, azservicebus.CodeNotFound)
	_, err = receiverOf(client, nowhere).PeekMessages(everything, 1, nil)
	refused(err, azservicebus.CodeNotFound)
	_, err = client.AcceptSessionForQueue(everything, nowhere, "session", nil)
	refused(err, azservicebus.CodeNotFound)
	_, err = senderOf(client, nowhere).NewMessageBatch(everything, nil)
	refused(err, azservicebus.CodeNotFound)
	// The three retries of one call alone would take longer.
	demand(time.Since(started) < 20*time.Second, "it took %v", time.Since(started))
	send(senderOf(client, queue), "still here")
}

func reopen(queue string) {
	client := connect()
	defer client.Close(everything)
	for range 5 {
		sender, receiver := senderOf(client, queue), receiverOf(client, queue)
		send(sender, "again")
		complete1(receiver, "again")
		check(sender.Close(everything))
		check(receiver.Close(everything))
	}
}

// The SDK knows `wss` only, and leaves the dialling to the application.
func dialWebSocket(ctx context.Context, arguments azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
	socket, _, err := websocket.Dial(ctx, arguments.Host, &websocket.DialOptions{Subprotocols: []string{"amqp"}})
	if err != nil {
		return nil, err
	}
	socket.SetReadLimit(-1)
	return websocket.NetConn(everything, socket, websocket.MessageBinary), nil
}

func webSocket(queue string) {
	text := "Endpoint=sb://" + os.Getenv("FERRYBUS_HOST") + ":" + os.Getenv("FERRYBUS_TLS_PORT") +
		";SharedAccessKeyName=" + os.Getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + os.Getenv("FERRYBUS_KEY")
	client := must(azservicebus.NewClientFromConnectionString(text, &azservicebus.ClientOptions{NewWebSocketConn: dialWebSocket}))
	defer client.Close(everything)
	sender, receiver := senderOf(client, queue), receiverOf(client, queue)
	for range 100 {
		send(sender, "small")
	}
	check(sender.SendMessage(everything, &azservicebus.Message{Body: make([]byte, 200_000)}, nil))
	messages := next(receiver, 101)
	same(len(messages[100].Body), 200_000, "bytes")
	check(receiver.RenewMessageLock(everything, messages[0], nil))
	check(receiver.DeadLetterMessage(everything, messages[0], nil))
	for _, message := range messages[1:] {
		check(receiver.CompleteMessage(everything, message, nil))
	}
	complete1(deadLettersOf(client, queue), "small")
}
