//! Deleting in bulk (`docs/features/service-bus.md`, "Management operations").

use std::time::Duration;

use super::harness::*;
use crate::{
    ClientId, Command, Effect, EntityError, EntityPath, EntitySettings, LinkId, Message, Outcome,
    ReceiveMode, SessionWanted, SubQueue, Timestamp, UnsettledPolicy,
};

fn delete(broker: &mut Broker, path: EntityPath, count: u32, before: Timestamp) -> Result<u32, EntityError> {
    let ticket = broker.ticket();
    let told = broker.tell(ME, Command::DeleteMessages { path, session: None, count, before, ticket });
    match told.into_iter().next() {
        Some(Effect::Deleted { count, .. }) => Ok(count),
        Some(Effect::RequestRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_oldest_go_first_and_no_more_than_wanted() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b", "c", "d"]);
    let later = broker.now.after(Duration::from_millis(1));
    assert_eq!(delete(&mut broker, main_path("q"), 0, later), Ok(0));
    assert_eq!(delete(&mut broker, main_path("q"), 2, later), Ok(2));
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    assert_eq!(texts(&broker.lock(9)), ["c", "d"]);
    assert_eq!(delete(&mut broker, main_path("q"), 9, later), Ok(0), "locked ones stay");
    broker.check_liveness();
}

#[test]
fn only_messages_enqueued_before_the_time_are_deleted() {
    for (cut, deleted) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2)] {
        let mut broker = Broker::with_queue(EntitySettings::default());
        let start = broker.now;
        broker.publish(message("a"));
        broker.wait(1_000);
        broker.publish(message("b"));
        let before = start.after(Duration::from_millis(cut));
        assert_eq!(delete(&mut broker, main_path("q"), 9, before), Ok(deleted), "{cut}");
    }
}

#[test]
fn locked_deferred_and_scheduled_messages_stay() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["locked", "deferred", "returned", "active"]);
    let got = broker.lock(3);
    broker.settle(&got[1], Outcome::Defer(properties(&[]))).unwrap();
    broker.settle(&got[2], Outcome::Abandon(properties(&[]))).unwrap();
    broker.schedule(&["scheduled"], 1_000);
    assert_eq!(delete(&mut broker, main_path("q"), 9, Timestamp::MAX), Ok(2));
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.active, view.locked, view.deferred, view.scheduled), (1, 1, 1, 1));
    assert_eq!(broker.settle(&got[0], Outcome::Complete), Ok(()), "its lock went on");
}

#[test]
fn dead_letters_can_be_purged() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    for delivery in broker.lock(2) {
        broker.settle(&delivery, Outcome::DeadLetter(properties(&[]))).unwrap();
    }
    assert_eq!(delete(&mut broker, dead_letters("q"), 9, Timestamp::MAX), Ok(2));
    assert!(broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1).is_empty());
    let nowhere = EntityPath { entity: "nowhere".into(), sub_queue: SubQueue::Main };
    let missing = delete(&mut broker, nowhere, 9, Timestamp::MAX);
    assert_eq!(missing, Err(EntityError::NotFound("nowhere".into())));
    broker.check_liveness();
}

/// A queue with sessions, and what is published to it.
fn in_sessions(messages: &[(&str, &str)]) -> Broker {
    let mut broker =
        Broker::with_queue(EntitySettings { requires_session: true, ..EntitySettings::default() });
    for (session, text) in messages {
        broker.publish(of_session(session, text));
    }
    broker
}

fn of_session(session: &str, text: &str) -> Message {
    Message { session_id: Some(session.into()), ..message(text) }
}

fn hold(broker: &mut Broker, client: ClientId, link: u32, session: &str) {
    let command = Command::OpenConsumer {
        consumer: LinkId(link),
        path: main_path("q"),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: Some(SessionWanted::Named(session.into())),
        auto_create: false,
    };
    let told = broker.tell(client, command);
    assert!(matches!(told[..], [Effect::ConsumerOpened { .. }]), "{told:?}");
}

fn delete_of(broker: &mut Broker, session: Option<&str>, count: u32) -> u32 {
    let (ticket, session) = (broker.ticket(), session.map(Box::from));
    let (path, before) = (main_path("q"), Timestamp::MAX);
    let told = broker.tell(ME, Command::DeleteMessages { path, session, count, before, ticket });
    let [Effect::Deleted { count, .. }] = told[..] else { panic!("{told:?}") };
    count
}

#[test]
fn the_oldest_of_all_sessions_go_that_nobody_else_holds() {
    let sent =
        [("a", "1"), ("b", "2"), ("mine", "3"), ("theirs", "4"), ("a", "5"), ("mine", "6"), ("b", "7")];
    for (count, left) in [
        (0, &["1", "2", "3", "4", "5", "6", "7"][..]),
        (3, &["4", "5", "6", "7"]),
        (4, &["4", "6", "7"]),
        (9, &["4"]),
    ] {
        let mut broker = in_sessions(&sent);
        hold(&mut broker, ME, 1, "mine");
        hold(&mut broker, OTHER, 1, "theirs");
        assert_eq!(delete_of(&mut broker, None, count), count.min(6), "{count}");
        assert_eq!(broker.shown_texts(main_path("q")), left, "{count}");
        broker.check_liveness();
        assert_eq!(broker.core.digest(), broker.replayed().digest());
    }
}

#[test]
fn deletion_in_a_session_takes_only_its_messages_and_none_of_a_session_locked_by_others() {
    for (session, count, expected) in
        [("a", 9, 2), ("a", 1, 1), ("mine", 9, 2), ("theirs", 9, 0), ("none", 9, 0)]
    {
        let mut broker =
            in_sessions(&[("a", "1"), ("theirs", "2"), ("mine", "3"), ("a", "4"), ("mine", "5")]);
        hold(&mut broker, ME, 1, "mine");
        hold(&mut broker, OTHER, 1, "theirs");
        assert_eq!(delete_of(&mut broker, Some(session), count), expected, "{session}");
        assert_eq!(broker.active(), u64::from(5 - expected), "{session}");
    }
}

#[test]
fn a_deletion_visits_no_message_that_stays() {
    let mut broker = in_sessions(&[]);
    let queue = broker.queue("q");
    let send = |broker: &mut Broker, session: &str, count: usize| {
        let messages = vec![of_session(session, "m"); count];
        broker.tell(ME, Command::PublishBatch { queue, messages, ticket: None });
    };
    for session in ["aside", "theirs"] {
        send(&mut broker, session, 5_000);
    }
    for number in 1..=5_000 {
        broker
            .core
            .state
            .messages
            .entities
            .stores
            .get_mut(&queue)
            .unwrap()
            .set_state(number, crate::store::slot::State::Deferred);
    }
    hold(&mut broker, OTHER, 1, "theirs");
    for number in 0..100 {
        send(&mut broker, &format!("s{number}"), 1);
    }
    for (count, expected) in [(60, 60), (60, 40), (60, 0)] {
        let before = broker.core.state.messages.entities.stores[&queue].slots_visited;
        assert_eq!(delete_of(&mut broker, None, count), expected);
        let slots_visited = broker.core.state.messages.entities.stores[&queue].slots_visited - before;
        assert_eq!(slots_visited, expected as usize, "messages");
    }
}
