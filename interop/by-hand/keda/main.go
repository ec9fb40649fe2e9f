// Asks KEDA's scaler how many messages wait in a queue and in a subscription, without a cluster.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func metric(ctx context.Context, trigger map[string]string) (int64, bool) {
	scaler, err := scalers.NewAzureServiceBusScaler(&scalersconfig.ScalerConfig{
		TriggerMetadata: trigger, AuthParams: map[string]string{"connection": os.Getenv("FERRYBUS_CONNECTION")},
		GlobalHTTPTimeout: 10 * time.Second,
	})
	check(err)
	defer scaler.Close(ctx)
	name := scaler.GetMetricSpecForScaling(ctx)[0].External.Metric.Name
	values, active, err := scaler.GetMetricsAndActivity(ctx, name)
	check(err)
	return values[0].Value.Value(), active
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for _, each := range []struct {
		what    string
		trigger map[string]string
		waits   int64
	}{
		{"a queue with 7 messages", map[string]string{"queueName": "orders"}, 7},
		{"an empty queue", map[string]string{"queueName": "bound"}, 0},
		{"all queues by a pattern", map[string]string{"queueName": "orders|bound", "useRegex": "true"}, 7},
		{"a subscription with 3 messages", map[string]string{"topicName": "news", "subscriptionName": "all"}, 3},
	} {
		found, active := metric(ctx, each.trigger)
		if found != each.waits || active != (each.waits > 0) {
			log.Fatalf("%s: %d, active %v", each.what, found, active)
		}
		fmt.Printf("%s: %d, active %v\n", each.what, found, active)
	}
}
