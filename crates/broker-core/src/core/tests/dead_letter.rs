//! The dead-letter store (`docs/features/queues.md`, "Dead letters"; requirements SET-11, SET-14, SET-15).

use super::harness::*;
use crate::{
    Command, CoreConfig, EntityPath, EntitySettings, EntityStatus, Message, Outcome, ReceiveMode, Rule,
    SettleError, Timestamp, UnsettledPolicy,
};

fn queue_of(texts: &[&str]) -> Broker {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(texts);
    broker
}

fn dead_letter_first(broker: &mut Broker, more: &[(&str, &str)]) {
    let delivery = broker.lock_one();
    broker.settle(&delivery, Outcome::DeadLetter(properties(more))).unwrap();
}

#[test]
fn a_dead_letter_keeps_its_number_time_count_payload_and_gets_the_reason() {
    let mut broker = queue_of(&["a", "b"]);
    let first = broker.lock_one();
    broker.settle(&first, Outcome::Abandon(properties(&[("mine", "1"), ("other", "2")]))).unwrap();
    broker.wait(1_000);
    dead_letter_first(&mut broker, &[("DeadLetterReason", "bad"), ("mine", "3")]);
    let got = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1).pop().unwrap();
    assert_eq!((text(&got), got.sequence, got.stored.delivery_count), ("a".into(), first.sequence, 1));
    assert_eq!(got.stored.enqueued_at, first.stored.enqueued_at);
    let expected = properties(&[("mine", "3"), ("other", "2"), ("DeadLetterReason", "bad")]);
    assert_eq!(got.stored.properties, expected);
    assert_eq!(broker.settle(&got, Outcome::Complete), Ok(()));
    assert!(broker.dead().is_empty());
    broker.check_liveness();
}

#[test]
fn a_dead_letter_may_come_without_a_reason() {
    let mut broker = queue_of(&["a"]);
    dead_letter_first(&mut broker, &[]);
    assert_eq!(broker.dead(), [("a".into(), None)]);
}

#[test]
fn a_waiting_receiver_of_dead_letters_gets_them_at_once() {
    let mut broker = queue_of(&["a"]);
    broker.open(OTHER, 1, dead_letters("q"), ReceiveMode::PeekLock);
    broker.credit(OTHER, 1, 5);
    dead_letter_first(&mut broker, &[]);
    assert_eq!(texts(&broker.received(OTHER)), ["a"]);
}

#[test]
fn dead_letters_are_delivered_in_order_of_number_and_not_of_arrival() {
    let mut broker = queue_of(&["a", "b", "c", "d"]);
    let got = broker.lock(4);
    for place in [2, 0, 3, 1] {
        broker.settle(&got[place], Outcome::DeadLetter(properties(&[]))).unwrap();
    }
    assert_eq!(texts(&broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 9)), ["a", "b", "c", "d"]);
}

#[test]
fn inside_the_dead_letter_store_there_is_no_limit_of_deliveries_and_no_way_further() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_delivery_count: 2, ..EntitySettings::default() });
    broker.publish(message("a"));
    dead_letter_first(&mut broker, &[]);
    for _ in 0..5 {
        let got = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1).pop().unwrap();
        let refused = broker.settle(&got, Outcome::DeadLetter(properties(&[])));
        assert_eq!(refused, Err(SettleError::AlreadyDeadLetter));
        broker.settle(&got, Outcome::Abandon(properties(&[]))).unwrap();
    }
    let got = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1).pop().unwrap();
    broker.settle(&got, Outcome::Defer(properties(&[]))).unwrap();
    assert_eq!(broker.peek(dead_letters("q"), 0, 1)[0].stored.state, 1);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn a_dead_letter_counts_failed_deliveries_only_to_receivers_without_a_timer() {
    // Service Bus counts none among the dead letters; AMQP demands the count of a plain receiver's failed delivery.
    let cases = [
        // locks with a timer (Service Bus), what ends the lock (none: its time), deliveries counted
        (true, Some(Outcome::Abandon(properties(&[]))), 1),
        (true, Some(Outcome::Abandon(properties(&[("k", "v")]))), 1),
        (true, Some(Outcome::Defer(properties(&[]))), 1),
        (true, Some(Outcome::Release(properties(&[]))), 1),
        (true, None, 1),
        (false, Some(Outcome::Abandon(properties(&[]))), 2),
        (false, Some(Outcome::Abandon(properties(&[("k", "v")]))), 2),
        (false, Some(Outcome::Release(properties(&[]))), 1),
        (false, None, 1),
    ];
    for (timed, outcome, counted) in cases {
        let mut broker = queue_of(&["a"]);
        let first = broker.lock_one();
        broker.settle(&first, Outcome::Abandon(properties(&[]))).unwrap();
        dead_letter_first(&mut broker, &[]);
        let policy = if timed { UnsettledPolicy::KeepLocks } else { UnsettledPolicy::Release };
        broker.open_with(OTHER, 1, dead_letters("q"), ReceiveMode::PeekLock, policy);
        let got = broker.credit(OTHER, 1, 1).pop().unwrap();
        assert_eq!(got.lock.unwrap().until == Timestamp::MAX, !timed);
        match &outcome {
            Some(outcome) => broker.settle(&got, outcome.clone()).unwrap(),
            None => broker.wait(61_000),
        }
        let dead = broker.peek(dead_letters("q"), 0, 1).pop().unwrap();
        assert_eq!(dead.stored.delivery_count, counted, "{timed} {outcome:?}");
        assert_eq!(broker.replayed().digest(), broker.core.digest(), "{timed} {outcome:?}");
        broker.check_liveness();
    }
}

