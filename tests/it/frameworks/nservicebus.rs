//! `NServiceBus`: a queue for each endpoint, and topics for events in either of its topologies (`TopologyCreator`,
//! `QueueCreator`, the subscription managers).

use amqp_codec::{
    message::MessageBuilder,
    raw::{AnnotationValue, RawMap},
    value::Value,
};
use bytes::Bytes;

use super::*;
use crate::numbers::{map, outcome};

/// What queues and subscriptions of the transport get: failures are counted by the framework, not by the broker.
const NSB: Options = Options { lock: "PT5M", deliveries: 2_147_483_647, megabytes: 5_120, ..DEFAULTS };

/// The endpoint `Shop.Orders` with the topology of one topic for all events (`bundle-1`), and a second topic below it.
fn nservicebus_with_one_topic(broker: &Broker) -> Start {
    let (admin, mut start) = (Admin::dotnet(broker), Start::default());
    // Whether it may manage at all is found out by asking for a queue that nobody can have.
    assert_eq!(admin.exists("$nservicebus-verification-queue", QUEUE), Ok(false));
    start.make(admin, "bundle-1", TOPIC, &NSB.topic());
    start.make(admin, "bundle-2", TOPIC, &NSB.topic());
    let everything = rule("DefaultRuleDescription", "$default", "TrueFilter", "1=1");
    let inside = NSB.subscription(Some(&admin.address("bundle-2")), &everything, (Some("bundle-2"), false));
    start.make(admin, "bundle-1/Subscriptions/forwardTo-bundle-2", SUBSCRIPTION, &inside);
    for queue in ["Shop.Orders", "error", "audit"] {
        start.make(admin, queue, QUEUE, &NSB.queue());
    }
    let nothing = rule("DefaultRuleDescription", "$default", "FalseFilter", "1=0");
    let inside =
        NSB.subscription(Some(&admin.address("Shop.Orders")), &nothing, (Some("Shop.Orders"), false));
    start.make(admin, "bundle-2/Subscriptions/Shop.Orders", SUBSCRIPTION, &inside);
    nservicebus_adds_rule(broker, "bundle-2/Subscriptions/Shop.Orders", "Shop.OrderTaken");
    nservicebus_adds_rule(broker, "bundle-2/Subscriptions/Shop.Orders", "Shop.Outer+Nested");
    start
}

/// Rules of events are added over AMQP: on a subscription that forwards they cannot be asked for, so one that is there
/// already is as good.
fn nservicebus_adds_rule(broker: &Broker, subscription: &str, event: &str) {
    let mut sdk = Sdk::connect(broker, &sdk_dotnet::DOTNET);
    let node = sdk.management_of(subscription);
    let text = |text: String| Value::String(text);
    let expression = format!("[NServiceBus.EnclosedMessageTypes] LIKE '%{event}%'");
    let filter = map(&[("expression", text(expression))]).to_value();
    let description = map(&[
        ("sql-filter", filter),
        ("sql-rule-action", Value::Null),
        ("rule-name", text(event.to_owned())),
    ]);
    let body: RawMap =
        map(&[("rule-name", text(event.to_owned())), ("rule-description", description.to_value())]);
    let added = outcome(&sdk.manage(node, "com.microsoft:add-rule", &body));
    let exists = (409, Some("com.microsoft:entity-already-exists".to_owned()));
    assert!(added == (200, None) || added == exists, "{event}: {added:?}");
    sdk.client.close();
}

fn event(text: &str, kinds: &str) -> Bytes {
    MessageBuilder::new()
        .message_id(text)
        .application_property("NServiceBus.EnclosedMessageTypes", AnnotationValue::Str(kinds))
        .data(text.as_bytes())
        .build()
}

fn through_nservicebus_with_one_topic(sdk: &mut Sdk<'_>) {
    publish(sdk, "bundle-1", &event("taken", "Shop.OrderTaken, Shop;Shop.Event, Shop"));
    publish(sdk, "bundle-1", &event("paid", "Shop.OrderPaid, Shop"));
    publish(sdk, "bundle-1", &event("nested", "Shop.Outer+Nested, Shop"));
    publish(sdk, "Shop.Orders", &message("a command"));
    let mut came = take(sdk, "Shop.Orders", 10, 3);
    came.sort();
    assert_eq!(came, ["a command", "nested", "taken"]);
}

#[test]
fn scripted_nservicebus_starts_and_starts_again_and_its_events_arrive() {
    let (first, second) =
        starts(&sdk_dotnet::DOTNET, nservicebus_with_one_topic, through_nservicebus_with_one_topic);
    assert_eq!((first.made.len(), first.found.len()), (7, 0), "{first:?}");
    assert_eq!((second.made.len(), second.found.len()), (0, 7), "{second:?}");
}

/// The same endpoint with the topology of a topic for each event: the subscription takes everything, or has rules.
fn nservicebus_with_topics(broker: &Broker) -> Start {
    let (admin, mut start) = (Admin::dotnet(broker), Start::default());
    assert_eq!(admin.exists("$nservicebus-verification-queue", QUEUE), Ok(false));
    // A queue of one instance goes when the instance does not come back.
    let instance = Options { idle: Some("P7D"), ..NSB };
    for (queue, options) in [("Shop.Orders", &NSB), ("Shop.Orders-till-7", &instance), ("error", &NSB)] {
        start.make(admin, queue, QUEUE, &options.queue());
    }
    for topic in ["Shop.OrderTaken", "Shop.Outer.Nested"] {
        start.make(admin, topic, TOPIC, &NSB.topic());
        let inside = NSB.subscription(Some(&admin.address("Shop.Orders")), "", (Some("Shop.Orders"), false));
        start.make(admin, &format!("{topic}/Subscriptions/Shop.Orders"), SUBSCRIPTION, &inside);
    }
    start
}

#[test]
fn scripted_nservicebus_starts_with_a_topic_for_each_event_and_unsubscribes() {
    let through = |sdk: &mut Sdk<'_>| {
        publish(sdk, "Shop.OrderTaken", &event("taken", "Shop.OrderTaken, Shop"));
        publish(sdk, "Shop.Outer.Nested", &event("nested", "Shop.Outer+Nested, Shop"));
        let mut came = take(sdk, "Shop.Orders", 10, 2);
        came.sort();
        assert_eq!(came, ["nested", "taken"]);
    };
    let (first, second) = starts(&sdk_dotnet::DOTNET, nservicebus_with_topics, through);
    assert_eq!((first.made.len(), second.found.len()), (7, 7), "{first:?} {second:?}");
    let broker = fresh();
    nservicebus_with_topics(&broker);
    let admin = Admin::dotnet(&broker);
    let entry = admin.get("Shop.Orders", QUEUE).unwrap();
    assert_eq!(text(&entry, "MaxDeliveryCount").as_deref(), Some("2147483647"));
    let own = "Shop.OrderTaken/Subscriptions/Shop.Orders";
    assert_eq!((admin.delete(own), admin.delete(own)), (Ok(()), Err(Thrown::NotFound)));
}
