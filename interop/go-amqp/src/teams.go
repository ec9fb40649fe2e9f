package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"

	"github.com/Azure/go-amqp"
)

// Three namespaces of one broker, by an address each and by `vhost:NAME`.
func namespaces(queue string) {
	keyOf := func(text string) amqp.SASLType { return amqp.SASLTypePlain(os.Getenv("FERRYBUS_KEY_NAME"), text) }
	lines := strings.Split(os.Getenv("FERRYBUS_NAMESPACES"), "\n")
	same(len(lines), 3)
	for _, byVirtualHost := range []bool{false, true} {
		var clients []*client
		// Connects to the namespace of one line with the key of another.
		enter := func(line, other string) (*amqp.Conn, error) {
			name, host, key := strings.Fields(line)[0], strings.Fields(line)[1], strings.Fields(other)[2]
			options := &amqp.ConnOptions{SASLType: keyOf(key)}
			if byVirtualHost {
				options.HostName, host = "vhost:"+name, "localhost"
				// Else the client looks for the virtual host in the certificate.
				options.TLSConfig = &tls.Config{ServerName: host}
			}
			return dialTo(host, options)
		}
		for _, line := range lines {
			conn := must(enter(line, line))
			c := &client{conn, must(conn.NewSession(soon(), nil))}
			c.send(queue, "for "+line)
			clients = append(clients, c)
		}
		for index, c := range clients {
			receiver := c.receiver(queue)
			receiver.take("for " + lines[index])
			c.close()
		}
		// Without a host name in its log-in, which this client leaves out for a virtual host, the close comes behind the open.
		conn, err := enter(lines[1], lines[2])
		if err == nil {
			_, err = conn.NewSession(soon(), nil)
		}
		holds(err != nil && strings.Contains(err.Error(), "auth"), fmt.Sprint("the key of another namespace is refused: ", err))
	}
}
