//! Rollbacks, and cancellations and session states in transactions.

use super::{harness::*, transacting::*};
use crate::{
    Command, CommitError, Delivery, Effect, EntityError, EntitySettings, LinkId, Message, Outcome,
    ReceiveMode, SequenceNumber, SessionError, SessionWanted, SettleError, Timestamp, TransactionError,
    TransactionId, UnsettledPolicy,
};
use bytes::Bytes;

/// Times after the start of a test, in milliseconds since 1970.
const SOON: u64 = 1_050_000;
const LATER: u64 = 1_500_000;

const POLICIES: [UnsettledPolicy; 3] =
    [UnsettledPolicy::KeepLocks, UnsettledPolicy::Release, UnsettledPolicy::Fail];

/// With one message, which a link with this policy holds.
fn holding(policy: UnsettledPolicy, settings: EntitySettings) -> (Broker, Delivery) {
    let mut broker = Broker::with_queue(settings);
    broker.publish(message("m"));
    broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, policy);
    let delivery = broker.credit(ME, 1, 1).remove(0);
    (broker, delivery)
}

fn locked(broker: &Broker) -> u64 {
    broker.core.entity("q").unwrap().locked
}

#[test]
fn a_rollback_leaves_a_message_to_the_receiver_that_has_not_settled_it() {
    let cases = [
        // policy of the link, whether it has settled, it is still held, failed deliveries afterwards
        (UnsettledPolicy::KeepLocks, false, true, 0),
        (UnsettledPolicy::Release, false, true, 0),
        (UnsettledPolicy::Fail, false, true, 0),
        (UnsettledPolicy::KeepLocks, true, true, 0),
        (UnsettledPolicy::Release, true, false, 1),
        (UnsettledPolicy::Fail, true, false, 1),
    ];
    for case @ (policy, settled, held, failed) in cases {
        let (mut broker, delivery) = holding(policy, EntitySettings::default());
        broker.declare(TX);
        assert_eq!(broker.settle_in_as(TX, &delivery, Outcome::Complete, settled), Answered::Done);
        broker.discharge(TX, true);
        assert_eq!(locked(&broker), u64::from(held), "{case:?}");
        if held {
            assert_eq!(broker.settle(&delivery, Outcome::Abandon(properties(&[]))), Ok(()), "{case:?}");
        }
        assert_eq!(broker.lock_one().stored.delivery_count, failed + u32::from(held), "{case:?}");
    }
}

#[test]
fn fifty_rollbacks_take_nothing_from_a_receiver_that_has_not_settled() {
    for policy in POLICIES {
        let settings = EntitySettings { max_delivery_count: 3, ..EntitySettings::default() };
        let (mut broker, delivery) = holding(policy, settings);
        for _ in 0..50 {
            broker.declare(TX);
            assert_eq!(broker.settle_in(TX, &delivery, Outcome::Complete), Answered::Done, "{policy:?}");
            assert_eq!(broker.discharge(TX, true), Answered::Done);
        }
        assert_eq!((locked(&broker), broker.shown("q")), (1, vec!["m".to_owned()]), "{policy:?}");
        broker.declare(TX);
        broker.settle_in(TX, &delivery, Outcome::Complete);
        assert_eq!(broker.commit(TX), Answered::Done);
        assert_eq!(broker.active(), 0, "{policy:?}");
    }
}

#[test]
fn a_receiver_that_settles_in_advance_has_a_message_dead_lettered_after_its_third_rollback() {
    for policy in [UnsettledPolicy::Release, UnsettledPolicy::Fail] {
        let settings = EntitySettings { max_delivery_count: 3, ..EntitySettings::default() };
        let (mut broker, mut delivery) = holding(policy, settings);
        for round in 1..=3 {
            broker.declare(TX);
            broker.settle_in_as(TX, &delivery, Outcome::Complete, true);
            broker.discharge(TX, true);
            if round < 3 {
                delivery = broker.credit(ME, 1, 1 + round).remove(0);
                assert_eq!(u64::from(delivery.stored.delivery_count), round, "{policy:?}");
            }
        }
        assert_eq!(broker.shown("q"), [""; 0], "{policy:?}");
        assert_eq!(broker.peek(dead_letters("q"), 0, 9).len(), 1, "{policy:?}");
    }
}

#[test]
fn a_link_may_go_before_its_transaction_ends() {
    for policy in POLICIES {
        for (settled, fail) in [(false, false), (false, true), (true, false), (true, true)] {
            let (mut broker, delivery) = holding(policy, EntitySettings::default());
            broker.declare(TX);
            broker.settle_in_as(TX, &delivery, Outcome::Complete, settled);
            broker.tell(ME, Command::CloseConsumer { consumer: delivery.consumer });
            assert_eq!(locked(&broker), 1, "{policy:?}: it waits for its transaction");
            assert_eq!(broker.discharge(TX, fail), Answered::Done);
            assert_eq!(broker.active(), u64::from(fail), "{policy:?}");
            let kept = policy == UnsettledPolicy::KeepLocks;
            assert_eq!(locked(&broker), u64::from(fail && kept), "{policy:?} {settled}");
            if fail && !kept {
                let failed = u32::from(settled || policy == UnsettledPolicy::Fail);
                assert_eq!(broker.lock_one().stored.delivery_count, failed, "{policy:?} {settled}");
            }
        }
    }
}

