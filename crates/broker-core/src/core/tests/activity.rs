//! Activity counts, and the pages in which they are read.

use std::time::Duration;

use proptest::prelude::*;

use super::{harness::*, transacting::*};
use crate::{
    Activity, Command, Delivery, Effect, EntityQuery, EntityReport, EntitySettings, Message, Outcome,
    Properties, ReceiveMode, SequenceNumber, SettleError, TransactionId,
};

fn described(broker: &mut Broker, query: EntityQuery) -> Vec<EntityReport> {
    let ticket = broker.ticket();
    match broker.tell(ME, Command::Describe { query, ticket }).pop() {
        Some(Effect::Described { entities, .. }) => entities,
        other => panic!("{other:?}"),
    }
}

fn activity(broker: &mut Broker, name: &str) -> Activity {
    described(broker, EntityQuery::One { name: name.into() }).pop().expect("it exists").activity
}

#[test]
fn each_thing_that_happens_to_a_message_is_counted_once() {
    let settings = EntitySettings { max_delivery_count: 3, ..EntitySettings::default() };
    let mut broker = Broker::with_queue(settings);
    let began = broker.now;
    broker.publish_all(&["completed", "abandoned", "dead"]);
    broker.schedule(&["later"], 1_000_000);
    let expected = Activity { incoming: 4, oldest: Some(began), ..Activity::default() };
    assert_eq!(activity(&mut broker, "q"), expected, "arrived");

    let got = broker.lock(3);
    let expected = Activity { outgoing: 3, locked: 3, ..expected };
    assert_eq!(activity(&mut broker, "q"), expected, "handed out");

    broker.settle(&got[0], Outcome::Complete).unwrap();
    broker.settle(&got[1], Outcome::Abandon(Properties::default())).unwrap();
    broker.settle(&got[2], Outcome::DeadLetter(Properties::default())).unwrap();
    let expected = Activity { completed: 1, failed: 1, dead_lettered: 1, locked: 0, ..expected };
    assert_eq!(activity(&mut broker, "q"), expected, "settled");

    let again = broker.lock_one();
    broker.settle(&again, Outcome::Defer(Properties::default())).unwrap();
    let expected = Activity { outgoing: 4, deferred: 1, ..expected };
    assert_eq!(activity(&mut broker, "q"), expected, "deferred");

    broker.fetch(main_path("q"), &[again.sequence.0], true).unwrap();
    let expected = Activity { outgoing: 5, completed: 2, deferred: 0, ..expected };
    assert_eq!(activity(&mut broker, "q"), expected, "fetched for good");
}

#[test]
fn a_completion_that_nobody_waits_for_is_told_and_counted_where_it_comes_too_late() {
    let late = |outcome: Outcome| {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.publish_all(&["a"]);
        let Delivery { queue, sequence, lock, .. } = broker.lock_one();
        broker.wait(60_000);
        let lock = lock.unwrap().id;
        let told = broker.tell(ME, Command::Settle { queue, sequence, lock, outcome, ticket: None });
        assert_eq!(broker.active(), 1);
        (told, activity(&mut broker, "q").late_completions)
    };
    let (told, counted) = late(Outcome::Complete);
    let [Effect::CompletedTooLate { entity, sequence, error }] = &*told else { panic!("{told:?}") };
    assert_eq!((&**entity, *sequence, *error, counted), ("q", SequenceNumber(1), SettleError::LockLost, 1));
    // It wanted the message to come again, and it does.
    let (told, counted) = late(Outcome::Release(Properties::default()));
    assert!(told.is_empty() && counted == 0, "{told:?}");
}

