//! Entities that nobody uses delete themselves (`docs/features/idle-deletion.md`; requirements EXP-12 to EXP-15).

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, Delivery, Effect, EntityKind, EntityPath, EntitySettings, LinkId, Message, Outcome, ReceiveMode,
    SequenceNumber, SessionWanted, SubQueue, Timestamp, UnsettledPolicy,
};

const PERIOD: Duration = Duration::from_secs(300);

fn idle() -> EntitySettings {
    EntitySettings { auto_delete_on_idle: Some(PERIOD), ..EntitySettings::default() }
}

fn create(broker: &mut Broker, name: &str, kind: EntityKind, settings: EntitySettings) {
    let (ticket, settings) = (broker.ticket(), Box::new(settings));
    let done = broker.tell(ME, Command::CreateEntity { name: name.into(), kind, settings, ticket });
    assert!(matches!(done[..], [Effect::EntityDone { .. }]), "{done:?}");
}

fn path(entity: &str, sub_queue: SubQueue) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue }
}

/// Lets time pass and does what becomes due, as the node would.
fn wait(broker: &mut Broker, seconds: u64) {
    let end = broker.now.after(Duration::from_secs(seconds));
    while let Some(at) = broker.core.deadline().filter(|at| *at <= end) {
        broker.now = broker.now.max(at);
        broker.journal.make_readable();
        broker.core.handle_deadline(broker.now, &mut broker.journal);
        broker.journal.make_readable();
        while broker.core.deliver(broker.now, &mut broker.journal) {
            broker.journal.make_readable();
        }
    }
    broker.now = end;
}

fn is_there(broker: &Broker, name: &str) -> bool {
    broker.core.entity(name).is_some()
}

/// Operation on `q` halfway through its idle time, and whether it begins the time anew.
type Use = (&'static str, fn(&mut Broker), bool);

fn publish(broker: &mut Broker, name: &str, message: Message) {
    let ticket = Some(broker.ticket());
    let path = path(name, SubQueue::Main);
    broker.tell(ME, Command::PublishTo { path, messages: vec![message], auto_create: false, ticket });
}

fn attach(broker: &mut Broker, name: &str, sub_queue: SubQueue, credit: u64) {
    let consumer = LinkId(9);
    broker.tell(
        ME,
        Command::OpenConsumer {
            consumer,
            path: path(name, sub_queue),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            session: None,
            auto_create: false,
        },
    );
    if credit > 0 {
        broker.tell(ME, Command::Credit { consumer, limit: credit, drain: false });
    }
}

fn detach(broker: &mut Broker) {
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(9) });
}

fn peek(broker: &mut Broker, sub_queue: SubQueue) {
    let ticket = broker.ticket();
    let path = path("q", sub_queue);
    let from = SequenceNumber(1);
    broker.tell(ME, Command::Peek { path, from, count: 1, bytes: 1, ticket, session: None });
}

#[test]
fn every_use_of_a_queue_begins_its_time_anew() {
    let uses: [Use; 9] = [
        ("nothing", |_| {}, false),
        ("a send", |broker| publish(broker, "q", message("a")), true),
        (
            "a receiver that came and went",
            |broker| {
                attach(broker, "q", SubQueue::Main, 0);
                detach(broker);
            },
            true,
        ),
        (
            "a receiver of dead letters",
            |broker| {
                attach(broker, "q", SubQueue::DeadLetter, 0);
                detach(broker);
            },
            true,
        ),
        ("a look", |broker| peek(broker, SubQueue::Main), true),
        ("a look at dead letters", |broker| peek(broker, SubQueue::DeadLetter), true),
        (
            "an update",
            |broker| {
                let (ticket, settings) = (broker.ticket(), Box::new(idle()));
                broker.tell(ME, Command::UpdateEntity { name: "q".into(), settings, expected: None, ticket });
            },
            true,
        ),
        ("a receiver without credit", |broker| attach(broker, "q", SubQueue::Main, 0), true),
        ("another queue's send", |broker| publish(broker, "other", message("a")), false),
    ];
    for (what, happens, counts) in uses {
        let mut broker = Broker::new();
        create(&mut broker, "q", EntityKind::Queue, idle());
        create(&mut broker, "other", EntityKind::Queue, EntitySettings::default());
        wait(&mut broker, 150);
        happens(&mut broker);
        wait(&mut broker, 149);
        assert!(is_there(&broker, "q"), "{what}: too early");
        wait(&mut broker, 2);
        assert_eq!(is_there(&broker, "q"), counts, "{what}: after its own time");
        wait(&mut broker, 148);
        assert_eq!(is_there(&broker, "q"), counts, "{what}: just before the new time is over");
        wait(&mut broker, 2);
        assert!(!is_there(&broker, "q"), "{what}: after the new time");
        assert!(is_there(&broker, "other"));
    }
}

