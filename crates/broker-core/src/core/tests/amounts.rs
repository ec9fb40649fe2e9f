//! The bytes that one step writes to the journal have a bound for every request.

use std::time::Duration;

use broker_filter::Value;
use proptest::prelude::*;

use super::{harness::*, transacting::*};
use crate::{
    Command, CommitError, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, Message, Outcome,
    Properties, PublishError, Rule, SettleError, Timestamp,
};

const LIMIT: u64 = 64 << 10;
/// Bytes that the journal adds to each record.
const RECORD_HEADER: u64 = 12;

fn plain() -> EntitySettings {
    EntitySettings::default()
}

fn limited() -> Broker {
    Broker::with(CoreConfig {
        token_key: [7; 16],
        max_message_bytes: 1 << 10,
        max_properties_bytes: 4 << 10,
        max_send_bytes: LIMIT,
        ..CoreConfig::default()
    })
}

/// A topic with so many subscriptions whose rules write three times what `x` has.
fn tripled(broker: &mut Broker, topic: &str, subscriptions: u32) {
    broker.create_kind(topic, EntityKind::Topic, plain());
    for number in 0..subscriptions {
        let (ticket, name) = (broker.ticket(), format!("{topic}/Subscriptions/s{number}").into());
        let rules = vec![rule("r", "", Some("SET y = x + x + x"))];
        let settings = Box::new(plain());
        assert_eq!(broker.ask(Command::CreateSubscription { name, settings, rules, ticket }), Ok(()));
    }
}

/// A message whose `x` has a thousand bytes.
fn kilobyte() -> Message {
    message_with("m", &[("x", Value::Text("x".repeat(1_000).into()))])
}

/// Bytes of all records from there on, as the journal writes them.
fn written(broker: &Broker, from: u64) -> u64 {
    let records = broker.journal.records.range(from..);
    records.map(|(_, (bytes, _))| bytes.len() as u64 + RECORD_HEADER).sum()
}

