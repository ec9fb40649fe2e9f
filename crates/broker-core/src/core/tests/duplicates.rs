//! Duplicate detection (`docs/features/duplicate-detection.md`).

use std::time::Duration;

use super::{harness::*, recovery::clean, transacting::*};
use crate::{
    Command, CoreConfig, Effect, EntitySettings, Message, Outcome, PublishError, QueueId, QuotaError,
    SequenceNumber, Ticket, Timestamp,
};

const WINDOW: u64 = 20_000;

fn detecting() -> EntitySettings {
    EntitySettings {
        requires_duplicate_detection: true,
        duplicate_detection_window: Duration::from_millis(WINDOW),
        ..EntitySettings::default()
    }
}

/// A message with this id and a text of its own.
fn named(id: &str, text: &str) -> Message {
    Message { message_id: Some(id.into()), ..message(text) }
}

fn at(message: Message, due: Timestamp) -> Message {
    Message { scheduled_enqueue_time: Some(due), ..message }
}

fn batch(broker: &mut Broker, messages: Vec<Message>) -> Result<(), PublishError> {
    let ticket = broker.ticket();
    let queue = broker.queue("q");
    let told = broker.tell(ME, Command::PublishBatch { queue, messages, ticket: Some(ticket) });
    match told.as_slice() {
        [Effect::Published { first, .. }] if *first == ticket => Ok(()),
        [Effect::PublishRefused { error, .. }] => Err(error.clone()),
        other => panic!("{other:?}"),
    }
}

/// Texts of what is in the queue, in order.
fn contents(broker: &mut Broker) -> Vec<String> {
    let peeked = broker.peek(main_path("q"), 0, 1_000);
    peeked.iter().map(|peeked| String::from_utf8(peeked.stored.payload.to_vec()).unwrap()).collect()
}

#[test]
fn a_duplicate_within_the_window_is_accepted_and_dropped() {
    let cases = [
        // ms after the first copy, number of copies
        (0, 1),
        (WINDOW - 1, 1),
        (WINDOW, 2),
        (WINDOW + 60_000, 2),
    ];
    for case @ (later, copies) in cases {
        let mut broker = Broker::with_queue(detecting());
        broker.publish(named("id", "first"));
        broker.wait(later);
        broker.publish(named("id", "second"));
        assert_eq!(broker.active(), copies, "{case:?}");
        broker.check_liveness();
    }
}

#[test]
fn the_fate_of_the_first_copy_does_not_matter() {
    type End = fn(&mut Broker);
    let cases: [(&str, End); 6] = [
        ("completed", |broker| {
            let first = broker.lock_one();
            broker.settle(&first, Outcome::Complete).unwrap();
        }),
        ("dead-lettered", |broker| {
            let first = broker.lock_one();
            broker.settle(&first, Outcome::DeadLetter(properties(&[]))).unwrap();
        }),
        ("deferred", |broker| {
            let first = broker.lock_one();
            broker.settle(&first, Outcome::Defer(properties(&[]))).unwrap();
        }),
        ("expired", |broker| broker.wait(2_000)),
        ("forgotten by cleaning", |broker| {
            let first = broker.lock_one();
            broker.settle(&first, Outcome::Complete).unwrap();
            let end = broker.journal.end();
            clean(broker, end);
        }),
        ("gone with a restart", |broker| {
            let first = broker.lock_one();
            broker.settle(&first, Outcome::Complete).unwrap();
            broker.restart();
        }),
    ];
    for (what, end) in cases {
        let mut broker = Broker::with_queue(detecting());
        broker.publish(Message { time_to_live: Some(Duration::from_secs(1)), ..named("id", "first") });
        end(&mut broker);
        broker.publish(named("id", "second"));
        assert!(!contents(&mut broker).contains(&"second".to_owned()), "{what}");
        broker.wait(WINDOW);
        broker.publish(named("id", "third"));
        assert!(contents(&mut broker).contains(&"third".to_owned()), "{what}");
    }
}

#[test]
fn a_dropped_duplicate_does_not_extend_the_window() {
    let mut broker = Broker::with_queue(detecting());
    broker.publish(named("id", "first"));
    broker.wait(WINDOW / 2);
    broker.publish(named("id", "second"));
    broker.wait(WINDOW / 2);
    broker.publish(named("id", "third"));
    assert_eq!(contents(&mut broker), ["first", "third"]);
}

