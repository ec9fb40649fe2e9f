package main

// Addresses that are any text.

import (
	"net/url"
	"os"
	"strings"

	"github.com/Azure/go-amqp"
)

func addressTexts(string) {
	c := connect()
	var addresses []string
	for _, encoded := range strings.Fields(os.Getenv("FERRYBUS_ADDRESSES")) {
		addresses = append(addresses, must(url.PathUnescape(encoded)))
	}
	holds(len(addresses) > 0, "there are addresses")
	for _, address := range addresses {
		c.send(address, address)
	}
	relay := c.sender("")
	for _, address := range addresses {
		message := texted("by to")
		message.Properties = &amqp.MessageProperties{To: &address}
		check(relay.Send(soon(), message, nil))
	}
	for _, address := range addresses {
		receiver := c.receiver(address)
		receiver.take(address)
		receiver.take("by to")
	}
	c.close()
}