#[test]
fn a_receiver_may_settle_while_its_transaction_is_open() {
    let (mut broker, delivery) = holding(UnsettledPolicy::Release, EntitySettings::default());
    broker.declare(TX);
    broker.settle_in(TX, &delivery, Outcome::Complete);
    assert_eq!(broker.settle_in_as(TX, &delivery, Outcome::Complete, true), Answered::Done);
    broker.discharge(TX, true);
    assert_eq!(broker.lock_one().stored.delivery_count, 1, "it has settled, and the work was not done");
}

#[test]
fn a_message_settled_in_a_failed_transaction_returns() {
    for (policy, held) in [(UnsettledPolicy::KeepLocks, true), (UnsettledPolicy::Release, false)] {
        let (mut broker, delivery) = holding(policy, EntitySettings::default());
        broker.declare(TX);
        broker.tell(ME, Command::FailTransaction { transaction: TX });
        let refused = broker.settle_in_as(TX, &delivery, Outcome::Complete, true);
        let failed = SettleError::Transaction(TransactionError::Failed);
        assert_eq!(refused, Answered::Settle(failed));
        assert_eq!(locked(&broker), u64::from(held), "{policy:?}");
        if !held {
            assert_eq!(broker.lock_one().stored.delivery_count, 1);
        }
    }
}

#[test]
fn a_message_settled_in_a_second_transaction_returns_when_the_first_rolls_back() {
    let (mut broker, delivery) = holding(UnsettledPolicy::Release, EntitySettings::default());
    let other = TransactionId(2);
    broker.declare(TX);
    broker.declare(other);
    broker.settle_in(TX, &delivery, Outcome::Complete);
    let refused = broker.settle_in_as(other, &delivery, Outcome::Complete, true);
    assert_eq!(refused, Answered::Settle(SettleError::Transaction(TransactionError::InUse)));
    assert_eq!(locked(&broker), 1, "the first transaction has it");
    broker.discharge(TX, true);
    assert_eq!(broker.lock_one().stored.delivery_count, 1);
}

fn at(millis: u64, text: &str) -> Message {
    Message { scheduled_enqueue_time: Some(Timestamp::from_millis(millis)), ..message(text) }
}

fn cancel_in(broker: &mut Broker, transaction: TransactionId, numbers: &[u64]) -> Answered {
    let sequences = numbers.iter().copied().map(SequenceNumber).collect();
    let (path, ticket) = (main_path("q"), broker.ticket());
    broker.enlist(transaction, Command::CancelScheduled { path, sequences, ticket }, ticket)
}

fn not_scheduled(sequence: u64) -> EntityError {
    EntityError::MessageNotFound { entity: "q".into(), sequence: SequenceNumber(sequence) }
}

#[test]
fn a_cancellation_is_done_at_the_commit_and_undone_by_a_rollback() {
    for fail in [false, true] {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.publish(at(LATER, "one"));
        broker.publish(at(LATER, "two"));
        broker.declare(TX);
        broker.send_in(TX, "q", &["now"]);
        assert_eq!(cancel_in(&mut broker, TX, &[1, 2, 2]), Answered::Done);
        assert_eq!(broker.shown("q"), ["one", "two"], "nobody sees it yet");
        assert_eq!(broker.discharge(TX, fail), Answered::Done);
        let shown: &[&str] = if fail { &["one", "two"] } else { &["now"] };
        assert_eq!(broker.shown("q"), shown);
        broker.restart();
        assert_eq!(broker.shown("q"), shown);
    }
}

#[test]
fn a_cancellation_whose_message_has_come_meanwhile_fails_the_commit() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(at(SOON, "one"));
    broker.declare(TX);
    broker.send_in(TX, "q", &["never"]);
    assert_eq!(cancel_in(&mut broker, TX, &[1]), Answered::Done);
    broker.wait(50_000);
    assert_eq!(broker.commit(TX), Answered::Transaction(CommitError::Cancel(not_scheduled(1))));
    assert_eq!(broker.shown("q"), ["one"]);
}

