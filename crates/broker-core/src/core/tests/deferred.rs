//! Deferral and receiving by number (`docs/features/deferral.md`; requirement SET-16).

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, Effect, EntityError, EntitySettings, Fetched, LinkId, LockToken, Outcome, ReceiveMode,
    SequenceNumber, SettleError,
};

/// A queue with these messages deferred, and their numbers.
fn deferred(settings: EntitySettings, texts: &[&str]) -> (Broker, Vec<u64>) {
    let mut broker = Broker::with_queue(settings);
    broker.publish_all(texts);
    let got = broker.lock(texts.len() as u64);
    for delivery in &got {
        broker.settle(delivery, Outcome::Defer(properties(&[]))).unwrap();
    }
    let numbers = got.iter().map(|delivery| delivery.sequence.0).collect();
    (broker, numbers)
}

fn shown(fetched: &[Fetched]) -> Vec<(u64, String, u8)> {
    let show = |one: &Fetched| {
        (one.sequence.0, String::from_utf8(one.stored.payload.to_vec()).unwrap(), one.stored.state)
    };
    fetched.iter().map(show).collect()
}

fn not_found(sequence: u64) -> EntityError {
    EntityError::MessageNotFound { entity: "q".into(), sequence: SequenceNumber(sequence) }
}

fn settle_by(broker: &mut Broker, token: LockToken, outcome: Outcome) -> Result<(), SettleError> {
    let ticket = broker.ticket();
    let told = broker.tell(
        OTHER,
        Command::SettleByToken { path: main_path("q"), session: None, tokens: vec![token], outcome, ticket },
    );
    match told.into_iter().next() {
        Some(Effect::Settled { .. }) => Ok(()),
        Some(Effect::SettleRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn states(broker: &mut Broker) -> Vec<(u64, u8)> {
    broker.peek(main_path("q"), 0, 9).iter().map(|p| (p.sequence.0, p.stored.state)).collect()
}

#[test]
fn a_deferred_message_is_received_by_its_number_and_in_no_other_way() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a", "b"]);
    broker.publish(message("c"));
    assert_eq!(texts(&broker.lock(9)), ["c"]);
    assert!(texts(&broker.receive(main_path("q"), ReceiveMode::Browse, 9)).iter().all(|text| text == "c"));
    assert_eq!(states(&mut broker), [(1, 1), (2, 1), (3, 0)], "a peek shows the state");
    let got = broker.fetch(main_path("q"), &[numbers[1], numbers[0]], false).unwrap();
    assert_eq!(shown(&got), [(2, "b".into(), 1), (1, "a".into(), 1)], "in the order of the request");
    assert_ne!(got[0].lock.unwrap().token, got[1].lock.unwrap().token);
    assert_eq!(got[0].lock.unwrap().until, broker.now.after(Duration::from_secs(60)));
    assert_eq!(broker.core.entity("q").unwrap().locked, 3);
}

#[test]
fn received_and_deleted_it_is_gone_without_a_lock() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a", "b"]);
    let got = broker.fetch(main_path("q"), &numbers, true).unwrap();
    assert_eq!(shown(&got), [(1, "a".into(), 1), (2, "b".into(), 1)]);
    assert!(got.iter().all(|one| one.lock.is_none()));
    assert_eq!(states(&mut broker), []);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

#[test]
fn each_outcome_has_its_effect_on_a_deferred_message() {
    let cases = [
        // outcome, state afterwards (none: gone from the queue), deliveries that counted, dead
        (Outcome::Complete, None, 0, false),
        (Outcome::Abandon(properties(&[])), Some(1), 2, false),
        (Outcome::Abandon(properties(&[("k", "v")])), Some(1), 2, false),
        (Outcome::Release(properties(&[])), Some(1), 1, false),
        (Outcome::Defer(properties(&[])), Some(1), 2, false),
        (Outcome::Defer(properties(&[("k", "v")])), Some(1), 2, false),
        (Outcome::DeadLetter(properties(&[("DeadLetterReason", "r")])), None, 0, true),
    ];
    for (outcome, state, failed, dead) in cases {
        let (mut broker, numbers) = deferred(EntitySettings::default(), &["a"]);
        let lock = broker.fetch(main_path("q"), &numbers, false).unwrap()[0].lock.unwrap();
        settle_by(&mut broker, lock.token, outcome.clone()).unwrap();
        let peeked = broker.peek(main_path("q"), 0, 9);
        let found: Vec<(u8, u32)> =
            peeked.iter().map(|p| (p.stored.state, p.stored.delivery_count)).collect();
        assert_eq!(found, state.map(|state| (state, failed)).into_iter().collect::<Vec<_>>(), "{outcome:?}");
        assert_eq!(broker.dead().len(), usize::from(dead), "{outcome:?}");
        assert!(broker.lock(9).is_empty(), "not in the retrieval order: {outcome:?}");
        assert_eq!(broker.fetch(main_path("q"), &numbers, false).is_ok(), state.is_some(), "{outcome:?}");
        assert_eq!(settle_by(&mut broker, lock.token, Outcome::Complete), Err(SettleError::LockLost));
        assert_eq!(broker.replayed().digest(), broker.core.digest(), "{outcome:?}");
        broker.check_liveness();
    }
}

#[test]
fn deferring_counts_as_a_delivery_and_dead_letters_at_the_maximum() {
    for added in [properties(&[]), properties(&[("k", "v")])] {
        let settings = EntitySettings { max_delivery_count: 3, ..EntitySettings::default() };
        let mut broker = Broker::with_queue(settings);
        broker.publish(message("a"));
        let got = broker.lock_one();
        broker.settle(&got, Outcome::Defer(added.clone())).unwrap();
        broker.restart();
        let got = broker.fetch(main_path("q"), &[1], false).unwrap();
        assert_eq!(got[0].stored.delivery_count, 1);
        settle_by(&mut broker, got[0].lock.unwrap().token, Outcome::Defer(added.clone())).unwrap();
        let got = broker.fetch(main_path("q"), &[1], false).unwrap();
        assert_eq!(got[0].stored.delivery_count, 2);
        settle_by(&mut broker, got[0].lock.unwrap().token, Outcome::Defer(added.clone())).unwrap();
        assert_eq!(broker.fetch(main_path("q"), &[1], false).unwrap_err(), not_found(1));
        assert_eq!(broker.dead(), [("a".into(), Some("MaxDeliveryCountExceeded".into()))]);
        let dead = broker.peek(dead_letters("q"), 0, 1).pop().unwrap();
        assert_eq!((dead.stored.state, dead.stored.delivery_count), (0, 3));
        assert_eq!(property(&dead.stored.properties, "k").is_some(), !added.0.is_empty());
        assert_eq!(broker.replayed().digest(), broker.core.digest());
        broker.check_liveness();
    }
}

#[test]
fn one_unknown_or_locked_number_fails_the_whole_request() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a", "b"]);
    broker.publish(message("active"));
    let scheduled = broker.schedule(&["s"], 1_000)[0];
    for wrong in [0, 3, scheduled, 99, u64::MAX] {
        for delete in [false, true] {
            let refused = broker.fetch(main_path("q"), &[numbers[0], wrong], delete).unwrap_err();
            assert_eq!(refused, not_found(wrong));
        }
    }
    broker.fetch(main_path("q"), &numbers[..1], false).unwrap();
    assert_eq!(broker.fetch(main_path("q"), &[numbers[1], numbers[0]], true).unwrap_err(), not_found(1));
    assert_eq!(broker.fetch(main_path("q"), &numbers[1..], true).unwrap().len(), 1, "nothing was touched");
    let missing = broker.fetch(main_path("nowhere"), &numbers, false).unwrap_err();
    assert_eq!(missing, EntityError::NotFound("nowhere".into()));
}

#[test]
fn a_number_given_twice_is_received_once() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a"]);
    assert_eq!(broker.fetch(main_path("q"), &[numbers[0], numbers[0]], false).unwrap().len(), 1);
}

