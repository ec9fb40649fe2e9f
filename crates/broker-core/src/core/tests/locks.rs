//! Locks, settlement and the count of deliveries (`docs/features/settlement.md`; `docs/features/queues.md`,
//! "Settlement").

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, Delivery, Effect, EntitySettings, LinkId, LockId, LockLifetime, LockToken, Message, Outcome,
    QueueId, ReceiveMode, SettleError, Timestamp, UnsettledPolicy,
};

const LOCK: u64 = 60_000;

fn queue_of(texts: &[&str]) -> Broker {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(texts);
    broker
}

fn token(delivery: &Delivery) -> LockToken {
    delivery.lock.unwrap().token
}

fn renew(broker: &mut Broker, tokens: Vec<LockToken>) -> Result<Vec<Timestamp>, SettleError> {
    let ticket = broker.ticket();
    match broker.tell(OTHER, Command::RenewLocks { path: main_path("q"), tokens, ticket }).pop() {
        Some(Effect::Renewed(renewed)) => Ok(renewed.until),
        Some(Effect::SettleRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn settle_by_token(broker: &mut Broker, tokens: Vec<LockToken>, outcome: Outcome) -> Result<(), SettleError> {
    settle_at(broker, main_path("q"), tokens, outcome)
}

fn settle_at(
    broker: &mut Broker,
    path: crate::EntityPath,
    tokens: Vec<LockToken>,
    outcome: Outcome,
) -> Result<(), SettleError> {
    let ticket = broker.ticket();
    match broker.tell(OTHER, Command::SettleByToken { path, session: None, tokens, outcome, ticket }).pop() {
        Some(Effect::Settled { .. }) => Ok(()),
        Some(Effect::SettleRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_that_one_request_renews_many_times_has_one_timer_more() {
    let mut broker = queue_of(&["a", "b"]);
    let (first, second) = (broker.lock_one(), broker.lock_one());
    let timers =
        |broker: &Broker| broker.core.state.store(broker.queue("q")).unwrap().timers.locks.runs().count();
    let before = timers(&broker);
    broker.wait(1_000);
    let tokens = [token(&first), token(&second)].repeat(1_000);
    let until = renew(&mut broker, tokens).unwrap();
    assert_eq!(until, vec![broker.now.after(Duration::from_millis(LOCK)); 2_000]);
    assert!(timers(&broker) <= before + 2, "{} timers, {before} before", timers(&broker));
    broker.wait(LOCK - 1);
    assert_eq!(broker.settle(&first, Outcome::Complete), Ok(()));
    broker.wait(1);
    assert_eq!(broker.settle(&second, Outcome::Complete), Err(SettleError::LockLost));
}

#[test]
fn each_outcome_has_its_effect_on_the_message() {
    let none = || properties(&[]);
    let cases = [
        // outcome, active, deferred, dead letters, deliveries that counted
        (Outcome::Complete, 0, 0, 0, None),
        (Outcome::Abandon(none()), 1, 0, 0, Some(1)),
        (Outcome::Release(none()), 1, 0, 0, Some(0)),
        (Outcome::Release(properties(&[("k", "v")])), 1, 0, 0, Some(0)),
        (Outcome::Defer(none()), 0, 1, 0, Some(1)),
        (Outcome::DeadLetter(none()), 0, 0, 1, None),
    ];
    for (outcome, active, deferred, dead, count) in cases {
        let mut broker = queue_of(&["a"]);
        let delivery = broker.lock_one();
        assert_eq!(broker.settle(&delivery, outcome.clone()), Ok(()));
        let view = broker.core.entity("q").unwrap();
        let counts = (view.active, view.deferred, view.dead_letter, view.locked);
        assert_eq!(counts, (active, deferred, dead, 0), "{outcome:?}");
        let peeked = broker.peek(main_path("q"), 0, 1).pop().map(|peeked| peeked.stored.delivery_count);
        assert_eq!(peeked, count, "{outcome:?}");
        // Once is enough.
        for again in [Outcome::Complete, outcome.clone()] {
            assert_eq!(broker.settle(&delivery, again), Err(SettleError::LockLost), "{outcome:?}");
        }
        assert_eq!(broker.replayed().digest(), broker.core.digest(), "{outcome:?}");
        broker.check_liveness();
    }
}

#[test]
fn a_lock_lasts_its_duration_and_not_a_millisecond_more() {
    for outcome in [
        Outcome::Complete,
        Outcome::Release(properties(&[])),
        Outcome::Abandon(properties(&[])),
        Outcome::Defer(properties(&[])),
    ] {
        let mut broker = queue_of(&["a"]);
        let delivery = broker.lock_one();
        assert_eq!(delivery.lock.unwrap().until, broker.now.after(Duration::from_millis(LOCK)));
        broker.wait(LOCK - 1);
        assert_eq!(broker.active(), 1);
        // The end itself is too late, even before the deadline has been treated.
        broker.now = broker.now.after(Duration::from_millis(1));
        assert_eq!(broker.settle(&delivery, outcome.clone()), Err(SettleError::LockLost), "{outcome:?}");
        assert!(broker.lock(1).is_empty(), "it is not back before its deadline was treated");
        broker.wait(0);
        assert_eq!(broker.lock_one().stored.delivery_count, 1);
    }
}

#[test]
fn a_settlement_just_before_the_end_of_the_lock_counts() {
    let mut broker = queue_of(&["a"]);
    let delivery = broker.lock_one();
    broker.wait(LOCK - 1);
    assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()));
}

#[test]
fn after_three_failures_of_three_the_message_is_a_dead_letter() {
    for by_expiry in [false, true] {
        let mut broker =
            Broker::with_queue(EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
        broker.publish(message("a"));
        for count in 0..3 {
            let delivery = broker.lock_one();
            assert_eq!(delivery.stored.delivery_count, count);
            if by_expiry {
                broker.wait(LOCK);
            } else {
                broker.settle(&delivery, Outcome::Abandon(properties(&[]))).unwrap();
            }
        }
        assert_eq!(broker.active(), 0);
        assert_eq!(broker.dead(), [("a".into(), Some("MaxDeliveryCountExceeded".into()))]);
        let peeked = broker.peek(dead_letters("q"), 0, 1).pop().unwrap();
        assert_eq!((peeked.sequence.0, peeked.stored.delivery_count), (1, 3));
        broker.check_liveness();
    }
}

#[test]
fn a_released_message_may_come_again_without_end() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_delivery_count: 1, ..EntitySettings::default() });
    broker.publish(message("a"));
    for _ in 0..20 {
        let delivery = broker.lock_one();
        assert_eq!(delivery.stored.delivery_count, 0);
        broker.settle(&delivery, Outcome::Release(properties(&[]))).unwrap();
    }
}

#[test]
fn the_policy_decides_about_the_locks_of_a_closing_consumer() {
    let close = Command::CloseConsumer { consumer: LinkId(5) };
    let leave = Command::LeaveConsumer { consumer: LinkId(5) };
    // policy, back at once, failed deliveries when it comes back: after the close, the leave in order, the loss of the client
    let cases = [
        (UnsettledPolicy::KeepLocks, false, [1, 1, 1]),
        (UnsettledPolicy::Release, true, [0, 0, 0]),
        (UnsettledPolicy::Fail, true, [1, 0, 1]),
    ];
    for (policy, at_once, counts) in cases {
        for (end, count) in [close.clone(), leave.clone(), Command::Disconnect].into_iter().zip(counts) {
            let mut broker = queue_of(&["a", "b", "c"]);
            broker.open_with(OTHER, 5, main_path("q"), ReceiveMode::PeekLock, policy);
            let got = broker.credit(OTHER, 5, 2);
            let mine = broker.lock_one();
            let told = format!("{policy:?}, {end:?}");
            broker.tell(OTHER, end);
            let again = broker.lock(5);
            assert_eq!(texts(&again).len(), if at_once { 2 } else { 0 }, "{told}");
            if !at_once {
                assert_eq!(broker.settle(&got[0], Outcome::Complete), Ok(()), "settled from elsewhere");
                assert_eq!(broker.settle(&mine, Outcome::Complete), Ok(()));
                broker.wait(LOCK);
                assert_eq!(texts(&broker.lock(5)), ["b"]);
            }
            let expected = broker.peek(main_path("q"), 2, 1).pop().unwrap();
            assert_eq!(expected.stored.delivery_count, count, "{told}");
            assert_eq!(broker.replayed().digest(), broker.core.digest());
        }
    }
}

#[test]
fn a_lock_that_ran_out_counts_as_failed_even_if_the_link_closes_first() {
    let mut broker =
        Broker::with_queue(EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() });
    broker.publish_all(&["a"]);
    broker.open_with(ME, 5, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    broker.credit(ME, 5, 1);
    broker.now = broker.now.after(Duration::from_millis(LOCK));
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(5) });
    assert_eq!(broker.lock_one().stored.delivery_count, 1);
}

