//! Transactions: their time, their limits, and what is refused.

use std::time::Duration;

use super::{harness::*, transacting::*};
use crate::{
    Command, CommitError, Delivery, EntityKind, EntitySettings, EntityStatus, LimitScope, LockId, Message,
    Outcome, PublishError, QuotaError, Rule, SettleError, TransactionError, TransactionId,
};

const TWO_MINUTES: u64 = 120_000;

/// Something that is refused.
type Try = fn(&mut Broker, &Delivery) -> Answered;

#[test]
fn two_minutes_after_its_first_operation_a_transaction_is_rolled_back() {
    for (waited, done) in [(TWO_MINUTES - 1, true), (TWO_MINUTES, false)] {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.declare(TX);
        // Declaring starts no clock.
        broker.wait(10 * TWO_MINUTES);
        broker.send_in(TX, "q", &["first"]);
        broker.wait(waited / 2);
        broker.send_in(TX, "q", &["second"]);
        broker.wait(waited - waited / 2);
        assert_eq!(broker.core.transactions().1 > 0, done, "{waited}: memory is given back in time");
        let expected = if done { Answered::Done } else { transaction(TransactionError::TimedOut) };
        assert_eq!(broker.commit(TX), expected, "{waited}");
        assert_eq!(broker.active(), if done { 2 } else { 0 }, "{waited}");
        assert_eq!(broker.commit(TX), transaction(TransactionError::Unknown), "it is discharged in any case");
    }
}

#[test]
fn an_operation_too_late_for_its_transaction_is_refused_with_the_reason() {
    let mut broker = Broker::with_queue(EntitySettings {
        lock_duration: Duration::from_secs(300),
        ..EntitySettings::default()
    });
    broker.publish(message("m"));
    let delivery = broker.lock_one();
    broker.declare(TX);
    broker.settle_in(TX, &delivery, Outcome::Complete);
    broker.wait(TWO_MINUTES);
    let late = TransactionError::TimedOut;
    assert_eq!(broker.send_in(TX, "q", &["late"]), Answered::Publish(PublishError::Transaction(late)));
    let settled = broker.settle_in(TX, &delivery, Outcome::Complete);
    assert_eq!(settled, Answered::Settle(SettleError::Transaction(late)));
    assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()), "the message is free");
    assert_eq!(broker.discharge(TX, true), Answered::Done, "it is rolled back, as asked");
}

/// Timers wait while the journal's queue is long, and sends need not.
#[test]
fn an_operation_that_comes_too_late_rolls_its_timed_out_transaction_back() {
    let late = TransactionError::TimedOut;
    let in_time = |waited| {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.publish(message("m"));
        let delivery = broker.lock_one();
        broker.declare(TX);
        broker.settle_in(TX, &delivery, Outcome::Complete);
        broker.now = broker.now.after(Duration::from_millis(waited));
        (broker, delivery)
    };
    let (mut broker, _) = in_time(TWO_MINUTES);
    assert_eq!(broker.commit(TX), transaction(late));
    let (mut broker, delivery) = in_time(TWO_MINUTES);
    assert_eq!(broker.send_in(TX, "q", &["late"]), Answered::Publish(PublishError::Transaction(late)));
    assert_eq!(broker.settle(&delivery, Outcome::Complete), Err(SettleError::LockLost), "nothing holds it");
    let (mut broker, _) = in_time(TWO_MINUTES);
    assert_eq!(broker.discharge(TX, true), Answered::Done, "it is rolled back, as asked");
    let (mut broker, _) = in_time(1);
    assert_eq!(broker.commit(TX), Answered::Done);
}

/// Messages of a sender within the limits of the tier.
fn in_tier(count: usize) -> Vec<Message> {
    (0..count).map(|_| Message { limits: LimitScope::Tier, ..message("m") }).collect()
}

#[test]
fn a_hundred_messages_within_the_tier_are_sent_in_one_transaction_and_not_one_more() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.declare(TX);
    for _ in 0..99 {
        broker.send_messages_in(TX, "q", in_tier(1));
    }
    assert_eq!(broker.send_messages_in(TX, "q", in_tier(1)), Answered::Done);
    assert_eq!(broker.commit(TX), Answered::Done);
    assert_eq!(broker.active(), 100);
    broker.declare(TX);
    assert_eq!(broker.send_messages_in(TX, "q", in_tier(100)), Answered::Done, "a batch counts its messages");
    let Answered::Publish(error) = broker.send_messages_in(TX, "q", in_tier(1)) else { panic!() };
    assert_eq!(error.to_string(), "no more than 100 messages can be sent in a single transaction");
    assert_eq!(broker.commit(TX), transaction(TransactionError::Failed));
    assert_eq!(broker.active(), 100);
}

