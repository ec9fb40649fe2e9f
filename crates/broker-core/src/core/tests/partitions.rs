//! Partitioned entities (`docs/features/partitions.md`; requirement SEQ-2).

use std::time::Duration;

use broker_filter::{PropertySet, SystemProperty, Value};
use proptest::prelude::*;

use super::{harness::*, recovery::clean};
use crate::{
    Command, CoreConfig, Describe, Effect, EntityError, EntityKind, EntitySettings, EntityStatus, LinkId,
    Message, Outcome, PartitionKeyError, Position, PublishError, ReceiveMode, SequenceNumber, SubQueue,
    record::Definition,
    store::partition::{Counters, PartitionId},
};

fn partitioned() -> EntitySettings {
    EntitySettings { enable_partitioning: true, ..EntitySettings::default() }
}

fn keyed(text: &str, key: &str) -> Message {
    Message { partition_key: (!key.is_empty()).then(|| key.into()), ..message(text) }
}

fn of_key(key: &str) -> u64 {
    PartitionId::of_key(key).first_number() >> 48
}

/// Publishes to `q` at once; says the refusal.
fn publish(broker: &mut Broker, messages: Vec<Message>) -> Result<(), PublishError> {
    let (queue, ticket) = (broker.queue("q"), broker.ticket());
    let told = broker.tell(ME, Command::PublishBatch { queue, messages, ticket: Some(ticket) });
    let mut answer = None;
    for effect in told {
        match effect {
            Effect::Published { .. } => answer = Some(Ok(())),
            Effect::PublishRefused { error, .. } => answer = Some(Err(error)),
            other => broker.journal.effects.push((ME, other)),
        }
    }
    answer.expect("a publish is answered")
}

/// Numbers of all messages, as partition and count.
fn numbers(broker: &mut Broker, path: crate::EntityPath) -> Vec<(u64, u64)> {
    let peeked = broker.peek(path, 0, 1_000);
    peeked.iter().map(|peeked| (peeked.sequence.0 >> 48, peeked.sequence.0 & ((1 << 48) - 1))).collect()
}

#[test]
fn session_then_key_then_id_then_fairness_choose_the_partition() {
    let (no, yes) = (false, true);
    let cases = [
        // detects duplicates, session, key, id, the key that decides
        (no, None, None, None, None),
        (no, None, None, Some("orders"), None),
        (yes, None, None, Some("orders"), Some("orders")),
        (yes, None, None, None, None),
        (yes, None, Some("b"), Some("orders"), Some("b")),
        (no, None, Some("b"), None, Some("b")),
        (no, Some("orders"), None, Some("b"), Some("orders")),
        (no, Some("b"), Some("b"), None, Some("b")),
    ];
    for case @ (requires_duplicate_detection, session, key, id, decides) in cases {
        let mut broker = Broker::with_queue(EntitySettings { requires_duplicate_detection, ..partitioned() });
        let message = Message {
            session_id: session.map(Box::from),
            partition_key: key.map(Box::from),
            message_id: id.map(Box::from),
            ..message("m")
        };
        publish(&mut broker, vec![message]).unwrap();
        let expected = decides.map_or(1, of_key);
        assert_eq!(numbers(&mut broker, main_path("q")), [(expected, 1)], "{case:?}");
        let view = broker.core.entity("q").unwrap();
        let next = SequenceNumber(view.next_sequence);
        assert_eq!(next.partition(), Some(if expected == 1 { 2 } else { 1 }), "{case:?}");
    }
}

