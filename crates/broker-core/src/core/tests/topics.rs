//! Copies of a topic's messages (`docs/features/topics.md`).

use std::time::Duration;

use broker_filter::{CorrelationFilter, Filter, Parameters, SqlAction, Value};
use bytes::Bytes;

use super::{harness::*, recovery::clean};
use crate::{
    AttachError, Command, CoreConfig, Effect, EntityKind, EntitySettings, LinkId, Message, Outcome,
    PublishError, QuotaError, ReceiveMode, Rule, SYSTEM, StoredExtras, UnsettledPolicy,
};

const REASON: &str = "DeadLetterReason";

fn plain() -> EntitySettings {
    EntitySettings::default()
}

fn everything() -> Vec<Rule> {
    vec![Rule::default_rule()]
}

/// A topic with subscriptions `a` and `b` that get everything.
fn two() -> Broker {
    let mut broker = Broker::with_topic(plain());
    broker.subscribe("a", plain(), everything());
    broker.subscribe("b", plain(), everything());
    broker
}

/// Name of the case, the rules, and the `RuleName` of each copy.
type Case = (&'static str, Vec<Rule>, &'static [Option<&'static str>]);

#[test]
fn each_matching_rule_with_an_action_makes_one_more_copy() {
    let number = |name, filter, action| rule(name, filter, action);
    let cases: &[Case] = &[
        ("no rule, no copy", vec![], &[]),
        ("one that matches", vec![number("r", "n > 5", None)], &[None]),
        ("one that does not", vec![number("r", "n > 7", None)], &[]),
        ("an absent property is no match", vec![number("r", "m <> 1", None)], &[]),
        ("rules without action are one", vec![number("r", "n > 5", None), number("s", "", None)], &[None]),
        ("an action alone", vec![number("r", "", Some("SET x = 1"))], &[Some("r")]),
        (
            "five of which two have actions",
            vec![
                number("r1", "n > 5", None),
                number("r2", "", Some("SET x = 1")),
                number("r3", "n = 7", None),
                number("r4", "n IN (7)", Some("REMOVE n")),
                number("r5", "", None),
            ],
            &[None, Some("r2"), Some("r4")],
        ),
        (
            "an action whose filter does not match",
            vec![number("r", "n < 5", Some("SET x = 1")), number("s", "", None)],
            &[None],
        ),
    ];
    for (case, rules, expected) in cases {
        let mut broker = Broker::with_topic(plain());
        broker.subscribe("s", plain(), rules.clone());
        broker.send(vec![message_with("m", &[("n", Value::Int(7))])]);
        let copies = broker.shown_with(subscription("s"), "RuleName");
        let names: Vec<Option<&str>> = copies.iter().map(|(_, name)| name.as_deref()).collect();
        assert_eq!(names, *expected, "{case}");
        broker.check_liveness();
    }
}

#[test]
fn a_new_subscription_lets_everything_in() {
    let mut broker = Broker::with_topic(plain());
    broker.create_kind("t/subscriptions/S", EntityKind::Subscription, plain());
    broker.send(vec![message("m")]);
    assert_eq!(broker.shown_texts(subscription("s")), ["m"]);
}

#[test]
fn correlation_filters_compare_the_properties_that_they_name() {
    let mut filter = CorrelationFilter::new();
    filter.user("Color", Value::Text("red".into()));
    filter.user("n", Value::Double(5.0));
    let mut broker = Broker::with_topic(plain());
    let rules = vec![Rule { name: "r".into(), filter: Filter::Correlation(filter), action: None }];
    broker.subscribe("s", plain(), rules);
    let colour = |name: &str| Value::Text(name.into());
    broker.send(vec![
        message_with("both", &[("color", colour("red")), ("n", Value::Int(5))]),
        message_with("other case", &[("color", colour("Red")), ("n", Value::Int(5))]),
        message_with("one", &[("color", colour("red"))]),
    ]);
    assert_eq!(broker.shown_texts(subscription("s")), ["both"]);
}

#[test]
fn a_message_that_nobody_wants_is_accepted_and_gone() {
    let mut broker = Broker::with_topic(plain());
    broker.subscribe("s", plain(), vec![]);
    let records = broker.journal.records.len();
    broker.send(vec![message("m"), message("n")]);
    assert_eq!(broker.journal.records.len(), records, "nothing is stored");
    assert_eq!(broker.core.digest(), broker.replayed().digest());
}

#[test]
fn a_body_is_stored_once_and_goes_with_its_last_copy() {
    let mut broker = two();
    broker.send(vec![message("x".repeat(1_000).as_str())]);
    let stored: usize = broker.journal.live().iter().map(|(_, length)| *length as usize).sum();
    assert!(stored < 2_000, "{stored} bytes");
    let topic = |broker: &Broker| {
        let view = broker.core.entity("t").unwrap();
        (view.active, view.bytes > 1_000)
    };
    for (name, kept) in [("a", true), ("b", false)] {
        assert_eq!(topic(&broker), (0, true), "before {name}");
        let got = broker.receive(subscription(name), ReceiveMode::PeekLock, 9);
        assert_eq!(got.len(), 1);
        broker.settle(&got[0], Outcome::Complete).unwrap();
        assert_eq!(topic(&broker), (0, kept), "after {name}");
        broker.check_liveness();
        assert_eq!(broker.core.digest(), broker.replayed().digest());
    }
    assert_eq!(broker.core.entity("t").unwrap().bytes, 0);
}

#[test]
fn copies_go_their_own_ways() {
    let mut broker = two();
    broker.send(vec![message("1"), message("2"), message("3"), message("4")]);
    let got = broker.receive(subscription("a"), ReceiveMode::PeekLock, 9);
    broker.settle(&got[0], Outcome::Complete).unwrap();
    broker.settle(&got[1], Outcome::DeadLetter(properties(&[(REASON, "mine")]))).unwrap();
    broker.settle(&got[2], Outcome::Defer(properties(&[("k", "v")]))).unwrap();
    broker.settle(&got[3], Outcome::Abandon(properties(&[("k", "w")]))).unwrap();
    let expected = [("3".to_owned(), Some("v".to_owned())), ("4".to_owned(), Some("w".to_owned()))];
    for round in 0..2 {
        assert_eq!(broker.shown_with(subscription("a"), "k"), expected, "round {round}");
        assert_eq!(
            broker.shown_with(dead_letters_of("a"), REASON),
            [("2".to_owned(), Some("mine".to_owned()))]
        );
        assert_eq!(broker.shown_texts(subscription("b")), ["1", "2", "3", "4"]);
        broker.check_liveness();
        broker.restart();
    }
    let mut taken = broker.receive(subscription("b"), ReceiveMode::ReceiveAndDelete, 9);
    taken.extend(broker.receive(subscription("a"), ReceiveMode::ReceiveAndDelete, 9));
    assert_eq!(texts(&taken), ["1", "2", "3", "4", "4"]);
    broker.check_liveness();
    let view = broker.core.entity("t").unwrap();
    assert!(view.bytes > 0, "the deferred one and the dead letter are there");
}

#[test]
fn a_copy_has_its_own_number_and_shows_the_topics() {
    let mut broker = Broker::with_topic(plain());
    broker.subscribe("s", plain(), vec![rule("r", "n = 1", None)]);
    broker.subscribe("all", plain(), everything());
    broker.send(vec![message_with("0", &[]), message_with("1", &[("n", Value::Int(1))])]);
    let copies = broker.peek(subscription("s"), 0, 9);
    let more = Some(Box::new(StoredExtras { enqueued_sequence: Some(2), ..StoredExtras::default() }));
    assert_eq!((copies[0].sequence.0, copies[0].stored.extras.clone()), (1, more.clone()));
    let got = broker.receive(subscription("s"), ReceiveMode::PeekLock, 1);
    assert_eq!((got[0].sequence.0, got[0].stored.extras.clone()), (1, more));
}

#[test]
fn the_shortest_lifetime_wins() {
    let cases = [
        // own, topic, subscription: expires after; shown by peek
        (None, None, None, None, false),
        (Some(5), None, None, Some(5), true),
        (None, Some(Duration::from_secs(1)), Some(Duration::from_secs(3_600)), Some(1), false),
        (None, Some(Duration::from_secs(3_600)), Some(Duration::from_secs(1)), Some(1), false),
        (Some(2), Some(Duration::from_secs(9)), Some(Duration::from_secs(5)), Some(2), true),
        (Some(20), Some(Duration::from_secs(9)), Some(Duration::from_secs(5)), Some(5), true),
        (Some(20), Some(Duration::from_secs(5)), None, Some(5), true),
    ];
    for case @ (own, topic, sub, expected, shown) in cases {
        let mut broker = Broker::with_topic(EntitySettings { default_time_to_live: topic, ..plain() });
        let settings = EntitySettings { default_time_to_live: sub, ..plain() };
        broker.subscribe("s", settings, everything());
        broker.send(vec![Message { time_to_live: own.map(Duration::from_secs), ..message("m") }]);
        let expires = expected.map(|seconds| broker.now.after(Duration::from_secs(seconds)));
        let peeked = broker.peek(subscription("s"), 0, 1);
        assert_eq!(peeked[0].stored.expires_at, expires.filter(|_| shown), "{case:?}");
        if let Some(seconds) = expected {
            broker.wait(seconds * 1_000 - 1);
            assert_eq!(broker.shown_texts(subscription("s")), ["m"], "{case:?}");
            broker.wait(1);
            assert!(broker.shown_texts(subscription("s")).is_empty(), "{case:?}");
            broker.check_liveness();
        }
    }
}

#[test]
fn each_copy_expires_as_its_subscription_says() {
    let mut broker = Broker::with_topic(plain());
    broker.subscribe("a", EntitySettings { dead_letter_on_expiration: true, ..plain() }, everything());
    broker.subscribe(
        "b",
        EntitySettings { default_time_to_live: Some(Duration::from_secs(1)), ..plain() },
        everything(),
    );
    broker.subscribe("c", plain(), everything());
    broker.send(vec![message_for("m", 5_000), message("for ever")]);
    broker.wait(5_000);
    assert_eq!(broker.shown_texts(subscription("a")), ["for ever"]);
    let expired = ("m".to_owned(), Some("TTLExpiredException".to_owned()));
    assert_eq!(broker.shown_with(dead_letters_of("a"), REASON), [expired]);
    assert!(broker.shown_texts(subscription("b")).is_empty());
    assert!(broker.shown_texts(dead_letters_of("b")).is_empty());
    assert_eq!(broker.shown_texts(subscription("c")), ["for ever"]);
    broker.check_liveness();
}

#[test]
fn an_action_may_change_lifetime_and_session() {
    let mut parameters = Parameters::new();
    parameters.set("@short", Value::duration_ms(1_000));
    let action = "SET sys.TimeToLive = @short; SET sys.SessionId = 'x'";
    let action = Some(SqlAction::parse(action, parameters).unwrap());
    let mut broker = Broker::with_topic(plain());
    let rules = vec![Rule { name: "r".into(), filter: Filter::True, action }];
    broker.subscribe("s", EntitySettings { requires_session: true, ..plain() }, rules);
    broker.send(vec![message_for("m", 60_000)]);
    let copy = broker.peek(subscription("s"), 0, 1).pop().unwrap();
    assert_eq!(copy.stored.expires_at, Some(broker.now.after(Duration::from_secs(1))));
    assert_eq!(copy.stored.extras.unwrap().session.as_deref(), Some("x"));
    let key = format!("{SYSTEM}SessionId");
    assert_eq!(property(&copy.stored.properties, &key).as_deref(), Some("Text(\"x\")"));
}

#[test]
fn an_action_that_sets_a_time_to_enqueue_delays_no_copy() {
    let mut broker = Broker::with_topic(plain());
    let due = broker.now.after(Duration::from_secs(60));
    let mut parameters = Parameters::new();
    parameters.set("@due", Value::Timestamp(i64::try_from(due.as_millis()).unwrap()));
    let action = Some(SqlAction::parse("SET sys.ScheduledEnqueueTimeUtc = @due", parameters).unwrap());
    broker.subscribe("s", plain(), vec![Rule { name: "r".into(), filter: Filter::True, action }]);
    broker.send(vec![message("m")]);
    let view = broker.core.entity("t/Subscriptions/s").unwrap();
    assert_eq!((view.active, view.scheduled), (1, 0));
    assert_eq!(broker.peek(subscription("s"), 0, 1)[0].stored.state, 0);
    assert_eq!(texts(&broker.receive(subscription("s"), ReceiveMode::PeekLock, 1)), ["m"]);
}

#[test]
fn a_message_without_session_is_dead_on_arrival_where_sessions_are_required() {
    let mut broker = Broker::with_topic(plain());
    broker.subscribe("s", EntitySettings { requires_session: true, ..plain() }, everything());
    broker.subscribe("p", plain(), everything());
    broker.send(vec![message("none"), Message { session_id: Some("x".into()), ..message("one") }]);
    assert_eq!(broker.shown_texts(subscription("s")), ["one"]);
    let dead = ("none".to_owned(), Some("Session id is null.".to_owned()));
    assert_eq!(broker.shown_with(dead_letters_of("s"), REASON), [dead]);
    assert_eq!(broker.shown_texts(subscription("p")), ["none", "one"]);
    broker.check_liveness();
    assert_eq!(broker.core.digest(), broker.replayed().digest());
}

#[test]
fn a_rule_that_fails_concerns_its_subscription_alone() {
    let failing = [
        ("unknown system property", vec![rule("r", "sys.Nope = 1", None)]),
        ("kinds that do not go together", vec![rule("r", "n + 'a' = 1", None)]),
        ("one beside a match", vec![rule("ok", "", None), rule("r", "sys.Nope = 1", None)]),
        ("an action", vec![rule("ok", "", None), rule("r", "", Some("SET x = 1 / 0"))]),
    ];
    for (case, rules) in failing {
        for flag in [true, false] {
            let mut broker = Broker::with_topic(plain());
            let settings = EntitySettings { dead_letter_on_filter_error: flag, ..plain() };
            broker.subscribe("bad", settings, rules.clone());
            broker.subscribe("good", plain(), everything());
            broker.send(vec![message_with("m", &[("n", Value::Int(1))])]);
            let dead = ("m".to_owned(), Some("FilterException".to_owned()));
            let expected = if flag { vec![dead] } else { vec![] };
            assert_eq!(broker.shown_with(dead_letters_of("bad"), REASON), expected, "{case} {flag}");
            assert!(broker.shown_texts(subscription("bad")).is_empty(), "{case} {flag}");
            assert_eq!(broker.shown_texts(subscription("good")), ["m"], "{case} {flag}");
            broker.check_liveness();
        }
    }
}

#[test]
fn an_action_whose_result_is_too_large_makes_a_dead_letter() {
    let mut broker = Broker::with(CoreConfig { max_properties_bytes: 200, ..CoreConfig::default() });
    broker.create_kind("t", EntityKind::Topic, plain());
    broker.subscribe("s", plain(), vec![rule("r", "", Some("SET y = x + x"))]);
    let long = Value::Text("x".repeat(100).into());
    broker.send(vec![message_with("m", &[("x", long)])]);
    let dead = ("m".to_owned(), Some("HeaderSizeExceeded".to_owned()));
    assert_eq!(broker.shown_with(dead_letters_of("s"), REASON), [dead]);
}

#[test]
fn actions_change_their_own_copy_alone() {
    let mut broker = Broker::with_topic(plain());
    let action =
        "SET Priority = 'high'; REMOVE drop; SET sys.To = 'Entity'; SET CorrelationId = 1; REMOVE none";
    broker.subscribe("s", plain(), vec![rule("r", "", Some(action)), rule("plain", "", None)]);
    let users = [("priority", Value::Text("low".into())), ("drop", Value::Int(1))];
    broker.send(vec![message_with("m", &users)]);
    let copies = broker.peek(subscription("s"), 0, 9);
    let shown: Vec<(String, String)> = copies
        .iter()
        .flat_map(|copy| copy.stored.properties.0.iter())
        .map(|(name, _)| (name.to_string(), property(&copies[0].stored.properties, name).unwrap_or_default()))
        .collect();
    let expected = [
        ("priority", "Text(\"high\")"),
        ("drop", "removed"),
        ("\u{2}To", "Text(\"Entity\")"),
        ("CorrelationId", "Int(1)"),
        ("RuleName", "r"),
    ];
    assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(copies.len(), 2);
}

#[test]
fn newid_gives_each_copy_its_own() {
    let mut broker = Broker::with_topic(plain());
    let rules = vec![rule("r", "", Some("SET id = newid()")), rule("s", "", Some("SET id = newid()"))];
    broker.subscribe("s", plain(), rules);
    broker.send(vec![message("m"), message("n")]);
    let mut ids: Vec<_> = broker.shown_with(subscription("s"), "id").into_iter().map(|(_, id)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn rules_read_the_properties_that_the_broker_sets() {
    let filters = [
        ("sys.SequenceNumber = 1 AND sys.EnqueuedSequenceNumber = 1", true),
        ("sys.Size = 1", true),
        ("sys.ExpiresAtUtc IS NULL", true),
        ("sys.DeliveryCount > 0", false),
        ("sys.EnqueuedTimeUtc IS NOT NULL", true),
    ];
    for (filter, expected) in filters {
        let mut broker = Broker::with_topic(plain());
        broker.subscribe("s", plain(), vec![rule("r", filter, None)]);
        broker.send(vec![message("m")]);
        assert_eq!(!broker.shown_texts(subscription("s")).is_empty(), expected, "{filter}");
        assert!(broker.shown_texts(dead_letters_of("s")).is_empty(), "{filter}");
    }
}

#[test]
fn a_scheduled_message_waits_at_the_topic_and_meets_the_rules_when_it_is_due() {
    let mut broker = two();
    let due = broker.now.after(Duration::from_secs(2));
    broker.send(vec![Message { scheduled_enqueue_time: Some(due), ..message_for("m", 3_000) }]);
    let view = broker.core.entity("t").unwrap();
    assert_eq!((view.scheduled, view.active), (1, 0));
    assert_eq!(broker.peek(main_path("t"), 0, 9)[0].stored.state, 2);
    assert!(broker.shown_texts(subscription("a")).is_empty());
    // It meets the rules of the moment.
    let ticket = broker.ticket();
    let name = subscription("a").entity;
    assert_eq!(broker.ask(Command::DeleteEntity { name, expected: None, ticket }), Ok(()));
    broker.subscribe("late", plain(), everything());
    broker.restart();
    broker.wait(2_000);
    for name in ["b", "late"] {
        let copies = broker.peek(subscription(name), 0, 9);
        assert_eq!(copies.len(), 1, "{name}");
        assert_eq!(copies[0].stored.expires_at, Some(broker.now.after(Duration::from_secs(3))), "{name}");
        assert_eq!(copies[0].stored.extras.as_ref().and_then(|more| more.enqueued_sequence), Some(2));
    }
    assert!(broker.peek(main_path("t"), 0, 9).is_empty(), "what the copies share is not shown");
    broker.check_liveness();
}

#[test]
fn properties_that_the_gateway_did_not_parse_are_read_by_describe() {
    let describe = |_, payload: &Bytes| {
        let mut found = message_with("", &[("n", Value::Int(i64::from(payload[0])))]);
        found.payload = payload.clone();
        found
    };
    let mut broker = Broker::with(CoreConfig { describe, ..CoreConfig::default() });
    broker.create_kind("t", EntityKind::Topic, plain());
    broker.subscribe("s", plain(), vec![rule("r", "n = 98", None)]);
    let due = broker.now.after(Duration::from_secs(1));
    let late = |text| Message { scheduled_enqueue_time: Some(due), ..message(text) };
    broker.send(vec![message("a"), message("b"), late("aa"), late("bb")]);
    assert_eq!(broker.shown_texts(subscription("s")), ["b"]);
    broker.wait(1_000);
    assert_eq!(broker.shown_texts(subscription("s")), ["b", "bb"]);
}

#[test]
fn cleaning_moves_bodies_copies_and_rules_apart() {
    let mut broker = Broker::with_topic(plain());
    broker.subscribe("a", plain(), vec![rule("r", "", Some("SET x = 1")), rule("s", "n = 1", None)]);
    broker.subscribe("b", plain(), everything());
    broker.send((0..5).map(|n| message(&format!("m{n}"))).collect());
    let got = broker.receive(subscription("a"), ReceiveMode::PeekLock, 2);
    broker.settle(&got[0], Outcome::Complete).unwrap();
    broker.settle(&got[1], Outcome::DeadLetter(properties(&[]))).unwrap();
    let before = broker.core.digest();
    let positions: Vec<u64> = broker.journal.records.keys().copied().collect();
    for up_to in positions {
        clean(&mut broker, up_to);
        assert_eq!(broker.core.digest(), before, "up to {up_to}");
        assert_eq!(broker.replayed().digest(), before, "up to {up_to}");
        broker.check_liveness();
    }
    assert_eq!(broker.shown_with(subscription("a"), "x").len(), 3);
    assert_eq!(broker.shown_texts(dead_letters_of("a")), ["m1"]);
    broker.send(vec![message_with("new", &[("n", Value::Int(1))])]);
    assert_eq!(
        broker.shown_texts(subscription("a")),
        ["m2", "m3", "m4", "new", "new"],
        "the rules are there"
    );
}

#[test]
fn a_copy_whose_body_is_lost_is_hidden_and_counted() {
    let mut broker = two();
    broker.send(vec![message("lost"), message("kept")]);
    let is_body = |bytes: &Bytes| bytes[1] == 3 && bytes[42] == 3;
    let at = *broker.journal.records.iter().find(|(_, (bytes, _))| is_body(bytes)).unwrap().0;
    broker.journal.records.remove(&at);
    broker.restart();
    for name in ["a", "b"] {
        let view = broker.core.entity(&subscription(name).entity).unwrap();
        assert_eq!((view.damaged, view.active), (1, 2), "{name}");
        assert_eq!(broker.shown_texts(subscription(name)), ["kept"], "{name}");
        let got = broker.receive(subscription(name), ReceiveMode::PeekLock, 9);
        assert_eq!(texts(&got), ["kept"], "{name}");
    }
}

#[test]
fn a_body_whose_copies_are_lost_goes() {
    let mut broker = two();
    broker.send(vec![message("m")]);
    broker.journal.records.retain(|_, (bytes, _)| bytes[1] != 6);
    broker.restart();
    assert_eq!(broker.core.entity("t").unwrap().bytes, 0);
    assert!(broker.shown_texts(subscription("a")).is_empty());
    broker.send(vec![message("n")]);
    assert_eq!(
        broker.peek(subscription("a"), 0, 1)[0].stored.extras.as_ref().unwrap().enqueued_sequence,
        Some(2)
    );
}

#[test]
fn a_subscription_takes_its_references_along() {
    let mut broker = two();
    broker.send(vec![message("m")]);
    let got = broker.receive(subscription("a"), ReceiveMode::PeekLock, 1);
    broker.settle(&got[0], Outcome::DeadLetter(properties(&[]))).unwrap();
    for (name, left) in [("t/Subscriptions/A", true), ("t/subscriptions/b", false)] {
        let ticket = broker.ticket();
        assert_eq!(broker.ask(Command::DeleteEntity { name: name.into(), expected: None, ticket }), Ok(()));
        assert_eq!(broker.core.entity("t").unwrap().bytes > 0, left, "{name}");
        broker.check_liveness();
        assert_eq!(broker.core.digest(), broker.replayed().digest());
    }
    let mut broker = two();
    broker.send(vec![message("m")]);
    let ticket = broker.ticket();
    assert_eq!(broker.ask(Command::DeleteEntity { name: "T".into(), expected: None, ticket }), Ok(()));
    assert!(broker.core.entity(&subscription("a").entity).is_none());
    assert!(broker.journal.live().is_empty(), "nothing is left");
    broker.check_liveness();
}

#[test]
fn receivers_of_a_topic_and_senders_to_a_subscription_are_refused() {
    let mut broker = two();
    let refused = |told: Vec<Effect>| match told.into_iter().next() {
        Some(Effect::AttachRefused { error, .. }) => error,
        other => panic!("{other:?}"),
    };
    let open = |path| Command::OpenConsumer {
        consumer: LinkId(1),
        path,
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        auto_create: false,
        session: None,
    };
    let told = broker.tell(ME, open(main_path("t")));
    assert_eq!(refused(told), AttachError::TopicReceive("t".into()));
    let path = subscription("a");
    let told =
        broker.tell(ME, Command::OpenProducer { producer: LinkId(2), path: path.clone(), auto_create: true });
    assert_eq!(refused(told), AttachError::SubscriptionSend(path.entity.clone()));
    let ticket = broker.ticket();
    let messages = vec![message("m")];
    let told =
        broker.tell(ME, Command::PublishTo { path, messages, auto_create: true, ticket: Some(ticket) });
    let Some(Effect::PublishRefused { error: PublishError::SubscriptionSend(_), .. }) = told.first() else {
        panic!("{told:?}")
    };
}

#[test]
fn a_topic_counts_the_messages_that_it_stores() {
    let settings = EntitySettings { max_size_bytes: Some(1_000), ..plain() };
    let mut broker = Broker::with_topic(settings);
    broker.subscribe("a", plain(), everything());
    broker.subscribe("b", plain(), everything());
    let big = "x".repeat(600);
    broker.send(vec![message(&big)]);
    let queue = broker.queue("t");
    let ticket = broker.ticket();
    let again = |ticket| Command::Publish { queue, message: message(&big), ticket: Some(ticket) };
    let told = broker.tell(ME, again(ticket));
    let Some(Effect::PublishRefused {
        error: PublishError::QuotaExceeded(QuotaError::Entity { .. }), ..
    }) = told.first()
    else {
        panic!("{told:?}")
    };
    for name in ["a", "b"] {
        broker.receive(subscription(name), ReceiveMode::ReceiveAndDelete, 9);
    }
    let ticket = broker.ticket();
    let told = broker.tell(ME, again(ticket));
    assert!(matches!(told.first(), Some(Effect::Published { .. })), "{told:?}");
}

#[test]
fn a_waiting_consumer_of_each_subscription_gets_its_copy() {
    let mut broker = two();
    broker.open(ME, 1, subscription("a"), ReceiveMode::PeekLock);
    broker.open(ME, 2, subscription("b"), ReceiveMode::ReceiveAndDelete);
    broker.open(OTHER, 3, subscription("b"), ReceiveMode::Browse);
    broker.credit(ME, 1, 5);
    broker.credit(ME, 2, 5);
    broker.credit(OTHER, 3, 5);
    broker.send(vec![message("m")]);
    assert_eq!(texts(&broker.received(ME)), ["m", "m"]);
    broker.check_liveness();
}

#[test]
fn a_forwarded_copy_is_a_message_of_its_own_with_the_rules_changes() {
    let mut broker = Broker::with_topic(plain());
    broker.create("q", plain());
    broker.create_kind("u", EntityKind::Topic, plain());
    let ticket = broker.ticket();
    let rules = vec![rule("r", "x = 1", None)];
    let (name, settings) = ("u/Subscriptions/w".into(), Box::default());
    assert_eq!(broker.ask(Command::CreateSubscription { name, settings, rules, ticket }), Ok(()));
    for (name, target) in [("to queue", "q"), ("to topic", "u")] {
        let settings = EntitySettings { forward_to: Some(target.into()), ..plain() };
        broker.subscribe(&name.replace(' ', "-"), settings, vec![rule("r", "", Some("SET x = 1"))]);
    }
    broker.send(vec![message("m")]);
    broker.run_deadlines();
    for path in [main_path("q"), main_path("u/Subscriptions/w")] {
        let found = broker.peek(path.clone(), 0, 9).pop().unwrap_or_else(|| panic!("{path:?}"));
        assert_eq!(found.stored.payload, "m");
        assert_eq!(property(&found.stored.properties, "x").as_deref(), Some("Int(1)"), "{path:?}");
        let more = found.stored.extras.unwrap();
        assert_eq!((more.enqueued_sequence, more.hops), (Some(1), 1), "{path:?}");
    }
    assert_eq!(broker.core.entity("t").unwrap().bytes, 0, "nothing refers to the topic's own any more");
    broker.check_liveness();
    assert_eq!(broker.core.digest(), broker.replayed().digest());
}

#[test]
fn a_forwarded_copy_that_waits_at_the_next_topic_keeps_its_session() {
    let mut broker = Broker::with_topic(plain());
    broker.create_kind("u", EntityKind::Topic, plain());
    let ticket = broker.ticket();
    let (name, rules) = ("u/Subscriptions/w".into(), everything());
    let settings = Box::new(EntitySettings { requires_session: true, ..plain() });
    assert_eq!(broker.ask(Command::CreateSubscription { name, settings, rules, ticket }), Ok(()));
    let due = broker.now.after(Duration::from_secs(60));
    let mut parameters = Parameters::new();
    parameters.set("@due", Value::Timestamp(i64::try_from(due.as_millis()).unwrap()));
    let action = "SET sys.ScheduledEnqueueTimeUtc = @due; SET sys.SessionId = 'a'";
    let action = Some(SqlAction::parse(action, parameters).unwrap());
    let rule = Rule { name: "r".into(), filter: Filter::True, action };
    broker.subscribe("s", EntitySettings { forward_to: Some("u".into()), ..plain() }, vec![rule]);
    broker.send(vec![message("m")]);
    broker.run_deadlines();
    assert_eq!(broker.core.entity("u").unwrap().scheduled, 1);
    broker.wait(60_000);
    let view = broker.core.entity("u/Subscriptions/w").unwrap();
    assert_eq!((view.active, view.dead_letter), (1, 0));
}

#[test]
fn forwarding_to_a_topic_costs_as_much_as_its_copies() {
    let mut broker = Broker::with_topic(plain());
    broker.core.state.messages.config.deliver_messages_max = 20;
    for number in 0..10 {
        broker.subscribe(&format!("s{number}"), plain(), everything());
    }
    broker.create("q", EntitySettings { forward_to: Some("t".into()), ..plain() });
    let queue = broker.queue("q");
    for _ in 0..20 {
        broker.tell(ME, Command::Publish { queue, message: message("m"), ticket: None });
    }
    let calls = forward_one_by_one(&mut broker, "t/Subscriptions/s0");
    assert!((20..30).contains(&calls), "{calls} calls");
    assert_eq!(broker.core.entity("t/Subscriptions/s9").unwrap().active, 20);
}

#[test]
fn a_forwarded_copy_costs_as_much_as_the_body_it_takes_along() {
    let mut broker = Broker::with_topic(plain());
    broker.core.state.messages.config.deliver_messages_max = 20;
    broker.create("q", plain());
    broker.subscribe("s", EntitySettings { forward_to: Some("q".into()), ..plain() }, everything());
    broker.send(vec![message(&"x".repeat(20 << 10)); 20]);
    let calls = forward_one_by_one(&mut broker, "q");
    assert!((20..30).contains(&calls), "{calls} calls");
    assert_eq!(broker.core.entity("q").unwrap().active, 20);
}

/// Lets messages be forwarded, at most one in each call; says how many calls that took.
fn forward_one_by_one(broker: &mut Broker, target: &str) -> u32 {
    let mut calls = 0;
    while broker.core.deadline().is_some_and(|at| at <= broker.now) {
        let before = broker.core.entity(target).unwrap().active;
        broker.journal.make_readable();
        broker.core.handle_deadline(broker.now, &mut broker.journal);
        let moved = broker.core.entity(target).unwrap().active - before;
        assert!(moved <= 1, "{moved} messages in one call");
        calls += 1;
    }
    calls
}

#[test]
fn an_entity_does_not_get_the_flags_that_its_kind_does_not_have() {
    let all = EntitySettings {
        dead_letter_on_expiration: true,
        dead_letter_on_filter_error: false,
        requires_session: true,
        requires_duplicate_detection: true,
        enable_partitioning: true,
        ..plain()
    };
    let mut broker = Broker::with_topic(all.clone());
    broker.subscribe("s", all.clone(), everything());
    broker.create("q", all.clone());
    let settings = |broker: &Broker, name: &str| broker.core.entity(name).unwrap().settings.clone();
    let topic = EntitySettings { requires_duplicate_detection: true, enable_partitioning: true, ..plain() };
    // It has as many partitions as its topic.
    let subscription = EntitySettings { requires_duplicate_detection: false, ..all.clone() };
    let queue = EntitySettings { dead_letter_on_filter_error: true, ..all.clone() };
    let expected = [("t", topic), ("t/Subscriptions/s", subscription), ("q", queue)];
    for (name, expected) in &expected {
        assert_eq!(&settings(&broker, name), expected, "{name}");
        broker.update(name, all.clone());
        assert_eq!(&settings(&broker, name), expected, "{name}");
    }
    broker.send(vec![Message { partition_key: Some("k".into()), ..message("without a session") }]);
    assert_eq!(broker.core.entity("t/Subscriptions/s").unwrap().dead_letter, 1);
    broker.restart();
    for (name, expected) in &expected {
        assert_eq!(&settings(&broker, name), expected, "{name}");
    }
}

#[test]
fn a_topic_whose_record_has_sessions_keeps_them_and_can_be_changed() {
    let mut broker = Broker::with_topic(plain());
    let topic = broker.queue("t");
    let mut definition = broker.core.state.main_of(topic).unwrap().definition.clone();
    definition.settings.requires_session = true;
    crate::Output::record(&mut broker.journal, &definition.encode(), &[]);
    broker.restart();
    let note = Some("a note".into());
    broker.update("t", EntitySettings { user_metadata: note, ..plain() });
    let settings = broker.core.entity("t").unwrap().settings.clone();
    assert_eq!((settings.requires_session, settings.user_metadata.as_deref()), (true, Some("a note")));
    assert_eq!(broker.core.digest(), broker.replayed().digest());
}
