//! Time to live (`docs/features/queues.md`, "Time to live"; requirements EXP-1 to EXP-11).

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, Effect, EntityPath, EntitySettings, EntityStatus, Message, Outcome, ReceiveMode, SubQueue,
    Timestamp,
};

fn settings(default_ttl: Option<u64>, dead_letter: bool) -> EntitySettings {
    EntitySettings {
        default_time_to_live: default_ttl.map(Duration::from_millis),
        dead_letter_on_expiration: dead_letter,
        ..EntitySettings::default()
    }
}

fn expired(text: &str) -> (String, Option<String>) {
    (text.into(), Some("TTLExpiredException".into()))
}

#[test]
fn the_smaller_of_message_and_queue_ttl_holds() {
    let cases = [
        // queue's default, message's own, lives for; peek shows it
        (None, None, None, false),
        (None, Some(2_000), Some(2_000), true),
        (Some(1_000), None, Some(1_000), false),
        (Some(1_000), Some(2_000), Some(1_000), true),
        (Some(3_000), Some(2_000), Some(2_000), true),
    ];
    for case @ (default, own, lives, shown) in cases {
        let mut broker = Broker::with_queue(settings(default, false));
        broker.publish(own.map_or_else(|| message("a"), |own| message_for("a", own)));
        let expires = lives.map(|lives| broker.now.after(Duration::from_millis(lives)));
        let peeked = broker.peek(main_path("q"), 0, 1).pop().unwrap();
        assert_eq!(peeked.stored.expires_at, expires.filter(|_| shown), "{case:?}");
        let delivery = broker.lock_one();
        assert_eq!(delivery.stored.expires_at, expires, "{case:?}");
        broker.settle(&delivery, Outcome::Release(properties(&[]))).unwrap();
        if let Some(lives) = lives {
            broker.wait(lives - 1);
            assert_eq!(broker.active(), 1, "{case:?}");
            broker.wait(1);
        } else {
            broker.wait(1_000_000_000);
        }
        assert_eq!(broker.active(), u64::from(lives.is_none()), "{case:?}");
    }
}

#[test]
fn an_expired_message_is_gone_or_dead_lettered_without_any_receiver() {
    for dead_letter in [false, true] {
        let mut broker = Broker::with_queue(settings(None, dead_letter));
        broker.publish(message_for("a", 1_000));
        broker.publish(message("b"));
        broker.wait(1_000);
        assert_eq!(broker.active(), 1);
        assert_eq!(broker.dead(), if dead_letter { vec![expired("a")] } else { vec![] });
        assert_eq!(broker.replayed().digest(), broker.core.digest());
        broker.check_liveness();
    }
}

#[test]
fn an_expired_message_is_never_delivered_even_before_its_deadline_was_treated() {
    let mut broker = Broker::with_queue(settings(None, true));
    broker.publish(message_for("a", 1_000));
    broker.publish(message("b"));
    broker.now = broker.now.after(Duration::from_secs(1));
    assert_eq!(texts(&broker.lock(5)), ["b"]);
    assert_eq!(texts(&broker.receive(main_path("q"), ReceiveMode::Browse, 5)), ["b"]);
    broker.run_deadlines();
    assert_eq!(broker.dead(), [expired("a")]);
}

#[test]
fn a_locked_message_does_not_expire_and_can_be_completed() {
    let mut broker = Broker::with_queue(settings(None, true));
    broker.publish(message_for("a", 1_000));
    let delivery = broker.lock_one();
    broker.wait(5_000);
    assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()));
    assert!(broker.dead().is_empty());
    assert_eq!(broker.active(), 0);
}

