//! `MassTransit`: a topic for each type of message, a queue for each endpoint, subscriptions that forward between them
//! (`ServiceBusConnectionContext`, `ConfigureServiceBusTopologyFilter`, `Defaults`).

use amqp_codec::{message::MessageBuilder, raw::AnnotationValue};
use bytes::Bytes;

use super::*;

/// `Defaults`: what receive endpoints and topics get.
const MASS: Options = Options {
    lock: "PT5M",
    time_to_live: Some("P366D"),
    dead_letter: true,
    deliveries: 5,
    idle: Some("P427D"),
    ..DEFAULTS
};
const TAKEN: &str = "Shop.Contracts/OrderTaken";
const EVENT: &str = "Shop.Contracts/OrderEvent";
/// A rule of a subscription endpoint is named by a new GUID.
const GUID: &str = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";

/// A bus with the endpoint `order-service`, which consumes `OrderTaken`, the endpoint `audit-service`, which consumes its
/// base type `OrderEvent`, a subscription endpoint with a filter, and a bus endpoint for answers.
fn masstransit(broker: &Broker) -> Start {
    masstransit_with(broker, "amount &gt; 100")
}

fn masstransit_with(broker: &Broker, filter: &str) -> Start {
    let (admin, mut start) = (Admin::dotnet(broker), Start::default());
    // Topics before queues before subscriptions.
    for topic in [TAKEN, EVENT] {
        start.look_and_make(admin, topic, TOPIC, &MASS.topic());
    }
    for queue in ["order-service", "audit-service"] {
        start.look_and_make(admin, queue, QUEUE, &MASS.queue());
    }
    // Where answers come to; it goes when nobody uses it any more.
    let bus = Options { idle: Some("PT5M"), ..MASS };
    start.look_and_make(admin, "HOST_dotnet_bus_oqyyyyf8k9yyk1scbdpwpszqcr", QUEUE, &bus.queue());
    for (topic, name, target) in [
        (TAKEN, "order-service", "order-service"),
        (EVENT, "audit-service", "audit-service"),
        // What is published of the type is of its base type too.
        (TAKEN, "Shop.Contracts-OrderEvent", EVENT),
    ] {
        masstransit_subscribes(admin, &mut start, (topic, name), target);
    }
    masstransit_filters(admin, &mut start, filter);
    start
}

/// `CreateTopicSubscription` without rule and filter.
fn masstransit_subscribes(admin: Admin<'_>, start: &mut Start, (topic, name): (&str, &str), target: &str) {
    let path = format!("{topic}/Subscriptions/{name}");
    match admin.get(&path, SUBSCRIPTION) {
        Ok(entry) => {
            // It compares the paths of the two addresses, and updates nothing where they are the same.
            assert_eq!(text(&entry, "ForwardTo"), Some(admin.address(target)));
            start.found.push(path);
        }
        Err(Thrown::NotFound) => {
            let inside = MASS.subscription(Some(&admin.address(target)), "", (None, true));
            match admin.create(&path, SUBSCRIPTION, &inside) {
                Ok(()) => start.made.push(path),
                Err(Thrown::AlreadyExists) => {
                    assert!(admin.get(&path, SUBSCRIPTION).is_ok());
                    start.lost.push(path);
                }
                Err(thrown) => panic!("{path}: {thrown:?}"),
            }
        }
        Err(thrown) => panic!("{path}: {thrown:?}"),
    }
}

