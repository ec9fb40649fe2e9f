//! Messages come in: numbers, times, answers, refusals (requirements SET-1, SEQ-1 to SEQ-4 of `docs/requirements.md`).

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, CoreConfig, Effect, EntityPath, EntitySettings, LimitScope, LinkId, Message, Outcome,
    PublishError, QueueId, QuotaError, ReceiveMode, Ticket, Timestamp,
};

fn publish_as(broker: &mut Broker, commands: &[(u64, &str)]) -> Vec<Effect> {
    let queue = broker.queue("q");
    let command = |(ticket, text): &(u64, &str)| Command::Publish {
        queue,
        message: message(text),
        ticket: Some(Ticket(*ticket)),
    };
    broker.tell_all(ME, commands.iter().map(command).collect())
}

fn refusal(told: &[Effect]) -> PublishError {
    match told {
        [Effect::PublishRefused { error, .. }] => error.clone(),
        other => panic!("{other:?}"),
    }
}

fn send(broker: &mut Broker, queue: QueueId, messages: Vec<Message>) -> Vec<Effect> {
    let ticket = Some(broker.ticket());
    broker.tell(ME, Command::PublishBatch { queue, messages, ticket })
}

#[test]
fn sequence_numbers_rise_by_one_and_a_batch_is_consecutive() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("a"));
    let queue = broker.queue("q");
    send(&mut broker, queue, vec![message("b"), message("c"), message("d")]);
    broker.publish(message("e"));
    let numbers: Vec<u64> = broker.lock(10).iter().map(|delivery| delivery.sequence.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[test]
fn the_enqueued_time_is_the_brokers_and_shows_in_receive_and_peek() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.wait(1234);
    let then = broker.now;
    broker.publish(message("a"));
    broker.wait(500);
    assert_eq!(broker.peek(main_path("q"), 1, 1)[0].stored.enqueued_at, then);
    assert_eq!(broker.lock_one().stored.enqueued_at, then);
}

#[test]
fn consecutive_tickets_are_answered_in_one_range() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let told = publish_as(&mut broker, &[(1, "a"), (2, "b"), (3, "c"), (7, "d"), (8, "e")]);
    assert!(
        matches!(
            told.as_slice(),
            [
                Effect::Published { first: Ticket(1), last: Ticket(3) },
                Effect::Published { first: Ticket(7), last: Ticket(8) },
            ]
        ),
        "{told:?}"
    );
}

#[test]
fn a_refusal_in_between_keeps_the_order_of_answers() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_message_bytes: Some(2), ..EntitySettings::default() });
    let told = publish_as(&mut broker, &[(1, "a"), (2, "bbb"), (3, "c")]);
    assert!(
        matches!(
            told.as_slice(),
            [
                Effect::Published { first: Ticket(1), last: Ticket(1) },
                Effect::PublishRefused { ticket: Ticket(2), .. },
                Effect::Published { first: Ticket(3), last: Ticket(3) },
            ]
        ),
        "{told:?}"
    );
}

#[test]
fn settled_runs_merge_and_leave_one_removal_record() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b", "c", "d"]);
    let got = broker.lock(4);
    let before = broker.journal.records.len();
    let settle = |(ticket, delivery): (u64, &crate::Delivery)| Command::Settle {
        queue: delivery.queue,
        sequence: delivery.sequence,
        lock: delivery.lock.unwrap().id,
        outcome: Outcome::Complete,
        ticket: Some(Ticket(ticket)),
    };
    let told = broker.tell_all(ME, (1..).zip(&got).map(settle).collect());
    assert!(matches!(told.as_slice(), [Effect::Settled { first: Ticket(1), last: Ticket(4) }]), "{told:?}");
    assert_eq!(broker.journal.records.len(), before + 1);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn a_message_without_a_ticket_is_stored_in_silence() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let queue = broker.queue("q");
    assert!(broker.tell(ME, Command::Publish { queue, message: message("a"), ticket: None }).is_empty());
    let gone = Command::Publish { queue: QueueId(77), message: message("a"), ticket: None };
    assert!(broker.tell(ME, gone).is_empty());
    assert_eq!(broker.active(), 1);
}

#[test]
fn sizes_are_checked_at_the_limit_and_one_past_it() {
    let entity = || "q".into();
    let cases = [
        // broker's limit, queue's limit, size, refused with limit
        (100, None, 100, None),
        (100, None, 101, Some(100)),
        (100, Some(50), 50, None),
        (100, Some(50), 51, Some(50)),
        (100, Some(500), 101, Some(100)),
    ];
    for case @ (max_message_bytes, own, size, refused) in cases {
        let mut broker = Broker::with(CoreConfig { max_message_bytes, ..CoreConfig::default() });
        broker.create("q", EntitySettings { max_message_bytes: own, ..EntitySettings::default() });
        let queue = broker.queue("q");
        let told = send(&mut broker, queue, vec![message("x"), message(&"y".repeat(size))]);
        match refused {
            None => assert!(matches!(told.as_slice(), [Effect::Published { .. }]), "{case:?}"),
            Some(limit) => {
                let error = PublishError::TooLarge { entity: entity(), bytes: size as u64, limit };
                assert_eq!(refusal(&told), error, "{case:?}");
                assert_eq!(broker.active(), 0, "a batch is all or nothing: {case:?}");
            }
        }
    }
}

