package main

// What is sent, one by one and all at once, and what is too large.

import (
	"fmt"
	"time"

	"github.com/Azure/go-amqp"
)

func sendOne(queue string) {
	c := connect()
	c.send(queue, "hello")
	receiver := c.receiver(queue)
	same(receiver.Address(), queue)
	receiver.take("hello")
	receiver.isEmpty()
	c.close()
}

const batchFormat = 0x80013700

func sendBatch(queue string) {
	c := connect()
	batch := &amqp.Message{Format: batchFormat}
	for _, text := range []string{"one", "two", "three"} {
		batch.Data = append(batch.Data, must(texted(text).MarshalBinary()))
	}
	check(c.sender(queue).Send(soon(), batch, nil))
	receiver := c.receiver(queue)
	first := int64(0)
	for number, text := range []string{"one", "two", "three"} {
		message := receiver.next()
		same(body(message), text)
		if number == 0 {
			first = sequenceNumber(message)
		}
		same(sequenceNumber(message), first+int64(number))
		receiver.accept(message)
	}
	c.close()
}

// A send returns when its message is settled: they are on their way together when each is a goroutine's, and come in
// the order in which those ran.
func sendPipelined(queue string) {
	c := connect()
	sender := c.sender(queue)
	done := make(chan error)
	for number := 0; number < 1000; number++ {
		go func(text string) { done <- sender.Send(soon(), texted(text), nil) }(fmt.Sprint(number))
	}
	for number := 0; number < 1000; number++ {
		check(<-done)
	}
	expectThousand(c, queue)
	c.close()
}

func expectThousand(c *client, queue string) {
	receiver := c.receiverAs(queue, &amqp.ReceiverOptions{Credit: 100})
	seen := map[string]bool{}
	for number := 0; number < 1000; number++ {
		message := receiver.next()
		holds(!seen[body(message)], "each message comes once")
		seen[body(message)] = true
		receiver.accept(message)
	}
	receiver.isEmpty()
}

func sendSettled(queue string) {
	c := connect()
	options := &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()}
	sender := must(c.session.NewSender(soon(), queue, options))
	for number := 0; number < 1000; number++ {
		check(sender.Send(soon(), texted(fmt.Sprint(number)), nil))
	}
	expectThousand(c, queue)
	c.close()
}

// go-amqp holds itself to the limit that the attach told; a sender without target is told none of the queue's.
func oversized(queue string) {
	c := connect()
	sender := c.sender(queue)
	same(sender.MaxMessageSize(), uint64(1<<20))
	refused(sender.Send(soon(), amqp.NewMessage(make([]byte, 2<<20)), nil), "amqp:link:message-size-exceeded")
	check(sender.Send(soon(), texted("fits"), nil))
	c.receiver(queue).take("fits")
	c.close()
}

func large(queue string) {
	bytes := make([]byte, 900<<10)
	for index := range bytes {
		bytes[index] = byte(index % 251)
	}
	c := connectAs(&amqp.ConnOptions{SASLType: key(), MaxFrameSize: 4096})
	sender, receiver := c.sender(queue), c.receiver(queue)
	for round := 0; round < 3; round++ {
		check(sender.Send(soon(), amqp.NewMessage(bytes), nil))
	}
	for round := 0; round < 3; round++ {
		receiver.take(string(bytes))
	}
	c.close()
}

func annotations(queue string) {
	c := connect()
	sent := texted("annotated")
	sent.Header = &amqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Minute}
	sent.Annotations = amqp.Annotations{"x-opt-partition-key": "pk", "x-opt-ours": uint64(42)}
	check(c.sender(queue).Send(soon(), sent, nil))
	receiver := c.receiver(queue)
	back := receiver.next()
	same(*back.Header, amqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Minute, FirstAcquirer: true})
	same(back.Annotations["x-opt-partition-key"], any("pk"))
	same(back.Annotations["x-opt-ours"], any(uint64(42)))
	holds(sequenceNumber(back) >= 1, "it is numbered")
	enqueued := back.Annotations["x-opt-enqueued-time"].(time.Time)
	holds(time.Since(enqueued).Abs() < time.Minute, "the time is now")
	lock := lockedUntil(back).Sub(enqueued)
	holds(lock >= 5*time.Second && lock < time.Minute, "the lock is the queue's")
	receiver.accept(back)
	c.close()
}

func text(value string) *string { return &value }

func roundTrip(queue string) {
	c := connect()
	sender, receiver := c.sender(queue), c.receiver(queue)
	simple := []any{
		true, uint8(200), int8(-100), uint16(65_000), int16(-30_000), uint32(4_000_000_000), int32(-2_000_000_000),
		uint64(18_446_744_073_709_551_615), int64(-4_611_686_018_427_387_904), float32(1.25), 2.5,
		time.UnixMilli(1_896_321_906_789), amqp.UUID{1, 2, 3, 15: 16}, []byte("bytes"), "grüße ✓",
	}
	properties := map[string]any{}
	for _, value := range simple {
		properties[fmt.Sprintf("p %T", value)] = value
	}
	nested := map[string]any{"a": []int64{1, 2, 3}, "b": map[string]any{"c": 2.5}}
	group := uint32(3)
	created := time.UnixMilli(1_796_321_906_789)
	fields := amqp.MessageProperties{
		MessageID: amqp.UUID{9: 7}, CorrelationID: uint64(7), UserID: []byte("user"), To: text("there"),
		Subject: text("the subject"), ReplyTo: text("back"), ContentType: text("text/plain"),
		ContentEncoding: text("identity"), CreationTime: &created, GroupID: text("group"), GroupSequence: &group,
		ReplyToGroupID: text("answers"),
	}
	bodies := []amqp.Message{
		{Data: [][]byte{[]byte("one"), []byte("section"), {}}},
		{Sequence: [][]any{{int64(1), "two"}, {3.0}}},
	}
	for _, value := range append(simple, nested) {
		bodies = append(bodies, amqp.Message{Value: value})
	}
	for _, sent := range bodies {
		sent.ApplicationProperties, sent.Properties = properties, &fields
		sent.Footer = amqp.Annotations{"x-opt-sum": int64(-1)}
		check(sender.Send(soon(), &sent, nil))
		back := receiver.next()
		same(back.Value, sent.Value)
		same(back.Data, sent.Data)
		same(back.Sequence, sent.Sequence)
		same(back.ApplicationProperties, sent.ApplicationProperties)
		same(*back.Properties, fields)
		same(back.Footer, sent.Footer)
		receiver.accept(back)
	}
	c.close()
}

func relay(queue string) {
	c := connect()
	sender := c.sender("")
	for text, address := range map[string]string{"one": queue, "two": "/queues/" + queue} {
		message, address := texted(text), address
		message.Properties = &amqp.MessageProperties{To: &address}
		check(sender.Send(soon(), message, nil))
	}
	nowhere := texted("lost")
	nowhere.Properties = &amqp.MessageProperties{To: text("no-such-queue")}
	refused(sender.Send(soon(), nowhere, nil), "amqp:not-found")
	receiver := c.receiver(queue)
	seen := map[string]bool{}
	for round := 0; round < 2; round++ {
		message := receiver.next()
		seen[body(message)] = true
		receiver.accept(message)
	}
	same(seen, map[string]bool{"one": true, "two": true})
	c.close()
}
