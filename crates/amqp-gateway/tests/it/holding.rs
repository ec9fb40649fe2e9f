//! How long a receiver holds the messages that it has not settled: until its link ends in the plain dialect, for the lock
//! duration in that of Service Bus. A slow JMS listener that prefetches 600 messages is the case for the former.

use std::time::Duration;

use amqp_codec::{
    message::AnnotationValue,
    performative::{DeliveryState, Open},
    raw::RawMap,
    sections::Sections,
};
use broker_core::{EntitySettings, LockLifetime};
use bytes::Bytes;

use crate::harness::{World, texts};

/// Twice the default lock duration.
const LONG: Duration = Duration::from_secs(120);

fn is_timed(payload: &Bytes) -> bool {
    let sections = Sections::scan(payload).unwrap();
    sections.message_annotations_view(payload).get("x-opt-locked-until").is_some()
}

/// Settles the deliveries of handle 2 one after the other, with so much time before each, and says which came.
fn process_slowly(world: &mut World, client: usize, credit: u32, pause: Duration) -> Vec<String> {
    let mut processed = Vec::new();
    let mut waiting: std::collections::VecDeque<_> = world.receive(client, "q", credit).into();
    while let Some((transfer, payload)) = waiting.pop_front() {
        world.pass(pause);
        processed.push(crate::harness::text(&payload));
        let id = transfer.delivery_id.unwrap();
        world.script(client).disposition(0, id, id, true, Some(DeliveryState::Accepted));
        world.run();
        waiting.extend(world.transfers(client));
    }
    processed
}

#[test]
fn a_plain_listener_slower_than_a_lock_gets_each_message_once() {
    let mut world = World::new();
    let client = world.plain();
    let sent: Vec<String> = (0..600).map(|number| number.to_string()).collect();
    world.send(client, "q", &sent.iter().map(String::as_str).collect::<Vec<_>>());
    // With a prefetch of 1,000 the last message waits 600 times 200 ms: twice the lock duration.
    assert_eq!(process_slowly(&mut world, client, 1000, Duration::from_millis(200)), sent);
    assert_eq!(world.active("q"), 0);
    assert_eq!(world.receive(client, "q/$DeadLetterQueue", 1000).len(), 0);
}

#[test]
fn messages_of_a_killed_listener_go_to_the_other_and_its_own_are_not_taken() {
    let mut world = World::new();
    let (sender, killed, other) = (world.plain(), world.plain(), world.plain());
    world.send(sender, "q", &["a", "b", "c", "d"]);
    let lost = world.receive(killed, "q", 2);
    assert_eq!(texts(&lost), ["a", "b"]);
    let held = world.receive(other, "q", 10);
    assert_eq!(texts(&held), ["c", "d"]);
    world.pass(LONG);
    assert_eq!(world.transfers(other).len(), 0, "the killed one still holds them");
    world.lose(killed);
    let returned = world.transfers(other);
    assert_eq!(texts(&returned), ["a", "b"]);
    for (transfer, _) in held.iter().chain(&returned) {
        let id = transfer.delivery_id.unwrap();
        world.script(other).disposition(0, id, id, true, Some(DeliveryState::Accepted));
    }
    world.run();
    world.pass(LONG);
    assert_eq!((world.active("q"), world.transfers(other).len()), (0, 0));
}

#[test]
fn a_queue_keeps_the_promises_of_both_dialects() {
    let mut world = World::new();
    let (plain, service_bus) = (world.plain(), world.service_bus());
    world.send(plain, "q", &["a", "b"]);
    let held = world.receive(plain, "q", 1);
    let locked = world.receive(service_bus, "q", 1);
    assert_eq!((is_timed(&held[0].1), is_timed(&locked[0].1)), (false, true));
    world.pass(LONG);
    // The lock of the one is over, and the other still holds its message.
    let other = world.plain();
    let again = world.receive(other, "q", 5);
    assert_eq!(texts(&again), ["b"]);
    let id = held[0].0.delivery_id.unwrap();
    world.script(plain).disposition(0, id, id, false, Some(DeliveryState::Accepted));
    world.run();
    assert_eq!(world.dispositions(plain)[0].state, Some(DeliveryState::Accepted));
    assert_eq!(world.active("q"), 1);
}

#[test]
fn hold_lock_gives_plain_receivers_a_timer() {
    let mut world = World::new();
    world.update("q", EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() });
    let client = world.plain();
    world.send(client, "q", &["a"]);
    let held = world.receive(client, "q", 2);
    assert!(is_timed(&held[0].1));
    world.pass(LONG);
    assert_eq!(texts(&world.transfers(client)), ["a"], "it comes again");
}

#[test]
fn a_link_with_a_property_of_service_bus_has_timed_locks_on_a_plain_connection() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &["a"]);
    let mut attach = crate::dialects::receiver(2, None);
    let property = [("com.microsoft:receiver-name", AnnotationValue::Str("r"))];
    attach.properties = Some(RawMap::with_symbol_keys(&property));
    world.script(client).attach(0, attach);
    world.credit(client, 0, 2, 0, 1, false);
    world.run();
    assert!(is_timed(&world.transfers(client)[0].1));
}

#[test]
fn the_product_of_an_open_says_that_the_client_is_of_service_bus() {
    let cases = [
        (Some("Microsoft.Azure.ServiceBus"), true),
        (Some("Messaging.ServiceBus"), true),
        (Some("MSGolangClient"), true),
        (Some("QpidJMS"), false),
        (None, false),
    ];
    for (product, expected) in cases {
        let mut world = World::new();
        let client = world.accept();
        let mut open = Open::new("c");
        let properties = product.map(|product| [("product", AnnotationValue::Str(product))]);
        open.properties = properties.map(|properties| RawMap::with_symbol_keys(&properties));
        world.script(client).sasl_plain(crate::harness::KEY_NAME, "SAS_KEY_VALUE");
        world.script(client).open_with(open).begin(0);
        world.run();
        world.send(client, "q", &["a"]);
        let got = world.receive(client, "q", 1);
        assert_eq!(is_timed(&got[0].1), expected, "{product:?}");
    }
}