#[test]
fn renewing_by_token_starts_a_whole_new_lock_duration() {
    let mut broker = queue_of(&["a", "b"]);
    let got = broker.lock(2);
    for _ in 0..5 {
        broker.wait(LOCK - 1);
        let until = renew(&mut broker, vec![token(&got[1]), token(&got[0])]).unwrap();
        assert_eq!(until, [broker.now.after(Duration::from_millis(LOCK)); 2]);
    }
    broker.wait(LOCK - 1);
    assert_eq!(broker.settle(&got[0], Outcome::Complete), Ok(()));
    broker.wait(1);
    assert_eq!(renew(&mut broker, vec![token(&got[1])]), Err(SettleError::LockLost));
    assert_eq!(broker.lock_one().stored.delivery_count, 1);
}

#[test]
fn renewal_is_all_or_none() {
    let mut broker = queue_of(&["a", "b"]);
    let got = broker.lock(2);
    broker.wait(LOCK / 2);
    broker.settle(&got[1], Outcome::Complete).unwrap();
    assert_eq!(renew(&mut broker, vec![token(&got[0]), token(&got[1])]), Err(SettleError::LockLost));
    broker.wait(LOCK / 2);
    assert_eq!(broker.lock_one().stored.delivery_count, 1, "its lock was not renewed");
}