#[test]
fn a_sender_within_the_tier_has_the_size_of_the_tier_where_the_queue_has_none_of_its_own() {
    use LimitScope::{Broker as Any, Tier};
    let cases = [
        // broker's limit, tier's limit, queue's limit, sender's limits, largest message
        (100, 50, None, Any, 100),
        (100, 50, None, Tier, 50),
        (100, 50, Some(80), Any, 80),
        (100, 50, Some(80), Tier, 80),
        (100, 50, Some(20), Tier, 20),
        (100, 500, None, Tier, 100),
        (100, 50, Some(500), Tier, 100),
    ];
    for case @ (max_message_bytes, tier_message_bytes, own, limits, largest) in cases {
        let config = CoreConfig { max_message_bytes, tier_message_bytes, ..CoreConfig::default() };
        let mut broker = Broker::with(config);
        broker.create("q", EntitySettings { max_message_bytes: own, ..EntitySettings::default() });
        let queue = broker.queue("q");
        let sized = |size: u64| Message { limits, ..message(&"y".repeat(size.try_into().unwrap())) };
        let told = send(&mut broker, queue, vec![sized(largest)]);
        assert!(matches!(told.as_slice(), [Effect::Published { .. }]), "{case:?}");
        let told = send(&mut broker, queue, vec![sized(largest + 1)]);
        let error = PublishError::TooLarge { entity: "q".into(), bytes: largest + 1, limit: largest };
        assert_eq!(refusal(&told), error, "{case:?}");
    }
}

#[test]
fn a_message_beyond_the_tier_is_forwarded_and_activated_as_it_is() {
    let config = CoreConfig { tier_message_bytes: 10, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create("end", EntitySettings::default());
    broker.create("way", EntitySettings { forward_to: Some("end".into()), ..EntitySettings::default() });
    let queue = broker.queue("way");
    let due = Some(broker.now.after(Duration::from_secs(1)));
    let message = Message { scheduled_enqueue_time: due, ..message("eleven bytes and more") };
    let told = send(&mut broker, queue, vec![message]);
    assert!(matches!(told.as_slice(), [Effect::Published { .. }]), "{told:?}");
    broker.wait(1_000);
    assert_eq!(broker.core.entity("end").unwrap().active, 1);
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_messages_are_gone() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_size_bytes: Some(200), ..EntitySettings::default() });
    let queue = broker.queue("q");
    broker.publish(message(&"x".repeat(100)));
    let told = send(&mut broker, queue, vec![message(&"x".repeat(100))]);
    assert!(matches!(refusal(&told), PublishError::QuotaExceeded(QuotaError::Entity { limit: 200, .. })));
    let delivery = broker.lock_one();
    broker.settle(&delivery, Outcome::DeadLetter(properties(&[]))).unwrap();
    let told = send(&mut broker, queue, vec![message(&"x".repeat(100))]);
    assert!(
        matches!(refusal(&told), PublishError::QuotaExceeded(QuotaError::Entity { .. })),
        "dead letters count"
    );
    broker.receive(dead_letters("q"), ReceiveMode::ReceiveAndDelete, 1);
    broker.publish(message(&"x".repeat(100)));
}

#[test]
fn a_full_disk_refuses_sends_while_settlements_go_on() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(message("a"));
    let queue = broker.queue("q");
    let delivery = broker.lock_one();
    broker.journal.full = true;
    let told = send(&mut broker, queue, vec![message("b")]);
    assert_eq!(refusal(&told), PublishError::QuotaExceeded(QuotaError::Storage));
    assert_eq!(broker.settle(&delivery, Outcome::Complete), Ok(()));
}

#[test]
fn messages_without_an_entity_that_takes_them_are_refused() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let told = send(&mut broker, QueueId(99), vec![message("a")]);
    assert!(matches!(refusal(&told), PublishError::NotFound(_)));
    let dead = broker.core.entity("q").unwrap().dead_letter_queue;
    let told = send(&mut broker, dead, vec![message("a")]);
    assert_eq!(refusal(&told), PublishError::SubQueueSend("q".into()));
}

