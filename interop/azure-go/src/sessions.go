package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func sendTo(sender *azservicebus.Sender, session string, bodies ...string) {
	for _, body := range bodies {
		check(sender.SendMessage(everything, &azservicebus.Message{Body: []byte(body), SessionID: &session}, nil))
	}
}

func accept(client *azservicebus.Client, queue, session string) *azservicebus.SessionReceiver {
	return must(client.AcceptSessionForQueue(everything, queue, session, nil))
}

// With a broker of its own: the SDK names no time to wait for the next session, so that is the broker's own minute, which
// its clock skips.
func sessionAccept(queue string) {
	client := connect()
	defer client.Close(everything)
	done := make(chan error)
	go func() {
		_, err := client.AcceptNextSessionForQueue(everything, queue, nil)
		done <- err
	}()
	var none error
	for waits := true; waits; {
		select {
		case none = <-done:
			waits = false
		case <-time.After(200 * time.Millisecond):
			advanceClock(61 * time.Second)
		}
	}
	refused(none, azservicebus.CodeTimeout)
	sender := senderOf(client, queue)
	sendTo(sender, "b", "b1")
	sendTo(sender, "a", "a1")
	first := must(client.AcceptNextSessionForQueue(everything, queue, nil))
	same(first.SessionID(), "b", "the next session")
	demand(first.LockedUntil().After(time.Now()), "locked until %v", first.LockedUntil())
	short, cancel := context.WithTimeout(everything, quiet)
	defer cancel()
	_, err := client.AcceptSessionForQueue(short, queue, "b", nil)
	demand(err != nil, "the session is held")
	same(one(first, "b1").DeliveryCount, 1, "deliveries")
	check(first.Close(everything))
	again := accept(client, queue, "b")
	complete1(again, "b1")
	check(again.Close(everything))
	// An id is the same session in any case, and the SDK wants the spelling that it asked for.
	named := accept(client, queue, "A")
	same(named.SessionID(), "A", "the named session")
	complete1(named, "a1")
	empty(named)
	check(named.Close(everything))
	nobodys := accept(client, queue, "nobody's")
	empty(nobodys)
	_, err = receiverOf(client, queue).ReceiveMessages(everything, 1, nil)
	demand(err != nil, "a queue with sessions is received from by session")
	err = sender.SendMessage(everything, &azservicebus.Message{Body: []byte("of no session")}, nil)
	demand(err != nil, "a message without a session is refused")
}

func sessionOrder(queue string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, queue)
	for number := range 10 {
		for _, session := range []string{"a", "b", "c"} {
			sendTo(sender, session, fmt.Sprint(session, number))
		}
	}
	for _, session := range []string{"a", "b", "c"} {
		receiver := accept(client, queue, session)
		for number := 0; number < 10; {
			message := one(receiver, fmt.Sprint(session, number))
			if number%4 == 2 && message.DeliveryCount == 1 {
				check(receiver.AbandonMessage(everything, message, nil))
				continue
			}
			check(receiver.CompleteMessage(everything, message, nil))
			number++
		}
		check(receiver.Close(everything))
	}
}

func sessionState(queue string) {
	client := connect()
	defer client.Close(everything)
	receiver := accept(client, queue, "s")
	demand(must(receiver.GetSessionState(everything, nil)) == nil, "no state before one was set")
	for _, state := range []string{"one", "another \x00\xff"} {
		check(receiver.SetSessionState(everything, []byte(state), nil))
		same(string(must(receiver.GetSessionState(everything, nil))), state, "state")
	}
	before := receiver.LockedUntil()
	time.Sleep(100 * time.Millisecond) // so that the renewed lock ends later
	check(receiver.RenewSessionLock(everything, nil))
	demand(receiver.LockedUntil().After(before), "%v is not after %v", receiver.LockedUntil(), before)
	check(receiver.Close(everything))
	next := accept(client, queue, "s")
	same(string(must(next.GetSessionState(everything, nil))), "another \x00\xff", "the state is kept for the next holder")
	check(next.SetSessionState(everything, nil, nil))
	demand(must(next.GetSessionState(everything, nil)) == nil, "a state that was taken away is none")
}

func sessionListing(queue string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, queue)
	var wanted, found []string
	for number := range 12 {
		session := fmt.Sprintf("session-%02d", number)
		wanted = append(wanted, session)
		sendTo(sender, session, "a message")
	}
	for pager := client.NewListSessionsForQueuePager(queue, nil); pager.More(); {
		found = append(found, must(pager.NextPage(everything)).Sessions...)
	}
	slices.Sort(found)
	demand(slices.Equal(found, wanted), "found %v", found)
}