#[test]
fn tokens_settle_from_another_connection_all_or_none() {
    let mut broker = queue_of(&["a", "b", "c"]);
    let got = broker.lock(3);
    let tokens: Vec<LockToken> = got.iter().map(token).collect();
    broker.settle(&got[2], Outcome::Complete).unwrap();
    assert_eq!(settle_by_token(&mut broker, tokens.clone(), Outcome::Complete), Err(SettleError::LockLost));
    assert_eq!(broker.active(), 2);
    let twice = vec![tokens[0], tokens[1], tokens[0]];
    assert_eq!(settle_by_token(&mut broker, twice, Outcome::Abandon(properties(&[("k", "v")]))), Ok(()));
    let again = broker.lock(5);
    assert_eq!(texts(&again), ["a", "b"]);
    for delivery in &again {
        assert_eq!(delivery.stored.delivery_count, 1);
        assert_eq!(property(&delivery.stored.properties, "k"), Some("v".into()));
    }
    broker.check_liveness();
}

#[test]
fn forged_old_and_foreign_tokens_prove_nothing() {
    let mut broker = queue_of(&["a"]);
    broker.create("other", EntitySettings::default());
    let delivery = broker.lock_one();
    let mut forged = token(&delivery);
    forged.0 ^= 1;
    let lost = Err(SettleError::LockLost);
    assert_eq!(settle_by_token(&mut broker, vec![forged], Outcome::Complete), lost);
    assert_eq!(settle_at(&mut broker, main_path("other"), vec![token(&delivery)], Outcome::Complete), lost);
    let gone = settle_at(&mut broker, main_path("gone"), vec![token(&delivery)], Outcome::Complete);
    assert_eq!(gone, Err(SettleError::EntityGone));
    broker.settle(&delivery, Outcome::Release(properties(&[]))).unwrap();
    let newer = broker.lock_one();
    assert_ne!(token(&newer), token(&delivery));
    assert_eq!(settle_by_token(&mut broker, vec![token(&delivery)], Outcome::Complete), lost);
    assert_eq!(settle_by_token(&mut broker, vec![token(&newer)], Outcome::Complete), Ok(()));
}

