//! The journal read back and cleaned up (requirement SET-19; `docs/record-format.md`).

use proptest::prelude::*;

use super::harness::*;
use crate::{
    Core, CoreConfig, EntityKind, EntitySettings, EntityView, Message, Outcome, Position, QueueId,
    ReceiveMode, RecordError, ReplayError, Timestamp,
    record::{Definition, MessageIndex, Stores, encode_changed, encode_deleted},
    store::slot::State,
};

/// Compaction, as the node does it: walks through the oldest part of the journal, and removes it.
pub(super) fn clean(broker: &mut Broker, up_to: u64) {
    broker.journal.make_readable();
    let oldest: Vec<_> = broker
        .journal
        .records
        .range(..up_to)
        .map(|(at, (bytes, _))| (Position(*at), bytes.clone()))
        .collect();
    for (at, bytes) in oldest {
        broker.core.relocate(at, &bytes, &mut broker.journal).unwrap();
    }
    let alive = broker.journal.live().into_iter().filter(|(at, _)| *at < up_to).count();
    assert_eq!(alive, 0, "nothing alive is left behind");
    broker.journal.records.retain(|at, _| *at >= up_to);
}

fn eventful() -> Broker {
    let settings = EntitySettings { max_delivery_count: 3, ..EntitySettings::default() };
    let mut broker = Broker::with_queue(settings);
    broker.publish_all(&["a", "b", "c", "d", "e", "f"]);
    let got = broker.lock(5);
    broker.settle(&got[0], Outcome::Complete).unwrap();
    broker.settle(&got[1], Outcome::Abandon(properties(&[]))).unwrap();
    broker.settle(&got[2], Outcome::Abandon(properties(&[("k", "v")]))).unwrap();
    broker.settle(&got[3], Outcome::Defer(properties(&[]))).unwrap();
    broker.settle(&got[4], Outcome::DeadLetter(properties(&[("DeadLetterReason", "x")]))).unwrap();
    let due = broker.now.after(std::time::Duration::from_secs(9));
    broker.publish(Message { scheduled_enqueue_time: Some(due), ..message_for("g", 7) });
    broker
}

#[test]
fn a_restart_finds_everything_in_its_state() {
    let mut broker = eventful();
    let before = broker.core.digest();
    broker.restart();
    assert_eq!(broker.core.digest(), before);
    assert_eq!(texts(&broker.lock(9)), ["b", "c", "f"]);
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.deferred, view.scheduled, view.dead_letter), (1, 1, 1));
    broker.publish(message("h"));
    assert_eq!(broker.lock_one().sequence.0, 8, "numbers are not used twice");
}

#[test]
fn compaction_moves_live_records_and_changes_nothing() {
    let mut broker = eventful();
    let before = broker.core.digest();
    for _ in 0..3 {
        let end = broker.journal.end();
        clean(&mut broker, end);
        assert_eq!(broker.core.digest(), before);
        assert_eq!(broker.replayed().digest(), before);
        broker.check_liveness();
    }
    // A locked message moves as well, and its lock goes on.
    let got = broker.lock_one();
    let end = broker.journal.end();
    clean(&mut broker, end);
    assert_eq!(broker.settle(&got, Outcome::Complete), Ok(()));
    assert_eq!(texts(&broker.lock(9)), ["c", "f"]);
    assert_eq!(broker.dead(), [("e".into(), Some("x".into()))]);
    broker.wait(9_000);
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.scheduled, view.next_sequence), (0, 9));
}

#[test]
fn cleaning_in_small_steps_never_brings_a_message_back() {
    let mut broker = eventful();
    for _ in 0..30 {
        let Some(up_to) = broker.journal.records.keys().nth(2).copied() else { break };
        clean(&mut broker, up_to);
        assert_eq!(broker.replayed().digest(), broker.core.digest());
        broker.check_liveness();
    }
}

#[test]
fn the_next_number_survives_when_all_messages_are_gone_and_cleaned_away() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    for _ in 0..3 {
        broker.publish_all(&["a", "b"]);
        broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9);
        let end = broker.journal.end();
        clean(&mut broker, end);
        broker.restart();
    }
    broker.publish(message("c"));
    assert_eq!(broker.lock_one().sequence.0, 7);
    assert_eq!(broker.journal.live().len(), 2);
}

#[test]
fn a_segment_without_living_messages_still_hands_over_its_definitions() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("a"));
    broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9);
    let end = broker.journal.end();
    clean(&mut broker, end);
    broker.restart();
    broker.publish(message("b"));
    assert_eq!(broker.lock_one().sequence.0, 2);
}

#[test]
fn a_record_that_is_not_the_living_one_is_not_moved() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("a"));
    let at = *broker.journal.records.keys().last().unwrap();
    let record = broker.journal.records[&at].0.clone();
    let before = broker.journal.records.len();
    broker.core.relocate(Position(at + 1), &record, &mut broker.journal).unwrap();
    assert_eq!(broker.journal.records.len(), before);
    broker.core.relocate(Position(at), &record, &mut broker.journal).unwrap();
    assert_eq!(broker.journal.records.len(), before + 1);
}

#[test]
fn messages_whose_queue_is_lost_are_found_under_a_name_of_their_own() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    broker.create("recovered-1", EntitySettings::default());
    let definition = *broker.journal.records.keys().next().unwrap();
    broker.journal.records.remove(&definition);
    let mut core = Core::new(CoreConfig::default());
    for (at, (bytes, index)) in &broker.journal.records {
        core.replay(Position(*at), &bytes[..*index], size(bytes)).unwrap();
    }
    core.recovered(&mut broker.journal);
    let found = core.entity("recovered-1-x").unwrap();
    assert_eq!((found.active, found.next_sequence), (2, 3));
    broker.core = core;
    let digest = broker.core.digest();
    assert_eq!(broker.replayed().digest(), digest, "it is recorded");
}