#[test]
fn an_anonymous_sender_names_its_target() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let mut to = |path: EntityPath, auto_create| {
        let ticket = Some(broker.ticket());
        let told =
            broker.tell(ME, Command::PublishTo { path, messages: vec![message("a")], auto_create, ticket });
        match told.as_slice() {
            [Effect::Published { .. }] => None,
            [Effect::PublishRefused { error, .. }] => Some(error.clone()),
            other => panic!("{other:?}"),
        }
    };
    let missing = |name: &str| Some(PublishError::NotFound(name.into()));
    assert_eq!(to(main_path("Q"), false), None);
    assert_eq!(to(main_path("new"), false), missing("new"));
    assert_eq!(to(main_path("new"), true), None);
    assert_eq!(to(main_path("no\nname"), true), missing("no\nname"));
    assert_eq!(to(dead_letters("q"), false), Some(PublishError::SubQueueSend("q".into())));
    assert_eq!(broker.active(), 1);
}

#[test]
fn a_schedule_hides_a_message_until_it_is_due_and_then_numbers_it_anew() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.credit(ME, 1, 10);
    let due = broker.now.after(Duration::from_secs(2));
    let scheduled = Message { scheduled_enqueue_time: Some(due), ..message_for("later", 3_000) };
    broker.publish(scheduled);
    broker.publish(message("now"));
    assert_eq!(texts(&broker.received(ME)), ["now"]);
    let states: Vec<(u64, u8)> =
        broker.peek(main_path("q"), 0, 10).iter().map(|p| (p.sequence.0, p.stored.state)).collect();
    assert_eq!(states, [(1, 2), (2, 0)]);
    broker.restart();
    assert_eq!(broker.core.entity("q").unwrap().scheduled, 1);
    broker.wait(1_999);
    assert!(broker.peek(main_path("q"), 3, 10).is_empty());
    broker.wait(1);
    let arrived = &broker.peek(main_path("q"), 3, 10)[0];
    assert_eq!((arrived.sequence.0, arrived.stored.state, arrived.stored.enqueued_at), (3, 0, due));
    // It lives for three seconds from then on (EXP-5).
    assert_eq!(arrived.stored.expires_at, Some(due.after(Duration::from_secs(3))));
    assert_eq!(broker.core.entity("q").unwrap().scheduled, 0);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

#[test]
fn a_schedule_in_the_past_means_now() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish(Message { scheduled_enqueue_time: Some(broker.now), ..message("a") });
    let got = broker.lock_one();
    assert_eq!((got.sequence.0, got.stored.state), (1, 0));
}

#[test]
fn many_scheduled_messages_come_due_together_in_bounded_calls() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let due = broker.now.after(Duration::from_secs(1));
    for _ in 0..3_000 {
        broker.publish(Message { scheduled_enqueue_time: Some(due), ..message("a") });
    }
    broker.wait(999);
    broker.now = due;
    assert!(broker.core.deadline().is_some_and(|at| at <= due));
    broker.run_deadlines();
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.active, view.scheduled, view.next_sequence), (3_000, 0, 6_001));
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn scattered_schedules_come_due_in_order_however_small_the_calls_are() {
    for most in [2, 3, 33, 1_000] {
        let mut broker = Broker::with(CoreConfig { deliver_messages_max: most, ..CoreConfig::default() });
        broker.create("q", EntitySettings::default());
        let start = broker.now.as_millis();
        for n in 0..100 {
            // No two that follow each other come due one after the other.
            let delay = 1_000 + n * 37 % 100;
            let due = Some(Timestamp::from_millis(start + delay));
            broker.publish(Message { scheduled_enqueue_time: due, ..message(&delay.to_string()) });
        }
        broker.now = Timestamp::from_millis(start + 1_000 + 60);
        broker.journal.make_readable();
        let mut calls = 1;
        while broker.core.handle_deadline(broker.now, &mut broker.journal) {
            broker.journal.make_readable();
            calls += 1;
        }
        assert!(most > 100 || calls > 61 / most, "{calls} calls of at most {most}");
        assert_eq!(broker.core.entity("q").unwrap().scheduled, 39, "{most}");
        assert_eq!(broker.replayed().digest(), broker.core.digest(), "{most}");
        let expected: Vec<String> = (1_000..=1_060).map(|delay: u64| delay.to_string()).collect();
        assert_eq!(texts(&broker.lock(1_000)), expected, "{most}");
        broker.wait(40);
        assert_eq!(broker.core.entity("q").unwrap().scheduled, 0, "{most}");
    }
}

#[test]
fn commands_of_a_client_that_left_do_no_harm() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.tell(ME, Command::Disconnect);
    let queue = broker.queue("q");
    let commands = vec![
        Command::Credit { consumer: LinkId(1), limit: 5, drain: true },
        Command::ByteBudget { limit: 5, min_bytes: 0 },
        Command::CloseConsumer { consumer: LinkId(1) },
        Command::CloseProducer { producer: LinkId(1) },
        Command::OpenProducer { producer: LinkId(2), path: main_path("q"), auto_create: false },
        Command::Publish { queue, message: message("a"), ticket: None },
        Command::Disconnect,
    ];
    assert!(broker.tell_all(ME, commands).is_empty());
    assert_eq!((broker.active(), broker.core.entity("q").unwrap().links), (1, 0));
}