#[test]
fn messages_beyond_the_tier_are_bound_by_their_bytes_and_not_counted() {
    let most = 5_000;
    let each = 1 + crate::transaction::enlist::OPERATION_BYTES;
    let mut broker = limited(|config| config.max_transaction_bytes = most * each);
    broker.declare(TX);
    for _ in 0..most {
        assert_eq!(broker.send_in(TX, "q", &["m"]), Answered::Done);
    }
    assert_eq!(broker.commit(TX), Answered::Done);
    assert_eq!(broker.active(), most);
    broker.declare(TX);
    assert_eq!(broker.send_messages_in(TX, "q", in_tier(100)), Answered::Done);
    for _ in 100..most {
        assert_eq!(broker.send_in(TX, "q", &["m"]), Answered::Done, "others are not counted with them");
    }
    let Answered::Publish(error) = broker.send_in(TX, "q", &["m"]) else { panic!() };
    let limit = most * each;
    let what = "bytes in the open transactions of a connection";
    assert_eq!(error, PublishError::Transaction(TransactionError::LimitReached { what, limit }));
}

#[test]
fn limits_hold_at_their_value_and_not_beyond() {
    // Open transactions of one client.
    let mut broker = limited(|config| config.max_transactions_per_client = 2);
    broker.declare(TransactionId(1));
    broker.declare(TransactionId(2));
    let what = "open transactions per connection";
    let refused = transaction(TransactionError::LimitReached { what, limit: 2 });
    assert_eq!(broker.declare_by(ME, TransactionId(3)), refused);
    assert_eq!(broker.declare_by(OTHER, TransactionId(3)), Answered::Done, "others have their own");
    broker.discharge(TransactionId(1), true);
    broker.declare(TransactionId(3));

    // Settlements of one transaction.
    let mut broker = limited(|config| config.max_transaction_settlements = 1);
    broker.publish_all(&["a", "b"]);
    let locked = broker.lock(2);
    broker.declare(TX);
    assert_eq!(broker.settle_in(TX, &locked[0], Outcome::Complete), Answered::Done);
    let what = "settlements in a transaction";
    let refused = SettleError::Transaction(TransactionError::LimitReached { what, limit: 1 });
    assert_eq!(broker.settle_in(TX, &locked[1], Outcome::Complete), Answered::Settle(refused));

    // Bytes of one client, and of all.
    let needed = 100 + crate::transaction::enlist::OPERATION_BYTES;
    for all in [false, true] {
        for (limit, fits) in [(2 * needed, true), (2 * needed - 1, false)] {
            let mut broker = limited(|config| {
                let place = if all {
                    &mut config.max_all_transactions_bytes
                } else {
                    &mut config.max_transaction_bytes
                };
                *place = limit;
            });
            let text = "x".repeat(100);
            broker.declare(TransactionId(1));
            broker.declare(TransactionId(2));
            assert_eq!(broker.send_in(TransactionId(1), "q", &[&text]), Answered::Done);
            let second = broker.send_in(TransactionId(2), "q", &[&text]);
            assert_eq!(second == Answered::Done, fits, "all: {all}, {limit}: {second:?}");
            broker.commit(TransactionId(1));
            broker.declare(TransactionId(3));
            assert_eq!(
                broker.send_in(TransactionId(3), "q", &[&text]),
                Answered::Done,
                "what ended counts no more"
            );
        }
    }
}

#[test]
fn bytes_that_an_outcome_rewrites_count_as_well() {
    for (outcome, fits) in
        [(Outcome::Complete, true), (Outcome::DeadLetter(properties(&[("DeadLetterReason", "r")])), false)]
    {
        let mut broker = limited(|config| config.max_transaction_bytes = 1_000);
        broker.publish(message(&"x".repeat(1_000)));
        let delivery = broker.lock_one();
        broker.declare(TX);
        assert_eq!(broker.settle_in(TX, &delivery, outcome) == Answered::Done, fits);
    }
}