#[test]
fn a_restart_ends_all_locks_without_counting() {
    let mut broker = queue_of(&["a"]);
    let delivery = broker.lock_one();
    broker.restart();
    assert_eq!(
        settle_by_token(&mut broker, vec![token(&delivery)], Outcome::Complete),
        Err(SettleError::LockLost)
    );
    assert_eq!(broker.lock_one().stored.delivery_count, 0);
}

#[test]
fn a_wrong_lock_or_message_or_queue_is_refused() {
    let mut broker = queue_of(&["a", "b"]);
    let good = broker.lock_one();
    let cases = [
        (good.queue.0, 2, good.lock.unwrap().id.0, SettleError::LockLost),
        (good.queue.0, 9, good.lock.unwrap().id.0, SettleError::LockLost),
        (good.queue.0, 1, good.lock.unwrap().id.0 + 1, SettleError::LockLost),
        (77, 1, good.lock.unwrap().id.0, SettleError::EntityGone),
    ];
    for (queue, sequence, lock, error) in cases {
        let mut bad = good.clone();
        bad.queue = QueueId(queue);
        bad.sequence.0 = sequence;
        bad.lock.as_mut().unwrap().id = LockId(lock);
        for outcome in
            [Outcome::Complete, Outcome::DeadLetter(properties(&[])), Outcome::Release(properties(&[]))]
        {
            assert_eq!(broker.settle(&bad, outcome), Err(error));
        }
    }
    assert_eq!(broker.settle(&good, Outcome::Complete), Ok(()));
}

#[test]
fn a_settlement_nobody_waits_for_is_done_in_silence() {
    let mut broker = queue_of(&["a"]);
    let delivery = broker.lock_one();
    let command = Command::Settle {
        queue: delivery.queue,
        sequence: delivery.sequence,
        lock: delivery.lock.unwrap().id,
        outcome: Outcome::Complete,
        ticket: None,
    };
    assert!(broker.tell(ME, command).is_empty());
    assert_eq!(broker.active(), 0);
}

#[test]
fn abandon_release_and_defer_change_properties_and_keep_the_payload() {
    let mut broker = queue_of(&["a"]);
    for round in 0..3 {
        let delivery = broker.lock_one();
        let more = properties(&[("round", &round.to_string()), (&format!("r{round}"), "x")]);
        broker.settle(&delivery, Outcome::Abandon(more)).unwrap();
    }
    let delivery = broker.lock_one();
    broker.settle(&delivery, Outcome::Release(properties(&[("released", "x")]))).unwrap();
    let delivery = broker.lock_one();
    assert_eq!(text(&delivery), "a");
    let keys: Vec<&str> = delivery.stored.properties.0.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["round", "r0", "r1", "r2", "released"]);
    assert_eq!(property(&delivery.stored.properties, "round"), Some("2".into()));
    broker.settle(&delivery, Outcome::Defer(properties(&[("round", "last")]))).unwrap();
    broker.restart();
    let peeked = broker.peek(main_path("q"), 0, 1).pop().unwrap();
    assert_eq!((peeked.stored.state, peeked.stored.delivery_count), (1, 4));
    assert_eq!(property(&peeked.stored.properties, "round"), Some("last".into()));
    assert!(broker.lock(1).is_empty(), "a deferred message is not in the retrieval order");
    broker.check_liveness();
}