#[test]
fn requests_by_number_or_in_bulk_begin_the_idle_time_of_a_queue_anew() {
    type Step = fn(&mut Broker);
    let uses: [(&str, Step, Step); 3] = [
        (
            "a schedule that is cancelled",
            |broker| drop(broker.schedule(&["later"], 1_000_000_000)),
            |broker| broker.cancel(&[1]).unwrap(),
        ),
        (
            "receiving by number",
            |broker| {
                publish(broker, "q", message("a"));
                let delivery = broker.lock_one();
                broker.settle(&delivery, Outcome::Defer(properties(&[]))).unwrap();
            },
            |broker| assert_eq!(broker.fetch(main_path("q"), &[1], true).unwrap().len(), 1),
        ),
        (
            "deletion in bulk",
            |broker| publish(broker, "q", message("a")),
            |broker| {
                let (path, session, ticket) = (main_path("q"), None, broker.ticket());
                let (count, before) = (9, Timestamp::MAX);
                let told = broker.tell(ME, Command::DeleteMessages { path, session, count, before, ticket });
                assert!(matches!(told[..], [Effect::Deleted { count: 1, .. }]), "{told:?}");
            },
        ),
    ];
    for (what, prepare, happens) in uses {
        let mut broker = Broker::new();
        create(&mut broker, "q", EntityKind::Queue, idle());
        prepare(&mut broker);
        wait(&mut broker, 150);
        happens(&mut broker);
        wait(&mut broker, 299);
        assert!(is_there(&broker, "q"), "{what}: too early");
        wait(&mut broker, 2);
        assert!(!is_there(&broker, "q"), "{what}: after its time");
    }
}

#[test]
fn waiting_receivers_and_scheduled_messages_keep_a_queue() {
    let mut broker = Broker::new();
    create(&mut broker, "q", EntityKind::Queue, idle());
    attach(&mut broker, "q", SubQueue::Main, 5);
    wait(&mut broker, 1_000);
    assert!(is_there(&broker, "q"), "somebody waits");
    detach(&mut broker);
    wait(&mut broker, 299);
    assert!(is_there(&broker, "q"), "not before its time is over again");
    let due = broker.now.after(Duration::from_secs(1_000));
    publish(&mut broker, "q", Message { scheduled_enqueue_time: Some(due), ..message("later") });
    wait(&mut broker, 1_290);
    assert!(is_there(&broker, "q"), "a schedule is pending, and then its message has just come");
    wait(&mut broker, 400);
    assert!(!is_there(&broker, "q"), "stored messages do not keep it");
    assert!(broker.journal.live().is_empty());
}

/// Locks the only message of `entity` for a receiver that asks for no more.
fn work_on(broker: &mut Broker, entity: &str) -> Delivery {
    attach(broker, entity, SubQueue::Main, 0);
    broker.credit(ME, 9, 1).pop().unwrap()
}

fn renew(broker: &mut Broker, delivery: &Delivery) {
    let ticket = broker.ticket();
    let tokens = vec![delivery.lock.unwrap().token];
    let told = broker.tell(ME, Command::RenewLocks { path: path("q", SubQueue::Main), tokens, ticket });
    assert!(matches!(told[..], [Effect::Renewed(_)]), "{told:?}");
}