#[test]
fn an_operation_refused_alone_is_refused_in_a_transaction_and_fails_it() {
    let full = EntitySettings { max_size_bytes: Some(200), ..EntitySettings::default() };
    let small = EntitySettings { max_message_bytes: Some(4), ..EntitySettings::default() };
    let cases: [(&str, Try); 6] = [
        ("too large", |broker, _| broker.send_in(TX, "small", &["12345"])),
        ("full", |broker, _| broker.send_in(TX, "full", &["x".repeat(300).as_str()])),
        ("dead-letter store", |broker, _| {
            let queue = broker.core.entity("q").unwrap().dead_letter_queue;
            let ticket = broker.ticket();
            let messages = vec![message("m")];
            broker.enlist(TX, Command::PublishBatch { queue, messages, ticket: Some(ticket) }, ticket)
        }),
        ("missing", |broker, _| {
            let path = main_path("missing");
            let ticket = broker.ticket();
            let messages = vec![message("m")];
            broker.enlist(
                TX,
                Command::PublishTo { path, messages, auto_create: false, ticket: Some(ticket) },
                ticket,
            )
        }),
        ("wrong lock", |broker, delivery| {
            let mut forged = delivery.clone();
            forged.lock.as_mut().unwrap().id = LockId(999);
            broker.settle_in(TX, &forged, Outcome::Complete)
        }),
        ("wrong token", |broker, delivery| {
            let mut lock = delivery.lock.unwrap();
            lock.token.0 ^= 1;
            broker.settle_tokens_in(TX, &[delivery.lock.unwrap(), lock], Outcome::Complete)
        }),
    ];
    for (case, attempt) in cases {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.create("full", full.clone());
        broker.create("small", small.clone());
        broker.publish(message("m"));
        let delivery = broker.lock_one();
        broker.declare(TX);
        assert_eq!(broker.send_in(TX, "q", &["never"]), Answered::Done, "{case}");
        let refused = attempt(&mut broker, &delivery);
        assert!(matches!(refused, Answered::Publish(_) | Answered::Settle(_)), "{case}: {refused:?}");
        assert_eq!(broker.core.transactions(), (1, 0), "{case}: nothing is held any more");
        let after = broker.send_in(TX, "q", &["after"]);
        assert_eq!(after, Answered::Publish(PublishError::Transaction(TransactionError::Failed)), "{case}");
        assert_eq!(broker.commit(TX), transaction(TransactionError::Failed), "{case}");
        assert_eq!(broker.shown("q"), ["m"], "{case}");
        assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()), "{case}");
    }
}

#[test]
fn an_operation_nobody_waits_for_fails_its_transaction_all_the_same() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.declare(TX);
    let (path, messages) = (main_path("missing"), vec![message("m")]);
    let command = Command::PublishTo { path, messages, auto_create: false, ticket: None };
    let told = broker.tell(ME, command.within(TX));
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(broker.commit(TX), transaction(TransactionError::Failed));
}

/// The commit is refused because an entity of a thousand bytes is full.
fn full(entity: &str, bytes: u64) -> CommitError {
    PublishError::from(QuotaError::Entity { entity: entity.into(), bytes, limit: 1_000 }).into()
}

#[test]
fn an_operation_that_became_impossible_fails_the_commit() {
    type Change = fn(&mut Broker);
    let cases: [(&str, Change, CommitError); 3] = [
        (
            "the queue is gone",
            |broker| {
                let ticket = broker.ticket();
                broker.tell(ME, Command::DeleteEntity { name: "other".into(), expected: None, ticket });
            },
            PublishError::NotFound("queue 4".into()).into(),
        ),
        (
            "the queue is full",
            |broker| {
                let ticket = Some(broker.ticket());
                let (queue, message) = (broker.queue("other"), message(&"x".repeat(900)));
                broker.tell(ME, Command::Publish { queue, message, ticket });
            },
            full("other", 944),
        ),
        (
            "the disk is full",
            |broker| broker.journal.full = true,
            PublishError::from(QuotaError::Storage).into(),
        ),
    ];
    for (case, change, error) in cases {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.create("other", EntitySettings { max_size_bytes: Some(1_000), ..EntitySettings::default() });
        broker.publish(message("m"));
        let delivery = broker.lock_one();
        broker.declare(TX);
        broker.settle_in(TX, &delivery, Outcome::Complete);
        assert_eq!(broker.send_in(TX, "other", &["y".repeat(300).as_str()]), Answered::Done, "{case}");
        change(&mut broker);
        assert_eq!(broker.commit(TX), Answered::Transaction(error), "{case}");
        assert_eq!(broker.shown("q"), ["m"], "{case}");
        broker.journal.full = false;
        assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()), "{case}");
    }
}

