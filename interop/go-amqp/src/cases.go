package main

import (
	"fmt"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

var cases = map[string]func(queue string){
	"send-one":                      sendOne,
	"send-batch":                    sendBatch,
	"send-1000-pipelined":           sendPipelined,
	"send-pre-settled":              sendSettled,
	"peek-lock-complete":            complete,
	"peek-lock-abandon":             abandon,
	"peek-lock-release":             release,
	"peek-lock-dead-letter":         deadLetter,
	"peek-lock-defer":               deferred,
	"modified-without-failure":      modified,
	"undeliverable-here":            undeliverable,
	"settle-mode-second":            modeSecond,
	"receive-and-delete":            receiveAndDelete,
	"lock-renewal":                  renewal,
	"lock-loss":                     loss,
	"delivery-count-to-dead-letter": countToDeadLetter,
	"peek":                          peek,
	"two-competing-receivers":       competing,
	"wrong-key":                     wrongKey,
	"anonymous-log-in":              anonymous,
	"without-sasl":                  withoutSasl,
	"missing-queue":                 missing,
	"oversized-message":             oversized,
	"large-message":                 large,
	"annotations-and-header":        annotations,
	"round-trip":                    roundTrip,
	"link-close-and-reopen":         reopen,
	"anonymous-relay":               relay,
	"many-links":                    manyLinks,
	"many-sessions":                 manySessions,
	"heartbeat":                     heartbeat,
	"topic-selector":                selector,
	"restart-before":                restartBefore,
	"restart-between":               restartBetween,
	"restart-after":                 restartAfter,
}

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
	time.Sleep(5 * time.Second) // so that the renewed lock outlives the first one by as much
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

func wrongKey(string) {
	wrong := amqp.SASLTypePlain(os.Getenv("FERRYBUS_KEY_NAME"), "WRONG_KEY")
	_, err := dial(&amqp.ConnOptions{SASLType: wrong})
	refused(err, "SASL PLAIN auth failed with code 0x1")
}

func anonymous(queue string) {
	c := connectAs(&amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	c.send(queue, "nobody's")
	c.receiver(queue).take("nobody's")
	c.close()
}

func withoutSasl(queue string) {
	c := connectAs(nil)
	c.send(queue, "nobody's")
	c.receiver(queue).take("nobody's")
	c.close()
}

func missing(queue string) {
	c := connect()
	_, err := c.session.NewSender(soon(), "no-such-queue", nil)
	refused(err, "amqp:not-found")
	_, err = c.session.NewReceiver(soon(), "no-such-queue", nil)
	refused(err, "amqp:not-found")
	c.send(queue, "the session goes on")
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
		time.UnixMilli(1_896_321_906_789).UTC(), amqp.UUID{1, 2, 3, 15: 16}, []byte("bytes"), "grüße ✓",
	}
	properties := map[string]any{}
	for _, value := range simple {
		properties[fmt.Sprintf("p %T", value)] = value
	}
	nested := map[string]any{"a": []int64{1, 2, 3}, "b": map[string]any{"c": 2.5}}
	group := uint32(3)
	created := time.UnixMilli(1_796_321_906_789).UTC()
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

func reopen(queue string) {
	c := connect()
	for round := 0; round < 3; round++ {
		name := "again"
		sender := must(c.session.NewSender(soon(), queue, &amqp.SenderOptions{Name: name}))
		check(sender.Send(soon(), texted(fmt.Sprint(round)), nil))
		check(sender.Close(soon()))
		receiver := c.receiverAs(queue, &amqp.ReceiverOptions{Name: name})
		receiver.take(fmt.Sprint(round))
		check(receiver.Close(soon()))
	}
	check(c.session.Close(soon()))
	c.session = must(c.conn.NewSession(soon(), nil))
	c.send(queue, "another session")
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

func manyLinks(queue string) {
	c := connect()
	var receivers []*receiver
	for number := 0; number < 200; number++ {
		receivers = append(receivers, c.receiver(queue))
	}
	for number, receiver := range receivers {
		check(receiver.Close(soon()))
		if number == 198 {
			break
		}
	}
	c.send(queue, "to the last")
	receivers[199].take("to the last")
	c.close()
}

func manySessions(queue string) {
	c := connect()
	for number := 0; number < 20; number++ {
		session := must(c.conn.NewSession(soon(), nil))
		there := &client{c.conn, session}
		there.send(queue, fmt.Sprint(number))
		receiver := there.receiver(queue)
		receiver.take(fmt.Sprint(number))
		check(receiver.Close(soon())) // the next one must not share with it
	}
	c.close()
}

// go-amqp gives a connection up that is silent for so long, and tells half of it.
func heartbeat(queue string) {
	c := connectAs(&amqp.ConnOptions{SASLType: key(), IdleTimeout: 2 * time.Second})
	time.Sleep(5 * time.Second)
	c.send(queue, "still here")
	c.receiver(queue).take("still here")
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

func restartBefore(queue string) {
	c := connect()
	c.send(queue, "before the crash")
	c.receiver(queue).next() // locked when the broker dies
}

func restartBetween(queue string) {
	c := connect()
	c.send(queue, "after the crash")
	c.close()
}

func restartAfter(queue string) {
	c := connect()
	receiver := c.receiver(queue)
	receiver.take("before the crash")
	receiver.take("after the crash")
	receiver.isEmpty()
	c.close()
}