#[test]
fn keys_of_messages_sent_together_must_name_one_partition() {
    let several = || Err(PublishError::from(PartitionKeyError::SeveralKeys("q".into())));
    let session = |session: &str, key: &str| Message { session_id: Some(session.into()), ..keyed("m", key) };
    let id = |id: &str| Message { message_id: Some(id.into()), ..message("m") };
    let unequal = || Err(PublishError::from(PartitionKeyError::NotTheSession("q".into())));
    let cases = [
        (false, vec![keyed("m", ""), keyed("m", "")], Ok(())),
        (false, vec![keyed("m", "a"), keyed("m", "a")], Ok(())),
        (false, vec![keyed("m", "a"), keyed("m", "b")], several()),
        (false, vec![keyed("m", ""), keyed("m", "b")], several()),
        (false, vec![keyed("m", "a"), keyed("m", "")], several()),
        (false, vec![session("a", ""), session("a", "a"), keyed("m", "a")], Ok(())),
        (false, vec![session("a", ""), session("b", "")], several()),
        (false, vec![session("a", "b")], unequal()),
        (false, vec![id("a"), id("b")], Ok(())),
        (true, vec![id("a"), id("b")], several()),
        (true, vec![id("a")], Ok(())),
    ];
    for (place, (requires_duplicate_detection, messages, expected)) in cases.into_iter().enumerate() {
        let mut broker = Broker::with_queue(EntitySettings { requires_duplicate_detection, ..partitioned() });
        let stored = if expected.is_ok() { messages.len() } else { 0 };
        assert_eq!(publish(&mut broker, messages.clone()), expected, "case {place}");
        let found = numbers(&mut broker, main_path("q"));
        assert_eq!(found.len(), stored, "case {place}");
        assert!(
            found.windows(2).all(|pair| pair[1] == (pair[0].0, pair[0].1 + 1)),
            "case {place}: {found:?}"
        );
        // Nobody else cares.
        let mut plain = Broker::with_queue(EntitySettings::default());
        assert_eq!(publish(&mut plain, messages), Ok(()), "case {place}");
    }
}

#[test]
fn messages_that_only_travelled_together_go_each_to_its_own_partition() {
    let mut broker = Broker::with_queue(partitioned());
    let due = Some(broker.now.after(Duration::from_secs(9)));
    let messages =
        ["a", "b", "", "a", ""].map(|key| Message { scheduled_enqueue_time: due, ..keyed(key, key) });
    let ticket = broker.ticket();
    let command = Command::Schedule { path: main_path("q"), messages: messages.to_vec(), ticket };
    let Some(Effect::Scheduled { sequences, .. }) = broker.tell(ME, command).pop() else { panic!() };
    let partitions: Vec<_> = sequences.iter().map(|number| number.partition().map(u64::from)).collect();
    let fair = partitions[2];
    assert_eq!(partitions, [Some(of_key("a")), Some(of_key("b")), fair, Some(of_key("a")), fair]);
    broker.cancel(&[sequences[3].0]).unwrap();
    broker.wait(9_000);
    let mut expected = vec![(of_key("a"), 3), (of_key("b"), 2), (fair.unwrap(), 3), (fair.unwrap(), 4)];
    if fair == Some(of_key("a")) {
        expected = numbers(&mut broker, main_path("q"));
    }
    expected.sort_unstable();
    assert_eq!(numbers(&mut broker, main_path("q")), expected, "new numbers of the same partitions");
}

#[test]
fn no_partition_waits_for_another_and_each_keeps_its_order() {
    let mut broker = Broker::with_queue(partitioned());
    for number in 0..6 {
        publish(&mut broker, vec![keyed(&format!("a{number}"), "a")]).unwrap();
    }
    for number in 0..2 {
        publish(&mut broker, vec![keyed(&format!("b{number}"), "b")]).unwrap();
    }
    let first = broker.lock(3);
    assert_eq!(texts(&first), ["a0", "b0", "a1"], "in turn");
    broker.settle(&first[0], Outcome::Release(properties(&[]))).unwrap();
    broker.settle(&first[1], Outcome::Release(properties(&[]))).unwrap();
    broker.restart();
    let got = broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9);
    assert_eq!(texts(&got), ["a0", "b0", "a1", "b1", "a2", "a3", "a4", "a5"]);
}

#[test]
fn a_browser_sees_each_message_of_each_partition_once() {
    let mut broker = Broker::with_queue(partitioned());
    broker.open(ME, 1, main_path("q"), ReceiveMode::Browse);
    broker.credit(ME, 1, 99);
    for (text, key) in [("1", "orders"), ("2", "a"), ("3", "b"), ("4", "orders"), ("5", "a")] {
        publish(&mut broker, vec![keyed(text, key)]).unwrap();
        assert_eq!(texts(&broker.received(ME)), [text]);
    }
    broker.open(ME, 2, main_path("q"), ReceiveMode::Browse);
    let drained = broker.tell(ME, Command::Credit { consumer: LinkId(2), limit: 99, drain: true });
    assert!(matches!(drained.last(), Some(Effect::Drained { count: 99, .. })), "{drained:?}");
    assert_eq!(texts(&deliveries(drained)), ["2", "5", "3", "1", "4"], "partition by partition");
}

