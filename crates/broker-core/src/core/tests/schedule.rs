//! Scheduling by request, and cancelling (`docs/features/schedules.md`; requirements SEQ-6 to SEQ-11).

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::harness::*;
use crate::{
    Command, CoreConfig, Effect, EntityError, EntityKind, EntitySettings, Message, PublishError, QuotaError,
    SequenceNumber, SubQueue,
};

fn not_found(sequence: u64) -> Result<(), EntityError> {
    Err(EntityError::MessageNotFound { entity: "q".into(), sequence: SequenceNumber(sequence) })
}

#[test]
fn scheduling_answers_with_the_numbers_that_peek_shows() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("first"));
    assert_eq!(broker.schedule(&["a", "b", "c"], 1_000), [2, 3, 4]);
    let shown: Vec<(u64, u8)> =
        broker.peek(main_path("q"), 0, 9).iter().map(|p| (p.sequence.0, p.stored.state)).collect();
    assert_eq!(shown, [(1, 0), (2, 2), (3, 2), (4, 2)]);
    assert_eq!(texts(&broker.lock(9)), ["first"], "not there before its time");
    broker.wait(999);
    assert!(broker.lock(9).is_empty());
    broker.wait(1);
    let got = broker.lock(9);
    assert_eq!(texts(&got), ["a", "b", "c"]);
    let numbers: Vec<u64> = got.iter().map(|delivery| delivery.sequence.0).collect();
    assert_eq!(numbers, [5, 6, 7], "new numbers");
    assert!(got.iter().all(|delivery| delivery.stored.enqueued_at == broker.now), "a new enqueued time");
    assert_eq!(broker.cancel(&[2]), not_found(2), "the old number is not valid any more");
    assert_eq!(broker.cancel(&[5]), not_found(5), "the new one names no scheduled message");
}

#[test]
fn scheduling_for_now_or_the_past_enqueues_at_once() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    assert_eq!(broker.schedule(&["a"], 0), [1]);
    assert_eq!(texts(&broker.lock(9)), ["a"]);
    assert_eq!(broker.cancel(&[1]), not_found(1));
}

/// At a topic that nobody has subscribed to, what is scheduled for now leaves nothing but the number that was told.
#[test]
fn a_number_that_was_told_is_nobody_elses_when_its_message_has_come_and_gone() {
    for (enable_partitioning, restarts) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut broker = Broker::new();
        let settings = EntitySettings { enable_partitioning, ..EntitySettings::default() };
        broker.create_kind("q", EntityKind::Topic, settings);
        let gone = broker.schedule(&["a", "b"], 0);
        assert_eq!(broker.replayed().digest(), broker.core.digest());
        broker.check_liveness();
        if restarts {
            broker.restart();
        }
        let waiting = broker.schedule(&["c", "d"], 1_000);
        let told: BTreeSet<u64> = gone.iter().chain(&waiting).copied().collect();
        assert_eq!(told.len(), 4, "{gone:?} and {waiting:?}");
        for number in gone {
            assert_eq!(broker.cancel(&[number]), not_found(number));
        }
        assert_eq!(broker.core.entity("q").unwrap().scheduled, 2);
        assert_eq!(broker.cancel(&waiting), Ok(()));
    }
}

#[test]
fn a_message_scheduled_for_the_last_instant_waits_and_can_be_cancelled() {
    for millis in [253_402_300_800_000, i64::MAX.unsigned_abs(), u64::MAX - 1, u64::MAX] {
        for time_to_live in [None, Some(std::time::Duration::MAX)] {
            let mut broker = Broker::with_queue(EntitySettings::default());
            let due = Some(crate::Timestamp::from_millis(millis));
            broker.publish(Message { scheduled_enqueue_time: due, time_to_live, ..message("never") });
            broker.restart();
            broker.wait(1_000_000_000_000);
            let view = broker.core.entity("q").unwrap();
            assert_eq!((view.scheduled, view.active), (1, 0), "{millis} {time_to_live:?}");
            assert_eq!(broker.peek(main_path("q"), 0, 9)[0].stored.state, 2);
            assert_eq!(broker.cancel(&[1]), Ok(()), "{millis} {time_to_live:?}");
            broker.check_liveness();
        }
    }
}

#[test]
fn a_cancelled_message_never_comes() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let numbers = broker.schedule(&["a", "b", "c"], 1_000);
    assert_eq!(
        broker.cancel(&[numbers[0], numbers[2], numbers[0]]),
        Ok(()),
        "a number given twice counts once"
    );
    assert_eq!(broker.core.entity("q").unwrap().scheduled, 1);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
    broker.restart();
    broker.wait(1_000);
    assert_eq!(texts(&broker.lock(9)), ["b"]);
    assert_eq!(broker.core.entity("q").unwrap().scheduled, 0);
}

#[test]
fn cancelling_is_all_or_nothing() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("active"));
    let numbers = broker.schedule(&["a", "b"], 1_000);
    let records = broker.journal.records.len();
    for wrong in [0, 1, 4, u64::MAX] {
        assert_eq!(broker.cancel(&[numbers[0], wrong, numbers[1]]), not_found(wrong), "{wrong}");
    }
    assert_eq!(broker.journal.records.len(), records);
    assert_eq!(broker.core.entity("q").unwrap().scheduled, 2);
}

