//! Transactions: what joins one, and what it does at its end.

use std::time::Duration;

use super::{harness::*, transacting::*};
use crate::{
    Command, CommitError, Effect, EntitySettings, Message, Outcome, ReceiveMode, Rule, SettleError,
    TransactionError, TransactionId, UnsettledPolicy,
};

#[test]
fn a_commit_does_all_and_a_rollback_nothing() {
    for fail in [false, true] {
        let mut broker = with_two_queues();
        broker.publish_all(&["a", "b"]);
        let locked = broker.lock_one();
        broker.declare(TX);
        assert_eq!(broker.send_in(TX, "other", &["c", "d"]), Answered::Done);
        assert_eq!(broker.settle_in(TX, &locked, Outcome::Complete), Answered::Done);
        assert_eq!(broker.send_in(TX, "q", &["e"]), Answered::Done);
        let before = (broker.shown("q"), broker.shown("other"));
        assert_eq!(before, (vec!["a".to_owned(), "b".to_owned()], vec![]), "nothing is seen before the end");
        let digest = broker.core.digest();
        assert_eq!(broker.discharge(TX, fail), Answered::Done);
        if fail {
            assert_eq!(broker.core.digest(), digest, "a rollback changes nothing");
            assert_eq!((broker.shown("q"), broker.shown("other")), before);
            assert_eq!(broker.settle(&locked, Outcome::Complete), Ok(()), "the lock goes on");
        } else {
            assert_eq!(broker.shown("q"), ["b", "e"]);
            assert_eq!(broker.shown("other"), ["c", "d"]);
        }
        assert_eq!(broker.core.transactions(), (0, 0));
        assert_eq!(broker.replayed().digest(), broker.core.digest());
        broker.check_liveness();
    }
}

#[test]
fn messages_are_numbered_at_the_commit_in_the_order_they_were_sent() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("first"));
    broker.declare(TX);
    broker.send_in(TX, "q", &["a"]);
    broker.publish(message("second"));
    broker.send_in(TX, "q", &["b", "c"]);
    broker.publish(message("third"));
    broker.send_in(TX, "q", &["d"]);
    broker.commit(TX);
    broker.publish(message("fourth"));
    let numbers: Vec<(u64, String)> = broker
        .peek(main_path("q"), 0, 100)
        .iter()
        .map(|p| (p.sequence.0, String::from_utf8(p.stored.payload.to_vec()).unwrap()))
        .collect();
    let expected = ["first", "second", "third", "a", "b", "c", "d", "fourth"];
    let expected: Vec<(u64, String)> = (1..).zip(expected.map(str::to_owned)).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn a_message_is_enqueued_when_its_transaction_commits() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.declare(TX);
    let scheduled = |after| Message {
        scheduled_enqueue_time: Some(broker.now.after(Duration::from_secs(after))),
        ..message("scheduled")
    };
    let messages = vec![message_for("short", 5_000), scheduled(5), scheduled(20)];
    broker.send_messages_in(TX, "q", messages);
    broker.wait(10_000);
    assert_eq!(broker.commit(TX), Answered::Done);
    let shown: Vec<(u8, u64)> = broker
        .peek(main_path("q"), 0, 10)
        .iter()
        .map(|p| (p.stored.state, p.stored.enqueued_at.as_millis()))
        .collect();
    let now = broker.now.as_millis();
    assert_eq!(shown, [(0, now), (0, now), (2, now)], "neither expired, nor scheduled for the past");
}

#[test]
fn every_outcome_waits_for_the_commit_and_then_has_its_usual_effect() {
    let cases: [(Outcome, &[&str], &[&str], u64); 5] = [
        // outcome, texts in the queue, texts among the dead letters, deferred
        (Outcome::Complete, &[], &[], 0),
        (Outcome::Abandon(properties(&[("k", "v")])), &["m"], &[], 0),
        (Outcome::Release(properties(&[])), &["m"], &[], 0),
        (Outcome::DeadLetter(properties(&[("DeadLetterReason", "r")])), &[], &["m"], 0),
        (Outcome::Defer(properties(&[])), &["m"], &[], 1),
    ];
    for (outcome, main, dead, deferred) in cases {
        for by_token in [false, true] {
            let mut broker = Broker::with_queue(EntitySettings::default());
            broker.publish(message("m"));
            let delivery = broker.lock_one();
            broker.declare(TX);
            let done = if by_token {
                broker.settle_tokens_in(TX, &[delivery.lock.unwrap()], outcome.clone())
            } else {
                broker.settle_in(TX, &delivery, outcome.clone())
            };
            assert_eq!(done, Answered::Done, "{outcome:?}");
            assert_eq!(broker.core.entity("q").unwrap().locked, 1, "{outcome:?}");
            assert_eq!(broker.commit(TX), Answered::Done, "{outcome:?}");
            let view = broker.core.entity("q").unwrap();
            assert_eq!((view.locked, view.deferred), (0, deferred), "{outcome:?}");
            assert_eq!(broker.shown("q"), main, "{outcome:?}");
            let letters: Vec<String> = broker.dead().into_iter().map(|(text, _)| text).collect();
            assert_eq!(letters, dead, "{outcome:?}");
            assert_eq!(broker.replayed().digest(), broker.core.digest());
            broker.check_liveness();
        }
    }
}