#[test]
fn every_request_by_number_finds_the_message() {
    let mut broker = Broker::with_queue(EntitySettings { max_delivery_count: 2, ..partitioned() });
    for key in ["orders", "b", "a"] {
        publish(&mut broker, vec![keyed(key, key)]).unwrap();
    }
    let got = broker.lock(3);
    let by_text = |wanted: &str| got.iter().find(|got| text(got) == wanted).unwrap();
    broker.settle(by_text("orders"), Outcome::Defer(properties(&[]))).unwrap();
    broker.settle(by_text("b"), Outcome::DeadLetter(properties(&[]))).unwrap();
    let token = by_text("a").lock.unwrap().token;
    let ticket = broker.ticket();
    let path = main_path("q");
    let told = broker.tell(ME, Command::RenewLocks { path: path.clone(), tokens: vec![token], ticket });
    assert!(matches!(told.as_slice(), [Effect::Renewed(_)]), "{told:?}");
    let outcome = Outcome::Complete;
    let told =
        broker.tell(ME, Command::SettleByToken { path, session: None, tokens: vec![token], outcome, ticket });
    assert!(matches!(told.as_slice(), [Effect::Settled { .. }]), "{told:?}");
    broker.restart();
    assert_eq!(numbers(&mut broker, dead_letters("q")), [(of_key("b"), 1)], "a dead letter keeps its number");
    let deferred = by_text("orders").sequence.0;
    assert_eq!(broker.peek(main_path("q"), deferred, 9).len(), 1);
    assert_eq!(broker.fetch(main_path("q"), &[deferred], true).unwrap()[0].sequence.0, deferred);
    broker.check_liveness();
}

#[test]
fn a_session_has_one_partition_in_any_case_and_a_partition_key_has_one_for_each_spelling() {
    let spelled = |session: Option<&str>, key: Option<&str>, id: &str| Message {
        session_id: session.map(Box::from),
        partition_key: key.map(Box::from),
        message_id: Some(id.into()),
        ..message("m")
    };
    let settings = EntitySettings { requires_duplicate_detection: true, ..partitioned() };
    let mut broker = Broker::with_queue(settings.clone());
    publish(&mut broker, vec![spelled(Some("CaseId"), None, "1"), spelled(Some("CASEID"), None, "2")])
        .unwrap();
    publish(&mut broker, vec![spelled(Some("caseId"), Some("CASEid"), "3")]).unwrap();
    publish(&mut broker, vec![spelled(Some("caseid"), None, "1")]).unwrap();
    let partition = of_key("caseid");
    let expected = [(partition, 1), (partition, 2), (partition, 3)];
    assert_eq!(numbers(&mut broker, main_path("q")), expected, "the second `1` is a duplicate");
    let mut broker = Broker::with_queue(settings);
    let two = vec![spelled(None, Some("CaseId"), "1"), spelled(None, Some("caseid"), "2")];
    assert!(matches!(
        publish(&mut broker, two),
        Err(PublishError::PartitionKey(PartitionKeyError::SeveralKeys(_)))
    ));
}

#[test]
fn a_message_id_is_known_together_with_its_key() {
    let settings = EntitySettings { requires_duplicate_detection: true, ..partitioned() };
    let mut broker = Broker::with_queue(settings);
    let with = |id: &str, key: &str, session: Option<&str>| Message {
        message_id: Some(id.into()),
        session_id: session.map(Box::from),
        ..keyed("m", key)
    };
    let cases = [
        (with("1", "a", None), 1),
        (with("1", "a", None), 1),
        (with("1", "b", None), 2),
        (with("1", "", None), 3),
        (with("1", "", None), 3),
        (with("1", "", Some("a")), 3),
        (with("1", "", Some("c")), 4),
        (with("2", "a", None), 5),
    ];
    for (place, (message, stored)) in cases.into_iter().enumerate() {
        publish(&mut broker, vec![message]).unwrap();
        assert_eq!(broker.active(), stored, "case {place}");
    }
}

