//! Records of deleted entities are released in bounded steps.

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, EntityKind, EntitySettings, LinkId, Message, ReceiveMode, Rule, SessionWanted, UnsettledPolicy,
};

fn plain() -> EntitySettings {
    EntitySettings::default()
}

fn delete(broker: &mut Broker, name: &str) {
    let ticket = broker.ticket();
    let command = Command::DeleteEntity { name: name.into(), expected: None, ticket };
    assert_eq!(broker.ask(command), Ok(()));
}

/// Calls the deadlines one by one until nothing is due; says how many records each call gave back.
fn released(broker: &mut Broker) -> Vec<usize> {
    let mut calls = Vec::new();
    while broker.core.deadline().is_some_and(|at| at <= broker.now) {
        let before = broker.journal.released.len();
        broker.journal.make_readable();
        broker.core.handle_deadline(broker.now, &mut broker.journal);
        calls.push(broker.journal.released.len() - before);
    }
    calls
}

#[test]
fn an_entity_is_gone_at_once_and_its_messages_are_given_back_in_bounded_steps() {
    let mut broker = Broker::with_queue(plain());
    broker.core.state.messages.config.deliver_messages_max = 10;
    broker.publish_all(&["m"; 95]);
    let live = broker.journal.live().len();
    assert_eq!(live, 96, "with the definition");
    delete(&mut broker, "q");
    assert!(broker.core.entity("q").is_none());
    // The first ten go with the request, and the definition and the record of the deletion.
    assert_eq!(broker.journal.live().len(), live - 11);
    assert_eq!(broker.core.digest(), broker.replayed().digest(), "a restart knows nothing of the rest");
    broker.create("q", plain());
    assert_eq!(broker.active(), 0, "the name is free");
    let calls = released(&mut broker);
    assert!(calls.iter().all(|count| *count <= 10), "{calls:?}");
    assert_eq!(calls.iter().sum::<usize>(), 85);
    broker.check_liveness();
}

#[test]
fn ids_and_states_of_sessions_are_given_back_as_well() {
    let settings = EntitySettings { requires_session: true, requires_duplicate_detection: true, ..plain() };
    let mut broker = Broker::with_queue(settings);
    broker.core.state.messages.config.deliver_messages_max = 10;
    for number in 0..30 {
        let (session, id) = (Some(format!("s{number}").into()), Some(format!("{number}").into()));
        broker.publish(Message { session_id: session.clone(), message_id: id, ..message("m") });
        let command = Command::OpenConsumer {
            consumer: LinkId(1),
            path: main_path("q"),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            session: session.clone().map(SessionWanted::Named),
            auto_create: false,
        };
        broker.tell(ME, command);
        let (ticket, session) = (broker.ticket(), session.unwrap());
        let state = Some(bytes::Bytes::from_static(b"state"));
        broker.tell(ME, Command::SetSessionState { path: main_path("q"), session, state, ticket });
    }
    broker.run_deadlines();
    delete(&mut broker, "q");
    let calls = released(&mut broker);
    assert!(calls.iter().all(|count| *count <= 10), "{calls:?}");
    assert!(broker.journal.live().is_empty(), "messages, ids and states");
    broker.check_liveness();
}

#[test]
fn a_body_goes_when_the_last_deleted_subscription_has_given_its_copy_back() {
    let mut broker = Broker::with_topic(plain());
    broker.core.state.messages.config.deliver_messages_max = 10;
    for name in ["a", "b"] {
        broker.subscribe(name, plain(), vec![Rule::default_rule()]);
    }
    broker.send(vec![message("m"); 40]);
    delete(&mut broker, "t/Subscriptions/a");
    delete(&mut broker, "t/Subscriptions/b");
    assert!(broker.core.entity("t").unwrap().bytes > 0);
    let calls = released(&mut broker);
    assert!(calls.iter().all(|count| *count <= 20), "a copy and its body: {calls:?}");
    assert_eq!(broker.core.entity("t").unwrap().bytes, 0);
    broker.check_liveness();
    assert_eq!(broker.core.digest(), broker.replayed().digest());
}

#[test]
fn a_topic_takes_its_bodies_along_before_its_subscriptions_are_given_back() {
    let mut broker = Broker::with_topic(plain());
    broker.core.state.messages.config.deliver_messages_max = 10;
    broker.subscribe("a", plain(), vec![Rule::default_rule()]);
    broker.send(vec![message("m"); 40]);
    delete(&mut broker, "t");
    let calls = released(&mut broker);
    assert!(calls.iter().all(|count| *count <= 10), "{calls:?}");
    assert!(broker.journal.live().is_empty());
    broker.check_liveness();
}

#[test]
fn entities_deleted_on_idle_are_released_in_bounded_steps_too() {
    let mut broker = Broker::new();
    broker.core.state.messages.config.deliver_messages_max = 10;
    let idle = EntitySettings { auto_delete_on_idle: Some(Duration::from_secs(300)), ..plain() };
    broker.create_kind("q", EntityKind::Queue, idle);
    broker.publish_all(&["m"; 45]);
    broker.run_deadlines();
    broker.now = broker.now.after(Duration::from_secs(301));
    let calls = released(&mut broker);
    assert!(calls.iter().all(|count| *count <= 22), "{calls:?}");
    assert!(broker.core.entity("q").is_none() && broker.journal.live().is_empty());
}
