//! Sends of transactions: scheduled, via other entities, to partitions and to topics
//! (`docs/features/transactions.md`, "Several entities").

use std::time::Duration;

use broker_filter::{PropertySet, SystemProperty, Value};
use bytes::Bytes;

use super::{harness::*, transacting::*};
use crate::{
    Command, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, LinkId, Message, PartitionKeyError,
    PublishError, SubQueue, Timestamp, TransactionError, TransactionId,
};

fn schedule_in(
    broker: &mut Broker,
    transaction: TransactionId,
    messages: Vec<Message>,
) -> Result<Vec<u64>, PublishError> {
    let ticket = broker.ticket();
    let command = Command::Schedule { path: main_path("q"), messages, ticket };
    match broker.tell(ME, command.within(transaction)).pop() {
        Some(Effect::Scheduled { ticket: answered, sequences }) if answered == ticket => {
            Ok(sequences.into_iter().map(|sequence| sequence.0).collect())
        }
        Some(Effect::PublishRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn due_in(broker: &Broker, text: &str, millis: u64) -> Message {
    let due = Some(broker.now.after(Duration::from_millis(millis)));
    Message { scheduled_enqueue_time: due, ..message(text) }
}

#[test]
fn a_message_scheduled_in_a_transaction_has_its_number_at_once_and_waits_from_the_commit_on() {
    for crash in [false, true] {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.declare(TX);
        let scheduled = vec![due_in(&broker, "soon", 1_000), due_in(&broker, "later", 60_000)];
        assert_eq!(schedule_in(&mut broker, TX, scheduled), Ok(vec![1, 2]));
        broker.publish(message("between"));
        assert_eq!(broker.shown("q"), ["between"], "nothing shows before the commit");
        broker.wait(2_000);
        assert_eq!(broker.commit(TX), Answered::Done);
        if crash {
            broker.restart();
        }
        // The time of the first has come meanwhile: it arrives now, with a new number.
        let peeked = broker.peek(main_path("q"), 0, 9);
        let found: Vec<_> = peeked.iter().map(|peeked| (peeked.sequence.0, peeked.stored.state)).collect();
        assert_eq!(found, [(2, 2), (3, 0), (4, 0)]);
        assert_eq!(broker.replayed().digest(), broker.core.digest());
        broker.cancel(&[2]).unwrap();
        broker.check_liveness();
    }
}

#[test]
fn a_number_that_a_transaction_was_told_is_nobody_elses() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.declare(TX);
    let scheduled = vec![due_in(&broker, "never", 1_000)];
    assert_eq!(schedule_in(&mut broker, TX, scheduled), Ok(vec![1]));
    broker.restart();
    broker.publish(message("after"));
    assert_eq!(broker.peek(main_path("q"), 0, 9)[0].sequence.0, 2);
    assert!(broker.cancel(&[1]).is_err());
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
    broker.wait(5_000);
    assert_eq!(broker.shown("q"), ["after"], "a restart rolls back");
}

#[test]
fn a_message_scheduled_in_a_transaction_is_checked_when_it_joins() {
    let mut broker =
        Broker::with_queue(EntitySettings { max_message_bytes: Some(4), ..EntitySettings::default() });
    let missing = schedule_in(&mut broker, TX, vec![message("m")]);
    assert_eq!(missing, Err(TransactionError::Unknown.into()));
    broker.declare(TX);
    let scheduled = vec![due_in(&broker, "too large", 1_000)];
    assert!(matches!(schedule_in(&mut broker, TX, scheduled), Err(PublishError::TooLarge { .. })));
    assert_eq!(broker.commit(TX), transaction(TransactionError::Failed));
    assert_eq!(broker.core.entity("q").unwrap().next_sequence, 1);
}

/// Sends to `target` through `q`, in a transaction or without.
fn send_through(broker: &mut Broker, transaction: Option<TransactionId>, messages: Vec<Message>) -> Answered {
    let (path, via, ticket) = (main_path("target"), main_path("q"), broker.ticket());
    let Some(transaction) = transaction else {
        let told = broker.tell(ME, Command::PublishVia { path, via, messages, ticket: Some(ticket) });
        return broker.answer(ME, ticket, told).unwrap();
    };
    broker.enlist(transaction, Command::PublishVia { path, via, messages, ticket: Some(ticket) }, ticket)
}

#[test]
fn a_message_that_a_disabled_target_refuses_is_dead_lettered_in_the_transfer_entity() {
    use crate::EntityStatus::{Active, Disabled, ReceiveDisabled, SendDisabled};
    let cases = [(Active, true), (ReceiveDisabled, true), (SendDisabled, false), (Disabled, false)];
    let transfers = EntityPath { entity: "q".into(), sub_queue: SubQueue::TransferDeadLetter };
    for (status, arrives) in cases {
        for transaction in [None, Some(TX)] {
            let mut broker = Broker::with_queue(EntitySettings::default());
            broker.create("target", EntitySettings { status, ..EntitySettings::default() });
            broker.declare(TX);
            assert_eq!(
                send_through(&mut broker, transaction, vec![message("a"), message("b")]),
                Answered::Done
            );
            assert_eq!(broker.commit(TX), Answered::Done);
            for round in 0..2 {
                let case = format!("{status:?} {transaction:?} {round}");
                assert_eq!(
                    broker.core.entity("target").unwrap().active,
                    if arrives { 2 } else { 0 },
                    "{case}"
                );
                assert_eq!(broker.active(), 0, "{case}");
                let letters = broker.shown_with(transfers.clone(), "DeadLetterReason");
                let reason = Some("MessagingEntityDisabledException".to_owned());
                let expected = [("a".to_owned(), reason.clone()), ("b".to_owned(), reason)];
                assert_eq!(letters, if arrives { vec![] } else { expected.to_vec() }, "{case}");
                broker.check_liveness();
                assert_eq!(broker.replayed().digest(), broker.core.digest(), "{case}");
                broker.restart();
            }
        }
    }
}

#[test]
fn other_faults_of_a_target_are_the_senders() {
    type Spoil = fn(&mut Broker);
    let cases: [(&str, Spoil); 3] = [
        ("deleted", |broker| {
            let ticket = broker.ticket();
            broker.tell(ME, Command::DeleteEntity { name: "target".into(), expected: None, ticket });
        }),
        ("full", |broker| {
            broker.update("target", EntitySettings { max_size_bytes: Some(1), ..EntitySettings::default() });
        }),
        ("between deleted", |broker| {
            let ticket = broker.ticket();
            broker.tell(ME, Command::DeleteEntity { name: "q".into(), expected: None, ticket });
        }),
    ];
    for (what, spoil) in cases {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.create("target", EntitySettings::default());
        spoil(&mut broker);
        broker.declare(TX);
        for transaction in [None, Some(TX)] {
            let sent = send_through(&mut broker, transaction, vec![message("long")]);
            assert!(matches!(sent, Answered::Publish(_)), "{what}: {sent:?}");
        }
        assert_eq!(broker.commit(TX), transaction(TransactionError::Failed), "{what}");
        broker.check_liveness();
    }
}

#[test]
fn a_link_through_an_entity_stands_and_falls_with_that_one() {
    let off = || EntitySettings { status: crate::EntityStatus::Disabled, ..EntitySettings::default() };
    let open = |broker: &mut Broker| {
        let (producer, path, via) = (LinkId(7), main_path("target"), main_path("q"));
        broker.tell(ME, Command::OpenProducerVia { producer, path, via, auto_create: false })
    };
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.create("target", EntitySettings { max_message_bytes: Some(77), ..off() });
    let told = open(&mut broker);
    let about_the_target =
        matches!(&told[..], [Effect::ProducerOpened { queue, .. }] if queue.max_message_bytes == 77);
    assert!(about_the_target, "{told:?}");
    broker.update("target", off());
    assert!(broker.take(ME).is_empty(), "the target's status is not the link's");
    let told = broker.update("q", off());
    assert!(
        told.iter().any(|effect| matches!(effect, Effect::EntityDisabled { link: LinkId(7) })),
        "{told:?}"
    );
    let told = open(&mut broker);
    assert!(matches!(&told[..], [Effect::AttachRefused { .. }]), "{told:?}");
}

#[test]
fn all_that_a_transaction_sends_to_a_partitioned_entity_has_one_key() {
    let keyed = |text: &str, key: &str| Message { partition_key: Some(key.into()), ..message(text) };
    let with_id = |id: &str| Message { message_id: Some(id.into()), ..message(id) };
    let refused = |error: PartitionKeyError| Answered::Publish(error.into());
    let several = || refused(PartitionKeyError::SeveralKeys("q".into()));
    let cases = [
        (vec![keyed("1", "a")], vec![keyed("2", "a")], Answered::Done),
        (vec![keyed("1", "a")], vec![keyed("2", "b")], several()),
        (vec![keyed("1", "a"), keyed("2", "b")], vec![], several()),
        (vec![message("1")], vec![], refused(PartitionKeyError::Missing("q".into()))),
        (vec![keyed("1", "a")], vec![message("2")], refused(PartitionKeyError::Missing("q".into()))),
        (vec![with_id("a")], vec![keyed("2", "a")], Answered::Done),
        (vec![with_id("a")], vec![with_id("b")], several()),
    ];
    for (place, (first, second, expected)) in cases.into_iter().enumerate() {
        let settings = EntitySettings { enable_partitioning: true, ..EntitySettings::default() };
        let mut broker = Broker::with_queue(settings);
        broker.create("other", EntitySettings::default());
        broker.declare(TX);
        assert_eq!(broker.send_messages_in(TX, "other", vec![message("no matter")]), Answered::Done);
        let mut found = broker.send_messages_in(TX, "q", first);
        if found == Answered::Done && !second.is_empty() {
            found = broker.send_messages_in(TX, "q", second);
        }
        assert_eq!(found, expected, "case {place}");
        let done = broker.commit(TX);
        assert_eq!(done == Answered::Done, expected == Answered::Done, "case {place}");
    }
}

/// The text behind a `>` is the via-partition key.
fn describe(_now: Timestamp, payload: &Bytes) -> Message {
    let text = std::str::from_utf8(payload).unwrap();
    let mut facts = PropertySet::new();
    if let Some((_, key)) = text.split_once('>') {
        facts.set_system(SystemProperty::ViaPartitionKey, Value::Text(key.into()));
    }
    Message { properties: Some(Box::new(facts)), ..message(text) }
}

#[test]
fn all_that_a_transaction_sends_through_a_partitioned_entity_has_one_key() {
    let keyed = |text: &str, key: &str| Message { partition_key: Some(key.into()), ..message(text) };
    let with_id = |id: &str| Message { message_id: Some(id.into()), ..message(id) };
    let refused = |error: PartitionKeyError| Answered::Publish(error.into());
    let several = || refused(PartitionKeyError::SeveralKeys("q".into()));
    let missing = || refused(PartitionKeyError::Missing("q".into()));
    // Messages sent via the entity, more messages sent via it, and messages sent to the entity itself.
    let cases = [
        (vec![message("1>a")], vec![message("2>a")], None, Answered::Done),
        (vec![message("1>a"), message("2>a")], vec![], None, Answered::Done),
        (vec![message("1>a")], vec![message("2>b")], None, several()),
        (vec![message("1>a"), message("2>b")], vec![], None, several()),
        (vec![message("1")], vec![], None, missing()),
        (vec![message("1>a")], vec![message("2")], None, missing()),
        (vec![message("1>a"), message("2")], vec![], None, missing()),
        // A key of any other kind is one too, where there is no via-partition key.
        (vec![message("1>a")], vec![keyed("2", "a")], None, Answered::Done),
        (vec![message("1>a")], vec![keyed("2>a", "other")], None, Answered::Done),
        (vec![message("1>a")], vec![keyed("2>b", "a")], None, several()),
        (vec![with_id("a")], vec![message("2>a")], None, Answered::Done),
        (vec![with_id("a")], vec![with_id("b")], None, several()),
        // Messages sent to the entity itself must belong to the same partition.
        (vec![message("1>a")], vec![], Some(keyed("3", "a")), Answered::Done),
        (vec![message("1>a")], vec![], Some(keyed("3", "b")), several()),
    ];
    for (place, (first, second, own, expected)) in cases.into_iter().enumerate() {
        for direct_first in [false, true] {
            let mut broker = Broker::with(CoreConfig { describe, ..CoreConfig::default() });
            broker.create("q", EntitySettings { enable_partitioning: true, ..EntitySettings::default() });
            broker.create("target", EntitySettings::default());
            broker.declare(TX);
            let mut found = Answered::Done;
            let own: Vec<_> = own.iter().cloned().collect();
            let via = [first.clone(), second.clone()].map(|messages| (true, messages));
            let mut sends: Vec<_> = via.into_iter().chain([(false, own)]).collect();
            if direct_first {
                sends.rotate_right(1);
            }
            for (via, messages) in sends {
                found = match (&found, messages.is_empty(), via) {
                    (Answered::Done, false, true) => send_through(&mut broker, Some(TX), messages),
                    (Answered::Done, false, false) => broker.send_messages_in(TX, "q", messages),
                    _ => found,
                };
            }
            assert_eq!(found, expected, "case {place}, direct first: {direct_first}");
            let done = broker.commit(TX);
            assert_eq!(done == Answered::Done, expected == Answered::Done, "case {place}");
        }
    }
}

#[test]
fn keys_do_not_matter_through_an_entity_without_partitions_or_outside_of_a_transaction() {
    for (enable_partitioning, transaction) in [(false, Some(TX)), (true, None), (false, None)] {
        let mut broker = Broker::with(CoreConfig { describe, ..CoreConfig::default() });
        broker.create("q", EntitySettings { enable_partitioning, ..EntitySettings::default() });
        broker.create("target", EntitySettings::default());
        broker.declare(TX);
        for text in ["1>a", "2>b", "3"] {
            assert_eq!(send_through(&mut broker, transaction, vec![message(text)]), Answered::Done, "{text}");
        }
        assert_eq!(broker.commit(TX), Answered::Done);
        assert_eq!(broker.shown("target"), ["1>a", "2>b", "3"]);
    }
}

#[test]
fn copies_of_a_topic_count_against_the_limits_of_a_transaction() {
    let mut broker = limited(|config| config.max_transaction_bytes = 2_000);
    broker.create_kind("t", EntityKind::Topic, EntitySettings::default());
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        broker.subscribe(name, EntitySettings::default(), vec![rule("r", "", None)]);
    }
    broker.declare(TX);
    let held = |broker: &Broker| broker.core.transactions().1;
    assert_eq!(broker.send_in(TX, "t", &["m"]), Answered::Done);
    assert_eq!(held(&broker), 1 + 256 + 8 * 128);
    let limit = TransactionError::LimitReached {
        what: "bytes in the open transactions of a connection",
        limit: 2_000,
    };
    assert_eq!(broker.send_in(TX, "t", &["m"]), Answered::Publish(limit.into()));
    assert_eq!(held(&broker), 0);
}