#[test]
fn copies_have_the_partition_of_their_message_and_numbers_of_their_own() {
    let mut broker = Broker::with_topic(partitioned());
    broker.subscribe("all", EntitySettings::default(), vec![rule("r", "", None)]);
    broker.subscribe("some", EntitySettings::default(), vec![rule("r", "user.x = 1", None)]);
    // An update cannot take it away.
    let told = broker
        .update("t/Subscriptions/all", EntitySettings { max_delivery_count: 2, ..EntitySettings::default() });
    assert!(matches!(told.as_slice(), [Effect::EntityDone { .. }]), "{told:?}");
    for round in 1..3 {
        broker.send(vec![Message { partition_key: Some("a".into()), ..message("a") }]);
        let some = message_with("b", &[("x", 1.into())]);
        broker.send(vec![Message { partition_key: Some("orders".into()), ..some }]);
        let both = [(of_key("a"), round), (of_key("orders"), round)];
        let (all, some) =
            (numbers(&mut broker, subscription("all")), numbers(&mut broker, subscription("some")));
        assert_eq!(all.iter().filter(|number| both.contains(number)).count(), 2, "{all:?}");
        assert_eq!(some.last(), Some(&(of_key("orders"), round)));
        broker.restart();
        broker.check_liveness();
    }
    let due = Some(broker.now.after(Duration::from_secs(1)));
    broker.send(vec![Message { scheduled_enqueue_time: due, ..keyed("late", "orders") }]);
    broker.wait(1_000);
    assert_eq!(numbers(&mut broker, subscription("all")).last(), Some(&(of_key("orders"), 3)));
}

#[test]
fn a_forwarded_message_gets_a_number_of_its_targets_partition() {
    let describe: Describe = |_, payload| keyed("", std::str::from_utf8(payload).unwrap());
    let mut broker = Broker::with(CoreConfig { describe, ..CoreConfig::default() });
    broker.create("q", partitioned());
    broker.create("source", EntitySettings { forward_to: Some("q".into()), ..partitioned() });
    let (queue, ticket) = (broker.queue("source"), Some(broker.ticket()));
    broker.tell(ME, Command::Publish { queue, message: keyed("b", "orders"), ticket });
    broker.run_deadlines();
    assert_eq!(numbers(&mut broker, main_path("q")), [(of_key("b"), 1)]);
    let first = broker.lock_one().stored.extras.and_then(|more| more.enqueued_sequence).map(SequenceNumber);
    assert_eq!(
        first.and_then(SequenceNumber::partition).map(u64::from),
        Some(of_key("orders")),
        "it is kept"
    );
}

#[test]
fn fixed_properties_stay_and_bulk_deletion_is_refused() {
    let mut broker = Broker::with_queue(partitioned());
    let told = broker.update("q", EntitySettings::default());
    let immutable = EntityError::Immutable { property: "EnablePartitioning", kind: EntityKind::Queue };
    assert!(matches!(&told[..], [Effect::RequestRefused { error, .. }] if *error == immutable), "{told:?}");
    for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
        let path = crate::EntityPath { entity: "Q".into(), sub_queue };
        let ticket = broker.ticket();
        let before = broker.now.after(Duration::from_secs(1));
        let told = broker.tell(ME, Command::DeleteMessages { path, session: None, count: 9, before, ticket });
        let refused = matches!(
            told.as_slice(),
            [Effect::RequestRefused { error: EntityError::HasPartitions(name), .. }] if **name == *"q"
        );
        assert!(refused, "{told:?}");
    }
    let mut sessions = Broker::with_queue(EntitySettings { requires_session: true, ..partitioned() });
    publish(&mut sessions, vec![Message { session_id: Some("s".into()), ..message("m") }]).unwrap();
    let session = Some("s".into());
    let (path, before) = (main_path("q"), crate::Timestamp::MAX);
    let ticket = sessions.ticket();
    let told = sessions.tell(ME, Command::DeleteMessages { path, session, count: 9, before, ticket });
    assert!(matches!(told.as_slice(), [Effect::RequestRefused { .. }]), "{told:?}");
}

