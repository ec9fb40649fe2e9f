package main

// Messages that are delivered later, by the annotations of plain AMQP.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"time"

	"github.com/Azure/go-amqp"
)

const tenMinutes = 10 * time.Minute

func deliveryDelay(queue string) {
	c := connect()
	sender := c.sender(queue)
	at := time.Now().Add(tenMinutes)
	said := []struct {
		text, name string
		value      any
	}{
		{"by delay", "x-opt-delivery-delay", tenMinutes.Milliseconds()},
		{"by time", "x-opt-delivery-time", at.UnixMilli()},
		{"by timestamp", "x-opt-delivery-time", at},
	}
	texts := []string{}
	for _, one := range said {
		check(sender.Send(soon(), annotated(one.text, one.name, one.value), nil))
		texts = append(texts, one.text)
	}
	for name, value := range map[string]any{"x-opt-delivery-delay": int64(-1), "x-opt-delivery-time": "tomorrow"} {
		var refusal *amqp.Error
		holds(errors.As(sender.Send(soon(), annotated("never", name, value), nil), &refusal), "a bad "+name+" is refused")
	}
	check(sender.Send(soon(), texted("now"), nil))
	receiver := c.receiver(queue)
	receiver.take("now")
	receiver.isEmpty()
	advanceClock(tenMinutes + time.Minute)
	came := []string{}
	for range said {
		message := receiver.next()
		came = append(came, body(message))
		receiver.accept(message)
	}
	sort.Strings(came)
	sort.Strings(texts)
	same(came, texts)
	receiver.isEmpty()
	c.close()
}

func annotated(text, name string, value any) *amqp.Message {
	message := texted(text)
	message.Annotations = amqp.Annotations{name: value}
	return message
}

// Moves the broker's time; when this returns, what became due is done.
func advanceClock(by time.Duration) {
	url := "http://" + os.Getenv("FERRYBUS_CONTROL") + "/$ferrybus/clock/advance"
	body := fmt.Sprintf(`{"by_ms":%d}`, by.Milliseconds())
	request := must(http.NewRequest(http.MethodPost, url, bytes.NewBufferString(body)))
	request.Header.Set("Authorization", os.Getenv("FERRYBUS_AUTHORIZATION"))
	request.Header.Set("Content-Type", "application/json")
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	said := must(io.ReadAll(answer.Body))
	holds(answer.StatusCode/100 == 2, fmt.Sprintf("the clock: %s %s", answer.Status, said))
}
