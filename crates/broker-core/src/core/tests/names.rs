//! Names that are any text: they are created, found, listed, forwarded to and recovered like others (decision 56).

use proptest::prelude::*;

use super::harness::*;
use crate::{
    Command, CoreConfig, Effect, EntityKind, EntityPath, EntityQuery, EntitySettings, LinkId, NameScope,
    Outcome, PageStart, ReceiveMode, check_name, is_service_bus_name,
};

const TEXTS: [&str; 8] =
    ["with spaces", "a, b", "a#b", "app::orders", "größe/Ärger", "注文", "a//b", "app://orders?x=50%20off\\"];

/// A sender to this address, which creates what is missing.
fn attach(broker: &mut Broker, name: &str) -> bool {
    let command = Command::OpenProducer { producer: LinkId(1), path: main_path(name), auto_create: true };
    matches!(broker.tell(ME, command).first(), Some(Effect::ProducerOpened { .. }))
}

fn send_to(broker: &mut Broker, path: EntityPath, text: &str) {
    let ticket = Some(broker.ticket());
    let command = Command::PublishTo { path, messages: vec![message(text)], auto_create: false, ticket };
    let told = broker.tell(ME, command);
    assert!(told.iter().any(|effect| matches!(effect, Effect::Published { .. })), "{told:?}");
}

fn listed(broker: &mut Broker, names: NameScope, kind: EntityKind, start: PageStart) -> Vec<String> {
    let (ticket, query) = (broker.ticket(), EntityQuery::Kind { kind, names, start, top: 100 });
    match broker.tell(ME, Command::Describe { query, ticket }).pop() {
        Some(Effect::Described { entities, .. }) => entities.iter().map(|it| it.name.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_text_is_a_queue_with_messages_dead_letters_and_forwarding() {
    for name in TEXTS {
        let mut broker = Broker::with(CoreConfig::default());
        assert!(attach(&mut broker, name), "{name}");
        let forwards = EntitySettings { forward_to: Some(name.into()), ..EntitySettings::default() };
        broker.create("q", forwards);
        send_to(&mut broker, main_path("q"), "forwarded");
        broker.wait(1_000);
        send_to(&mut broker, main_path(name), "direct");
        broker.restart();
        let deliveries = broker.receive(main_path(name), ReceiveMode::PeekLock, 9);
        assert_eq!(texts(&deliveries), ["forwarded", "direct"], "{name}");
        for delivery in &deliveries {
            broker.settle(delivery, Outcome::DeadLetter(properties(&[]))).unwrap();
        }
        broker.restart();
        let dead = broker.receive(dead_letters(name), ReceiveMode::ReceiveAndDelete, 9);
        assert_eq!(texts(&dead), ["forwarded", "direct"], "{name}");
        broker.check_liveness();
    }
}

#[test]
fn service_bus_has_lists_without_the_names_that_it_cannot_spell() {
    let mut broker = Broker::with(CoreConfig::default());
    let spelled = ["a", "B", "m/n", "z"];
    for name in TEXTS.into_iter().chain(spelled) {
        broker.create(name, EntitySettings::default());
        broker.create_kind(&format!("{name}-t"), EntityKind::Topic, EntitySettings::default());
    }
    for round in ["as made", "after a restart"] {
        for (kind, suffix) in [(EntityKind::Queue, ""), (EntityKind::Topic, "-t")] {
            let expected = spelled.map(|name| format!("{name}{suffix}"));
            let shown = |broker: &mut Broker, start| listed(broker, NameScope::ServiceBus, kind, start);
            assert_eq!(shown(&mut broker, PageStart::Skip(0)), expected, "{round}");
            assert_eq!(shown(&mut broker, PageStart::Skip(3)), expected[3..], "{round}");
            let behind = PageStart::Behind(expected[1].as_str().into());
            assert_eq!(shown(&mut broker, behind), expected[2..], "{round}");
            let all = listed(&mut broker, NameScope::All, kind, PageStart::Skip(0));
            assert_eq!(all.len(), TEXTS.len() + spelled.len(), "{round}");
        }
        broker.restart();
    }
    for name in TEXTS {
        let ticket = broker.ticket();
        broker.ask(Command::DeleteEntity { name: name.into(), expected: None, ticket }).unwrap();
    }
    assert_eq!(listed(&mut broker, NameScope::All, EntityKind::Queue, PageStart::Skip(0)), spelled);
}

#[test]
fn what_is_no_name_creates_nothing() {
    for name in ["", "a\nb", "/a", "a/", "$a", "a/$b", "t/Subscriptions/s x", &"x".repeat(1_025)] {
        let mut broker = Broker::with(CoreConfig::default());
        assert!(!attach(&mut broker, name), "{name:?}");
        assert!(listed(&mut broker, NameScope::All, EntityKind::Queue, PageStart::Skip(0)).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_text_that_made_a_queue_finds_it_after_a_restart(name in ".{1,40}", other in ".{1,40}") {
        let mut broker = Broker::with(CoreConfig::default());
        let is_name = check_name(&name).is_ok();
        prop_assert_eq!(attach(&mut broker, &name), is_name);
        attach(&mut broker, &other);
        broker.restart();
        let found = broker.core.entity(&name).map(|view| view.name.to_owned());
        if is_name {
            // As it was first written, and not as the other one, unless they differ in the case of ASCII letters alone.
            prop_assert_eq!(found, Some(name.clone()));
        } else {
            prop_assert_eq!(found, None);
        }
        let shown = listed(&mut broker, NameScope::ServiceBus, EntityKind::Queue, PageStart::Skip(0));
        prop_assert!(shown.iter().all(|name| is_service_bus_name(name)), "{:?}", shown);
    }
}
