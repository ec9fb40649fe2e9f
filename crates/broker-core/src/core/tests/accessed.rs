//! When an entity was last accessed, and what a restart still knows of it.

use broker_filter::Filter;

use super::{harness::*, recovery::clean};
use crate::{Command, EntityKind, EntitySettings, Message, ReceiveMode, Rule, Timestamp};

const NEVER: Timestamp = Timestamp::from_millis(0);

fn accessed(broker: &Broker, name: &str) -> Timestamp {
    broker.core.entity(name).unwrap().accessed_at
}

fn receive(broker: &mut Broker) {
    let got = broker.lock_one();
    assert!(got.lock.is_some());
}

/// Operation on `q`, and whether it is an access.
type Access = (&'static str, fn(&mut Broker), bool);

#[test]
fn sends_receives_looks_and_receivers_are_accesses() {
    let things: [Access; 9] = [
        ("nothing", |_| {}, false),
        ("a send", |broker| broker.publish_all(&["b"]), true),
        ("a schedule", |broker| drop(broker.schedule(&["later"], 1_000_000)), true),
        ("a message handed out", receive, true),
        ("a look", |broker| drop(broker.peek(main_path("q"), 0, 1)), true),
        ("a look at dead letters", |broker| drop(broker.peek(dead_letters("q"), 0, 1)), true),
        ("a receiver", |broker| broker.open(ME, 7, main_path("q"), ReceiveMode::PeekLock), true),
        ("an update", |broker| drop(broker.update("q", EntitySettings::default())), false),
        ("a send elsewhere", |broker| broker.create("other", EntitySettings::default()), false),
    ];
    for (what, happens, is_access) in things {
        let mut broker = Broker::with_queue(EntitySettings::default());
        assert_eq!(accessed(&broker, "q"), NEVER);
        broker.publish_all(&["a"]);
        let sent = broker.now;
        broker.wait(5_000);
        happens(&mut broker);
        assert_eq!(accessed(&broker, "q"), if is_access { broker.now } else { sent }, "{what}");
    }
}

#[test]
fn a_copy_that_arrives_and_a_rule_are_no_access_of_a_subscription() {
    let mut broker = Broker::new();
    for (name, kind) in [("t", EntityKind::Topic), ("t/Subscriptions/s", EntityKind::Subscription)] {
        let (ticket, settings) = (broker.ticket(), Box::default());
        broker.tell(ME, Command::CreateEntity { name: name.into(), kind, settings, ticket });
    }
    let path = main_path("t/Subscriptions/s");
    let rule = Rule { name: "all".into(), filter: Filter::True, action: None };
    let ticket = broker.ticket();
    broker.tell(ME, Command::AddRule { path: path.clone(), rule: Box::new(rule), ticket });
    let ticket = Some(broker.ticket());
    let messages = vec![message("a")];
    broker.tell(ME, Command::PublishTo { path: main_path("t"), messages, auto_create: false, ticket });
    assert_eq!((accessed(&broker, "t"), accessed(&broker, "t/Subscriptions/s")), (broker.now, NEVER));
    broker.restart();
    assert_eq!((accessed(&broker, "t"), accessed(&broker, "t/Subscriptions/s")), (broker.now, NEVER));
    broker.open(ME, 7, path, ReceiveMode::PeekLock);
    assert_eq!(accessed(&broker, "t/Subscriptions/s"), broker.now);
}

#[test]
fn a_restart_knows_the_last_send_and_the_times_recorded_with_the_definition() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a"]);
    let sent = broker.now;
    broker.wait(5_000);
    receive(&mut broker);
    let received = broker.now;
    assert_eq!(
        broker.replayed().entity("q").unwrap().accessed_at,
        sent,
        "of the receiver nothing is recorded"
    );
    // The journal moves the definition, and takes the time along; so does an update.
    let end = broker.journal.end();
    clean(&mut broker, end);
    broker.wait(5_000);
    assert_eq!(broker.replayed().entity("q").unwrap().accessed_at, received);
    broker.restart();
    assert_eq!(accessed(&broker, "q"), received);
    broker.wait(5_000);
    drop(broker.peek(main_path("q"), 0, 1));
    broker.update("q", EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
    let looked = broker.now;
    broker.wait(5_000);
    broker.restart();
    assert_eq!(accessed(&broker, "q"), looked);
}

#[test]
fn idle_deletion_begins_anew_after_a_restart_and_ignores_recorded_times() {
    let idle = Some(std::time::Duration::from_secs(300));
    let mut broker =
        Broker::with_queue(EntitySettings { auto_delete_on_idle: idle, ..EntitySettings::default() });
    let sent = broker.now;
    let message = Message { time_to_live: Some(std::time::Duration::from_secs(1)), ..message("a") };
    broker.publish(message);
    broker.wait(299_000);
    broker.restart();
    assert_eq!(accessed(&broker, "q"), sent);
    broker.wait(299_000);
    assert_eq!(accessed(&broker, "q"), sent, "to look whether it is idle is no access");
    broker.wait(2_000);
    assert!(broker.core.entity("q").is_none());
}
