package main

import (
	"encoding/hex"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// What the SDK's own tests demand of the service: sizes, keys, times and texts.
func administerAsTheService(client *admin.Client, queue string) {
	key := hex.EncodeToString([]byte("twenty-two bytes of it"))
	rules := []admin.AuthorizationRule{{
		AccessRights: []admin.AccessRight{admin.AccessRightSend},
		KeyName:      pointer("keyName1"), PrimaryKey: &key, SecondaryKey: &key,
	}}
	given := admin.QueueProperties{
		EnablePartitioning: pointer(true), MaxSizeInMegabytes: pointer(int32(4096)), AuthorizationRules: rules,
	}
	made := must(client.CreateQueue(everything, queue, &admin.CreateQueueOptions{Properties: &given}))
	same(*made.MaxSizeInMegabytes, 16*4096, "the size of all partitions")
	demand(reflect.DeepEqual(made.AuthorizationRules, rules), "rules: %v", made.AuthorizationRules)
	again := must(client.UpdateQueue(everything, queue, made.QueueProperties, nil))
	same(*again.MaxSizeInMegabytes, 16*4096, "the size sent back")
	demand(must(client.GetQueueRuntimeProperties(everything, queue, nil)).AccessedAt.IsZero(), "nobody used it")
	changed := made.QueueProperties
	changed.RequiresSession = pointer(true)
	_, err := client.UpdateQueue(everything, queue, changed, nil)
	demand(err != nil && strings.Contains(err.Error(), "The value for the RequiresSession property of an existing Queue cannot be changed"), "fixed: %v", err)
	must(client.DeleteQueue(everything, queue, nil))
	must(client.CreateTopic(everything, queue, nil))
	must(client.CreateSubscription(everything, queue, "s", nil))
	unused := must(client.GetSubscriptionRuntimeProperties(everything, queue, "s", nil))
	demand(!unused.AccessedAt.IsZero(), "a subscription is accessed when it is made")
	must(client.DeleteTopic(everything, queue, nil))
	demand(must(client.GetQueue(everything, queue, nil)) == nil, "it is gone")
}

// A client with the rights to send and listen but not to manage. The broker answers as the service does.
func lackingRights(queue string) {
	client := administrator()
	demand(must(client.GetQueue(everything, queue+"-missing", nil)) == nil, "a missing queue")
	demand(must(client.GetTopicRuntimeProperties(everything, queue+"-missing", nil)) == nil, "a missing topic")
	denied := func(err error, words string) {
		var answer *azcore.ResponseError
		demand(errors.As(err, &answer) && answer.StatusCode == http.StatusUnauthorized, "not unauthorized: %v", err)
		demand(strings.Contains(err.Error(), words), "%q is not in %v", words, err)
	}
	_, err := client.GetQueue(everything, queue, nil)
	denied(err, ">Manage,EntityRead claims required for this operation")
	_, err = client.NewListQueuesPager(nil).NextPage(everything)
	denied(err, ">Manage,EntityRead claims required for this operation")
	_, err = client.CreateQueue(everything, queue+"-new", nil)
	denied(err, "Authorization failed for specified action: Manage,EntityWrite")
	_, err = client.DeleteQueue(everything, queue, nil)
	denied(err, "Authorization failed for specified action: Manage,EntityDelete.")
	const unauthorized = "401 SubCode=40100: Unauthorized : Unauthorized access for "
	_, err = client.GetSubscription(everything, queue, "s", nil)
	denied(err, unauthorized+"'GetSubscription'")
	_, err = client.NewListSubscriptionsPager(queue, nil).NextPage(everything)
	denied(err, unauthorized+"'EnumerateSubscriptions' operation")
	_, err = client.CreateSubscription(everything, queue, "s", nil)
	denied(err, unauthorized+"'CreateOrUpdateSubscription'")
	_, err = client.DeleteSubscription(everything, queue, "s", nil)
	denied(err, unauthorized+"'DeleteSubscription'")
	messages := connect()
	defer messages.Close(everything)
	send(senderOf(messages, queue), "it may send")
	complete1(receiverOf(messages, queue), "it may send")
}

// An entity with sessions refuses a receiver without one in the service's words.
func sessionRequired(queue string) {
	client := connect()
	defer client.Close(everything)
	_, err := receiverOf(client, queue).ReceiveMessages(everything, 1, nil)
	const words = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
	demand(err != nil && strings.Contains(err.Error(), words), "not refused: %v", err)
}