#[test]
fn a_schedule_request_with_one_bad_message_is_refused_whole() {
    let config = CoreConfig { max_message_bytes: 10, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create("q", EntitySettings { max_size_bytes: Some(200), ..EntitySettings::default() });
    let due = Some(broker.now.after(std::time::Duration::from_secs(1)));
    let later = |text: &str| Message { scheduled_enqueue_time: due, ..message(text) };
    let entity = || "q".into();
    let mut path = main_path("q");
    path.sub_queue = SubQueue::DeadLetter;
    let cases = [
        (main_path("nowhere"), vec![later("a")], PublishError::NotFound("nowhere".into())),
        (path, vec![later("a")], PublishError::SubQueueSend(entity())),
        (
            main_path("q"),
            vec![later("a"), later("eleven....x")],
            PublishError::TooLarge { entity: entity(), bytes: 11, limit: 10 },
        ),
        (
            main_path("q"),
            (0..21).map(|_| later("ten.......")).collect(),
            QuotaError::Entity { entity: entity(), bytes: 0, limit: 200 }.into(),
        ),
    ];
    for (path, messages, expected) in cases {
        let ticket = broker.ticket();
        let told = broker.tell(ME, Command::Schedule { path, messages, ticket });
        match told.as_slice() {
            [Effect::PublishRefused { ticket: answered, error }] => {
                assert_eq!((*answered, error), (ticket, &expected));
            }
            other => panic!("{expected:?}: {other:?}"),
        }
        assert_eq!(broker.core.entity("q").unwrap().scheduled, 0, "{expected:?}");
    }
}

#[test]
fn a_cancellation_may_come_in_the_same_batch_as_its_message() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let due = Some(broker.now.after(std::time::Duration::from_secs(1)));
    let messages = vec![Message { scheduled_enqueue_time: due, ..message("a") }];
    let (schedule, cancel) = (broker.ticket(), broker.ticket());
    let path = main_path("q");
    let told = broker.tell_all(
        ME,
        vec![
            Command::Schedule { path: path.clone(), messages, ticket: schedule },
            Command::CancelScheduled { path, sequences: vec![SequenceNumber(1)], ticket: cancel },
        ],
    );
    assert!(
        matches!(told.as_slice(), [Effect::Scheduled { .. }, Effect::Settled { first, .. }] if *first == cancel),
        "{told:?}"
    );
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

#[test]
fn of_a_cancellation_and_an_activation_at_one_moment_one_wins() {
    for cancel_first in [true, false] {
        let mut broker = Broker::with_queue(EntitySettings::default());
        let numbers = broker.schedule(&["a"], 1_000);
        broker.now = broker.now.after(std::time::Duration::from_secs(1));
        if cancel_first {
            assert_eq!(broker.cancel(&numbers), Ok(()));
            broker.run_deadlines();
        } else {
            broker.run_deadlines();
            assert_eq!(broker.cancel(&numbers), not_found(1));
        }
        let view = broker.core.entity("q").unwrap();
        assert_eq!((view.scheduled, view.active), (0, u64::from(!cancel_first)));
    }
}

proptest! {
    #[test]
    fn a_schedule_is_either_cancelled_or_activated_once(
        delays in proptest::collection::vec(1u64..50, 1..40),
        cancels in proptest::collection::vec((any::<prop::sample::Index>(), 0u64..20), 0..40),
    ) {
        let mut broker = Broker::with_queue(EntitySettings::default());
        let mut waiting: Vec<(u64, String, u64)> = Vec::new();
        for (n, delay) in delays.into_iter().enumerate() {
            let text = n.to_string();
            let number = broker.schedule(&[&text], delay)[0];
            waiting.push((number, text, broker.now.as_millis() + delay));
        }
        let all = waiting.clone();
        let mut arrived: Vec<String> = Vec::new();
        for (pick, pause) in cancels {
            broker.wait(pause);
            let now = broker.now.as_millis();
            arrived.extend(waiting.iter().filter(|(_, _, due)| *due <= now).map(|(_, text, _)| text.clone()));
            waiting.retain(|(_, _, due)| *due > now);
            let (number, _, _) = pick.get(&all);
            let known = waiting.iter().position(|(waits, _, _)| waits == number);
            prop_assert_eq!(broker.cancel(&[*number]).is_ok(), known.is_some());
            known.map(|place| waiting.remove(place));
            prop_assert_eq!(broker.core.entity("q").unwrap().scheduled, waiting.len() as u64);
        }
        broker.wait(50);
        arrived.extend(waiting.into_iter().map(|(_, text, _)| text));
        let mut got = texts(&broker.lock(1_000));
        got.sort_unstable();
        arrived.sort_unstable();
        prop_assert_eq!(got, arrived);
        prop_assert_eq!(broker.replayed().digest(), broker.core.digest());
    }
}