#[test]
fn records_that_make_no_sense_are_refused_with_their_place() {
    let mut core = Core::new(CoreConfig::default());
    let cases = [
        (vec![], RecordError::Short { field: "version" }),
        (vec![9, 1], RecordError::Version { version: 9 }),
        (vec![2, 99, 0, 0, 1, 0, 0, 0], RecordError::Kind { kind: 99 }),
        (vec![2, 3, 0], RecordError::Short { field: "namespace" }),
    ];
    for (bytes, error) in cases {
        assert_eq!(core.replay(Position(7), &bytes, 10), Err(ReplayError { at: Position(7), error }));
    }
    let error = ReplayError { at: Position(7), error: RecordError::Kind { kind: 9 } };
    assert_eq!(
        error.to_string(),
        "record at position 7: it was written by a newer version of ferrybus: record kind 9 is not known to this one"
    );
}

#[test]
fn records_about_removed_messages_are_passed_over() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let queue = broker.queue("q");
    for (queue, sequence) in [(queue, 77), (QueueId(99), 1)] {
        let changed = encode_changed(queue, sequence, 3, State::Deferred);
        broker.core.replay(Position(1 << 40), &changed, 20).unwrap();
    }
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn extreme_numbers_in_records_do_no_harm() {
    let mut core = Core::new(CoreConfig::default());
    for (queue, sequence) in [(0, 1), (u32::MAX, (1 << 63) - 1), (u32::MAX, 1), (5, 1 << 62)] {
        let index = MessageIndex {
            queue: QueueId(queue),
            sequence,
            enqueued_at: Timestamp::MAX,
            expires_at: Timestamp::MAX,
            delivery_count: u32::MAX,
            state: State::Active,
            flags: 0xFF,
            properties_length: u32::MAX,
            due: None,
            own_ttl: None,
            body: None,
            extras: None,
        };
        core.replay(Position(sequence), index.encode().as_slice(), 1).unwrap();
    }
    let mut removed = Vec::new();
    crate::record::encode_removed(&mut removed, QueueId(5), &[(u64::MAX, u32::MAX), (0, u32::MAX)]);
    core.replay(Position(1), &removed, 1).unwrap();
    core.recovered(&mut Settling::default());
    assert_eq!(core.entities().map(|view| view.active).sum::<u64>(), 4);
}

proptest! {
    #[test]
    fn no_journal_makes_it_panic(
        records in proptest::collection::vec((1u8..8, proptest::collection::vec(prop_oneof![9 => Just(0u8), 1 => 1u8..4], 0..140)), 0..20)
    ) {
        let mut core = Core::new(CoreConfig::default());
        for (at, (kind, rest)) in (0..).zip(&records) {
            let record = [&[1, *kind], &rest[..]].concat();
            drop(core.replay(Position(at), &record, 100).map_err(|error| error.to_string()));
        }
        core.recovered(&mut Settling::default());
        let of = |view: EntityView<'_>| {
            view.active + view.deferred + view.scheduled + view.dead_letter + view.transfer_dead_letter
        };
        let held: u64 = core.entities().map(of).sum();
        let sessions = core.state.messages.entities.stores.values().filter_map(|store| store.sessions.as_ref());
        let states = sessions.flat_map(|it| it.iter()).filter(|session| session.state().is_some()).count() as u64;
        prop_assert!(held + states <= records.len() as u64);
        prop_assert_eq!(core.live_records().count() as u64, held + states + core.entities().count() as u64);
    }
}

#[test]
fn a_record_that_would_tear_a_queue_apart_is_refused() {
    let stores = |(queue, dead_letter, transfer_dead_letter)| Stores {
        queue: QueueId(queue),
        dead_letter: QueueId(dead_letter),
        transfer_dead_letter: QueueId(transfer_dead_letter),
    };
    let define = |numbers| {
        Definition {
            kind: EntityKind::Queue,
            stores: stores(numbers),
            topic: None,
            name: format!("q{numbers:?}").into(),
            settings: EntitySettings::default(),
            next_sequence: 1,
            partitions: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            accessed_at: Timestamp::default(),
        }
        .encode()
    };
    let delete = |numbers| encode_deleted(stores(numbers));
    let cases = [
        (define((1, 2, 3)), true),
        (delete((1, 2, 3)), true),
        (define((4, 5, 6)), true),
        (define((1, 4, 3)), false),
        (define((1, 2, 4)), false),
        (define((2, 4, 5)), false),
        (define((3, 4, 5)), false),
        (define((4, 2, 5)), false),
        (define((4, 5, 2)), false),
        (define((4, 3, 5)), false),
        (define((4, 5, 3)), false),
        (define((4, 4, 5)), false),
        (define((4, 5, 4)), false),
        (define((4, 5, 5)), false),
        (delete((1, 2, 4)), false),
        (delete((2, 1, 3)), false),
        (delete((4, 1, 5)), false),
    ];
    for (place, (record, fits)) in cases.iter().enumerate() {
        let mut core = Core::new(CoreConfig::default());
        core.replay(Position(1), &define((1, 2, 3)), 10).unwrap();
        assert_eq!(core.replay(Position(2), record, 10).is_ok(), *fits, "case {place}");
    }
}