#[test]
fn a_settlement_that_needs_an_unreadable_record_changes_nothing() {
    let add = || properties(&[("k", "v")]);
    for outcome in [Outcome::DeadLetter(properties(&[])), Outcome::Abandon(add()), Outcome::Release(add())] {
        let mut broker = queue_of(&["a"]);
        let delivery = broker.lock_one();
        broker.journal.broken = broker.journal.records.keys().copied().collect();
        assert_eq!(broker.settle(&delivery, outcome.clone()), Err(SettleError::Storage));
        assert_eq!(settle_by_token(&mut broker, vec![token(&delivery)], outcome), Err(SettleError::Storage));
        assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()), "the lock goes on");
    }
}

#[test]
fn one_batch_may_do_many_things_and_reads_nothing_that_it_wrote_itself() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_delivery_count: 2, ..EntitySettings::default() });
    broker.publish_all(&["a", "b", "c", "d", "e"]);
    broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Fail);
    let got = broker.credit(ME, 1, 5);
    let add = || properties(&[("k", "v")]);
    let outcomes =
        [Outcome::Abandon(add()), Outcome::Defer(add()), Outcome::DeadLetter(add()), Outcome::Complete];
    let mut commands = Vec::new();
    for round in 0..2 {
        for (place, outcome) in outcomes.iter().enumerate() {
            commands.push(Command::Settle {
                queue: got[place].queue,
                sequence: got[place].sequence,
                lock: got[place].lock.unwrap().id,
                outcome: outcome.clone(),
                ticket: Some(crate::Ticket(round * 4 + place as u64)),
            });
        }
    }
    commands.push(Command::Disconnect);
    let told = broker.tell_all(ME, commands);
    assert!(
        matches!(told[0], Effect::Settled { first: crate::Ticket(0), last: crate::Ticket(3) }),
        "{told:?}"
    );
    let refused = told.iter().filter(|effect| matches!(effect, Effect::SettleRefused { .. })).count();
    assert_eq!((refused, told.len()), (4, 5));
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.active, view.deferred, view.dead_letter, view.locked), (2, 1, 1, 0));
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

#[test]
fn a_connection_with_many_links_gives_its_locks_back_in_order() {
    let mut broker = queue_of(&["a", "b", "c", "d", "e", "f"]);
    for (link, policy) in
        [(1, UnsettledPolicy::Release), (2, UnsettledPolicy::Fail), (3, UnsettledPolicy::KeepLocks)]
    {
        broker.open_with(OTHER, link, main_path("q"), ReceiveMode::PeekLock, policy);
        assert_eq!(broker.credit(OTHER, link, 2).len(), 2);
    }
    broker.tell(OTHER, Command::Disconnect);
    let again = broker.lock(9);
    assert_eq!(texts(&again), ["a", "b", "c", "d"]);
    let counts: Vec<u32> = again.iter().map(|delivery| delivery.stored.delivery_count).collect();
    assert_eq!(counts, [0, 0, 1, 1]);
}

#[test]
fn one_call_copies_a_bounded_part_of_the_messages_that_a_lost_connection_had_locked() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_delivery_count: 1, ..EntitySettings::default() });
    let text = "x".repeat(100 << 10);
    broker.publish_all(&[text.as_str(); 50]);
    for link in [1, 2] {
        broker.open_with(OTHER, link, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Fail);
        assert_eq!(broker.credit(OTHER, link, 25).len(), 25);
    }
    let before = broker.journal.end();
    let leave = [1, 2].map(|link| Command::CloseConsumer { consumer: LinkId(link) });
    broker.tell_all(OTHER, leave.into());
    let copied = |broker: &Broker, before: u64| broker.journal.end() - before;
    assert!((1 << 20..1_300_000).contains(&copied(&broker, before)), "{}", copied(&broker, before));
    // A lock that still waits for its end may be settled.
    let pending = broker.core.entity("q").unwrap().locked;
    assert!((30..45).contains(&pending), "{pending}");
    let mut calls = 0;
    while broker.core.deadline().is_some_and(|at| at <= broker.now) {
        let before = broker.journal.end();
        broker.journal.make_readable();
        broker.core.handle_deadline(broker.now, &mut broker.journal);
        assert!(copied(&broker, before) < 1_300_000, "{}", copied(&broker, before));
        calls += 1;
    }
    assert_eq!(calls, 4);
    assert_eq!(broker.core.entity("q").unwrap().dead_letter, 50);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

