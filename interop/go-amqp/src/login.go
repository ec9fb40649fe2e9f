package main

// Log-in with a token of an identity provider (XOAUTH2).

import (
	"os"

	"github.com/Azure/go-amqp"
)

func withToken(holder string) *amqp.ConnOptions {
	return &amqp.ConnOptions{SASLType: amqp.SASLTypeXOAUTH2("till", os.Getenv("FERRYBUS_TOKEN_"+holder), 0)}
}

func tokenLogIn(queue string) {
	c := connectAs(withToken("CLERK"))
	c.send(queue, "with a token")
	c.receiver(queue).take("with a token")
	c.close()
	for _, other := range []string{"GUEST", "EXPIRED", "FORGED"} {
		_, err := dial(withToken(other))
		refused(err, "SASL XOAUTH2 auth failed")
	}
}

func tokenLogInEnds(queue string) {
	c := connectAs(withToken("BRIEF"))
	c.send(queue, "in time")
	select {
	case <-c.conn.Done():
	case <-soon().Done():
		panic("the connection goes on behind the end of its token")
	}
	refused(c.conn.Err(), "amqp:unauthorized-access")
	refused(c.conn.Err(), "ExpiredToken: The token of the log-in is expired.")
}
