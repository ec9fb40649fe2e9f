package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// The queue that each namespace has.
const orders = "orders"

// What an application of a team is told.
type namespace struct{ name, host, key string }

// The default one and those of two teams, as `lib/namespaces.py` says them.
func namespaces() []namespace {
	var all []namespace
	for _, line := range strings.Split(os.Getenv("FERRYBUS_NAMESPACES"), "\n") {
		words := strings.Fields(line)
		demand(len(words) == 3, "not a namespace: %q", line)
		all = append(all, namespace{words[0], words[1], words[2]})
	}
	same(len(all), 3, "namespaces")
	return all
}

// The certificate names the address too; the SDK would look for the port in it.
func (n namespace) options() *azservicebus.ClientOptions {
	return &azservicebus.ClientOptions{
		TLSConfig:    &tls.Config{ServerName: n.host},
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 2, RetryDelay: 50 * time.Millisecond},
	}
}

func (n namespace) connectAs(key string, options *azservicebus.ClientOptions) *azservicebus.Client {
	return must(azservicebus.NewClientFromConnectionString(connectionStringOf(n.host, key), options))
}

func (n namespace) connect() *azservicebus.Client { return n.connectAs(n.key, n.options()) }

// Changes the namespace as an administrator does: it has this limit and no other.
func (n namespace) put(held bool, limit string) {
	body := fmt.Sprintf(`{"hostnames":[%q],"held":%t,"limits":{%s}}`, n.host, held, limit)
	url := "http://" + os.Getenv("FERRYBUS_CONTROL") + "/$ferrybus/namespaces/" + n.name
	request := must(http.NewRequestWithContext(everything, http.MethodPut, url, bytes.NewBufferString(body)))
	request.Header.Set("Authorization", os.Getenv("FERRYBUS_AUTHORIZATION"))
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	said := must(io.ReadAll(answer.Body))
	demand(answer.StatusCode/100 == 2, "the namespace: %s %s", answer.Status, said)
}

func tells(err error, text string) {
	demand(err != nil && strings.Contains(err.Error(), text), "not %q: %v", text, err)
}

func sendOnce(client *azservicebus.Client, body string) error {
	sender := senderOf(client, orders)
	defer sender.Close(everything)
	return sender.SendMessage(everything, &azservicebus.Message{Body: []byte(body)}, nil)
}

// The SDK speaks WebSocket over TLS only.
func threeNamespacesOverWebSocket(string) {
	os.Setenv("FERRYBUS_TRANSPORT", "tls")
	os.Setenv("FERRYBUS_PORT", os.Getenv("FERRYBUS_TLS_PORT"))
	sendToEach(func(options *azservicebus.ClientOptions) { options.NewWebSocketConn = dialWebSocket })
}

// Clients of all at the same time: each finds in its queue what it has sent, and nothing else.
func sendToEach(adapt func(*azservicebus.ClientOptions)) {
	all := namespaces()
	var clients []*azservicebus.Client
	for _, each := range all {
		options := each.options()
		adapt(options)
		client := each.connectAs(each.key, options)
		defer client.Close(everything)
		check(sendOnce(client, "for "+each.name))
		clients = append(clients, client)
	}
	for index, client := range clients {
		receiver := receiverOf(client, orders)
		seen := must(receiver.PeekMessages(everything, 10, nil))
		same(len(seen), 1, "messages of "+all[index].name)
		complete1(receiver, "for "+all[index].name)
	}
}

func threeNamespaces(string) {
	sendToEach(func(*azservicebus.ClientOptions) {})
	all := namespaces()
	for _, pair := range [][2]namespace{{all[1], all[2]}, {all[0], all[1]}} {
		client := pair[0].connectAs(pair[1].key, pair[0].options())
		defer client.Close(everything)
		refused(sendOnce(client, "never"), azservicebus.CodeUnauthorizedAccess)
	}
}

func namespaceHeld(string) {
	team := namespaces()[1]
	client := team.connect()
	defer client.Close(everything)
	check(sendOnce(client, "before"))
	team.put(true, "")
	tells(sendOnce(client, "never"), "is held for maintenance")
	team.put(false, "")
	check(sendOnce(client, "after"))
	complete1(receiverOf(client, orders), "before", "after")
}

func namespaceMaxConnections(string) {
	team := namespaces()[1]
	first, second := team.connect(), team.connect()
	defer first.Close(everything)
	defer second.Close(everything)
	check(sendOnce(first, "first"))
	team.put(false, `"max_connections":1`)
	tells(sendOnce(second, "never"), "ConnectionsQuotaExceeded")
	check(sendOnce(first, "goes on"))
	team.put(false, "")
	check(sendOnce(second, "second"))
}

func namespaceMaxBytes(string) {
	team, large := namespaces()[1], strings.Repeat("x", 30_000)
	team.put(false, `"max_bytes":20000`)
	client := team.connect()
	defer client.Close(everything)
	err := sendOnce(client, large)
	for attempt := 0; err == nil && attempt < 2; attempt++ {
		err = sendOnce(client, large)
	}
	tells(err, "amqp:resource-limit-exceeded")
	tells(err, "takes at most 20000")
	receiver := receiverOf(client, orders)
	check(receiver.CompleteMessage(everything, one(receiver, large), nil))
	check(sendOnce(client, "small"))
	team.put(false, "")
	check(sendOnce(client, large))
}

func (n namespace) administrator() *admin.Client {
	text := "Endpoint=sb://" + n.host + ":" + os.Getenv("FERRYBUS_TLS_PORT") +
		";SharedAccessKeyName=" + os.Getenv("FERRYBUS_KEY_NAME") + ";SharedAccessKey=" + n.key
	return must(admin.NewClientFromConnectionString(text, nil))
}

func namespaceAdministration(string) {
	all := namespaces()
	for _, each := range all {
		must(each.administrator().CreateQueue(everything, "of-"+each.name, nil))
	}
	for _, each := range all {
		var names []string
		for pager := each.administrator().NewListQueuesPager(nil); pager.More(); {
			for _, item := range must(pager.NextPage(everything)).Queues {
				names = append(names, item.QueueName)
			}
		}
		same(strings.Join(names, " "), "of-"+each.name+" "+orders, "queues of "+each.name)
	}
	stranger := all[1]
	stranger.key = all[2].key
	_, err := stranger.administrator().CreateQueue(everything, "never", nil)
	answered(err, http.StatusUnauthorized, "")
	all[1].put(false, `"max_entities":2`)
	_, err = all[1].administrator().CreateQueue(everything, "one-too-many", nil)
	answered(err, http.StatusForbidden, "The limit of 2 entities is reached")
	must(all[2].administrator().CreateQueue(everything, "elsewhere", nil))
	all[1].put(false, "")
	must(all[1].administrator().CreateQueue(everything, "one-too-many", nil))
}

func answered(err error, status int, text string) {
	var response *azcore.ResponseError
	demand(errors.As(err, &response) && response.StatusCode == status, "not %d: %v", status, err)
	tells(err, text)
}