/// `CreateTopicSubscription` with a filter: the only rule, where its name is a GUID, gets the filter of this start.
fn masstransit_filters(admin: Admin<'_>, start: &mut Start, filter: &str) {
    let path = format!("{TAKEN}/Subscriptions/large");
    let first = rule("DefaultRuleDescription", GUID, "SqlFilter", filter);
    match admin.get(&path, SUBSCRIPTION) {
        Ok(_) => {
            let rules = admin.rules(&path);
            assert_eq!(rules.matches("<entry>").count(), 1, "{rules}");
            assert_eq!(text(&rules, "Name").as_deref(), Some(GUID));
            if text(&rules, "SqlExpression").as_deref() != Some(filter) {
                let path = format!("{path}/Rules/{GUID}");
                admin.update(&path, RULE, &rule(RULE, GUID, "SqlFilter", filter));
                start.updated.push(path);
            }
        }
        Err(Thrown::NotFound) => {
            start.make(admin, &path, SUBSCRIPTION, &MASS.subscription(None, &first, (None, true)));
        }
        Err(thrown) => panic!("{path}: {thrown:?}"),
    }
}

fn order(text: &str, amount: i32) -> Bytes {
    MessageBuilder::new()
        .message_id(text)
        .application_property("amount", AnnotationValue::Int(amount))
        .data(text.as_bytes())
        .build()
}

/// What is published comes to the endpoints of the type and of its base type, and to the filter.
fn through_masstransit(sdk: &mut Sdk<'_>) {
    publish(sdk, TAKEN, &order("small", 1));
    publish(sdk, TAKEN, &order("large", 101));
    for (handle, endpoint) in [(10, "order-service"), (11, "audit-service")] {
        assert_eq!(take(sdk, endpoint, handle, 2), ["small", "large"], "{endpoint}");
    }
    assert_eq!(take(sdk, &format!("{TAKEN}/Subscriptions/large"), 12, 1), ["large"]);
}

#[test]
fn scripted_masstransit_starts_and_starts_again_and_its_events_arrive() {
    let (first, second) = starts(&sdk_dotnet::DOTNET, masstransit, through_masstransit);
    assert_eq!((first.made.len(), first.found.len(), first.updated.len()), (9, 0, 0), "{first:?}");
    assert_eq!((second.made.len(), second.found.len(), second.updated.len()), (0, 8, 0), "{second:?}");
}

#[test]
fn scripted_masstransit_changes_a_filter_publishes_faults_and_takes_subscriptions_back() {
    let broker = fresh();
    masstransit(&broker);
    let changed = masstransit_with(&broker, "amount &lt; 100");
    assert!(changed.updated.contains(&format!("{TAKEN}/Subscriptions/large/Rules/{GUID}")), "{changed:?}");
    let mut sdk = Sdk::connect(&broker, &sdk_dotnet::DOTNET);
    publish(&mut sdk, TAKEN, &order("small", 1));
    publish(&mut sdk, TAKEN, &order("large", 101));
    assert_eq!(take(&mut sdk, &format!("{TAKEN}/Subscriptions/large"), 10, 1), ["small"]);

    // A consumer that fails: an event of the type `Fault<OrderTaken>`, and the message itself for the error queue.
    let (admin, mut start) = (Admin::dotnet(&broker), Start::default());
    let fault = "MassTransit/Fault--Shop.Contracts/OrderTaken--";
    start.look_and_make(admin, fault, TOPIC, &MASS.topic());
    start.look_and_make(admin, "order-service_error", QUEUE, &MASS.queue());
    start.look_and_make(admin, "order-service_skipped", QUEUE, &MASS.queue());
    assert_eq!(start.made, [fault, "order-service_error", "order-service_skipped"]);
    masstransit_subscribes(admin, &mut start, (fault, "audit-service"), "audit-service");
    take(&mut sdk, "audit-service", 11, 2);
    publish(&mut sdk, fault, &message("it failed"));
    assert_eq!(take(&mut sdk, "audit-service", 12, 1), ["it failed"]);
    publish(&mut sdk, "order-service_error", &message("the order"));
    assert_eq!(take(&mut sdk, "order-service_error", 13, 1), ["the order"]);

    // An instance endpoint takes its subscription along when it stops; that it is gone already is no failure.
    let own = format!("{TAKEN}/Subscriptions/order-service");
    assert_eq!((admin.delete(&own), admin.delete(&own)), (Ok(()), Err(Thrown::NotFound)));
    sdk.client.close();
}