#[test]
fn messages_of_a_transaction_must_fit_into_their_queue_together() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_size_bytes: Some(1_000), ..EntitySettings::default() });
    broker.declare(TX);
    let half = "x".repeat(600);
    assert_eq!(broker.send_in(TX, "q", &[&half]), Answered::Done);
    assert_eq!(broker.send_in(TX, "q", &[&half]), Answered::Done, "each alone fits");
    assert_eq!(broker.commit(TX), Answered::Transaction(full("q", 0)));
    assert_eq!(broker.active(), 0);
}

fn send_via_in(broker: &mut Broker, queue: &str, via: &str, text: &str) -> Answered {
    let ticket = broker.ticket();
    let (path, via, messages) = (main_path(queue), main_path(via), vec![message(text)]);
    broker.enlist(TX, Command::PublishVia { path, via, messages, ticket: Some(ticket) }, ticket)
}

#[test]
fn messages_that_reach_one_entity_on_several_ways_must_fit_into_it_together() {
    let small = || EntitySettings { max_size_bytes: Some(1_000), ..EntitySettings::default() };
    let closed = || EntitySettings { status: EntityStatus::SendDisabled, ..EntitySettings::default() };
    // Messages to these queues, each through another one or none; the entity that is too small for all of them.
    let cases = [
        ([("q", None), ("q", Some("a"))], Some("q")),
        ([("q", Some("a")), ("q", Some("b"))], Some("q")),
        ([("closed", Some("a")), ("shut", Some("a"))], Some("a")),
        ([("a", None), ("closed", Some("a"))], Some("a")),
        ([("q", None), ("closed", Some("a"))], None),
        ([("a", None), ("q", Some("a"))], None),
    ];
    for (sends, too_small) in cases {
        let mut broker = Broker::with_queue(small());
        broker.create("a", small());
        broker.create("b", small());
        broker.create("closed", closed());
        broker.create("shut", closed());
        broker.declare(TX);
        let half = "x".repeat(600);
        for (queue, via) in sends {
            let answer = match via {
                None => broker.send_in(TX, queue, &[&half]),
                Some(via) => send_via_in(&mut broker, queue, via, &half),
            };
            assert_eq!(answer, Answered::Done, "{sends:?}: each alone fits");
        }
        let expected = too_small.map_or(Answered::Done, |name| Answered::Transaction(full(name, 0)));
        assert_eq!(broker.commit(TX), expected, "{sends:?}");
    }
}

#[test]
fn ids_and_copies_of_messages_on_several_ways_count_together() {
    let mut broker = limited(|config| config.max_history_ids = 1);
    broker.create("ids", EntitySettings { requires_duplicate_detection: true, ..EntitySettings::default() });
    broker.declare(TX);
    let with_id = |id: &str| vec![Message { message_id: Some(id.into()), ..message("m") }];
    assert_eq!(broker.send_messages_in(TX, "ids", with_id("1")), Answered::Done);
    let (path, via, ticket) = (main_path("ids"), main_path("q"), broker.ticket());
    let command = Command::PublishVia { path, via, messages: with_id("2"), ticket: Some(ticket) };
    assert_eq!(broker.enlist(TX, command, ticket), Answered::Done);
    let error = PublishError::HistoryFull { entity: "ids".into(), limit: 1 };
    assert_eq!(broker.commit(TX), Answered::Transaction(error.into()));

    let mut broker = limited(|config| config.max_copies_per_send = 1);
    broker.create_kind("t", EntityKind::Topic, EntitySettings::default());
    broker.subscribe("s", EntitySettings::default(), vec![Rule::default_rule()]);
    broker.declare(TX);
    assert_eq!(broker.send_in(TX, "t", &["m"]), Answered::Done);
    assert_eq!(send_via_in(&mut broker, "t", "q", "m"), Answered::Done);
    let error = PublishError::TooManyCopies { entity: "t".into(), messages: 2, copies: 2, limit: 1 };
    assert_eq!(broker.commit(TX), Answered::Transaction(error.into()));
}

#[test]
fn a_message_that_cannot_be_read_fails_the_commit() {
    let mut broker = with_two_queues();
    broker.publish(message("m"));
    let delivery = broker.lock_one();
    broker.declare(TX);
    broker.send_in(TX, "other", &["never"]);
    broker.settle_in(TX, &delivery, Outcome::DeadLetter(properties(&[("DeadLetterReason", "r")])));
    let position = broker.core.live_records().map(|(at, _)| at.0).max().unwrap();
    broker.journal.broken.push(position);
    let refused = Answered::Transaction(CommitError::Settle(SettleError::Storage));
    assert_eq!(broker.commit(TX), refused);
    assert_eq!(broker.shown("other"), [""; 0]);
}