// The SDK asks for deferred messages and for a peek without naming the session: it names the link.
func sessionDeferred(queue string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, queue)
	sendTo(sender, "other", "of another session")
	sendTo(sender, "s", "later", "now", "dead")
	receiver := accept(client, queue, "s")
	later := one(receiver, "later")
	check(receiver.DeferMessage(everything, later, nil))
	complete1(receiver, "now")
	check(receiver.DeadLetterMessage(everything, one(receiver, "dead"), nil))
	seen := must(receiver.PeekMessages(everything, 10, nil))
	same(len(seen), 1, "messages of the session")
	same(string(seen[0].Body), "later", "the message of the session")
	numbers := []int64{*later.SequenceNumber}
	other := accept(client, queue, "other")
	_, err := other.ReceiveDeferredMessages(everything, numbers, nil)
	refused(err, azservicebus.CodeNotFound)
	check(other.Close(everything))
	back := must(receiver.ReceiveDeferredMessages(everything, numbers, nil))
	same(len(back), 1, "messages")
	same(string(back[0].Body), "later", "the deferred message")
	check(receiver.CompleteMessage(everything, back[0], nil))
	_, err = receiver.ReceiveDeferredMessages(everything, numbers, nil)
	refused(err, azservicebus.CodeNotFound)
	dead := one(deadLettersOf(client, queue), "dead")
	same(*dead.SessionID, "s", "session of the dead letter")
}

// With a broker of its own, whose clock is moved. A receiver that finds its link gone settles by lock token, accepts the session
// again, and tries once more: four times with growing pauses, whatever the options of the client say.
func sessionLost(queue string) {
	client := connect()
	defer client.Close(everything)
	sendTo(senderOf(client, queue), "s", "first", "second")
	receiver := accept(client, queue, "s")
	message := one(receiver, "first")
	advanceClock(6 * time.Minute)
	refused(receiver.CompleteMessage(everything, message, nil), azservicebus.CodeLockLost)
	check(receiver.Close(everything))
	second := connect()
	defer second.Close(everything)
	next := accept(second, queue, "s")
	again := one(next, "first")
	same(again.DeliveryCount, 2, "deliveries")
	refused(receiver.CompleteMessage(everything, message, nil), azservicebus.CodeClosed)
	check(next.CompleteMessage(everything, again, nil))
	complete1(next, "second")
	empty(next)
}

// Sessions are accepted, used and given up on the connection on which a sender goes on.
func sessionsBesideSender(queue string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, queue)
	sendTo(sender, "before", "zero")
	var receivers []*azservicebus.SessionReceiver
	for _, session := range []string{"one", "two", "three"} {
		sendTo(sender, session, session)
		receivers = append(receivers, accept(client, queue, session))
	}
	for _, receiver := range receivers {
		check(receiver.SetSessionState(everything, []byte("state of "+receiver.SessionID()), nil))
		sendTo(sender, receiver.SessionID(), "more")
	}
	for _, receiver := range receivers {
		same(string(must(receiver.GetSessionState(everything, nil))), "state of "+receiver.SessionID(), "state")
		complete1(receiver, receiver.SessionID(), "more")
		check(receiver.SetSessionState(everything, nil, nil))
		demand(must(receiver.GetSessionState(everything, nil)) == nil, "a state that was taken away is none")
	}
	for _, receiver := range receivers {
		check(receiver.Close(everything))
		sendTo(sender, "after", "the sender goes on")
	}
	complete1(accept(client, queue, "after"), "the sender goes on", "the sender goes on", "the sender goes on")
}

func topicSessions(topic string) {
	client := connect()
	defer client.Close(everything)
	sender := senderOf(client, topic)
	sendTo(sender, "a", "a1", "a2")
	sendTo(sender, "b", "b1")
	named := must(client.AcceptSessionForSubscription(everything, topic, "s", "b", nil))
	complete1(named, "b1")
	next := must(client.AcceptNextSessionForSubscription(everything, topic, "s", nil))
	same(next.SessionID(), "a", "the next session")
	check(next.SetSessionState(everything, []byte("state"), nil))
	same(string(must(next.GetSessionState(everything, nil))), "state", "state")
	seen := must(next.PeekMessages(everything, 10, nil))
	same(len(seen), 2, "messages")
	complete1(next, "a1", "a2")
}
