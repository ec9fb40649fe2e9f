//! Receivers with a selector, from what is no topic.

use broker_filter::{Filter, Parameters, PropertySet, SqlFilter, Value};
use bytes::Bytes;
use proptest::prelude::*;

use super::harness::*;
use crate::{
    AttachError, ClientId, Command, CoreConfig, Delivery, Effect, EntityPath, EntitySettings, LinkId,
    LockLifetime, Message, Outcome, ReceiveMode, Subscriber, Timestamp, UnsettledPolicy, Work,
    link::client::{Consumer, WaitState},
};

/// The first word of a payload is the message's colour.
fn describe(_now: Timestamp, payload: &Bytes) -> Message {
    let text = std::str::from_utf8(payload).unwrap();
    let mut facts = PropertySet::new();
    facts.set_user("colour", Value::from(text.split(' ').next().unwrap()));
    Message { properties: Some(Box::new(facts)), ..message(text) }
}

fn broker_with(settings: EntitySettings, change: impl FnOnce(&mut CoreConfig)) -> Broker {
    let mut config = CoreConfig { token_key: [7; 16], describe, ..CoreConfig::default() };
    change(&mut config);
    let mut broker = Broker::with(config);
    broker.create("q", settings);
    broker
}

fn broker() -> Broker {
    broker_with(EntitySettings::default(), |_| {})
}

fn selector(text: &str) -> Filter {
    Filter::Sql(SqlFilter::parse_lenient(text, Parameters::new()).unwrap())
}

fn red() -> Filter {
    selector("colour = 'red'")
}

fn open(
    broker: &mut Broker,
    client: ClientId,
    link: u32,
    path: EntityPath,
    (mode, filter): (ReceiveMode, Filter),
) -> Result<(), AttachError> {
    let subscriber = Subscriber {
        container: "c".into(),
        name: "s".into(),
        owner: "me".into(),
        filter,
        mode,
        shared: false,
        temporary: true,
    };
    let command = Command::OpenSubscriber {
        consumer: LinkId(link),
        path,
        mode,
        unsettled: UnsettledPolicy::Release,
        subscriber: Box::new(subscriber),
        auto_create: false,
    };
    match broker.tell(client, command).pop() {
        Some(Effect::ConsumerOpened { .. }) => Ok(()),
        Some(Effect::AttachRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn open_red(broker: &mut Broker, link: u32, mode: ReceiveMode) {
    open(broker, ME, link, main_path("q"), (mode, red())).unwrap();
}

fn close(broker: &mut Broker, link: u32) {
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(link) });
}

fn abandon(broker: &mut Broker, delivery: &Delivery) {
    broker.settle(delivery, Outcome::Abandon(properties(&[]))).unwrap();
}

#[test]
fn letters_that_a_selector_compares_are_charged() {
    let letters = 6_400;
    for mode in [ReceiveMode::PeekLock, ReceiveMode::Browse] {
        let cost = |text: &str| {
            let mut broker = broker();
            open(&mut broker, ME, 1, main_path("q"), (mode, selector(text))).unwrap();
            broker.tell(ME, Command::Credit { consumer: LinkId(1), limit: 1, drain: false });
            let before = broker.journal.work;
            broker.publish(message(&"a".repeat(letters)));
            broker.deliver_all();
            broker.journal.work.0 - before.0
        };
        let (with_holes, search, without) =
            (cost("colour LIKE '%b_%'"), cost("colour LIKE '%bb%'"), cost("colour LIKE 'bb%'"));
        assert_eq!(with_holes - without, Work::of_steps(letters as u64).0, "{mode:?}");
        assert_eq!(search - without, Work::of_steps(letters as u64 / 8).0, "{mode:?}");
    }
}

#[test]
fn a_receiver_with_a_selector_gets_matching_messages_and_leaves_the_rest_to_others() {
    for mode in [ReceiveMode::PeekLock, ReceiveMode::ReceiveAndDelete] {
        for enable_partitioning in [false, true] {
            let mut broker =
                broker_with(EntitySettings { enable_partitioning, ..EntitySettings::default() }, |_| {});
            broker.publish_all(&["blue 1", "red 2", "blue 3", "red 4"]);
            open_red(&mut broker, 1, mode);
            assert_eq!(texts(&broker.credit(ME, 1, 10)), ["red 2", "red 4"], "{mode:?}");
            // Later messages are matched as they arrive.
            broker.publish_all(&["red 5", "blue 6"]);
            assert_eq!(texts(&broker.received(ME)), ["red 5"], "{mode:?}");
            let mut others = texts(&broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 10));
            others.sort_unstable();
            assert_eq!(others, ["blue 1", "blue 3", "blue 6"], "not locked, and not counted");
            assert_eq!(broker.replayed().digest(), broker.core.digest());
            broker.check_liveness();
        }
    }
}