#[test]
fn expiry_applies_at_once_when_the_lock_ends() {
    for dead_letter in [false, true] {
        for outcome in
            [Some(Outcome::Abandon(properties(&[("k", "v")]))), Some(Outcome::Release(properties(&[]))), None]
        {
            let mut broker = Broker::with_queue(settings(None, dead_letter));
            broker.publish(message_for("a", 1_000));
            let delivery = broker.lock_one();
            broker.wait(5_000);
            match outcome.clone() {
                Some(outcome) => broker.settle(&delivery, outcome).unwrap(),
                None => broker.wait(60_000),
            }
            assert!(broker.lock(1).is_empty(), "not redelivered");
            assert_eq!(broker.dead(), if dead_letter { vec![expired("a")] } else { vec![] }, "{outcome:?}");
            assert_eq!(broker.active(), 0);
            broker.check_liveness();
        }
    }
}

#[test]
fn too_many_deliveries_go_before_expiry_so_that_the_message_is_kept() {
    let mut broker = Broker::with_queue(EntitySettings { max_delivery_count: 1, ..settings(None, false) });
    broker.publish(message_for("a", 1_000));
    let delivery = broker.lock_one();
    broker.wait(5_000);
    broker.settle(&delivery, Outcome::Abandon(properties(&[]))).unwrap();
    assert_eq!(broker.dead(), [("a".into(), Some("MaxDeliveryCountExceeded".into()))]);
}

#[test]
fn a_deferred_message_stays() {
    let mut broker = Broker::with_queue(settings(None, true));
    broker.publish(message_for("a", 1_000));
    let delivery = broker.lock_one();
    broker.settle(&delivery, Outcome::Defer(properties(&[]))).unwrap();
    broker.wait(100_000);
    broker.restart();
    broker.wait(100_000);
    assert_eq!(broker.core.entity("q").unwrap().deferred, 1);
    assert!(broker.dead().is_empty());
}

#[test]
fn a_dead_letter_does_not_expire() {
    let mut broker = Broker::with_queue(settings(None, true));
    broker.publish(message_for("a", 1_000));
    broker.wait(1_000);
    broker.wait(1_000_000);
    broker.restart();
    broker.wait(1_000_000);
    let got = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1);
    assert_eq!(texts(&got), ["a"]);
    broker.wait(70_000);
    assert_eq!(broker.dead(), [expired("a")]);
}

#[test]
fn a_ttl_of_zero_reaches_a_waiting_consumer_only() {
    let mut broker = Broker::with_queue(settings(None, true));
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.credit(ME, 1, 1);
    broker.publish(message_for("a", 0));
    broker.publish(message_for("b", 0));
    broker.run_deadlines();
    assert_eq!(texts(&broker.received(ME)), ["a"]);
    broker.wait(1);
    assert!(broker.credit(ME, 1, 5).is_empty());
    assert_eq!(broker.dead(), [expired("b")]);
}

#[test]
fn expired_messages_behind_living_ones_free_their_space_in_time() {
    let mut broker = Broker::with_queue(settings(None, false));
    for n in 0..100_000 {
        broker.publish(if n % 2 == 0 { message("long") } else { message_for("short", 1_000) });
    }
    assert_eq!(broker.active(), 100_000);
    broker.wait(1_000);
    assert_eq!(broker.active(), 50_000);
    broker.check_liveness();
}

#[test]
fn expiry_survives_a_restart() {
    let mut broker = Broker::with_queue(settings(Some(10_000), true));
    for ttl in [3_000, 1_000, 2_000, 60_000] {
        broker.publish(message_for(&ttl.to_string(), ttl));
    }
    broker.restart();
    broker.wait(1_000);
    assert_eq!(broker.dead(), [expired("1000")]);
    broker.restart();
    broker.now = broker.now.after(Duration::from_secs(5));
    broker.wait(0);
    assert_eq!(broker.dead(), [expired("3000"), expired("1000"), expired("2000")]);
    broker.wait(10_000);
    assert_eq!(broker.active(), 0);
    assert_eq!(broker.core.deadline(), None);
}

#[test]
fn a_ttl_beyond_all_time_is_no_ttl() {
    let mut broker = Broker::with_queue(settings(None, false));
    broker.publish(Message { time_to_live: Some(Duration::MAX), ..message("a") });
    assert_eq!(broker.lock_one().stored.expires_at, None);
    assert_eq!(broker.core.deadline(), Some(broker.now.after(Duration::from_secs(60))));
    assert_ne!(broker.now, Timestamp::MAX);
}