#[test]
fn reasons_are_cut_at_4096_characters() {
    let mut broker = queue_of(&["a"]);
    let long = "ż".repeat(5_000);
    dead_letter_first(&mut broker, &[("DeadLetterReason", &long), ("mine", &long)]);
    let peeked = broker.peek(dead_letters("q"), 0, 1).pop().unwrap();
    let length = |key| property(&peeked.stored.properties, key).unwrap().chars().count();
    assert_eq!((length("DeadLetterReason"), length("mine")), (4_096, 5_000));
}

#[test]
fn properties_that_grow_too_large_end_in_the_dead_letter_store() {
    let mut broker = Broker::with(CoreConfig { max_properties_bytes: 300, ..CoreConfig::default() });
    broker.create("q", EntitySettings::default());
    broker.publish(message("a"));
    let value = "v".repeat(200);
    for (key, left) in [("k1", 1), ("k2", 0)] {
        let delivery = broker.lock_one();
        broker.settle(&delivery, Outcome::Abandon(properties(&[(key, &value)]))).unwrap();
        assert_eq!(broker.active(), left);
    }
    let peeked = broker.peek(dead_letters("q"), 0, 1).pop().unwrap();
    assert_eq!(property(&peeked.stored.properties, "DeadLetterReason"), Some("HeaderSizeExceeded".into()));
    // A dead letter keeps what it has.
    let got = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1).pop().unwrap();
    broker.settle(&got, Outcome::Abandon(properties(&[("k3", &value)]))).unwrap();
    let again = broker.peek(dead_letters("q"), 0, 1).pop().unwrap();
    assert_eq!(again.stored.properties, got.stored.properties);
    broker.check_liveness();
}

#[test]
fn a_dead_letters_reason_wins_over_other_properties_for_space() {
    let value = "v".repeat(200);
    let cases = [
        // reason, what remains
        ("short", "short".to_owned()),
        (value.as_str(), value.clone()),
        (&"v".repeat(400), "HeaderSizeExceeded".to_owned()),
    ];
    for (reason, deletions) in cases {
        let mut broker = Broker::with(CoreConfig { max_properties_bytes: 300, ..CoreConfig::default() });
        broker.create("q", EntitySettings::default());
        broker.publish(message("a"));
        dead_letter_first(&mut broker, &[("DeadLetterReason", reason), ("mine", &"v".repeat(280))]);
        let peeked = broker.peek(dead_letters("q"), 0, 1).pop().unwrap();
        assert_eq!(property(&peeked.stored.properties, "DeadLetterReason"), Some(deletions));
        assert_eq!(property(&peeked.stored.properties, "mine"), None);
    }
}

#[test]
fn an_automatic_dead_letter_that_cannot_be_read_stays_hidden_and_is_not_lost() {
    let settings = EntitySettings {
        max_delivery_count: 1,
        dead_letter_on_expiration: true,
        ..EntitySettings::default()
    };
    let mut broker = Broker::with_queue(settings);
    broker.publish_all(&["a", "b"]);
    broker.publish(message_for("c", 1_000));
    let got = broker.lock(1).pop().unwrap();
    broker.journal.broken = broker.journal.records.keys().copied().collect();
    broker.settle(&got, Outcome::Abandon(properties(&[]))).unwrap();
    broker.wait(1_000);
    assert!(broker.lock(9).is_empty(), "`b` cannot be read either");
    assert!(broker.peek(main_path("q"), 0, 9).is_empty());
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.active, view.damaged, view.dead_letter), (3, 3, 0));
    broker.journal.broken.clear();
    broker.restart();
    broker.wait(0);
    assert_eq!(texts(&broker.lock(9)), ["a", "b"]);
    assert_eq!(broker.dead(), [("c".into(), Some("TTLExpiredException".into()))]);
    broker.check_liveness();
}