fn publish(broker: &mut Broker, path: EntityPath, messages: Vec<Message>) -> Result<(), PublishError> {
    let ticket = Some(broker.ticket());
    match broker.tell(ME, Command::PublishTo { path, messages, auto_create: false, ticket }).remove(0) {
        Effect::Published { .. } => Ok(()),
        Effect::PublishRefused { error, .. } => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Live and dead messages of all subscriptions of `t`.
fn copies(broker: &Broker) -> (u64, u64) {
    let subscriptions = broker.core.entities().filter(|view| view.kind == EntityKind::Subscription);
    subscriptions.fold((0, 0), |(live, dead), view| (live + view.active, dead + view.dead_letter))
}

#[test]
fn bytes_that_rules_write_for_one_send_have_a_limit() {
    let mut most = 0;
    for subscriptions in 1..30 {
        let mut broker = limited();
        tripled(&mut broker, "t", subscriptions);
        let (before, digest) = (broker.journal.end(), broker.core.digest());
        match publish(&mut broker, main_path("t"), vec![kilobyte()]) {
            Ok(()) => {
                assert_eq!(copies(&broker), (u64::from(subscriptions), 0));
                most = most.max(written(&broker, before));
                assert!(most <= LIMIT, "{subscriptions}: {most}");
            }
            Err(error) => {
                let (entity, messages, limit) = ("t".into(), 1, LIMIT);
                assert_eq!(error, PublishError::TooMuchAtOnce { entity, messages, limit });
                assert_eq!((broker.journal.end(), broker.core.digest()), (before, digest), "nothing is done");
                assert!(subscriptions > 15, "{subscriptions} times 3,000 bytes fit");
            }
        }
    }
    assert!((LIMIT * 9 / 10..=LIMIT).contains(&most), "{most}");
}

#[test]
fn the_messages_of_a_batch_have_a_limit_together() {
    for path in ["q", "t"] {
        let mut broker = limited();
        broker.create("q", plain());
        tripled(&mut broker, "t", 5);
        for (count, fits) in [(1, true), (3, true), (280, path == "q"), (290, false)] {
            let (before, digest) = (broker.journal.end(), broker.core.digest());
            let messages = vec![Message { payload: vec![0; 100].into(), ..kilobyte() }; count];
            let done = publish(&mut broker, main_path(path), messages);
            assert_eq!(done.is_ok(), fits, "{count} to {path}: {done:?}");
            assert!(written(&broker, before) <= LIMIT);
            assert!(fits || broker.core.digest() == digest);
        }
    }
}

#[test]
fn one_message_alone_always_fits() {
    let mut broker = Broker::with(CoreConfig { max_send_bytes: 1, ..CoreConfig::default() });
    broker.create("q", plain());
    broker.publish(message(&"x".repeat(1 << 20)));
    broker.create_kind("t", EntityKind::Topic, plain());
    broker.subscribe("s", plain(), vec![Rule::default_rule()]);
    broker.send(vec![message(&"x".repeat(1 << 20))]);
}

#[test]
fn a_transaction_sends_no_more_than_one_send_may() {
    for (topics, fits) in [(1, true), (2, false)] {
        let mut broker = limited();
        tripled(&mut broker, "t0", 12);
        tripled(&mut broker, "t1", 12);
        broker.declare(TX);
        for number in 0..topics {
            let sent = broker.send_messages_in(TX, &format!("t{number}"), vec![kilobyte()]);
            assert_eq!(sent, Answered::Done);
        }
        let before = broker.journal.end();
        let (entity, messages, limit) = ("t1".into(), 1, LIMIT);
        let refused = CommitError::Publish(PublishError::TooMuchAtOnce { entity, messages, limit });
        let expected = if fits { Answered::Done } else { Answered::Transaction(refused) };
        assert_eq!(broker.commit(TX), expected);
        assert_eq!(copies(&broker), (if fits { 12 } else { 0 }, 0));
        assert!(written(&broker, before) <= LIMIT);
    }
}

#[test]
fn a_scheduled_message_leaves_out_the_changes_for_which_one_step_has_no_room() {
    let mut broker = limited();
    tripled(&mut broker, "t", 40);
    let due = Some(broker.now.after(Duration::from_secs(60)));
    let payload = vec![0; 1_000].into();
    broker.core.state.messages.config.describe =
        |_, payload| Message { payload: payload.clone(), ..kilobyte() };
    let scheduled = Message { payload, scheduled_enqueue_time: due, ..kilobyte() };
    publish(&mut broker, main_path("t"), vec![scheduled]).unwrap();
    let before = broker.journal.end();
    broker.wait(60_000);
    let (live, dead) = copies(&broker);
    assert_eq!(live + dead, 40, "no subscription goes without");
    assert!((20..22).contains(&live), "{live} of 3,000 bytes each");
    assert!(written(&broker, before) <= LIMIT + 2_000 + 40 * 512);
    let reason = broker.shown_with(dead_letters_of("s39"), "DeadLetterReason");
    assert_eq!(reason[0].1.as_deref(), Some("HeaderSizeExceeded"));
    assert_eq!(broker.core.digest(), broker.replayed().digest());
    broker.check_liveness();
}

#[test]
fn a_message_too_large_to_forward_in_one_step_stays_behind() {
    let mut broker = limited();
    tripled(&mut broker, "t", 40);
    broker.core.state.messages.config.describe =
        |_, payload| Message { payload: payload.clone(), ..kilobyte() };
    broker.create("q", EntitySettings { forward_to: Some("t".into()), ..plain() });
    broker.publish(message("m"));
    broker.run_deadlines();
    assert_eq!(copies(&broker), (0, 0));
    let dead = broker.dead();
    assert_eq!(dead, [("m".to_owned(), Some("QuotaExceededException".to_owned()))]);
}

#[test]
fn bytes_that_rules_write_for_scheduled_messages_count_as_work() {
    let mut broker = limited();
    tripled(&mut broker, "t", 10);
    broker.core.state.messages.config.deliver_messages_max = 20;
    broker.core.state.messages.config.describe =
        |_, payload| Message { payload: payload.clone(), ..kilobyte() };
    let due = Some(broker.now.after(Duration::from_secs(60)));
    for _ in 0..8 {
        let scheduled = Message { scheduled_enqueue_time: due, ..kilobyte() };
        publish(&mut broker, main_path("t"), vec![scheduled]).unwrap();
    }
    broker.now = broker.now.after(Duration::from_secs(60));
    let mut calls = 0;
    while broker.core.deadline().is_some_and(|at| at <= broker.now) {
        let before = copies(&broker).0;
        broker.journal.make_readable();
        broker.core.handle_deadline(broker.now, &mut broker.journal);
        assert!(copies(&broker).0 - before <= 10, "one message in each call");
        calls += 1;
    }
    assert_eq!((copies(&broker), calls), ((80, 0), 8));
}

#[test]
fn bytes_that_one_request_rewrites_have_a_limit() {
    let more = properties(&[("k", "v")]);
    let cases: [(Outcome, u64, usize, bool); 8] = [
        (Outcome::DeadLetter(Properties::default()), 3_300, 3, true),
        (Outcome::DeadLetter(Properties::default()), 2_900, 3, false),
        (Outcome::Defer(more.clone()), 2_900, 3, false),
        // Those that have been delivered too often become dead letters.
        (Outcome::Abandon(Properties::default()), 3_300, 3, true),
        (Outcome::Abandon(Properties::default()), 2_900, 3, false),
        // Properties that are added to each message count, too.
        (Outcome::Abandon(properties(&[("k", &"v".repeat(100))])), 3_300, 3, false),
        (Outcome::Complete, 0, 3, true),
        (Outcome::Abandon(more), 0, 1, true),
    ];
    for (outcome, limit, count, fits) in cases {
        let mut broker = Broker::with_queue(plain());
        broker.core.state.messages.config.max_rewritten_bytes = limit;
        broker.publish_all(&["x".repeat(1_000).as_str(); 3]);
        let tokens = broker.lock(3).iter().take(count).map(|it| it.lock.unwrap().token).collect();
        let (before, ticket) = (broker.journal.end(), broker.ticket());
        let (path, told) = (main_path("q"), format!("{outcome:?} {limit} {count}"));
        let answer = broker
            .tell(ME, Command::SettleByToken { path, session: None, tokens, outcome, ticket })
            .remove(0);
        if fits {
            assert!(matches!(answer, Effect::Settled { .. }), "{told}: {answer:?}");
        } else {
            let Effect::SettleRefused { error, .. } = answer else { panic!("{told}: {answer:?}") };
            assert_eq!(error, SettleError::TooMuchAtOnce { limit }, "{told}");
            assert_eq!(broker.journal.end(), before, "{told}: nothing is done");
        }
    }
}

/// A rule of random kind.
fn any_rule(number: usize, kind: u8) -> Rule {
    let name = format!("r{number}");
    match kind {
        0 => rule(&name, "", None),
        1 => rule(&name, "n > 1", None),
        2 => rule(&name, "", Some("SET y = x + x")),
        3 => rule(&name, "n = 1", Some("SET sys.SessionId = 'abcdefghijklmnopqrstuvwxyz'")),
        4 => rule(&name, "sys.SomethingThatNoMessageHas = 1", None),
        _ => rule(&name, "", Some("SET z = 1; SET w = 1 / n")),
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let session = proptest::option::of("[a-z]{0,40}");
    (0..3i64, 0..2_000usize, 0..500usize, session, any::<bool>()).prop_map(
        |(n, x, payload, session, later)| {
            let users = [("n", Value::Int(n)), ("x", Value::Text("x".repeat(x).into()))];
            let due = later.then_some(Timestamp::from_millis(u64::from(u32::MAX)));
            Message {
                payload: vec![0; payload].into(),
                session_id: session.map(Box::from),
                scheduled_enqueue_time: due,
                ..message_with("", &users)
            }
        },
    )
}

proptest! {
    #[test]
    fn the_bytes_counted_for_a_send_are_those_that_it_writes_and_few_more(
        kinds in proptest::collection::vec((0..6u8, any::<bool>()), 0..12),
        messages in proptest::collection::vec(any_message(), 1..6),
    ) {
        let mut broker = limited();
        broker.core.state.messages.config.max_send_bytes = 1 << 30;
        broker.create_kind("t", EntityKind::Topic, plain());
        for (number, (kind, requires_session)) in kinds.iter().enumerate() {
            let settings = EntitySettings { requires_session: *requires_session, ..plain() };
            broker.subscribe(&format!("s{number}"), settings, vec![any_rule(number, *kind)]);
        }
        let (topic, before) = (broker.queue("t"), broker.journal.end());
        let at_most = crate::publish::send_size::SendSize::of(&broker.core.state.messages).bytes_at_most(topic, EntityKind::Topic, &messages);
        let counted = crate::publish::send_size::SendSize::of(&broker.core.state.messages).bytes_of(broker.now, topic, &messages, u64::MAX);
        let made = messages.len() as u64 * (1 + kinds.len() as u64);
        publish(&mut broker, main_path("t"), messages).unwrap();
        let written = written(&broker, before);
        prop_assert!(written <= counted, "{written} written, {counted} counted");
        prop_assert!(counted <= at_most, "{counted} counted, {at_most} at most");
        prop_assert!(counted <= written + made * 512, "{written} written, {counted} counted");
    }
}
