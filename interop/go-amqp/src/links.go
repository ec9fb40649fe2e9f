package main

// Connections and links that are refused, come back, are many, and meet a broker that was restarted.

import (
	"fmt"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

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
	c := connectAs(&amqp.ConnOptions{SASLType: key(), IdleTimeout: 6 * time.Second})
	time.Sleep(10 * time.Second)
	c.send(queue, "still here")
	c.receiver(queue).take("still here")
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
