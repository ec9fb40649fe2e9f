//! Forwarding (`docs/features/forwarding.md`).

use std::time::Duration;

use broker_filter::{Filter, Parameters, SqlAction, Value};
use proptest::prelude::*;

use super::{harness::*, recovery::clean};
use crate::{
    AttachError, Command, CoreConfig, Effect, EntityError, EntityKind, EntityPath, EntitySettings,
    EntityStatus, LinkId, Message, Outcome, ReceiveMode, Rule, SessionWanted, SubQueue, Timestamp,
    UnsettledPolicy,
};

fn to(target: &str) -> EntitySettings {
    EntitySettings { forward_to: Some(target.into()), ..EntitySettings::default() }
}

fn dead_to(target: &str) -> EntitySettings {
    EntitySettings { forward_dead_lettered_to: Some(target.into()), ..EntitySettings::default() }
}

fn plain() -> EntitySettings {
    EntitySettings::default()
}

fn transfers(name: &str) -> EntityPath {
    EntityPath { entity: name.into(), sub_queue: SubQueue::TransferDeadLetter }
}

/// Facts of test payloads: `id;ttl in ms;delay in ms;session`.
fn describe(now: Timestamp, payload: &bytes::Bytes) -> Message {
    let text = String::from_utf8(payload.to_vec()).unwrap();
    let mut parts = text.split(';').map(str::to_owned);
    let id = parts.next().unwrap_or_default();
    let ttl = parts.next().and_then(|ttl| ttl.parse().ok());
    let delay: Option<u64> = parts.next().and_then(|delay| delay.parse().ok());
    let session_id = parts.next().map(Into::into);
    Message {
        payload: payload.clone(),
        message_id: Some(id.into()),
        time_to_live: ttl.map(Duration::from_millis),
        scheduled_enqueue_time: delay.map(|delay| now.after(Duration::from_millis(delay))),
        session_id,
        ..Message::default()
    }
}

fn broker() -> Broker {
    Broker::with(CoreConfig { token_key: [7; 16], describe, ..CoreConfig::default() })
}

/// With these entities, made in this order.
fn with(entities: &[(&str, EntitySettings)]) -> Broker {
    let mut broker = broker();
    for (name, settings) in entities {
        broker.create(name, settings.clone());
    }
    broker
}

fn send(broker: &mut Broker, name: &str, text: &str) {
    let (queue, ticket) = (broker.queue(name), broker.ticket());
    let message = describe(broker.now, &bytes::Bytes::copy_from_slice(text.as_bytes()));
    let told = broker.tell(ME, Command::Publish { queue, message, ticket: Some(ticket) });
    assert!(matches!(told.as_slice(), [Effect::Published { .. }]), "{told:?}");
    broker.run_deadlines();
}

fn contents(broker: &mut Broker, path: &EntityPath) -> Vec<String> {
    let (mut found, mut from) = (Vec::new(), 0);
    loop {
        let peeked = broker.peek(path.clone(), from, 1_000);
        let Some(last) = peeked.last() else { return found };
        from = last.sequence.0 + 1;
        found.extend(peeked.iter().map(|peeked| String::from_utf8(peeked.stored.payload.to_vec()).unwrap()));
    }
}

fn update(broker: &mut Broker, name: &str, settings: EntitySettings) -> Result<(), EntityError> {
    let ticket = broker.ticket();
    let told = broker.tell(
        ME,
        Command::UpdateEntity { name: name.into(), settings: Box::new(settings), expected: None, ticket },
    );
    for effect in told {
        match effect {
            Effect::EntityDone { .. } => {
                broker.run_deadlines();
                return Ok(());
            }
            Effect::RequestRefused { error, .. } => return Err(error),
            other => broker.journal.effects.push((ME, other)),
        }
    }
    panic!("an update is answered");
}

fn reason(broker: &mut Broker, path: EntityPath) -> Vec<(String, Option<String>)> {
    let peeked = broker.peek(path, 0, 1_000);
    let show = |peeked: &crate::Peeked| {
        let text = String::from_utf8(peeked.stored.payload.to_vec()).unwrap();
        (text, property(&peeked.stored.properties, "DeadLetterReason"))
    };
    peeked.iter().map(show).collect()
}