#[test]
fn a_locked_message_keeps_its_queue_and_its_settlement_is_a_use() {
    type End = fn(&mut Broker, &Delivery);
    let ends: [(&str, End); 3] = [
        ("completed", |broker, delivery| broker.settle(delivery, Outcome::Complete).unwrap()),
        ("deferred", |broker, delivery| {
            broker.settle(delivery, Outcome::Defer(properties(&[]))).unwrap();
        }),
        ("dead-lettered", |broker, delivery| {
            broker.settle(delivery, Outcome::DeadLetter(properties(&[]))).unwrap();
        }),
    ];
    for (what, end) in ends {
        let mut broker = Broker::new();
        create(&mut broker, "q", EntityKind::Queue, idle());
        publish(&mut broker, "q", message("long work"));
        let delivery = work_on(&mut broker, "q");
        for _ in 0..30 {
            wait(&mut broker, 29);
            renew(&mut broker, &delivery);
        }
        assert!(is_there(&broker, "q"), "{what}: nobody waits, but somebody works");
        wait(&mut broker, 20);
        end(&mut broker, &delivery);
        wait(&mut broker, 299);
        assert!(is_there(&broker, "q"), "{what}: too early");
        // When to look next was decided while somebody was at work.
        wait(&mut broker, 300);
        assert!(!is_there(&broker, "q"), "{what}: after its time");
    }
}

/// Lets time pass at a stroke: what became due meanwhile is done at the end.
fn jump(broker: &mut Broker, seconds: u64) {
    broker.now = broker.now.after(Duration::from_secs(seconds));
    broker.journal.make_readable();
    while broker.core.handle_deadline(broker.now, &mut broker.journal) {}
    while broker.core.deliver(broker.now, &mut broker.journal) {
        broker.journal.make_readable();
    }
}

#[test]
fn a_lock_that_runs_out_was_use_until_its_end_whenever_that_is_noticed() {
    type Pass = fn(&mut Broker, u64);
    let passes: [(&str, Pass); 2] = [("step by step", wait), ("at a stroke", jump)];
    // The lock's length and when it is renewed, in seconds.
    let locks = [(30, None), (30, Some(20)), (300, None), (300, Some(29)), (300, Some(299))];
    let places = [SubQueue::Main, SubQueue::DeadLetter];
    for (how, pass) in passes {
        for (length, renewed) in locks {
            for place in places {
                let case = format!("{how}, {length} s, renewed at {renewed:?}, {place:?}");
                let mut broker = Broker::new();
                let lock_duration = Duration::from_secs(length);
                create(&mut broker, "q", EntityKind::Queue, EntitySettings { lock_duration, ..idle() });
                publish(&mut broker, "q", message("a"));
                let mut delivery = work_on(&mut broker, "q");
                if place == SubQueue::DeadLetter {
                    broker.settle(&delivery, Outcome::DeadLetter(properties(&[]))).unwrap();
                    detach(&mut broker);
                    attach(&mut broker, "q", place, 0);
                    delivery = broker.credit(ME, 9, 1).pop().unwrap();
                }
                detach(&mut broker);
                if let Some(after) = renewed {
                    wait(&mut broker, after);
                    renew(&mut broker, &delivery);
                }
                let left = length + PERIOD.as_secs();
                pass(&mut broker, left - 1);
                assert!(is_there(&broker, "q"), "{case}: too early");
                pass(&mut broker, 1);
                assert!(!is_there(&broker, "q"), "{case}: after its time");
            }
        }
    }
}

#[test]
fn a_locked_session_keeps_its_queue_until_the_lock_ends() {
    type Pass = fn(&mut Broker, u64);
    let passes: [(&str, Pass); 2] = [("step by step", wait), ("at a stroke", jump)];
    for (how, pass) in passes {
        for is_lost in [false, true] {
            let mut broker = Broker::new();
            let lock_duration = Duration::from_secs(60);
            let settings = EntitySettings { requires_session: true, lock_duration, ..idle() };
            create(&mut broker, "q", EntityKind::Queue, settings);
            let wanted = Some(SessionWanted::Named("a".into()));
            let path = path("q", SubQueue::Main);
            broker.tell(
                OTHER,
                Command::OpenConsumer {
                    consumer: LinkId(9),
                    path: path.clone(),
                    mode: ReceiveMode::PeekLock,
                    unsettled: UnsettledPolicy::KeepLocks,
                    session: wanted,
                    auto_create: false,
                },
            );
            for _ in 0..10 {
                wait(&mut broker, 59);
                let (ticket, session) = (broker.ticket(), "a".into());
                broker.tell(OTHER, Command::RenewSession { path: path.clone(), session, ticket });
            }
            assert!(is_there(&broker, "q"), "{how}: it is held");
            if is_lost {
                broker.tell(OTHER, Command::Disconnect);
            }
            pass(&mut broker, 359);
            assert!(is_there(&broker, "q"), "{how}, lost={is_lost}: too early");
            // A receiver that is told of its loss is there when it is told.
            let told_late = how == "at a stroke" && !is_lost;
            pass(&mut broker, if told_late { 300 } else { 1 });
            assert!(!is_there(&broker, "q"), "{how}, lost={is_lost}: after its time");
        }
    }
}