#[test]
fn a_browser_with_a_selector_sees_matching_messages() {
    let mut broker = broker();
    broker.publish_all(&["blue 1", "red 2", "blue 3", "red 4"]);
    open_red(&mut broker, 1, ReceiveMode::Browse);
    assert_eq!(texts(&broker.credit(ME, 1, 1)), ["red 2"]);
    assert_eq!(texts(&broker.credit(ME, 1, 9)), ["red 4"]);
    assert_eq!(broker.active(), 4);
    let told = broker.tell(ME, Command::Credit { consumer: LinkId(1), limit: 9, drain: true });
    assert!(matches!(told.as_slice(), [Effect::Drained { count: 9, .. }]), "{told:?}");
}

#[test]
fn credit_is_kept_and_receivers_with_the_same_selector_take_turns() {
    let mut broker = broker();
    open_red(&mut broker, 1, ReceiveMode::PeekLock);
    open_red(&mut broker, 2, ReceiveMode::PeekLock);
    broker.credit(ME, 1, 2);
    broker.credit(ME, 2, 2);
    broker.publish_all(&["red 1", "blue", "red 2", "red 3", "red 4", "red 5"]);
    let got = broker.received(ME);
    let of = |link: u32| -> Vec<String> {
        got.iter().filter(|got| got.consumer == LinkId(link)).map(text).collect()
    };
    assert_eq!((of(1), of(2)), (vec!["red 1".into(), "red 3".into()], vec!["red 2".into(), "red 4".into()]));
    assert_eq!(texts(&broker.credit(ME, 2, 3)), ["red 5"]);
}

#[test]
fn a_returned_message_is_offered_again_in_its_place() {
    let mut broker =
        broker_with(EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() }, |_| {});
    broker.publish_all(&["red 1", "red 2", "red 3", "red 4"]);
    open_red(&mut broker, 1, ReceiveMode::PeekLock);
    let got = broker.credit(ME, 1, 3);
    assert_eq!(texts(&got), ["red 1", "red 2", "red 3"]);
    for place in [2, 0] {
        abandon(&mut broker, &got[place]);
    }
    assert_eq!(texts(&broker.credit(ME, 1, 6)), ["red 1", "red 3", "red 4"]);
    // A lock that runs out, one of a link that goes, and one of somebody who takes anything.
    broker.wait(60_001);
    assert_eq!(texts(&broker.received(ME)), [""; 0], "no credit");
    assert_eq!(texts(&broker.credit(ME, 1, 10)), ["red 1", "red 2", "red 3", "red 4"]);
    close(&mut broker, 1);
    open_red(&mut broker, 1, ReceiveMode::PeekLock);
    open_red(&mut broker, 2, ReceiveMode::PeekLock);
    assert_eq!(texts(&broker.credit(ME, 1, 1)), ["red 1"]);
    assert_eq!(texts(&broker.credit(ME, 2, 1)), ["red 2"]);
    close(&mut broker, 1);
    assert_eq!(texts(&broker.credit(ME, 2, 2)), ["red 1"]);
    let anyone = broker.lock(1);
    assert_eq!(texts(&anyone), ["red 3"]);
    assert_eq!(texts(&broker.credit(ME, 2, 9)), ["red 4"]);
    abandon(&mut broker, &anyone[0]);
    assert_eq!(texts(&broker.received(ME)), ["red 3"]);
}