#[test]
fn more_bytes_than_wanted_are_refused_whole() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a", "b"]);
    let bytes: u64 = broker.core.entity("q").unwrap().bytes;
    for (limit, fits) in [(bytes, true), (bytes - 1, false)] {
        let ticket = broker.ticket();
        let told = broker.tell(
            ME,
            Command::ReceiveDeferred {
                path: main_path("q"),
                session: None,
                sequences: numbers.iter().copied().map(SequenceNumber).collect(),
                delete: false,
                bytes: limit,
                ticket,
            },
        );
        match told.as_slice() {
            [Effect::Fetched { messages, .. }] if fits => {
                for one in messages {
                    settle_by(&mut broker, one.lock.unwrap().token, Outcome::Release(properties(&[])))
                        .unwrap();
                }
            }
            [Effect::RequestRefused { error, .. }] if !fits => {
                assert_eq!(*error, EntityError::AnswerTooLarge { bytes, limit });
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_expired_lock_counts_and_leaves_the_message_deferred() {
    for treated in [true, false] {
        let settings = EntitySettings { max_delivery_count: 3, ..EntitySettings::default() };
        let (mut broker, numbers) = deferred(settings, &["a"]);
        let lock = broker.fetch(main_path("q"), &numbers, false).unwrap()[0].lock.unwrap();
        if treated {
            broker.wait(60_000);
        } else {
            broker.now = lock.until;
        }
        let got = broker.fetch(main_path("q"), &numbers, false).unwrap();
        assert_eq!(got[0].stored.delivery_count, 2, "{treated}");
        assert_eq!(settle_by(&mut broker, lock.token, Outcome::Complete), Err(SettleError::LockLost));
        let lock = got[0].lock.unwrap();
        settle_by(&mut broker, lock.token, Outcome::Abandon(properties(&[]))).unwrap();
        assert_eq!(broker.dead(), [("a".into(), Some("MaxDeliveryCountExceeded".into()))]);
        broker.check_liveness();
    }
}

#[test]
fn a_renewed_lock_goes_on() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a"]);
    let lock = broker.fetch(main_path("q"), &numbers, false).unwrap()[0].lock.unwrap();
    broker.wait(59_999);
    let ticket = broker.ticket();
    let told =
        broker.tell(ME, Command::RenewLocks { path: main_path("q"), tokens: vec![lock.token], ticket });
    assert!(matches!(told.as_slice(), [Effect::Renewed(_)]), "{told:?}");
    broker.wait(59_999);
    assert_eq!(settle_by(&mut broker, lock.token, Outcome::Complete), Ok(()));
}

#[test]
fn a_lock_by_number_outlives_the_connection_that_asked() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a"]);
    let lock = broker.fetch(main_path("q"), &numbers, false).unwrap()[0].lock.unwrap();
    broker.tell(ME, Command::Disconnect);
    assert_eq!(settle_by(&mut broker, lock.token, Outcome::Complete), Ok(()));
}

#[test]
fn a_deferred_message_outlives_its_time_and_can_still_be_had() {
    let settings = EntitySettings {
        default_time_to_live: Some(Duration::from_secs(1)),
        dead_letter_on_expiration: true,
        ..EntitySettings::default()
    };
    let (mut broker, numbers) = deferred(settings, &["a"]);
    broker.wait(100_000);
    broker.restart();
    broker.wait(100_000);
    let got = broker.fetch(main_path("q"), &numbers, false).unwrap();
    settle_by(&mut broker, got[0].lock.unwrap().token, Outcome::Abandon(properties(&[]))).unwrap();
    broker.wait(100_000);
    assert_eq!(states(&mut broker), [(1, 1)], "abandoned after its time it is deferred again");
    let got = broker.fetch(main_path("q"), &numbers, true).unwrap();
    assert_eq!(shown(&got), [(1, "a".into(), 1)]);
    assert!(broker.dead().is_empty());
}

#[test]
fn dead_letters_are_deferred_and_received_by_number_too() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("a"));
    let got = broker.lock_one();
    broker.settle(&got, Outcome::DeadLetter(properties(&[]))).unwrap();
    let got = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1).pop().unwrap();
    broker.settle(&got, Outcome::Defer(properties(&[]))).unwrap();
    assert_eq!(broker.fetch(main_path("q"), &[1], false).unwrap_err(), not_found(1));
    let got = broker.fetch(dead_letters("q"), &[1], false).unwrap();
    settle_by(&mut broker, got[0].lock.unwrap().token, Outcome::Complete).unwrap();
    assert!(broker.dead().is_empty());
}