#[test]
fn cancelling_an_unknown_schedule_fails_the_transaction() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(at(SOON, "one"));
    broker.publish(message("two"));
    broker.declare(TX);
    assert_eq!(cancel_in(&mut broker, TX, &[1, 2]), Answered::Request(not_scheduled(2)));
    assert_eq!(broker.commit(TX), transaction(TransactionError::Failed));
    assert_eq!(broker.shown("q"), ["one", "two"]);
    let unknown = SettleError::Transaction(TransactionError::Unknown);
    assert_eq!(cancel_in(&mut broker, TX, &[1]), Answered::Settle(unknown));
}

#[test]
fn a_transaction_may_cancel_messages_that_it_schedules_itself() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(at(LATER, "before"));
    broker.declare(TX);
    let (path, ticket) = (main_path("q"), broker.ticket());
    let messages = vec![at(LATER, "a"), at(LATER, "b"), at(LATER, "c")];
    let command = Command::Schedule { path, messages, ticket };
    let told = broker.tell(ME, command.within(TX));
    let numbers = told.into_iter().find_map(|effect| match effect {
        Effect::Scheduled { sequences, .. } => Some(sequences),
        _ => None,
    });
    let numbers: Vec<u64> = numbers.unwrap().into_iter().map(|number| number.0).collect();
    assert_eq!(cancel_in(&mut broker, TX, &[numbers[0], 1, numbers[2]]), Answered::Done);
    assert_eq!(broker.commit(TX), Answered::Done);
    assert_eq!(broker.shown("q"), ["b"]);
    assert_eq!(broker.cancel(&[numbers[1]]), Ok(()), "it has the number that was told");
}

#[test]
fn cancellations_count_among_the_settlements_of_a_transaction() {
    let mut broker = limited(|config| config.max_transaction_settlements = 2);
    for _ in 0..3 {
        broker.publish(at(LATER, "m"));
    }
    broker.declare(TX);
    assert_eq!(cancel_in(&mut broker, TX, &[1, 2]), Answered::Done);
    let reached = TransactionError::LimitReached { what: "settlements in a transaction", limit: 2 };
    assert_eq!(cancel_in(&mut broker, TX, &[3]), Answered::Settle(reached.into()));
}

fn with_session() -> Broker {
    let mut broker =
        Broker::with_queue(EntitySettings { requires_session: true, ..EntitySettings::default() });
    accept(&mut broker, 1);
    broker
}

fn accept(broker: &mut Broker, link: u32) {
    let command = Command::OpenConsumer {
        consumer: LinkId(link),
        path: main_path("q"),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: Some(SessionWanted::Named("s".into())),
        auto_create: false,
    };
    broker.tell(ME, command);
}

fn set_in(broker: &mut Broker, transaction: TransactionId, state: Option<&str>) -> Answered {
    let (path, ticket) = (main_path("q"), broker.ticket());
    let state = state.map(|state| Bytes::copy_from_slice(state.as_bytes()));
    let command = Command::SetSessionState { path, session: "s".into(), state, ticket };
    broker.enlist(transaction, command, ticket)
}

fn state(broker: &mut Broker) -> Option<Vec<u8>> {
    let (path, ticket) = (main_path("q"), broker.ticket());
    let told =
        broker.tell(ME, Command::GetSessionState { path, session: "s".into(), looks_on: false, ticket });
    match told.into_iter().next_back() {
        Some(Effect::SessionState { state, .. }) => state.map(|state| state.to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sessions_state_is_set_at_the_commit_and_stays_as_it_was_at_a_rollback() {
    let mut broker = with_session();
    let rounds = [
        (vec![Some("one")], true, None),
        (vec![Some("one"), Some("two")], false, Some("two")),
        (vec![Some("three"), None], true, Some("two")),
        (vec![Some("three"), None], false, None),
    ];
    for (states, fail, expected) in rounds {
        let before = state(&mut broker);
        broker.declare(TX);
        for state in states {
            assert_eq!(set_in(&mut broker, TX, state), Answered::Done);
        }
        assert_eq!(state(&mut broker), before, "nobody sees it before the end");
        assert_eq!(broker.discharge(TX, fail), Answered::Done);
        assert_eq!(state(&mut broker).as_deref(), expected.map(str::as_bytes));
    }
}

#[test]
fn a_session_that_is_lost_before_the_commit_keeps_its_state() {
    let mut broker = with_session();
    broker.declare(TX);
    assert_eq!(set_in(&mut broker, TX, Some("never")), Answered::Done);
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(1) });
    let lost = CommitError::Session(SessionError::LockLost);
    assert_eq!(broker.commit(TX), Answered::Transaction(lost));
    accept(&mut broker, 2);
    assert_eq!(state(&mut broker), None);
}

#[test]
fn a_state_that_cannot_be_set_spoils_its_transaction() {
    let mut broker = with_session();
    broker.declare(TX);
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(1) });
    assert_eq!(set_in(&mut broker, TX, Some("never")), Answered::Session(SessionError::LockLost));
    assert_eq!(broker.commit(TX), transaction(TransactionError::Failed));
}