#[test]
fn a_message_that_changes_is_looked_at_anew() {
    let mut broker = broker();
    broker.publish(message("blue 1"));
    open_red(&mut broker, 1, ReceiveMode::PeekLock);
    assert_eq!(texts(&broker.credit(ME, 1, 1)), [""; 0]);
    let got = broker.lock_one();
    broker.settle(&got, Outcome::Abandon(properties(&[("colour", "red")]))).unwrap();
    assert_eq!(texts(&broker.received(ME)), ["blue 1"]);
}

#[test]
fn dead_letters_are_selected_though_their_numbers_are_low() {
    let mut broker = broker();
    broker.publish_all(&["red 1", "blue 2", "red 3"]);
    open(&mut broker, ME, 1, dead_letters("q"), (ReceiveMode::PeekLock, red())).unwrap();
    broker.credit(ME, 1, 9);
    let got = broker.lock(3);
    for place in [2, 1, 0] {
        broker.settle(&got[place], Outcome::DeadLetter(properties(&[]))).unwrap();
    }
    assert_eq!(texts(&broker.received(ME)), ["red 3", "red 1"]);
}

#[test]
fn a_drain_is_answered_when_everything_was_looked_at() {
    let mut broker = broker();
    broker.publish_all(&["blue 1", "red 2", "blue 3"]);
    open_red(&mut broker, 1, ReceiveMode::PeekLock);
    let told = broker.tell(ME, Command::Credit { consumer: LinkId(1), limit: 5, drain: true });
    let [Effect::Delivery(got), Effect::Drained { count: 5, .. }] = told.as_slice() else {
        panic!("{told:?}")
    };
    let got = got.clone();
    broker.publish(message("red 4"));
    assert_eq!(texts(&broker.received(ME)), [""; 0], "the credit is used up");
    abandon(&mut broker, &got);
    let told = broker.tell(ME, Command::Credit { consumer: LinkId(1), limit: 6, drain: true });
    assert_eq!(texts(&deliveries(told)), ["red 2"], "the drain that follows has nothing to give up");
}

#[test]
fn a_deep_queue_is_looked_through_in_parts_and_once() {
    let mut broker = broker_with(EntitySettings::default(), |config| config.deliver_messages_max = 100);
    for _ in 0..20 {
        let queue = broker.queue("q");
        let messages = (0..100).map(|_| message("blue")).collect();
        broker.tell(ME, Command::PublishBatch { queue, messages, ticket: None });
    }
    open_red(&mut broker, 1, ReceiveMode::PeekLock);
    broker.open(OTHER, 2, main_path("q"), ReceiveMode::PeekLock);
    broker.journal.make_readable();
    broker.core.handle(
        broker.now,
        ME,
        Command::Credit { consumer: LinkId(1), limit: 9, drain: false },
        &mut broker.journal,
    );
    broker.core.handle(
        broker.now,
        OTHER,
        Command::Credit { consumer: LinkId(2), limit: 1, drain: false },
        &mut broker.journal,
    );
    let mut calls = 0;
    while broker.core.deliver(broker.now, &mut broker.journal) {
        calls += 1;
        assert_eq!(texts(&broker.received(OTHER)).len(), usize::from(calls == 1), "others need not wait");
    }
    assert!(calls >= 19, "{calls} calls for 2,000 messages");
    // Later ones cost no further look at those.
    broker.journal.make_readable();
    let queue = broker.queue("q");
    let publish = Command::Publish { queue, message: message("red"), ticket: None };
    broker.core.handle(broker.now, ME, publish, &mut broker.journal);
    broker.journal.make_readable();
    assert!(!broker.core.deliver(broker.now, &mut broker.journal), "one call is enough");
    assert_eq!(texts(&broker.received(ME)), ["red"]);
}