#[test]
fn a_deferred_message_that_cannot_be_read_is_an_error_and_takes_nothing() {
    let (mut broker, numbers) = deferred(EntitySettings::default(), &["a", "b"]);
    let at = *broker.journal.records.iter().find(|(_, (bytes, _))| bytes.ends_with(b"b")).unwrap().0;
    broker.journal.broken.push(at);
    assert_eq!(broker.fetch(main_path("q"), &numbers, true).unwrap_err(), EntityError::Storage);
    assert_eq!(broker.fetch(main_path("q"), &numbers[..1], true).unwrap().len(), 1);
    assert_eq!(broker.fetch(main_path("q"), &numbers[1..], true).unwrap_err(), not_found(2));
}

#[test]
fn messages_that_a_request_dead_letters_can_be_read_in_the_next_call() {
    let settings = EntitySettings { max_delivery_count: 2, ..EntitySettings::default() };
    let mut broker = Broker::with_queue(settings);
    broker.publish_all(&["a", "b"]);
    for got in broker.lock(2) {
        broker.settle(&got, Outcome::Defer(properties(&[]))).unwrap();
    }
    broker.fetch(main_path("q"), &[1, 2], false).unwrap();
    // Their locks are over, and no deadline has been treated.
    broker.now = broker.now.after(Duration::from_secs(61));
    broker.open(OTHER, 1, dead_letters("q"), ReceiveMode::PeekLock);
    broker.tell(OTHER, Command::Credit { consumer: LinkId(1), limit: 9, drain: false });
    let sequences = vec![SequenceNumber(1), SequenceNumber(2)];
    let (first, second) = (broker.ticket(), broker.ticket());
    let fetch = Command::ReceiveDeferred {
        path: main_path("q"),
        session: None,
        sequences,
        delete: false,
        bytes: 1 << 20,
        ticket: first,
    };
    let peek = Command::Peek {
        path: dead_letters("q"),
        session: None,
        from: SequenceNumber(1),
        count: 9,
        bytes: 1 << 20,
        ticket: second,
    };
    let told = broker.tell_all(ME, vec![fetch, peek]);
    assert!(matches!(&told[0], Effect::RequestRefused { ticket, .. } if *ticket == first), "{told:?}");
    assert!(matches!(&told[1], Effect::Peeked { messages, .. } if messages.len() == 2), "{told:?}");
    assert_eq!(broker.received(OTHER).len(), 2);
}