#[test]
fn dead_letters_are_settled_in_transactions_too() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["x", "y"]);
    for delivery in broker.lock(2) {
        broker.settle(&delivery, Outcome::DeadLetter(properties(&[]))).unwrap();
    }
    let letters = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 2);
    broker.declare(TX);
    assert_eq!(broker.settle_in(TX, &letters[0], Outcome::Complete), Answered::Done);
    assert_eq!(broker.send_in(TX, "q", &["x again"]), Answered::Done);
    assert_eq!(broker.commit(TX), Answered::Done);
    assert_eq!((broker.shown("q"), broker.dead().len()), (vec!["x again".to_owned()], 1));
}

#[test]
fn a_message_settled_in_a_transaction_is_settled_by_nobody_else() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("m"));
    let delivery = broker.lock_one();
    let lock = delivery.lock.unwrap();
    let other = TransactionId(2);
    broker.declare(TX);
    broker.settle_in(TX, &delivery, Outcome::Complete);
    let in_use = SettleError::Transaction(TransactionError::InUse);
    assert_eq!(broker.settle(&delivery, Outcome::Complete), Err(in_use));
    let ticket = broker.ticket();
    let (path, tokens) = (main_path("q"), vec![lock.token]);
    let outcome = Outcome::Abandon(properties(&[]));
    let told = broker.tell(OTHER, Command::SettleByToken { path, session: None, tokens, outcome, ticket });
    assert_eq!(broker.answer(OTHER, ticket, told), Some(Answered::Settle(in_use)));
    broker.declare(other);
    assert_eq!(broker.settle_in(other, &delivery, Outcome::Complete), Answered::Settle(in_use));
    // Renewing is no settlement.
    let ticket = broker.ticket();
    let (path, tokens) = (main_path("q"), vec![lock.token]);
    let told = broker.tell(OTHER, Command::RenewLocks { path, tokens, ticket });
    assert!(matches!(told.as_slice(), [Effect::Renewed(_)]), "{told:?}");
    broker.wait(59_000);
    assert_eq!(broker.commit(TX), Answered::Done);
    assert_eq!(broker.active(), 0);
    assert_eq!(broker.commit(other), transaction(TransactionError::Failed));
}

#[test]
fn another_outcome_for_the_same_message_in_one_transaction_is_refused() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("m"));
    let delivery = broker.lock_one();
    broker.declare(TX);
    assert_eq!(broker.settle_in(TX, &delivery, Outcome::Complete), Answered::Done);
    assert_eq!(
        broker.settle_in(TX, &delivery, Outcome::Complete),
        Answered::Done,
        "it is the same settlement"
    );
    let again = broker.settle_in(TX, &delivery, Outcome::Release(properties(&[])));
    assert_eq!(again, Answered::Settle(SettleError::Transaction(TransactionError::InUse)));
    assert_eq!(broker.commit(TX), transaction(TransactionError::Failed));
    assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()), "it is free again");
}

#[test]
fn a_lock_lost_before_the_commit_fails_all_of_it() {
    let mut broker = with_two_queues();
    broker.publish_all(&["lost", "held"]);
    let lost = broker.lock_one();
    broker.wait(30_000);
    let held = broker.lock_one();
    broker.declare(TX);
    broker.send_in(TX, "other", &["never"]);
    broker.settle_in(TX, &lost, Outcome::Complete);
    broker.settle_in(TX, &held, Outcome::Complete);
    broker.wait(30_000);
    let refused = broker.commit(TX);
    assert_eq!(refused, Answered::Transaction(CommitError::Settle(SettleError::LockLost)));
    assert_eq!(broker.shown("other"), [""; 0]);
    assert_eq!(broker.shown("q"), ["lost", "held"]);
    assert_eq!(broker.settle(&held, Outcome::Complete), Ok(()), "its own lock goes on");
    let again = broker.lock_one();
    assert_eq!(
        (texts(std::slice::from_ref(&again)), again.stored.delivery_count),
        (vec!["lost".to_owned()], 1)
    );
}