#[test]
fn messages_of_a_batch_are_checked_one_by_one_and_among_themselves() {
    let mut broker = Broker::with_queue(detecting());
    broker.publish(named("b", "before"));
    let ids = ["a", "b", "a", "c", "c"];
    let messages = ids.iter().enumerate().map(|(n, id)| named(id, &format!("{id}{n}"))).collect();
    batch(&mut broker, messages).unwrap();
    assert_eq!(contents(&mut broker), ["before", "a0", "c3"]);
    let numbers: Vec<u64> = broker.lock(9).iter().map(|delivery| delivery.sequence.0).collect();
    assert_eq!(numbers, [1, 2, 3], "a dropped message has no number");
}

#[test]
fn scheduled_and_plain_messages_are_duplicates_of_each_other() {
    let mut broker = Broker::with_queue(detecting());
    let due = broker.now.after(Duration::from_secs(5));
    broker.publish(at(named("s", "scheduled first"), due));
    broker.publish(named("s", "plain second"));
    broker.publish(named("p", "plain first"));
    broker.publish(at(named("p", "scheduled second"), due));
    broker.publish(at(named("s", "scheduled second"), due));
    assert_eq!(contents(&mut broker), ["scheduled first", "plain first"]);
    broker.wait(6_000);
    assert_eq!(broker.active(), 2, "an activated message is no duplicate of itself");
    broker.publish(named("s", "after activation"));
    assert_eq!(broker.active(), 2);
}

#[test]
fn messages_without_id_and_queues_without_detection_let_everything_in() {
    let cases = [
        (detecting(), None, 3),
        (detecting(), Some("id"), 1),
        (EntitySettings::default(), None, 3),
        (EntitySettings::default(), Some("id"), 3),
    ];
    for (settings, id, copies) in cases {
        let mut broker = Broker::with_queue(settings.clone());
        for _ in 0..3 {
            broker.publish(Message { message_id: id.map(Box::from), ..message("x") });
        }
        assert_eq!(broker.active(), copies, "{settings:?} {id:?}");
        let history_len = broker.core.entity("q").unwrap().remembered_ids;
        assert_eq!(history_len, u64::from(copies == 1), "without detection nothing is remembered");
    }
}

#[test]
fn each_queue_has_its_own_history() {
    let mut broker = Broker::with_queue(detecting());
    broker.create("other", detecting());
    broker.publish(named("id", "here"));
    let queue = broker.queue("other");
    broker.tell(ME, Command::Publish { queue, message: named("id", "there"), ticket: None });
    assert_eq!((broker.active(), broker.core.entity("other").unwrap().active), (1, 1));
}

#[test]
fn a_refused_send_leaves_no_history() {
    let mut broker = Broker::with_queue(EntitySettings { max_size_bytes: Some(10), ..detecting() });
    let refused = batch(&mut broker, vec![named("id", "far too large for it")]);
    assert!(matches!(refused, Err(PublishError::QuotaExceeded(QuotaError::Entity { .. }))));
    batch(&mut broker, vec![named("id", "small")]).unwrap();
    assert_eq!(broker.active(), 1);
}