#[test]
fn a_subscription_has_uses_of_its_own() {
    let name = "t/Subscriptions/s";
    let uses: [Use; 6] = [
        ("nothing", |_| {}, false),
        ("a copy that arrives", |broker| publish(broker, "t", message("a")), false),
        (
            "a receiver that came and went",
            |broker| {
                attach(broker, "t/Subscriptions/s", SubQueue::Main, 0);
                detach(broker);
            },
            true,
        ),
        (
            "a look",
            |broker| {
                broker.peek(main_path("t/Subscriptions/s"), 1, 1);
            },
            true,
        ),
        (
            "an update",
            |broker| {
                let (ticket, settings) = (broker.ticket(), Box::new(idle()));
                let name = "t/Subscriptions/s".into();
                broker.tell(ME, Command::UpdateEntity { name, settings, expected: None, ticket });
            },
            true,
        ),
        (
            "a new rule",
            |broker| {
                let (ticket, path) = (broker.ticket(), path("t/Subscriptions/s", SubQueue::Main));
                let rule = Box::new(rule("new", "a = 1", None));
                broker.tell(ME, Command::AddRule { path, rule, ticket });
            },
            true,
        ),
    ];
    for (what, happens, counts) in uses {
        let mut broker = Broker::new();
        create(&mut broker, "t", EntityKind::Topic, EntitySettings::default());
        create(&mut broker, name, EntityKind::Subscription, idle());
        wait(&mut broker, 150);
        happens(&mut broker);
        wait(&mut broker, 149);
        assert!(is_there(&broker, name), "{what}: too early");
        wait(&mut broker, 2);
        assert_eq!(is_there(&broker, name), counts, "{what}: after its own time");
        wait(&mut broker, 150);
        assert!(!is_there(&broker, name) && is_there(&broker, "t"), "{what}: after the new time");
    }
}

#[test]
fn forwarding_that_is_set_or_ended_by_an_update_counts() {
    let mut broker = Broker::new();
    let sends_on = || EntitySettings { forward_to: Some("q".into()), ..idle() };
    create(&mut broker, "q", EntityKind::Queue, EntitySettings::default());
    create(&mut broker, "t", EntityKind::Topic, EntitySettings::default());
    create(&mut broker, "t/Subscriptions/s", EntityKind::Subscription, idle());
    let update = |broker: &mut Broker, settings: EntitySettings| {
        let (ticket, settings) = (broker.ticket(), Box::new(settings));
        let told = broker.tell(
            ME,
            Command::UpdateEntity { name: "t/Subscriptions/s".into(), settings, expected: None, ticket },
        );
        assert!(matches!(told[..], [Effect::EntityDone { .. }]), "{told:?}");
    };
    wait(&mut broker, 200);
    update(&mut broker, sends_on());
    wait(&mut broker, 2_000);
    assert!(is_there(&broker, "t/Subscriptions/s"), "it forwards, and is never idle");
    update(&mut broker, idle());
    wait(&mut broker, 299);
    assert!(is_there(&broker, "t/Subscriptions/s"));
    wait(&mut broker, 2);
    assert!(!is_there(&broker, "t/Subscriptions/s"));
}

const BELOW: &str = "t/Subscriptions/s";

fn update(broker: &mut Broker, name: &str, settings: EntitySettings) {
    let (name, ticket, settings) = (name.into(), broker.ticket(), Box::new(settings));
    let told = broker.tell(ME, Command::UpdateEntity { name, settings, expected: None, ticket });
    assert!(matches!(told[..], [Effect::EntityDone { .. }]), "{told:?}");
}