#[test]
fn a_scheduled_message_that_cannot_be_read_waits_for_the_next_start() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let due = broker.now.after(std::time::Duration::from_secs(1));
    broker.publish(Message { scheduled_enqueue_time: Some(due), ..message("a") });
    broker.journal.broken = broker.journal.records.keys().copied().collect();
    broker.wait(2_000);
    assert_eq!(broker.core.entity("q").unwrap().scheduled, 1);
    broker.journal.broken.clear();
    broker.restart();
    broker.wait(0);
    assert_eq!(texts(&broker.lock(1)), ["a"]);
}

fn plain() -> EntitySettings {
    EntitySettings::default()
}

fn expired() -> (Broker, EntityPath) {
    let mut broker = Broker::with_queue(EntitySettings { dead_letter_on_expiration: true, ..plain() });
    broker.publish(message_for("a", 1_000));
    broker.wait(1_000);
    (broker, dead_letters("q"))
}

fn delivered_too_often() -> (Broker, EntityPath) {
    let mut broker = Broker::with_queue(EntitySettings { max_delivery_count: 2, ..plain() });
    broker.publish(message("a"));
    for _ in 0..2 {
        let delivery = broker.lock_one();
        broker.settle(&delivery, Outcome::Abandon(properties(&[]))).unwrap();
    }
    (broker, dead_letters("q"))
}

fn grown_too_large() -> (Broker, EntityPath) {
    let mut broker = Broker::with(CoreConfig { max_properties_bytes: 300, ..CoreConfig::default() });
    broker.create("q", plain());
    broker.publish(message("a"));
    let delivery = broker.lock_one();
    broker.settle(&delivery, Outcome::Abandon(properties(&[("k", &"v".repeat(300))]))).unwrap();
    (broker, dead_letters("q"))
}

fn without_a_session() -> (Broker, EntityPath) {
    let mut broker = Broker::with_topic(plain());
    let settings = EntitySettings { requires_session: true, ..plain() };
    broker.subscribe("s", settings, vec![Rule::default_rule()]);
    broker.send(vec![message("a")]);
    (broker, dead_letters_of("s"))
}

fn of_a_filter_that_fails() -> (Broker, EntityPath) {
    let mut broker = Broker::with_topic(plain());
    let settings = EntitySettings { dead_letter_on_filter_error: true, ..plain() };
    broker.subscribe("s", settings, vec![rule("r", "sys.Nope = 1", None)]);
    broker.send(vec![message("a")]);
    (broker, dead_letters_of("s"))
}

/// With a chain of queues that forward, the last of which is `q`.
fn chain(names: &[&str]) -> Broker {
    let mut broker = Broker::with_queue(plain());
    let mut next = "q";
    for name in names {
        broker.create(name, EntitySettings { forward_to: Some(next.into()), ..plain() });
        next = name;
    }
    broker
}

fn publish_to(broker: &mut Broker, name: &str) {
    let (path, messages, ticket) = (main_path(name), vec![message("a")], Some(broker.ticket()));
    broker.tell(ME, Command::PublishTo { path, messages, auto_create: false, ticket });
    broker.run_deadlines();
}

fn forwarded_too_often() -> (Broker, EntityPath) {
    let mut broker = chain(&["e", "d", "c", "b", "a"]);
    publish_to(&mut broker, "a");
    (broker, dead_letters("e"))
}

fn not_taken_by_the_target() -> (Broker, EntityPath) {
    let mut broker = chain(&["a"]);
    broker.update("q", EntitySettings { status: EntityStatus::Disabled, ..plain() });
    publish_to(&mut broker, "a");
    (broker, dead_letters("a"))
}

#[test]
fn a_dead_letter_of_the_broker_says_why() {
    type Case = (fn() -> (Broker, EntityPath), &'static str, &'static str);
    let cases: [Case; 7] = [
        (expired, "TTLExpiredException", "The message expired and was dead lettered."),
        (
            delivered_too_often,
            "MaxDeliveryCountExceeded",
            "Message could not be consumed after 2 delivery attempts.",
        ),
        (grown_too_large, "HeaderSizeExceeded", "The size of the message's properties exceeds the quota."),
        (
            without_a_session,
            "Session id is null.",
            "A session-enabled entity does not take a message whose session id is null.",
        ),
        (of_a_filter_that_fails, "FilterException", "there is no system property `Nope`"),
        (
            forwarded_too_often,
            "MaxTransferHopCountExceeded",
            "The message was forwarded 4 times, which is the most that is allowed.",
        ),
        (
            not_taken_by_the_target,
            "MessagingEntityDisabledException",
            "The message could not be forwarded: the messaging entity `q` is disabled for this operation.",
        ),
    ];
    for (make, reason, description) in cases {
        let (mut broker, path) = make();
        let peeked = broker.peek(path, 0, 9);
        let told = |key| peeked.iter().map(|one| property(&one.stored.properties, key)).collect::<Vec<_>>();
        assert_eq!(told("DeadLetterReason"), [Some(reason.to_owned())]);
        assert_eq!(told("DeadLetterErrorDescription"), [Some(description.to_owned())], "{reason}");
    }
}
