//! Selectors of plain AMQP receivers at queues, and what a selector makes of values that are not alike (Jakarta Messaging
//! 3.8.1).

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Source},
    raw::{AnnotationValue, RawMap, RawValue},
    types::Symbol,
};
use broker_core::{EntityKind, EntitySettings};

use crate::{
    harness::{World, texts},
    subscribers::{NAMED, attach, selecting, take, volatile, world},
};

/// Sends messages with a number as property `n`; those below zero have a text there.
fn send_numbers(world: &mut World, client: usize, target: &str, numbers: &[i32]) {
    world.script(client).attach_sender(0, 1, "numbers", Some(target));
    world.run();
    for n in numbers {
        let value = if *n < 0 { AnnotationValue::Str("text") } else { AnnotationValue::Int(*n) };
        let message = MessageBuilder::new().application_property("n", value);
        world.transfer(client, 1, true, &message.data(n.to_string().as_bytes()).build());
    }
    world.script(client).detach(0, 1, true);
    world.run();
    world.received(client);
}

fn selected(address: &str, selector: &str) -> Source {
    selecting(Source::new(address), "jms-selector", NAMED, selector)
}

#[test]
fn a_receiver_from_a_queue_gets_what_its_selector_takes() {
    let (mut world, client) = world();
    let other = world.plain();
    send_numbers(&mut world, client, "q", &[1, 2, 3, 4]);
    let source = selected("q", "n > 2");
    let answered = attach(&mut world, client, 5, "r", Some(source.clone())).unwrap();
    assert_eq!(answered.filter, source.filter, "it is in force");
    assert_eq!(take(&mut world, client, 5), ["3", "4"]);
    attach(&mut world, other, 6, "any", Some(Source::new("q"))).unwrap();
    assert_eq!(take(&mut world, other, 6), ["1", "2"], "what it left is not locked");
    // Both wait now: the one that is choosy comes first.
    let third = world.plain();
    send_numbers(&mut world, third, "q", &[2, 3]);
    assert_eq!(
        (texts(&world.transfers(client)), texts(&world.transfers(other))),
        (vec!["3".into()], vec!["2".into()])
    );
    assert_eq!(world.entities(), 2, "no subscription is made for a queue");
}

#[test]
fn a_browser_sees_what_its_selector_takes_and_dead_letters_have_selectors_too() {
    let (mut world, client) = world();
    send_numbers(&mut world, client, "q", &[1, 2, 3]);
    let mut source = selected("q", "n <> 2");
    source.distribution_mode = Some(Symbol::from("copy"));
    attach(&mut world, client, 5, "browser", Some(source)).unwrap();
    world.credit(client, 0, 5, 0, 100, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["1", "3"]);
    // All of them die, and one is chosen.
    world.script(client).detach(0, 5, true);
    attach(&mut world, client, 6, "r", Some(Source::new("q"))).unwrap();
    world.credit(client, 0, 6, 0, 100, false);
    world.run();
    for (transfer, _) in world.transfers(client) {
        let id = transfer.delivery_id.unwrap();
        world.script(client).disposition(0, id, id, true, Some(DeliveryState::Rejected(None)));
    }
    world.run();
    let dead = selected("q/$DeadLetterQueue", "n = 2");
    let answered = attach(&mut world, client, 7, "dead", Some(dead.clone())).unwrap();
    assert_eq!(answered.filter, dead.filter);
    assert_eq!(take(&mut world, client, 7), ["2"]);
    world.script(client).detach(0, 7, true);
    world.run();
    world.received(client);
    attach(&mut world, client, 8, "others", Some(Source::new("q/$DeadLetterQueue"))).unwrap();
    assert_eq!(take(&mut world, client, 8), ["1", "3"], "the queue of dead letters is still there");
}

#[test]
fn a_receiver_from_a_subscription_of_service_bus_may_have_a_selector() {
    let (mut world, client) = world();
    let settings = EntitySettings::default;
    world.create_kind("t/Subscriptions/s", EntityKind::Subscription, settings());
    send_numbers(&mut world, client, "t", &[1, 2]);
    let source = selected("t/Subscriptions/s", "n = 2");
    let answered = attach(&mut world, client, 5, "r", Some(source.clone())).unwrap();
    assert_eq!(answered.filter, source.filter);
    assert_eq!(take(&mut world, client, 5), ["2"]);
    world.script(client).detach(0, 5, true);
    world.run();
    assert_eq!(world.entities(), 3, "the subscription stays");
}

#[test]
fn a_selector_that_cannot_be_used_at_a_queue_is_refused() {
    let (mut world, client) = world();
    for selector in ["JMSPriority > 4", "n ="] {
        let refused = attach(&mut world, client, 5, "r", Some(selected("q", selector)));
        assert_eq!(refused.unwrap_err(), "amqp:invalid-field", "{selector}");
    }
}

#[test]
fn beside_a_selector_no_local_is_left_out_of_the_answer() {
    let (mut world, client) = world();
    let none: &[u8] = b"\x00\xa3\x1fapache.org:no-local-filter:list\x45";
    let none = AnnotationValue::Raw(RawValue::first(none).unwrap());
    let chosen = selected("q", "n = 1").filter.unwrap();
    let chosen = chosen.get("jms-selector").unwrap().bytes().to_vec();
    let chosen = AnnotationValue::Raw(RawValue::first(&chosen).unwrap());
    let both = RawMap::with_symbol_keys(&[("no-local", none), ("jms-selector", chosen)]);
    let source = Source::new("q").with_filter(Some(both));
    let filters = attach(&mut world, client, 5, "r", Some(source)).unwrap().filter.unwrap();
    assert!(filters.get("jms-selector").is_some() && filters.get("no-local").is_none());
}

#[test]
fn values_that_are_not_alike_compare_as_false_and_lose_no_message() {
    // The selector, and which of 5, 1 and a text it takes.
    let cases: [(&str, &[&str]); 6] = [
        ("n > 2", &["5"]),
        ("NOT n > 2", &["1", "-1"]),
        ("n > 2 OR n = 'text'", &["5", "-1"]),
        ("n <> 5", &["1"]),
        ("n LIKE 't%' OR n = 1", &["1", "-1"]),
        ("n * 2 = 2", &["1"]),
    ];
    for (selector, expected) in cases {
        for address in ["q", "t"] {
            let (mut world, client) = world();
            let source = selecting(
                Source { address: Source::new(address).address, ..volatile() },
                "jms-selector",
                NAMED,
                selector,
            );
            attach(&mut world, client, 5, "r", Some(source)).unwrap();
            send_numbers(&mut world, client, address, &[5, 1, -1]);
            assert_eq!(take(&mut world, client, 5), expected, "{selector} at {address}");
        }
    }
}