/// A broker whose queue `q` is defined by a record with these counts.
fn with_counts(count: u64) -> Broker {
    let mut broker = Broker::with_queue(partitioned());
    let entity = broker.core.state.messages.entities.main_of(broker.queue("q")).unwrap();
    let counters = Counters::new(std::iter::repeat_n(count, 16)).unwrap();
    let record = Definition { partitions: Some(Box::new(counters)), ..entity.definition.clone() }.encode();
    let at = broker.core.live_records().next().unwrap().0;
    let length = record.len();
    broker.journal.records.insert(at.0, (record.into(), length));
    broker.restart();
    broker
}

#[test]
fn numbers_begin_anew_after_the_last_and_pass_over_those_in_use() {
    let mut broker = with_counts((1 << 48) - 2);
    let own = of_key("a");
    for text in ["x", "y"] {
        publish(&mut broker, vec![keyed(text, "a")]).unwrap();
    }
    assert_eq!(numbers(&mut broker, main_path("q")), [(own, (1 << 48) - 2), (own, (1 << 48) - 1)]);
    for text in ["z", "zz"] {
        publish(&mut broker, vec![keyed(text, "a")]).unwrap();
    }
    let dead = broker.lock_one();
    assert_eq!((text(&dead), dead.sequence.0), ("z".into(), own << 48), "after the last comes zero");
    broker.settle(&dead, Outcome::DeadLetter(properties(&[]))).unwrap();
    // After a restart the numbers seem to be at their end once more: what is in use is passed over.
    broker.restart();
    for text in ["new", "newer"] {
        publish(&mut broker, vec![keyed(text, "a")]).unwrap();
    }
    let low: Vec<_> =
        numbers(&mut broker, main_path("q")).into_iter().filter(|(_, count)| *count < 9).collect();
    assert_eq!(low, [(own, 1), (own, 2), (own, 3)]);
    broker.check_liveness();
}

#[test]
fn numbers_go_on_after_all_messages_are_gone_and_cleaned_away() {
    let mut broker = Broker::with_queue(partitioned());
    for round in 0..3 {
        for key in ["a", "b", "a"] {
            publish(&mut broker, vec![keyed(key, key)]).unwrap();
        }
        assert_eq!(broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9).len(), 3);
        let end = broker.journal.end();
        clean(&mut broker, end);
        broker.restart();
        publish(&mut broker, vec![keyed("probe", "a")]).unwrap();
        assert_eq!(numbers(&mut broker, main_path("q")), [(of_key("a"), 3 + 3 * round)]);
        assert_eq!(broker.lock(9).len(), 1);
        broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9);
        broker.wait(60_000);
        broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9);
    }
}

#[test]
fn messages_stored_before_partitions_had_numbers_are_still_found() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["old"]);
    let entity = broker.core.state.messages.entities.main_of(broker.queue("q")).unwrap();
    let mut old = entity.definition.clone();
    old.settings.enable_partitioning = true;
    let (at, record) = (entity.position, old.encode());
    let length = record.len();
    broker.journal.records.insert(at.0, (record.into(), length));
    broker.restart();
    publish(&mut broker, vec![keyed("new", "a")]).unwrap();
    assert_eq!(numbers(&mut broker, main_path("q")), [(0, 1), (of_key("a"), 1)]);
    assert!(broker.core.entity("q").unwrap().oldest.is_some());
    let mut got = texts(&broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9));
    got.sort_unstable();
    assert_eq!(got, ["new", "old"]);
}

#[test]
fn records_with_impossible_counts_are_refused() {
    let mut broker = Broker::with_queue(partitioned());
    let entity = broker.core.state.messages.entities.main_of(broker.queue("q")).unwrap();
    let good = entity.definition.encode();
    let place = good.len() - Counters::BYTES;
    let high = [&good[..place + 6], &[1], &good[place + 7..]].concat();
    let mut plain = entity.definition.clone();
    plain.settings.enable_partitioning = false;
    let cases = [(good, true), (high, false), (plain.encode(), false)];
    for (case, (record, is_good)) in cases.into_iter().enumerate() {
        let replayed = broker.replayed().replay(Position(1 << 40), &record, 1);
        assert_eq!(replayed.is_ok(), is_good, "case {case}");
    }
    drop(broker.take(ME));
}

