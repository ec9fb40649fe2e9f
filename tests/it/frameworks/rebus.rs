//! Rebus: an input queue, and a topic for each event with a subscription that forwards to it (`AzureServiceBusTransport`).

use super::*;

/// The endpoint `orders`, which subscribes to an event, with an error queue.
fn rebus(broker: &Broker) -> Start {
    let (admin, mut start) = (Admin::dotnet(broker), Start::default());
    let input = Options { deliveries: 100, lock: "PT2M", ..DEFAULTS };
    for (queue, options) in [("orders", &input), ("error", &DEFAULTS)] {
        if admin.exists(queue, QUEUE) == Ok(true) {
            start.found.push(queue.to_owned());
        } else {
            // Whatever goes wrong, somebody else may have been faster.
            match admin.create(queue, QUEUE, &options.queue()) {
                Ok(()) => start.made.push(queue.to_owned()),
                Err(Thrown::AlreadyExists) => start.lost.push(queue.to_owned()),
                Err(thrown) => panic!("{thrown:?}"),
            }
        }
    }
    // It looks at its input queue, and corrects what can be corrected.
    let entry = admin.get("orders", QUEUE).unwrap();
    assert_eq!(text(&entry, "EnablePartitioning").as_deref(), Some("false"));
    if text(&entry, "LockDuration").as_deref() != Some("PT2M") {
        admin.update("orders", QUEUE, &input.queue());
        start.updated.push("orders".to_owned());
    }
    rebus_subscribes(admin, &mut start);
    start
}

const REBUS_TOPIC: &str = "Shop.Contracts/Shop.Contracts.OrderTaken";

/// `RegisterSubscriber`: a plain subscription first, which then is told where to forward to.
fn rebus_subscribes(admin: Admin<'_>, start: &mut Start) {
    let path = format!("{REBUS_TOPIC}/Subscriptions/orders");
    for (path, kind, inside) in [
        (REBUS_TOPIC, TOPIC, DEFAULTS.topic()),
        (&path, SUBSCRIPTION, DEFAULTS.subscription(None, "", (None, true))),
    ] {
        start.look_and_make(admin, path, kind, &inside);
    }
    let entry = admin.get(&path, SUBSCRIPTION).unwrap();
    // It compares the URI with the queue's name, so it sets it each time.
    assert_ne!(text(&entry, "ForwardTo").as_deref(), Some("orders"));
    let forwards = DEFAULTS.subscription(Some(&admin.address("orders")), "", (None, true));
    admin.update(&path, SUBSCRIPTION, &forwards);
    start.updated.push(path);
}

#[test]
fn scripted_rebus_starts_and_starts_again_and_its_events_arrive() {
    let through = |sdk: &mut Sdk<'_>| {
        publish(sdk, REBUS_TOPIC, &message("taken"));
        assert_eq!(take(sdk, "orders", 10, 1), ["taken"]);
    };
    let (first, second) = starts(&sdk_dotnet::DOTNET, rebus, through);
    assert_eq!((first.made.len(), first.updated.len()), (4, 1), "{first:?}");
    assert_eq!((second.found.len(), second.made.len(), second.updated.len()), (4, 0, 1), "{second:?}");

    // A queue that somebody else has made with another lock duration gets its own.
    let broker = fresh();
    let admin = Admin::dotnet(&broker);
    admin.create("orders", QUEUE, &DEFAULTS.queue()).unwrap();
    assert!(rebus(&broker).updated.contains(&"orders".to_owned()));
    let own = format!("{REBUS_TOPIC}/Subscriptions/orders");
    assert_eq!((admin.delete(&own), admin.delete(&own)), (Ok(()), Err(Thrown::NotFound)));
}
