//! Spring Cloud Azure: its binder provisions through Azure's resource manager or not at all, so what is played is an
//! application that makes what its bindings name by the Java client.

use super::*;
use crate::{administration::JAVA, sdk_java};

/// An application that makes what its bindings name: the Java client asks whether it exists, and creates it.
fn spring(broker: &Broker) -> Start {
    let (admin, mut start) = (Admin { broker, client: &JAVA }, Start::default());
    let subscription = DEFAULTS.subscription(None, "", (None, true));
    for (path, kind, inside) in [
        ("orders", QUEUE, DEFAULTS.queue()),
        ("events", TOPIC, DEFAULTS.topic()),
        ("events/subscriptions/orders-group", SUBSCRIPTION, subscription),
    ] {
        start.look_and_make(admin, path, kind, &inside);
    }
    start
}

#[test]
fn scripted_spring_application_makes_its_bindings_and_starts_again() {
    let through = |sdk: &mut Sdk<'_>| {
        publish(sdk, "orders", &message("an order"));
        publish(sdk, "events", &message("an event"));
        assert_eq!(take(sdk, "orders", 10, 1), ["an order"]);
        assert_eq!(take(sdk, "events/Subscriptions/orders-group", 11, 1), ["an event"]);
    };
    let (first, second) = starts(&sdk_java::JAVA, spring, through);
    assert_eq!((first.made.len(), second.found.len()), (3, 3), "{first:?} {second:?}");
}