/// Longer than any lock, many times over.
const LONG: u64 = 1_000 * LOCK;

#[test]
fn a_link_holds_its_messages_until_it_settles_them_or_ends() {
    for (policy, count) in [(UnsettledPolicy::Release, 0), (UnsettledPolicy::Fail, 1)] {
        for by_disconnect in [false, true] {
            let mut broker = queue_of(&["a", "b", "c"]);
            broker.open_with(OTHER, 5, main_path("q"), ReceiveMode::PeekLock, policy);
            let held = broker.credit(OTHER, 5, 2);
            assert!(held.iter().all(|held| held.lock.unwrap().until == Timestamp::MAX));
            assert_eq!(broker.core.deadline(), None, "nothing is due");
            broker.wait(LONG);
            // A receiver whose locks have timers is served beside it, and its lock ends by time.
            let mine = broker.lock_one();
            assert_eq!(texts(std::slice::from_ref(&mine)), ["c"]);
            assert_eq!(mine.lock.unwrap().until, broker.now.after(Duration::from_millis(LOCK)));
            broker.wait(LONG);
            assert_eq!(broker.settle(&mine, Outcome::Complete), Err(SettleError::LockLost));
            assert_eq!(broker.settle(&held[0], Outcome::Complete), Ok(()), "however late");
            let leave = Command::CloseConsumer { consumer: LinkId(5) };
            broker.tell(OTHER, if by_disconnect { Command::Disconnect } else { leave });
            assert_eq!(broker.settle(&held[1], Outcome::Complete), Err(SettleError::LockLost));
            let again = broker.lock(5);
            assert_eq!(texts(&again), ["b", "c"], "{policy:?}");
            assert_eq!(again[0].stored.delivery_count, count, "{policy:?}");
            assert_eq!(broker.replayed().digest(), broker.core.digest());
        }
    }
}

#[test]
fn a_held_message_does_not_expire_and_does_when_it_returns() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let queue = broker.queue("q");
    let message = Message { time_to_live: Some(Duration::from_millis(LOCK)), ..message("a") };
    broker.tell(ME, Command::PublishBatch { queue, messages: vec![message], ticket: None });
    broker.open_with(ME, 5, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    let held = broker.credit(ME, 5, 1).pop().unwrap();
    broker.wait(LONG);
    assert_eq!(broker.active(), 1);
    assert_eq!(broker.settle(&held, Outcome::Release(properties(&[]))), Ok(()));
    assert_eq!(broker.active(), 0, "its time was over long ago");
}

#[test]
fn renewing_a_held_message_tells_a_time_and_sets_none() {
    let mut broker = queue_of(&["a"]);
    broker.open_with(ME, 5, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    let held = broker.credit(ME, 5, 1).pop().unwrap();
    let until = renew(&mut broker, vec![token(&held)]).unwrap();
    assert_eq!(until, [broker.now.after(Duration::from_millis(LOCK))]);
    broker.wait(LONG);
    assert_eq!(broker.settle(&held, Outcome::Complete), Ok(()));
}

#[test]
fn the_property_hold_concerns_deliveries_after_it_was_set() {
    let mut broker = queue_of(&["a", "b"]);
    broker.open_with(ME, 5, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    let held = broker.credit(ME, 5, 1).pop().unwrap();
    let settings = EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() };
    broker.update("q", settings);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    let timed = broker.credit(ME, 5, 2).pop().unwrap();
    assert_eq!(timed.lock.unwrap().until, broker.now.after(Duration::from_millis(LOCK)));
    broker.wait(LONG);
    assert_eq!(broker.settle(&held, Outcome::Complete), Ok(()));
    assert_eq!(broker.settle(&timed, Outcome::Complete), Err(SettleError::LockLost));
}