#[test]
fn a_subscription_has_partitions_exactly_where_its_topic_has() {
    for has_partitions in [false, true] {
        let mut broker =
            Broker::with_topic(EntitySettings { enable_partitioning: has_partitions, ..partitioned() });
        for (name, asked) in [("s1", false), ("s2", true)] {
            let settings = EntitySettings { enable_partitioning: asked, ..EntitySettings::default() };
            broker.create_kind(&format!("t/Subscriptions/{name}"), EntityKind::Subscription, settings);
            let found = broker.core.entity(&format!("t/Subscriptions/{name}")).unwrap();
            assert_eq!(found.settings.enable_partitioning, has_partitions, "{name}");
        }
    }
}

/// A message with the key and the via-partition key that its text names: `text|key|via`.
fn with_keys(text: &str) -> Message {
    let mut parts = text.split('|');
    let (_, key, via) = (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut properties = PropertySet::new();
    if !via.is_empty() {
        properties.set_system(SystemProperty::ViaPartitionKey, Value::Text(via.into()));
    }
    Message { properties: Some(Box::new(properties)), ..keyed(text, key) }
}

#[test]
fn the_via_key_else_the_own_key_else_fairness_chooses_the_partition_of_the_entity_between() {
    let describe: Describe = |_, payload| with_keys(std::str::from_utf8(payload).unwrap());
    let cases =
        [("a||", None), ("b||orders", Some("orders")), ("c|b|", Some("b")), ("d|b|orders", Some("orders"))];
    for (text, decides) in cases {
        let mut broker = Broker::with(CoreConfig { token_key: [7; 16], describe, ..CoreConfig::default() });
        broker.create("q", partitioned());
        let closed = EntityStatus::SendDisabled;
        broker.create("target", EntitySettings { status: closed, ..EntitySettings::default() });
        let (path, via, ticket) = (main_path("target"), main_path("q"), Some(broker.ticket()));
        let told =
            broker.tell(ME, Command::PublishVia { path, via, messages: vec![with_keys(text)], ticket });
        assert!(matches!(told[..], [Effect::Published { .. }]), "{text}: {told:?}");
        let transfers = crate::EntityPath { entity: "q".into(), sub_queue: SubQueue::TransferDeadLetter };
        let expected = decides.map_or(1, of_key);
        assert_eq!(numbers(&mut broker, transfers), [(expected, 1)], "{text}");
        assert_eq!(broker.replayed().digest(), broker.core.digest(), "{text}");
        broker.check_liveness();
    }
}

proptest! {
    #[test]
    fn messages_of_a_key_stay_in_order_through_crashes_and_failures(
        steps in proptest::collection::vec((0_usize..4, 0_u8..8), 1..60),
    ) {
        let mut broker = Broker::with_queue(EntitySettings { max_delivery_count: 1_000, ..partitioned() });
        let keys = ["a", "b", "orders", "x"];
        let (mut sent, mut met) = ([0_u32; 4], [0_u32; 4]);
        for (key, action) in steps {
            match action {
                0..4 => {
                    publish(&mut broker, vec![keyed(&format!("{key} {}", sent[key]), keys[key])]).unwrap();
                    sent[key] += 1;
                }
                4 => {
                    for got in broker.lock(3) {
                        broker.settle(&got, Outcome::Abandon(properties(&[]))).unwrap();
                    }
                }
                5 => broker.restart(),
                _ => take_in_order(&mut broker, 2, &mut met),
            }
            prop_assert_eq!(broker.replayed().digest(), broker.core.digest());
            broker.check_liveness();
        }
        take_in_order(&mut broker, 1_000, &mut met);
        prop_assert_eq!(met, sent);
    }
}

fn take_in_order(broker: &mut Broker, count: u64, met: &mut [u32; 4]) {
    for got in broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, count) {
        let text = text(&got);
        let (key, number) = text.split_once(' ').unwrap();
        let key: usize = key.parse().unwrap();
        assert_eq!(number.parse(), Ok(met[key]), "of key {key}");
        met[key] += 1;
    }
}