#[test]
fn large_messages_that_expire_together_are_moved_a_few_in_each_call() {
    let mut broker = Broker::with_queue(settings(None, true));
    let large = "x".repeat(300 << 10);
    for _ in 0..20 {
        broker.publish(message_for(&large, 1_000));
    }
    broker.now = broker.now.after(Duration::from_secs(1));
    let mut calls = 0;
    loop {
        broker.journal.make_readable();
        let before = broker.journal.end();
        let more = broker.core.handle_deadline(broker.now, &mut broker.journal);
        let appended = broker.journal.end() - before;
        assert!(appended < 2 << 20, "{appended} bytes in one call");
        calls += 1;
        if !more {
            break;
        }
    }
    assert!(calls >= 5, "{calls} calls");
    assert_eq!(broker.core.entity("q").unwrap().dead_letter, 20);
    broker.check_liveness();
}

#[test]
fn a_changed_default_holds_for_later_messages() {
    let mut broker = Broker::with_queue(settings(Some(10_000), false));
    broker.publish(message("before"));
    let due = Some(broker.now.after(Duration::from_secs(5)));
    broker.publish(Message { scheduled_enqueue_time: due, ..message("scheduled") });
    broker.update("q", settings(Some(1_000), false));
    broker.publish(message("after"));
    let shown: Vec<Option<Timestamp>> = broker.lock(9).iter().map(|got| got.stored.expires_at).collect();
    let at = |millis| Some(broker.now.after(Duration::from_millis(millis)));
    assert_eq!(shown, [at(10_000), at(1_000)], "what is stored keeps its instant");
    broker.wait(5_000);
    let activated = broker.lock_one().stored.expires_at;
    assert_eq!(activated, Some(broker.now.after(Duration::from_secs(1))), "an activation is an arrival");
}

#[test]
fn a_scheduled_message_is_shown_with_the_end_that_its_own_ttl_gives_it() {
    let cases = [
        // queue's default, message's own, end after the due time
        (None, None, None),
        (Some(1_000), None, None),
        (None, Some(3_000), Some(3_000)),
        (Some(1_000), Some(3_000), Some(1_000)),
        (Some(5_000), Some(3_000), Some(3_000)),
    ];
    for case @ (default, own, lives) in cases {
        let mut broker = Broker::with_queue(settings(default, false));
        let due = broker.now.after(Duration::from_secs(300));
        let plain = own.map_or_else(|| message("a"), |own| message_for("a", own));
        broker.publish(Message { scheduled_enqueue_time: Some(due), ..plain });
        let shown = broker.peek(main_path("q"), 0, 1).pop().unwrap().stored.expires_at;
        assert_eq!(shown, lives.map(|lives| due.after(Duration::from_millis(lives))), "{case:?}");
    }
}

#[test]
fn a_transfer_dead_letter_never_expires() {
    let mut broker = Broker::with_queue(settings(Some(1_000), true));
    broker.create("target", EntitySettings { status: EntityStatus::Disabled, ..EntitySettings::default() });
    let (path, via, ticket) = (main_path("target"), main_path("q"), Some(broker.ticket()));
    let messages = vec![message_for("a", 1_000)];
    let told = broker.tell(ME, Command::PublishVia { path, via, messages, ticket });
    assert!(matches!(told[..], [Effect::Published { .. }]), "{told:?}");
    let transfers = EntityPath { entity: "q".into(), sub_queue: SubQueue::TransferDeadLetter };
    broker.wait(2_000);
    broker.restart();
    broker.wait(2_000);
    assert_eq!(texts(&broker.receive(transfers.clone(), ReceiveMode::PeekLock, 9)), ["a"]);
    // Nor does the end of its lock make it expire.
    broker.wait(60_000);
    assert_eq!(broker.shown_texts(transfers), ["a"]);
    assert!(broker.dead().is_empty());
    broker.check_liveness();
}