#[test]
fn all_that_arrives_is_counted_once_with_partitions_and_in_transactions_too() {
    for enable_partitioning in [false, true] {
        let mut broker =
            Broker::with_queue(EntitySettings { enable_partitioning, ..EntitySettings::default() });
        broker.publish_all(&["a", "b"]);
        broker.schedule(&["later"], 1_000);
        assert_eq!(activity(&mut broker, "q").incoming, 3, "partitions: {enable_partitioning}");
        let transaction = TransactionId(1);
        broker.declare(transaction);
        let keyed = |text| Message { partition_key: Some("k".into()), ..message(text) };
        assert_eq!(broker.send_messages_in(transaction, "q", vec![keyed("c")]), Answered::Done);
        let due = Some(broker.now.after(Duration::from_secs(1)));
        let messages = vec![Message { scheduled_enqueue_time: due, ..keyed("d") }];
        let (path, ticket) = (main_path("q"), broker.ticket());
        let command = Command::Schedule { path, messages, ticket };
        broker.tell(ME, command.within(transaction));
        assert_eq!(activity(&mut broker, "q").incoming, 3, "not before the commit");
        assert_eq!(broker.commit(transaction), Answered::Done);
        broker.wait(1_000);
        assert_eq!(broker.lock(9).len(), 5);
        assert_eq!(activity(&mut broker, "q").incoming, 5, "partitions: {enable_partitioning}");
    }
}

#[test]
fn a_refused_operation_is_not_counted() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    let got = broker.lock_one();
    let before = activity(&mut broker, "q");
    broker.peek(main_path("q"), 0, 10);
    broker.open(ME, 5, main_path("q"), ReceiveMode::Browse);
    assert_eq!(broker.credit(ME, 5, 10).len(), 2);
    assert_eq!(activity(&mut broker, "q"), before, "looked at");
    broker.settle(&got, Outcome::Complete).unwrap();
    broker.settle(&got, Outcome::Complete).unwrap_err();
    assert_eq!(activity(&mut broker, "q").completed, 1, "settled twice");
}

#[test]
fn locks_and_lifetimes_that_run_out_are_counted() {
    let lock_duration = Duration::from_millis(50);
    let mut broker = Broker::with_queue(EntitySettings { lock_duration, ..EntitySettings::default() });
    broker.publish(message("a"));
    broker.publish(message_for("b", 1_000));
    assert_eq!(broker.lock(1).len(), 1);
    broker.wait(60);
    assert_eq!(activity(&mut broker, "q").failed, 1);
    broker.wait(1_000);
    let now = activity(&mut broker, "q");
    assert_eq!((now.expired, now.dead_lettered, now.incoming), (1, 0, 2));
}

#[test]
fn a_received_and_deleted_message_is_completed() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 2);
    let now = activity(&mut broker, "q");
    assert_eq!((now.outgoing, now.completed, now.oldest), (2, 2, None));
}

#[test]
fn a_topic_counts_messages_in_and_copies_out() {
    let mut broker = Broker::with_topic(EntitySettings::default());
    broker.subscribe("a", EntitySettings::default(), vec![rule("all", "", None)]);
    broker.subscribe("b", EntitySettings::default(), vec![rule("all", "", None)]);
    broker.subscribe("none", EntitySettings::default(), vec![]);
    broker.send(vec![message("x"), message("y")]);
    let topic = activity(&mut broker, "t");
    assert_eq!((topic.incoming, topic.outgoing), (2, 4));
    for (name, incoming) in [("a", 2), ("b", 2), ("none", 0)] {
        let name = format!("t/Subscriptions/{name}");
        assert_eq!(activity(&mut broker, &name).incoming, incoming, "{name}");
    }
}

#[test]
fn counts_begin_at_zero_with_each_start() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    let began = broker.now;
    broker.lock(1);
    broker.restart();
    let expected = Activity { oldest: Some(began), ..Activity::default() };
    assert_eq!(activity(&mut broker, "q"), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn pages_show_every_entity_once_and_in_order(
        names in proptest::collection::btree_set("[a-zA-Z][a-z/]{0,3}[a-z]", 0..40),
        top in 1u64..7,
    ) {
        let mut broker = Broker::new();
        let mut expected = std::collections::BTreeSet::new();
        for name in names {
            let key = name.to_ascii_lowercase();
            if !name.contains("//") && expected.insert(key) {
                broker.create(&name, EntitySettings::default());
            }
        }
        let mut shown = Vec::new();
        let mut after = String::new();
        loop {
            let page = described(&mut broker, EntityQuery::All { after: after.as_str().into(), top });
            prop_assert!(page.len() as u64 <= top);
            let Some(last) = page.last() else { break };
            after = last.name.to_ascii_lowercase();
            shown.extend(page.iter().map(|report| report.name.to_ascii_lowercase()));
        }
        prop_assert_eq!(shown, expected.into_iter().collect::<Vec<_>>());
    }
}