#[test]
fn ids_beyond_the_limit_are_refused_until_some_are_forgotten() {
    let config = CoreConfig { token_key: [7; 16], max_history_ids: 3, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create("q", detecting());
    batch(&mut broker, vec![named("1", "1"), named("2", "2")]).unwrap();
    let refused = batch(&mut broker, vec![named("3", "3"), named("4", "4")]);
    assert!(matches!(refused, Err(PublishError::HistoryFull { limit: 3, .. })), "{refused:?}");
    batch(&mut broker, vec![named("3", "3")]).unwrap();
    let refused = batch(&mut broker, vec![named("4", "4")]);
    assert!(matches!(refused, Err(PublishError::HistoryFull { .. })));
    batch(&mut broker, vec![message("no id")]).unwrap();
    broker.restart();
    assert!(batch(&mut broker, vec![named("4", "4")]).is_err(), "a restart forgets nothing");
    broker.wait(WINDOW + WINDOW / 8);
    assert_eq!(broker.core.entity("q").unwrap().remembered_ids, 0, "nobody had to ask");
    batch(&mut broker, vec![named("4", "4")]).unwrap();
    assert_eq!(broker.active(), 5);
}

#[test]
fn duplicates_need_no_place_where_the_ids_are_as_many_as_may_be() {
    let config = CoreConfig { token_key: [7; 16], max_history_ids: 3, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create("q", detecting());
    batch(&mut broker, vec![named("1", "1"), named("2", "2")]).unwrap();
    // One place is left: for one new id, however often it is there.
    let cases: [(&[&str], bool, u64); 8] = [
        // ids, whether they are taken, messages that are stored then
        (&["1", "2", "1"], true, 2),
        (&["1", "3", "4"], false, 2),
        (&["3", "1", "3", "2", "3"], true, 3),
        (&["1", "2", "3"], true, 3),
        (&["4"], false, 3),
        (&["1", "4"], false, 3),
        (&["3"], true, 3),
        (&[], true, 3),
    ];
    for (ids, is_taken, stored) in cases {
        let told = batch(&mut broker, ids.iter().map(|id| named(id, id)).collect());
        match told {
            Ok(()) => assert!(is_taken, "{ids:?}"),
            Err(PublishError::HistoryFull { limit: 3, .. }) => assert!(!is_taken, "{ids:?}"),
            Err(error) => panic!("{ids:?}: {error}"),
        }
        assert_eq!(broker.active(), stored, "{ids:?}");
    }
    // An id whose window has passed is a new one.
    broker.wait(WINDOW);
    assert_eq!(broker.core.entity("q").unwrap().remembered_ids, 3, "they are forgotten a little later");
    assert!(batch(&mut broker, vec![named("1", "again")]).is_err());
}

#[test]
fn ids_of_one_call_count_towards_the_limit() {
    let config = CoreConfig { token_key: [7; 16], max_history_ids: 2, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create("q", detecting());
    broker.create("p", detecting());
    let publish = |queue: QueueId, id: &str, ticket| Command::Publish {
        queue,
        message: named(id, id),
        ticket: Some(Ticket(ticket)),
    };
    let (p, q) = (broker.queue("p"), broker.queue("q"));
    let told = broker.tell_all(ME, vec![publish(q, "1", 1), publish(p, "2", 3), publish(q, "3", 5)]);
    let refused: Vec<u64> = told
        .iter()
        .filter_map(|effect| match effect {
            Effect::PublishRefused { ticket, .. } => Some(ticket.0),
            _ => None,
        })
        .collect();
    assert_eq!(refused, [5]);
}

#[test]
fn deleting_the_queue_deletes_its_history() {
    let config = CoreConfig { token_key: [7; 16], max_history_ids: 1, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create("q", detecting());
    broker.publish(named("id", "first"));
    let ticket = broker.ticket();
    broker.tell(ME, Command::DeleteEntity { name: "q".into(), expected: None, ticket });
    broker.check_liveness();
    broker.create("q", detecting());
    broker.publish(named("id", "second"));
    assert_eq!(broker.active(), 1);
}

#[test]
fn a_changed_window_holds_for_ids_that_were_seen_before() {
    let mut broker = Broker::with_queue(EntitySettings {
        duplicate_detection_window: Duration::from_secs(600),
        ..detecting()
    });
    broker.publish(named("id", "first"));
    broker.wait(WINDOW);
    let ticket = broker.ticket();
    let update =
        Command::UpdateEntity { name: "q".into(), settings: Box::new(detecting()), expected: None, ticket };
    broker.tell(ME, update);
    broker.publish(named("id", "second"));
    assert_eq!(broker.active(), 2);
    broker.wait(WINDOW + WINDOW / 8);
    assert_eq!(broker.core.entity("q").unwrap().remembered_ids, 0);
    broker.check_liveness();
}

#[test]
fn the_ids_of_one_call_share_a_record() {
    let mut broker = Broker::with_queue(detecting());
    let queue = broker.queue("q");
    let before = broker.journal.records.len();
    let publish = |n: u64| Command::Publish { queue, message: named(&n.to_string(), "x"), ticket: None };
    broker.tell_all(ME, (0..100).map(publish).collect());
    assert_eq!(broker.journal.records.len() - before, 101);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

/// A detecting topic with two subscriptions.
fn topic() -> Broker {
    let mut broker = Broker::with_topic(detecting());
    broker.subscribe("a", EntitySettings::default(), vec![rule("all", "", None)]);
    broker.subscribe("b", EntitySettings::default(), vec![rule("all", "", None)]);
    broker
}

fn copies(broker: &mut Broker) -> [Vec<String>; 2] {
    ["a", "b"].map(|name| broker.shown_texts(subscription(name)))
}

#[test]
fn a_topic_drops_a_duplicate_for_all_its_subscriptions() {
    type Between = fn(&mut Broker);
    let cases: [(&str, Between, bool); 5] = [
        ("at once", |_| {}, false),
        ("just within the window", |broker| broker.wait(WINDOW - 1), false),
        ("after the window", |broker| broker.wait(WINDOW), true),
        ("after a restart", Broker::restart, false),
        (
            "after all copies were deleted and cleaned away",
            |broker| {
                for name in ["a", "b"] {
                    broker.receive(subscription(name), crate::ReceiveMode::ReceiveAndDelete, 9);
                }
                let end = broker.journal.end();
                clean(broker, end);
            },
            false,
        ),
    ];
    for (when, between, arrives) in cases {
        let mut broker = topic();
        broker.send(vec![named("id", "first"), named("other", "second"), named("id", "in its batch")]);
        assert_eq!(copies(&mut broker), [["first", "second"], ["first", "second"]]);
        between(&mut broker);
        broker.send(vec![named("id", "again")]);
        for shown in copies(&mut broker) {
            assert_eq!(shown.contains(&"again".to_owned()), arrives, "{when}");
        }
        broker.check_liveness();
    }
}

#[test]
fn the_id_of_a_message_scheduled_at_a_topic_counts_from_the_send() {
    let mut broker = topic();
    let due = broker.now.after(Duration::from_secs(5));
    broker.send(vec![at(named("id", "scheduled"), due)]);
    broker.send(vec![named("id", "sent")]);
    assert_eq!(copies(&mut broker), [[""; 0]; 2]);
    broker.wait(5_000);
    assert_eq!(copies(&mut broker), [["scheduled"]; 2], "an activated message is no duplicate of itself");
    broker.send(vec![at(named("id", "scheduled again"), broker.now.after(Duration::from_secs(1)))]);
    broker.wait(1_000);
    assert_eq!(copies(&mut broker), [["scheduled"]; 2]);
}

#[test]
fn an_action_that_changes_the_id_is_too_late_to_make_or_unmake_a_duplicate() {
    let mut broker = Broker::with_topic(detecting());
    let rules = vec![rule("r", "", Some("SET sys.MessageId = 'same'")), rule("s", "", None)];
    broker.subscribe("a", EntitySettings::default(), rules);
    broker.send(vec![named("1", "first"), named("2", "second")]);
    let shown = broker.shown_texts(subscription("a"));
    assert_eq!(shown, ["first", "first", "second", "second"], "the copies are not checked among each other");
    broker.send(vec![named("same", "third")]);
    assert_eq!(broker.shown_texts(subscription("a")).len(), 6, "nobody sent that id");
    broker.send(vec![named("1", "fourth")]);
    assert_eq!(broker.shown_texts(subscription("a")).len(), 6, "somebody sent this one");
}

type Ids = &'static [&'static str];

#[test]
fn a_transaction_is_checked_at_its_commit_and_leaves_nothing_when_rolled_back() {
    let sent_in = |broker: &mut Broker, messages: Vec<Message>| {
        assert_eq!(broker.send_messages_in(TX, "q", messages), Answered::Done);
    };
    // Ids sent before, in and beside the transaction, whether it commits, and the ids stored then.
    let cases: [([Ids; 3], bool, Ids); 6] = [
        ([&[], &["id"], &[]], true, &["in"]),
        ([&[], &["id", "id"], &[]], true, &["in"]),
        ([&["id"], &["id", "new"], &[]], true, &["before", "in"]),
        // The order of the commits decides which one is the duplicate, not the order of the sends.
        ([&[], &["id"], &["id"]], true, &["beside"]),
        ([&[], &["id"], &[]], false, &[]),
        ([&[], &["id"], &["id"]], false, &["beside"]),
    ];
    for case @ ([before, within, beside], commits, expected) in cases {
        for restarts in [false, true] {
            let mut broker = Broker::with_queue(detecting());
            for id in before {
                broker.publish(named(id, "before"));
            }
            broker.declare(TX);
            for id in within {
                sent_in(&mut broker, vec![named(id, "in")]);
            }
            for id in beside {
                broker.publish(named(id, "beside"));
            }
            assert_eq!(broker.discharge(TX, !commits), Answered::Done);
            if restarts {
                broker.restart();
            }
            assert_eq!(contents(&mut broker), expected, "{case:?}");
            broker.publish(named("id", "after"));
            let is_known = !expected.is_empty();
            assert_eq!(contents(&mut broker).contains(&"after".to_owned()), !is_known, "{case:?}");
            assert_eq!(broker.replayed().digest(), broker.core.digest());
            broker.check_liveness();
        }
    }
}

#[test]
fn a_cancelled_schedule_of_a_detecting_queue_stays_known() {
    let mut broker = Broker::with_queue(detecting());
    let due = broker.now.after(Duration::from_secs(5));
    broker.publish(at(named("id", "scheduled"), due));
    let number = broker.peek(main_path("q"), 0, 1)[0].sequence;
    assert_eq!(number, SequenceNumber(1));
    broker.cancel(&[1]).unwrap();
    broker.publish(named("id", "again"));
    assert_eq!(contents(&mut broker), [""; 0]);
    broker.wait(WINDOW);
    broker.publish(named("id", "later"));
    assert_eq!(contents(&mut broker), ["later"]);
}