#[test]
fn receivers_with_a_selector_are_limited_for_each_entity() {
    let mut broker = broker_with(EntitySettings::default(), |config| config.max_selectors_per_entity = 1);
    broker.create("other", EntitySettings::default());
    let mut attach =
        |link, name, mode, filter| open(&mut broker, ME, link, main_path(name), (mode, filter)).map_err(drop);
    let lock = ReceiveMode::PeekLock;
    assert_eq!(attach(1, "q", lock, red()), Ok(()));
    assert_eq!(attach(2, "q", lock, Filter::True), Ok(()));
    assert_eq!(attach(3, "other", lock, red()), Ok(()));
    assert_eq!(attach(4, "q", lock, red()), Err(()));
    close(&mut broker, 1);
    let last = open(&mut broker, ME, 4, main_path("q"), (lock, red()));
    assert_eq!(last, Ok(()));
    let limit = AttachError::LimitReached { what: "receivers with a selector per entity", limit: 1 };
    let refused = open(&mut broker, ME, 5, main_path("q"), (lock, red()));
    assert_eq!(refused, Err(limit));
}

/// Demands that no receiver with a selector waits for what it could have.
fn check_nobody_waits_in_vain(broker: &Broker) {
    let (core, id) = (&broker.core, broker.queue("q"));
    let store = core.state.messages.entities.stores.get(&id).unwrap();
    let waits = |consumer: &&Consumer| {
        consumer.selects() && consumer.has_credit() && consumer.wait_state == WaitState::Ring
    };
    for consumer in core.state.links.consumers.values().filter(waits) {
        let selection = consumer.selection.as_ref().unwrap();
        assert!(store.was_looked_through(selection));
        for (sequence, slot) in store.slots.iter().filter(|(_, slot)| slot.is_ready()) {
            let payload = &broker.journal.records[&slot.position.0].0;
            let text = String::from_utf8_lossy(payload);
            let is_red = text.contains("red");
            assert!(!is_red, "{sequence} is ready: {text}");
        }
    }
}

proptest! {
    #[test]
    fn a_matching_message_never_waits_beside_a_receiver_with_credit(
        enable_partitioning: bool,
        steps in proptest::collection::vec((0_u8..10, 0_u8..4), 1..60),
        is_on_disk: bool,
    ) {
        let settings =
            EntitySettings { enable_partitioning, max_delivery_count: 1_000, ..EntitySettings::default() };
        let mut broker = broker_with(settings, |config| config.deliver_messages_max = 3);
        broker.journal.is_on_disk = is_on_disk;
        let (mut held, mut limits, mut sent) = (Vec::<Delivery>::new(), [0_u64; 4], 0);
        for (action, which) in steps {
            let link = u32::from(which) + 1;
            let place = usize::from(which);
            match action {
                0..3 => {
                    sent += 1;
                    broker.publish(message(&format!("{} {sent}", if which > 1 { "red" } else { "blue" })));
                }
                // Link 1 takes anything.
                3 => {
                    close(&mut broker, link);
                    held.retain(|held| held.consumer != LinkId(link));
                    limits[place] = 0;
                    let filter = if which == 0 { Filter::True } else { red() };
                    open(&mut broker, ME, link, main_path("q"), (ReceiveMode::PeekLock, filter)).unwrap();
                }
                4..6 => {
                    limits[place] += 2;
                    let limit = limits[place];
                    let told = broker.tell(ME, Command::Credit {
                        consumer: LinkId(link), limit, drain: action == 5,
                    });
                    held.extend(deliveries(told));
                }
                6..8 if !held.is_empty() => {
                    let got = held.swap_remove(place % held.len());
                    let outcome =
                        if action == 6 { Outcome::Complete } else { Outcome::Abandon(properties(&[])) };
                    // The lock may have run out.
                    let _may_be_late = broker.settle(&got, outcome);
                }
                8 => broker.wait(25_000),
                9 => close(&mut broker, link),
                _ => {}
            }
            held.extend(broker.received(ME));
            for got in &held {
                prop_assert!(got.consumer == LinkId(1) || text(got).starts_with("red"), "{}", text(got));
            }
            check_nobody_waits_in_vain(&broker);
            prop_assert_eq!(broker.replayed().digest(), broker.core.digest());
        }
        broker.check_liveness();
    }
}