#[test]
fn a_message_arrives_at_the_target_as_if_it_were_sent_there() {
    let target = EntitySettings { default_time_to_live: Some(Duration::from_millis(500)), ..plain() };
    let mut broker = with(&[("target", target), ("source", to("Target"))]);
    send(&mut broker, "target", "first");
    send(&mut broker, "source", "a;9000");
    send(&mut broker, "source", "b");
    assert_eq!(contents(&mut broker, &main_path("source")), Vec::<String>::new());
    let got = broker.receive(main_path("target"), ReceiveMode::PeekLock, 9);
    assert_eq!(texts(&got), ["first", "a;9000", "b"]);
    let numbers: Vec<_> = got.iter().map(|got| got.sequence.0).collect();
    assert_eq!(numbers, [2, 3, 4].map(|number| number - 1), "numbers are the target's");
    let more: Vec<_> = got.iter().map(|got| got.stored.extras.clone()).collect();
    let first_numbers: Vec<_> = more.iter().map(|more| more.as_ref()?.enqueued_sequence).collect();
    assert_eq!(first_numbers, [None, Some(1), Some(2)], "the first number is kept");
    for got in &got {
        assert_eq!(got.stored.expires_at, Some(broker.now.after(Duration::from_millis(500))));
        assert_eq!(got.stored.delivery_count, 0);
    }
    broker.check_liveness();
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn the_target_looks_for_duplicates() {
    let target = EntitySettings { requires_duplicate_detection: true, ..plain() };
    let mut broker = with(&[("target", target), ("source", to("target"))]);
    for text in ["a;1000", "b", "a;2000"] {
        send(&mut broker, "source", text);
    }
    send(&mut broker, "target", "b;3000");
    assert_eq!(contents(&mut broker, &main_path("target")), ["a;1000", "b"]);
    assert_eq!(broker.core.entity("source").unwrap().active, 0);
    broker.check_liveness();
}

#[test]
fn a_message_goes_four_hops_and_is_dead_lettered_before_the_fifth() {
    for (chain, last) in [("abcde", "e"), ("abcdef", "e")] {
        let mut broker = broker();
        let names: Vec<String> = chain.chars().rev().map(String::from).collect();
        for (place, name) in names.iter().enumerate() {
            let next = place.checked_sub(1).map(|place| names[place].as_str());
            broker.create(name, next.map_or(plain(), to));
        }
        send(&mut broker, "a", "x");
        if chain.len() == 5 {
            assert_eq!(contents(&mut broker, &main_path(last)), ["x"]);
        } else {
            let expected = [("x".to_owned(), Some("MaxTransferHopCountExceeded".to_owned()))];
            assert_eq!(reason(&mut broker, dead_letters(last)), expected);
        }
        broker.check_liveness();
    }
}

#[test]
fn a_loop_ends() {
    let mut broker = with(&[("a", plain()), ("b", to("a"))]);
    update(&mut broker, "a", to("b")).unwrap();
    send(&mut broker, "a", "x");
    let expected = [("x".to_owned(), Some("MaxTransferHopCountExceeded".to_owned()))];
    assert_eq!(reason(&mut broker, dead_letters("a")), expected);
    assert!(broker.core.deadline().is_none_or(|at| at > broker.now), "nothing is left to do");
}

#[test]
fn a_message_that_the_target_refuses_is_dead_lettered_at_the_source() {
    type Spoil = fn(&mut Broker);
    let cases: [(&str, Spoil, &str); 4] = [
        (
            "disabled",
            |broker| {
                let disabled = EntitySettings { status: EntityStatus::Disabled, ..plain() };
                update(broker, "target", disabled).unwrap();
            },
            "MessagingEntityDisabledException",
        ),
        (
            "deleted",
            |broker| {
                let ticket = broker.ticket();
                broker.tell(ME, Command::DeleteEntity { name: "target".into(), expected: None, ticket });
            },
            "MessagingEntityNotFoundException",
        ),
        (
            "full",
            |broker| {
                update(broker, "target", EntitySettings { max_size_bytes: Some(1), ..plain() }).unwrap();
            },
            "QuotaExceededException",
        ),
        (
            "takes only smaller messages",
            |broker| {
                update(broker, "target", EntitySettings { max_message_bytes: Some(2), ..plain() }).unwrap();
            },
            "MessageSizeExceededException",
        ),
    ];
    for (what, spoil, expected) in cases {
        let mut broker = with(&[("target", plain()), ("source", to("target"))]);
        send(&mut broker, "source", "before");
        spoil(&mut broker);
        send(&mut broker, "source", "after");
        let kept = reason(&mut broker, dead_letters("source"));
        assert_eq!(kept, [("after".to_owned(), Some(expected.to_owned()))], "{what}");
        broker.check_liveness();
        assert_eq!(broker.replayed().digest(), broker.core.digest(), "{what}");
    }
}

#[test]
fn a_target_that_is_created_again_gets_later_messages() {
    let mut broker = with(&[("target", plain()), ("source", to("target"))]);
    let ticket = broker.ticket();
    broker.tell(ME, Command::DeleteEntity { name: "target".into(), expected: None, ticket });
    send(&mut broker, "source", "lost");
    broker.create("target", plain());
    send(&mut broker, "source", "found");
    assert_eq!(contents(&mut broker, &main_path("target")), ["found"]);
    assert_eq!(contents(&mut broker, &dead_letters("source")), ["lost"]);
}

#[test]
fn a_full_disk_or_memory_lets_messages_wait_at_the_source() {
    for (disk, memory) in [(true, false), (false, true), (true, true)] {
        let mut broker = with(&[("target", plain()), ("source", to("target"))]);
        let (queue, now) = (broker.queue("source"), broker.now);
        let message = describe(now, &"x".into());
        broker.tell(ME, Command::Publish { queue, message, ticket: None });
        (broker.journal.full, broker.journal.memory_full) = (disk, memory);
        broker.run_deadlines();
        assert_eq!(contents(&mut broker, &main_path("source")), ["x"]);
        assert!(broker.core.deadline().is_some_and(|at| at > now), "it is tried again, but not at once");
        (broker.journal.full, broker.journal.memory_full) = (false, false);
        broker.wait(1_000);
        assert_eq!(contents(&mut broker, &main_path("target")), ["x"]);
    }
}

#[test]
fn a_target_without_room_holds_up_its_own_sources_alone() {
    let full = EntitySettings { requires_duplicate_detection: true, ..plain() };
    let mut broker = with(&[("full", full), ("free", plain()), ("a", to("full")), ("b", to("free"))]);
    broker.core.state.messages.config.max_history_ids = 0;
    broker.core.state.messages.config.describe = |_, payload| Message {
        payload: payload.clone(),
        message_id: Some("id".into()),
        ..Message::default()
    };
    send(&mut broker, "a", "waits");
    broker.run_deadlines();
    send(&mut broker, "b", "goes");
    broker.run_deadlines();
    assert_eq!(contents(&mut broker, &main_path("free")), ["goes"], "it asks nothing of the other target");
    assert_eq!(contents(&mut broker, &main_path("a")), ["waits"]);
    broker.core.state.messages.config.max_history_ids = 9;
    broker.wait(999);
    assert_eq!(contents(&mut broker, &main_path("a")), ["waits"], "not before its time");
    broker.wait(1);
    assert_eq!(contents(&mut broker, &main_path("full")), ["waits"]);
    assert_eq!(broker.core.deadline().filter(|at| *at <= broker.now), None);
}

#[test]
fn dead_letters_are_forwarded_with_their_source_and_reason() {
    let settings = EntitySettings { max_delivery_count: 1, ..dead_to("morgue") };
    let mut broker = with(&[("morgue", plain()), ("Orders", settings)]);
    send(&mut broker, "orders", "x");
    let got = broker.receive(main_path("orders"), ReceiveMode::PeekLock, 1).remove(0);
    broker.settle(&got, Outcome::Abandon(properties(&[("mine", "1")]))).unwrap();
    broker.run_deadlines();
    let got = broker.receive(main_path("morgue"), ReceiveMode::PeekLock, 1).remove(0);
    let more = got.stored.extras.clone().unwrap();
    assert_eq!((more.dead_letter_source.as_deref(), more.hops), (Some("Orders"), 1));
    let reason = property(&got.stored.properties, "DeadLetterReason");
    assert_eq!(reason.as_deref(), Some("MaxDeliveryCountExceeded"));
    assert_eq!(property(&got.stored.properties, "mine").as_deref(), Some("1"));
    assert_eq!(broker.core.entity("orders").unwrap().dead_letter, 0);
    broker.check_liveness();
}

#[test]
fn a_dead_letter_that_cannot_be_forwarded_is_a_transfer_dead_letter() {
    let mut broker = with(&[("morgue", plain()), ("orders", dead_to("morgue"))]);
    let ticket = broker.ticket();
    broker.tell(ME, Command::DeleteEntity { name: "morgue".into(), expected: None, ticket });
    send(&mut broker, "orders", "x");
    let got = broker.receive(main_path("orders"), ReceiveMode::PeekLock, 1).remove(0);
    broker.settle(&got, Outcome::DeadLetter(properties(&[("DeadLetterReason", "bad")]))).unwrap();
    broker.run_deadlines();
    let kept = reason(&mut broker, transfers("orders"));
    assert_eq!(kept, [("x".to_owned(), Some("MessagingEntityNotFoundException".to_owned()))]);
    let peeked = broker.peek(transfers("orders"), 0, 1).remove(0);
    let why = property(&peeked.stored.properties, "DeadLetterErrorDescription").unwrap();
    assert!(why.ends_with("It had been dead-lettered for: bad"), "{why}");
    let got = broker.receive(transfers("orders"), ReceiveMode::PeekLock, 1).remove(0);
    broker.settle(&got, Outcome::Complete).unwrap();
    broker.check_liveness();
}

/// Messages that the holder of a session gets.
fn of_session(broker: &mut Broker, name: &str, session: &str) -> Vec<String> {
    let open = Command::OpenConsumer {
        session: Some(SessionWanted::Named(session.into())),
        consumer: LinkId(7),
        path: main_path(name),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        auto_create: false,
    };
    broker.tell(ME, open);
    let got = broker.credit(ME, 7, 10);
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(7) });
    texts(&got)
}