#[test]
fn a_new_lock_of_a_message_does_not_belong_to_the_transaction_that_lost_the_old_one() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("m"));
    let first = broker.lock_one();
    broker.declare(TX);
    broker.settle_in(TX, &first, Outcome::Complete);
    broker.wait(60_000);
    let second = broker.lock_one();
    let newer = TransactionId(2);
    broker.declare(newer);
    assert_eq!(broker.settle_in(newer, &second, Outcome::Complete), Answered::Done);
    assert_eq!(broker.discharge(TX, true), Answered::Done);
    let in_use = Err(SettleError::Transaction(TransactionError::InUse));
    assert_eq!(broker.settle(&second, Outcome::Complete), in_use, "the old transaction freed only its own");
    assert_eq!(broker.commit(newer), Answered::Done);
    assert_eq!(broker.active(), 0);
}

#[test]
fn a_client_that_is_gone_has_rolled_back() {
    let mut broker = with_two_queues();
    broker.publish_all(&["kept", "given back"]);
    let kept = broker.lock_one();
    broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    let given_back = broker.credit(ME, 1, 1).remove(0);
    broker.declare(TX);
    broker.send_in(TX, "other", &["never"]);
    broker.settle_in(TX, &kept, Outcome::Complete);
    broker.settle_in(TX, &given_back, Outcome::Complete);
    broker.tell(ME, Command::Disconnect);
    assert_eq!(broker.core.transactions(), (0, 0));
    broker.tell(ME, Command::Connect);
    assert_eq!(broker.shown("other"), [""; 0]);
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.active, view.locked), (2, 1));
    assert_eq!(broker.commit(TX), transaction(TransactionError::Unknown));
}

#[test]
fn a_transaction_belongs_to_the_client_that_declared_it() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.declare(TX);
    let ticket = broker.ticket();
    let told = broker.tell(OTHER, Command::Discharge { transaction: TX, fail: false, ticket: Some(ticket) });
    assert_eq!(broker.answer(OTHER, ticket, told), Some(transaction(TransactionError::Unknown)));
    assert_eq!(broker.declare_by(OTHER, TX), Answered::Done, "names are each client's own");
    assert_eq!(broker.declare_by(ME, TX), transaction(TransactionError::AlreadyDeclared));
    assert_eq!(broker.commit(TX), Answered::Done);
}

#[test]
fn a_missing_queue_may_be_made_for_a_message_in_a_transaction() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.declare(TX);
    let path = main_path("new");
    let ticket = broker.ticket();
    let messages = vec![message("m")];
    let done = broker.enlist(
        TX,
        Command::PublishTo { path, messages, auto_create: true, ticket: Some(ticket) },
        ticket,
    );
    assert_eq!(done, Answered::Done);
    assert_eq!(broker.commit(TX), Answered::Done);
    assert_eq!(broker.shown("new"), ["m"]);
}

#[test]
fn a_waiting_consumer_gets_a_message_with_the_commit() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.credit(OTHER, 1, 10);
    broker.declare(TX);
    broker.send_in(TX, "q", &["a", "b"]);
    assert_eq!(texts(&broker.received(OTHER)), [""; 0]);
    broker.commit(TX);
    assert_eq!(texts(&broker.received(OTHER)), ["a", "b"]);
}

#[test]
fn a_topics_copies_are_made_and_settled_in_transactions() {
    for fail in [false, true] {
        let mut broker = Broker::with_topic(EntitySettings::default());
        for name in ["a", "b"] {
            broker.subscribe(name, EntitySettings::default(), vec![Rule::default_rule()]);
        }
        broker.send(vec![message("1"), message("2")]);
        let copies = broker.receive(subscription("a"), ReceiveMode::PeekLock, 2);
        broker.declare(TX);
        assert_eq!(broker.settle_in(TX, &copies[0], Outcome::Complete), Answered::Done);
        let reason = Outcome::DeadLetter(properties(&[("DeadLetterReason", "r")]));
        assert_eq!(broker.settle_in(TX, &copies[1], reason), Answered::Done);
        assert_eq!(broker.send_in(TX, "t", &["3", "4"]), Answered::Done);
        assert_eq!(broker.shown_texts(subscription("b")), ["1", "2"], "no copy before the end");
        assert_eq!(broker.discharge(TX, fail), Answered::Done);
        let (a, b, dead): (&[&str], &[&str], &[&str]) =
            if fail { (&["1", "2"], &["1", "2"], &[]) } else { (&["3", "4"], &["1", "2", "3", "4"], &["2"]) };
        for _ in 0..2 {
            assert_eq!(broker.shown_texts(subscription("a")), a);
            assert_eq!(broker.shown_texts(subscription("b")), b);
            assert_eq!(broker.shown_texts(dead_letters_of("a")), dead);
            broker.check_liveness();
            broker.restart();
        }
    }
}
