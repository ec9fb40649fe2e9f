package main

// What lasts for longer than a lock, and what goes on while the broker is away.

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Sends texts in batches of a hundred.
func sendInBatches(sender *azservicebus.Sender, count int) {
	for from := 0; from < count; from += 100 {
		batch := must(sender.NewMessageBatch(everything, nil))
		for number := from; number < from+100; number++ {
			check(batch.AddMessage(&azservicebus.Message{Body: []byte(fmt.Sprint(number))}, nil))
		}
		check(sender.SendMessageBatch(everything, batch, nil))
	}
}

// With a broker of its own. A message takes a second of the broker's time and the lock lasts a minute: the SDK takes no more
// messages than it is asked for.
func slowListener(queue string) {
	client := connect()
	defer client.Close(everything)
	const count = 600
	sendInBatches(senderOf(client, queue), count)
	receiver := receiverOf(client, queue)
	seen := map[string]bool{}
	for call := range count {
		message := next(receiver, 1)[0]
		body := string(message.Body)
		demand(!seen[body], "message %s came again at call %d", body, call)
		seen[body] = true
		advanceClock(time.Second)
		check(receiver.CompleteMessage(everything, message, nil))
	}
	advanceClock(2 * time.Minute)
	empty(receiver)
	empty(deadLettersOf(client, queue))
}

// With a broker of its own, whose clock is moved beyond a lock of five minutes and a message's lifetime.
func clockMoves(queue string) {
	client := connect()
	defer client.Close(everything)
	sender, receiver := senderOf(client, queue), receiverOf(client, queue)
	send(sender, "lost")
	message := one(receiver, "lost")
	expires := &azservicebus.Message{Body: []byte("expires"), TimeToLive: pointer(3 * time.Minute)}
	check(sender.SendMessage(everything, expires, nil))
	advanceClock(6 * time.Minute)
	refused(receiver.CompleteMessage(everything, message, nil), azservicebus.CodeLockLost)
	again := one(receiver, "lost")
	same(again.DeliveryCount, 2, "deliveries")
	check(receiver.CompleteMessage(everything, again, nil))
	empty(receiver)
}

// A message that came over a link which is closed is settled by its lock token.
func settleAfterLink(queue string) {
	client := connect()
	defer client.Close(everything)
	send(senderOf(client, queue), "m")
	first := receiverOf(client, queue)
	message := one(first, "m")
	check(first.Close(everything))
	second := receiverOf(client, queue)
	empty(second)
	check(second.CompleteMessage(everything, message, nil))
	same(len(must(second.PeekMessages(everything, 10, nil))), 0, "left")
}

// Sends and receives while `suite.py` kills and restarts the broker, which it does when it reads that so many are sent. The
// SDK opens its links again in its own tries. A message whose send has returned must come; some may come twice.
func reconnect(queue string) {
	options := options()
	options.RetryOptions = azservicebus.RetryOptions{MaxRetries: 60, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: time.Second}
	text := connectionString(os.Getenv("FERRYBUS_KEY"))
	client := must(azservicebus.NewClientFromConnectionString(text, options))
	defer client.Close(everything)
	const count = 300
	var lock sync.Mutex
	seen := map[string]bool{}
	ended, end := context.WithCancel(everything)
	all := make(chan struct{})
	receiver := receiverOf(client, queue)
	go func() {
		for ended.Err() == nil {
			messages, err := receiver.ReceiveMessages(ended, 1, nil)
			if err != nil || len(messages) == 0 {
				continue
			}
			body := string(messages[0].Body)
			lock.Lock()
			if !seen[body] {
				seen[body] = true
				if len(seen) == count {
					close(all)
				}
			}
			lock.Unlock()
			// What was held when the broker died comes again. The SDK would try for half a minute, with delays of its own.
			short, cancel := context.WithTimeout(ended, time.Second)
			_ = receiver.CompleteMessage(short, messages[0], nil)
			cancel()
		}
	}()
	sender := senderOf(client, queue)
	for number := range count {
		send(sender, fmt.Sprint(number))
		if number%100 == 50 {
			fmt.Println("sent", number)
		}
	}
	// The last restart is over.
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	select {
	case <-all:
	case <-time.After(40 * time.Second):
		lock.Lock()
		var missing []string
		for number := range count {
			if !seen[fmt.Sprint(number)] {
				missing = append(missing, fmt.Sprint(number))
			}
		}
		panic(fmt.Sprint("sent and lost: ", missing))
	}
	end()
}