#[test]
fn every_use_of_a_topic_or_of_its_subscription_begins_the_topics_time_anew() {
    let uses: [Use; 9] = [
        ("nothing", |_| {}, false),
        ("a send", |broker| publish(broker, "t", message("a")), true),
        ("an update", |broker| update(broker, "t", idle()), true),
        ("an update of the subscription", |broker| update(broker, BELOW, EntitySettings::default()), true),
        (
            "a new rule of the subscription",
            |broker| {
                let (ticket, path) = (broker.ticket(), path(BELOW, SubQueue::Main));
                let rule = Box::new(rule("new", "a = 1", None));
                broker.tell(ME, Command::AddRule { path, rule, ticket });
            },
            true,
        ),
        ("a look at the subscription", |broker| drop(broker.peek(main_path(BELOW), 1, 1)), true),
        (
            "a receiver of the subscription that came and went",
            |broker| {
                attach(broker, BELOW, SubQueue::Main, 0);
                detach(broker);
            },
            true,
        ),
        (
            "a receiver of the subscription's dead letters",
            |broker| {
                attach(broker, BELOW, SubQueue::DeadLetter, 0);
                detach(broker);
            },
            true,
        ),
        ("a send to another topic", |broker| publish(broker, "other", message("a")), false),
    ];
    for (what, happens, counts) in uses {
        let mut broker = Broker::new();
        create(&mut broker, "t", EntityKind::Topic, idle());
        create(&mut broker, BELOW, EntityKind::Subscription, EntitySettings::default());
        create(&mut broker, "other", EntityKind::Topic, EntitySettings::default());
        wait(&mut broker, 150);
        happens(&mut broker);
        wait(&mut broker, 149);
        assert!(is_there(&broker, "t"), "{what}: too early");
        wait(&mut broker, 2);
        assert_eq!(is_there(&broker, "t"), counts, "{what}: after its own time");
        wait(&mut broker, 148);
        assert_eq!(is_there(&broker, "t"), counts, "{what}: just before the new time is over");
        wait(&mut broker, 2);
        assert!(!is_there(&broker, "t") && !is_there(&broker, BELOW), "{what}: after the new time");
        assert!(is_there(&broker, "other"));
    }
}

#[test]
fn a_scheduled_message_keeps_its_topic_until_it_is_due_and_the_idle_time_has_passed() {
    let mut broker = Broker::new();
    create(&mut broker, "t", EntityKind::Topic, idle());
    let due = broker.now.after(Duration::from_secs(1_000));
    publish(&mut broker, "t", Message { scheduled_enqueue_time: Some(due), ..message("later") });
    wait(&mut broker, 1_299);
    assert!(is_there(&broker, "t"));
    wait(&mut broker, 302);
    assert!(!is_there(&broker, "t"));
}

#[test]
fn a_topic_is_used_through_its_subscriptions_and_takes_them_along() {
    let mut broker = Broker::new();
    create(&mut broker, "t", EntityKind::Topic, idle());
    create(&mut broker, "t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    create(&mut broker, "t/Subscriptions/short", EntityKind::Subscription, idle());
    wait(&mut broker, 200);
    publish(&mut broker, "t", message("a"));
    wait(&mut broker, 101);
    assert!(!is_there(&broker, "t/Subscriptions/short"), "a copy that arrives is no use of a subscription");
    attach(&mut broker, "t/Subscriptions/s", SubQueue::Main, 100);
    wait(&mut broker, 600);
    assert!(is_there(&broker, "t"), "a receiver of a subscription uses the topic");
    detach(&mut broker);
    wait(&mut broker, 301);
    assert!(!is_there(&broker, "t") && !is_there(&broker, "t/Subscriptions/s"));
}

#[test]
fn a_restart_begins_the_time_anew_and_forwarding_never_idles() {
    let mut broker = Broker::new();
    create(&mut broker, "q", EntityKind::Queue, idle());
    create(&mut broker, "way", EntityKind::Queue, EntitySettings { forward_to: Some("q".into()), ..idle() });
    wait(&mut broker, 299);
    broker.restart();
    wait(&mut broker, 299);
    assert!(is_there(&broker, "q"));
    wait(&mut broker, 2);
    assert!(!is_there(&broker, "q") && is_there(&broker, "way"));
    // It is shown as it was given, and counts once the queue does not forward any more.
    assert_eq!(broker.core.entity("way").unwrap().settings.auto_delete_on_idle, idle().auto_delete_on_idle);
    broker.create("q", EntitySettings::default());
    broker.update("way", idle());
    wait(&mut broker, 299);
    assert!(is_there(&broker, "way"));
    wait(&mut broker, 2);
    assert!(!is_there(&broker, "way"));
    assert!(broker.now > Timestamp::default());
}