#[test]
fn a_message_forwarded_to_an_entity_with_sessions_needs_a_session_id() {
    let sessions = EntitySettings { requires_session: true, ..plain() };
    let mut broker = with(&[("target", sessions), ("source", to("target")), ("dead", dead_to("target"))]);
    for text in ["a;;;red", "b", "c;;;blue", "d;9000;;red", "e;;;", "f"] {
        send(&mut broker, "source", text);
    }
    for text in ["g;;;red", "h"] {
        send(&mut broker, "dead", text);
        let got = broker.receive(main_path("dead"), ReceiveMode::PeekLock, 1).remove(0);
        broker.settle(&got, Outcome::DeadLetter(properties(&[("DeadLetterReason", "bad")]))).unwrap();
        broker.run_deadlines();
    }
    let arrived = ["a;;;red", "c;;;blue", "d;9000;;red", "e;;;", "g;;;red"];
    assert_eq!(contents(&mut broker, &main_path("target")), arrived);
    let none = |text: &str| (text.to_owned(), Some("Session id is null.".to_owned()));
    assert_eq!(reason(&mut broker, dead_letters("source")), [none("b"), none("f")]);
    assert_eq!(reason(&mut broker, transfers("dead")), [none("h")]);
    for (session, expected) in
        [("red", vec!["a;;;red", "d;9000;;red", "g;;;red"]), ("blue", vec!["c;;;blue"]), ("", vec!["e;;;"])]
    {
        assert_eq!(of_session(&mut broker, "target", session), expected, "{session}");
    }
    broker.check_liveness();
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn an_entity_that_forwards_to_itself_dead_letters_its_messages() {
    let with_ids = EntitySettings { requires_duplicate_detection: true, ..to("Circle") };
    let mut broker = with(&[("circle", with_ids)]);
    send(&mut broker, "circle", "a");
    broker.run_deadlines();
    let expected = [("a".to_owned(), Some("MaxTransferHopCountExceeded".to_owned()))];
    assert_eq!(reason(&mut broker, dead_letters("circle")), expected);
    assert_eq!(broker.core.entity("circle").unwrap().active, 0);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

#[test]
fn a_dead_letter_that_is_forwarded_to_its_own_entity_is_received_again_and_ends_after_four_hops() {
    let settings = EntitySettings { requires_duplicate_detection: true, ..dead_to("retry") };
    let mut broker = with(&[("retry", settings)]);
    send(&mut broker, "retry", "x");
    for hop in 0..5_u8 {
        let got = broker.receive(main_path("retry"), ReceiveMode::PeekLock, 1).remove(0);
        assert_eq!(got.stored.extras.as_ref().map_or(0, |extras| extras.hops), hop);
        broker.settle(&got, Outcome::DeadLetter(properties(&[("DeadLetterReason", "bad")]))).unwrap();
        broker.run_deadlines();
    }
    let expected = [("x".to_owned(), Some("MaxTransferHopCountExceeded".to_owned()))];
    assert_eq!(reason(&mut broker, transfers("retry")), expected);
    assert_eq!(broker.core.entity("retry").unwrap().active, 0);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn messages_of_sessions_are_forwarded_with_their_ids_but_for_those_that_a_receiver_has() {
    let sessions = || EntitySettings { requires_session: true, ..plain() };
    let forwards = || EntitySettings { requires_session: true, ..to("target") };
    for enable_partitioning in [false, true] {
        let mut broker = with(&[("target", sessions())]);
        broker.create("source", EntitySettings { enable_partitioning, ..sessions() });
        // Forwarding on and off moves the order of the store on.
        let (on, off) = (forwards(), sessions());
        update(&mut broker, "source", EntitySettings { enable_partitioning, ..on.clone() }).unwrap();
        send(&mut broker, "source", "a;;;red");
        broker.run_deadlines();
        update(&mut broker, "source", EntitySettings { enable_partitioning, ..off }).unwrap();
        for text in ["b;;;red", "c;;;blue", "d;;;red"] {
            send(&mut broker, "source", text);
        }
        let open = |link: u32, session: SessionWanted| Command::OpenConsumer {
            session: Some(session),
            consumer: LinkId(link),
            path: main_path("source"),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            auto_create: false,
        };
        broker.tell(ME, open(5, SessionWanted::Named("red".into())));
        let held = broker.credit(ME, 5, 1);
        broker.settle(&held[0], Outcome::Release(properties(&[]))).unwrap();
        let held = broker.credit(ME, 5, 2);
        assert_eq!(texts(&held), ["b;;;red"]);
        let patience = Duration::from_secs(60);
        broker.tell(ME, open(6, SessionWanted::Named("none".into())));
        broker.tell(ME, open(8, SessionWanted::Named("blue".into())));
        broker.tell(ME, open(7, SessionWanted::Next { patience }));
        let ticket = broker.ticket();
        let settings = Box::new(EntitySettings { enable_partitioning, ..on });
        let change = Command::UpdateEntity { name: "source".into(), settings, expected: None, ticket };
        let told = broker.tell(ME, change);
        let detached = told.iter().filter_map(|effect| match effect {
            Effect::EntityForwards { link } => Some((link.0, true)),
            Effect::AttachRefused { link, error: AttachError::Forwards(_) } => Some((link.0, false)),
            _ => None,
        });
        let mut detached: Vec<_> = detached.collect();
        detached.sort_unstable();
        assert_eq!(detached, [(5, true), (6, true), (7, false), (8, true)]);
        broker.run_deadlines();
        let mut arrived = contents(&mut broker, &main_path("target"));
        arrived.sort();
        assert_eq!(arrived, ["a;;;red", "b;;;red", "c;;;blue", "d;;;red"]);
        assert_eq!(of_session(&mut broker, "target", "red"), ["a;;;red", "b;;;red", "d;;;red"]);
        broker.check_liveness();
        assert_eq!(broker.replayed().digest(), broker.core.digest());
    }
}

#[test]
fn a_schedule_that_is_forwarded_into_a_session_comes_due_there() {
    let sessions = EntitySettings { requires_session: true, ..plain() };
    let mut broker = with(&[("target", sessions), ("source", to("target"))]);
    send(&mut broker, "source", "late;;500;red");
    assert_eq!(of_session(&mut broker, "target", "red"), Vec::<String>::new());
    // It is due at the source, and then at the target: these payloads count from where they are.
    broker.wait(500);
    assert_eq!(broker.core.entity("target").unwrap().scheduled, 1);
    broker.wait(500);
    assert_eq!(of_session(&mut broker, "target", "red"), ["late;;500;red"]);
    assert_eq!(broker.core.entity("source").unwrap().scheduled, 0);
    broker.check_liveness();
}

#[test]
fn nobody_receives_from_an_entity_that_forwards() {
    let mut broker = with(&[("t", plain()), ("main", to("t")), ("dead", dead_to("t"))]);
    let cases = [
        (main_path("main"), false),
        (dead_letters("main"), true),
        (main_path("dead"), true),
        (dead_letters("dead"), false),
        (transfers("dead"), true),
    ];
    for (path, allowed) in cases {
        let open = Command::OpenConsumer {
            session: None,
            consumer: LinkId(5),
            path: path.clone(),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            auto_create: false,
        };
        let told = broker.tell(ME, open);
        let refused = matches!(
            told.as_slice(),
            [Effect::AttachRefused { error: AttachError::Forwards(name), .. }] if *name == path.entity
        );
        assert_eq!(refused, !allowed, "{path:?}: {told:?}");
    }
}

#[test]
fn a_backlog_is_worked_off_in_bounded_steps_and_in_order() {
    let mut broker = broker();
    broker.core.state.messages.config.deliver_messages_max = 10;
    broker.create("target", plain());
    broker.create("source", plain());
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for text in &expected {
        send(&mut broker, "source", text);
    }
    broker.open(ME, 1, main_path("source"), ReceiveMode::PeekLock);
    let held = broker.credit(ME, 1, 1);
    let ticket = broker.ticket();
    let update = Command::UpdateEntity {
        name: "source".into(),
        settings: Box::new(to("target")),
        expected: None,
        ticket,
    };
    let told = broker.tell(ME, update);
    assert!(told.iter().any(|effect| matches!(effect, Effect::EntityForwards { link: LinkId(1) })));
    let mut calls = 0;
    while broker.core.deadline().is_some_and(|at| at <= broker.now) {
        broker.journal.make_readable();
        let before = broker.core.entity("target").unwrap().active;
        broker.core.handle_deadline(broker.now, &mut broker.journal);
        let moved = broker.core.entity("target").unwrap().active - before;
        assert!(moved <= 5, "{moved} in one call: the other half is for the rest");
        calls += 1;
    }
    assert!((20..40).contains(&calls), "{calls} calls");
    assert_eq!(contents(&mut broker, &main_path("target")), expected[1..]);
    broker.settle(&held[0], Outcome::Release(properties(&[]))).unwrap();
    broker.run_deadlines();
    assert_eq!(broker.core.entity("target").unwrap().active, 100, "what was locked follows");
    broker.check_liveness();
}

#[test]
fn scheduled_and_deferred_messages_are_not_forwarded_before_they_are_available() {
    let mut broker = with(&[("target", plain()), ("source", plain())]);
    send(&mut broker, "source", "deferred");
    let got = broker.receive(main_path("source"), ReceiveMode::PeekLock, 1).remove(0);
    broker.settle(&got, Outcome::Defer(properties(&[]))).unwrap();
    update(&mut broker, "source", to("target")).unwrap();
    let (queue, now) = (broker.queue("source"), broker.now);
    let due = Some(now.after(Duration::from_secs(5)));
    let message = Message { scheduled_enqueue_time: due, ..message("scheduled") };
    broker.tell(ME, Command::Publish { queue, message, ticket: None });
    broker.run_deadlines();
    assert_eq!(contents(&mut broker, &main_path("target")), Vec::<String>::new());
    broker.wait(5_000);
    assert_eq!(contents(&mut broker, &main_path("target")), ["scheduled"]);
    assert_eq!(contents(&mut broker, &main_path("source")), ["deferred"]);
}

#[test]
fn the_target_honours_a_scheduled_enqueue_time() {
    let mut broker = with(&[("target", plain()), ("source", to("target"))]);
    let (queue, now) = (broker.queue("source"), broker.now);
    // Sent without a delay of its own here, as a copy that an action changed.
    let message = Message { scheduled_enqueue_time: None, ..describe(now, &"x;;3000".into()) };
    broker.tell(ME, Command::Publish { queue, message, ticket: None });
    broker.run_deadlines();
    let view = broker.core.entity("target").unwrap();
    assert_eq!((view.active, view.scheduled), (0, 1));
    broker.wait(3_000);
    let got = broker.receive(main_path("target"), ReceiveMode::PeekLock, 1).remove(0);
    assert_eq!(got.stored.extras.clone().unwrap().enqueued_sequence, Some(1), "it is kept over the schedule");
}

#[test]
fn a_restart_goes_on_where_it_was() {
    let mut broker = with(&[("target", plain()), ("source", to("target"))]);
    let (queue, now) = (broker.queue("source"), broker.now);
    for text in ["a", "b"] {
        let message = describe(now, &text.into());
        broker.tell(ME, Command::Publish { queue, message, ticket: None });
    }
    assert_eq!(contents(&mut broker, &main_path("source")), ["a", "b"], "not yet");
    broker.restart();
    broker.run_deadlines();
    assert_eq!(contents(&mut broker, &main_path("target")), ["a", "b"]);
}

#[test]
fn targets_are_checked_when_they_are_set() {
    let session = EntitySettings { requires_session: true, ..plain() };
    let cases = [
        // kind, settings, what is refused
        (EntityKind::Queue, to("missing"), Some("missing")),
        (EntityKind::Queue, dead_to("missing"), Some("missing")),
        (EntityKind::Queue, to("NEW"), None),
        (EntityKind::Queue, dead_to("new"), None),
        (
            EntityKind::Queue,
            to("topic/Subscriptions/s"),
            Some("a subscription takes messages from its topic only"),
        ),
        (EntityKind::Topic, to("queue"), Some("only queues and subscriptions forward")),
        (EntityKind::Queue, EntitySettings { forward_to: Some("queue".into()), ..session.clone() }, None),
        (
            EntityKind::Queue,
            EntitySettings { forward_dead_lettered_to: Some("queue".into()), ..session },
            None,
        ),
        (EntityKind::Queue, to("QUEUE"), None),
        (EntityKind::Queue, to("topic"), None),
    ];
    for (kind, settings, expected) in cases {
        let mut broker = with(&[("queue", plain())]);
        let mut create = |name: &str, kind, settings: &EntitySettings| {
            let ticket = broker.ticket();
            let settings = Box::new(settings.clone());
            broker.tell(ME, Command::CreateEntity { name: name.into(), kind, settings, ticket })
        };
        create("topic", EntityKind::Topic, &plain());
        create("topic/Subscriptions/s", EntityKind::Subscription, &plain());
        let told = create("new", kind, &settings);
        let refused = match told.as_slice() {
            [Effect::RequestRefused { error: EntityError::ForwardTarget { why, .. }, .. }] => Some(*why),
            [Effect::RequestRefused { error: EntityError::ForwardTargetMissing { .. }, .. }] => {
                Some("missing")
            }
            [Effect::EntityDone { .. }] => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused, expected, "{kind:?} {settings:?}");
    }
}

proptest! {
    #[test]
    fn a_forwarded_message_is_in_exactly_one_place_after_a_crash_at_any_point(
        // Targets of the messages and of the dead letters of each of four queues: 4 is no target.
        routes in proptest::collection::vec((0usize..5, 0usize..5), 4),
        steps in proptest::collection::vec((0u8..6, 0usize..4), 1..40),
    ) {
        let mut broker = broker();
        broker.core.state.messages.config.deliver_messages_max = 3;
        let names = ["a", "b", "c", "d"];
        for name in names {
            broker.create(name, plain());
        }
        for (place, (main, dead)) in routes.iter().enumerate() {
            let target = |target: usize| names.get(target).map(|name| Box::from(*name));
            let settings = EntitySettings {
                forward_to: target(*main),
                forward_dead_lettered_to: target(*dead),
                ..plain()
            };
            update(&mut broker, names[place], settings).unwrap();
        }
        let mut sent: Vec<String> = Vec::new();
        for (step, place) in steps {
            match step {
                0..=2 => {
                    let text = sent.len().to_string();
                    let (queue, now) = (broker.queue(names[place]), broker.now);
                    let message = describe(now, &bytes::Bytes::copy_from_slice(text.as_bytes()));
                    broker.tell(ME, Command::Publish { queue, message, ticket: None });
                    sent.push(text);
                }
                3 => {
                    broker.journal.make_readable();
                    broker.core.handle_deadline(broker.now, &mut broker.journal);
                }
                4 => broker.restart(),
                _ => {
                    let end = broker.journal.end();
                    clean(&mut broker, end);
                }
            }
            let mut found = Vec::new();
            for name in names {
                for path in [main_path(name), dead_letters(name), transfers(name)] {
                    found.extend(contents(&mut broker, &path));
                }
            }
            found.sort_by_key(|text| text.parse::<u32>().unwrap());
            prop_assert_eq!(&found, &sent);
            prop_assert_eq!(broker.replayed().digest(), broker.core.digest());
            broker.check_liveness();
        }
        broker.run_deadlines();
        for (place, (main, _)) in routes.iter().enumerate() {
            let forwards = *main < 4;
            prop_assert!(!forwards || broker.core.entity(names[place]).unwrap().active == 0, "{}", names[place]);
        }
    }
}

#[test]
fn an_entity_that_forbids_receiving_forwards_nothing_until_it_permits_it() {
    let cases = [
        (EntityStatus::Active, true),
        (EntityStatus::SendDisabled, true),
        (EntityStatus::ReceiveDisabled, false),
        (EntityStatus::Disabled, false),
    ];
    for case @ (status, goes_on) in cases {
        let settings = EntitySettings { forward_dead_lettered_to: Some("target".into()), ..to("target") };
        let mut broker = with(&[("target", plain()), ("source", plain())]);
        send(&mut broker, "source", "letter");
        let letter = broker.receive(main_path("source"), ReceiveMode::PeekLock, 1).remove(0);
        broker.settle(&letter, Outcome::DeadLetter(properties(&[]))).unwrap();
        send(&mut broker, "source", "message");
        let with = |status| EntitySettings { status, ..settings.clone() };
        update(&mut broker, "source", with(status)).unwrap();
        broker.wait(10);
        assert_eq!(
            contents(&mut broker, &main_path("target")).len(),
            if goes_on { 2 } else { 0 },
            "{case:?}"
        );
        broker.restart();
        broker.wait(10);
        let mut there = contents(&mut broker, &main_path("target"));
        assert_eq!(there.len(), if goes_on { 2 } else { 0 }, "{case:?} after a restart");
        assert!(broker.core.deadline().is_none_or(|at| at > broker.now), "{case:?}: nothing is left to do");
        update(&mut broker, "source", with(EntityStatus::Active)).unwrap();
        there = contents(&mut broker, &main_path("target"));
        there.sort_unstable();
        assert_eq!(there, ["letter", "message"], "{case:?}");
        broker.check_liveness();
    }
}

/// An action over parameters.
fn action(text: &str, parameters: &[(&str, Value)]) -> SqlAction {
    let mut all = Parameters::new();
    for (name, value) in parameters {
        all.set(name, value.clone());
    }
    SqlAction::parse(text, all).unwrap()
}

#[test]
fn properties_that_a_rule_changed_count_at_the_target_of_forwarding() {
    let changes = "SET sys.SessionId = 'steps'; SET sys.TimeToLive = @ttl; SET sys.MessageId = 'other'; \
                   SET sys.ScheduledEnqueueTimeUtc = @due";
    let mut broker = broker();
    let due = broker.now.after(Duration::from_secs(1));
    let parameters = [
        ("@ttl", Value::duration_ms(5_000)),
        ("@due", Value::Timestamp(i64::try_from(due.as_millis()).unwrap())),
    ];
    let settings = EntitySettings { requires_session: true, requires_duplicate_detection: true, ..plain() };
    broker.create("target", settings);
    broker.create_kind("t", EntityKind::Topic, plain());
    let rule = Rule { name: "r".into(), filter: Filter::True, action: Some(action(changes, &parameters)) };
    broker.subscribe("s", to("target"), vec![rule]);
    for text in ["a", "b"] {
        broker.send(vec![describe(broker.now, &bytes::Bytes::from(text))]);
        broker.run_deadlines();
    }
    let peeked = broker.peek(main_path("target"), 0, 9);
    assert_eq!(peeked.len(), 1, "both have the id that the rule gave them: {peeked:?}");
    assert_eq!(peeked[0].stored.state, 2, "it waits for its time");
    broker.wait(1_000);
    let peeked = broker.peek(main_path("target"), 0, 9);
    assert_eq!(peeked[0].stored.state, 0);
    let session = peeked[0].stored.extras.as_ref().and_then(|more| more.session.clone());
    assert_eq!(session.as_deref(), Some("steps"));
    assert_eq!(peeked[0].stored.expires_at, Some(due.after(Duration::from_secs(5))));
    broker.wait(5_000);
    assert!(broker.peek(main_path("target"), 0, 9).is_empty());
    assert!(broker.peek(dead_letters_of("s"), 0, 9).is_empty());
}

#[test]
fn properties_that_grow_from_rule_to_rule_stay_within_their_limit() {
    let config =
        CoreConfig { token_key: [7; 16], describe, max_properties_bytes: 300, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create("end", plain());
    for (name, target) in [("t3", "end"), ("t2", "t3"), ("t1", "t2")] {
        broker.create_kind(name, EntityKind::Topic, plain());
        let text = "x".repeat(90);
        let set = action(&format!("SET {name} = @text"), &[("@text", Value::from(text.as_str()))]);
        let ticket = broker.ticket();
        let rules = vec![Rule { name: "r".into(), filter: Filter::True, action: Some(set) }];
        let subscription = format!("{name}/Subscriptions/s").into();
        let settings = Box::new(to(target));
        assert_eq!(
            broker.ask(Command::CreateSubscription { name: subscription, settings, rules, ticket }),
            Ok(())
        );
    }
    send(&mut broker, "t1", "m");
    broker.wait(10);
    let letters =
        |broker: &mut Broker, name: &str| reason(broker, dead_letters(&format!("{name}/Subscriptions/s")));
    let at = ["t1", "t2", "t3"].map(|name| letters(&mut broker, name));
    let found: Vec<_> = at.into_iter().flatten().collect();
    assert_eq!(found, [("m".to_owned(), Some("HeaderSizeExceeded".to_owned()))]);
    assert!(contents(&mut broker, &main_path("end")).is_empty());
    let longest = broker.journal.records.values().map(|(record, index)| record.len() - index).max();
    assert!(longest.is_some_and(|longest| longest < 600), "{longest:?}");
    broker.check_liveness();
}
