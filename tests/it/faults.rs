//! Faults that a test orders: what the client sees of each, and what becomes of its messages.

use std::time::{Duration, Instant};

use amqp_codec::{
    performative::{Attach, DeliveryState, Source, Target},
    types::{ReceiverSettleMode, Role},
};

use crate::{
    broker::{Broker, QUEUE},
    http::ask,
    testing::advance,
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

/// Orders a fault at the queue of the test; its number.
fn order(broker: &Broker, kind: &str, more: &str) -> String {
    let body = format!(r#"{{"kind":"{kind}","entity":"{QUEUE}",{more}}}"#);
    let (status, text) = ask(broker.address, "POST /$ferrybus/faults", &body);
    assert_eq!(status, 201, "{text}");
    let (_, rest) = text.split_once(r#""id":"#).unwrap();
    rest.split(',').next().unwrap().trim_end_matches('}').to_owned()
}

fn listed(broker: &Broker) -> String {
    let (status, text) = ask(broker.address, "GET /$ferrybus/faults", "");
    assert_eq!(status, 200);
    text
}

fn condition(state: Option<&DeliveryState>) -> String {
    let Some(DeliveryState::Rejected(Some(error))) = state else { panic!("{state:?}") };
    error.condition.to_string()
}

#[test]
fn a_lost_lock_refuses_the_settlement_and_the_message_comes_again() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["tea", "milk"]);
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 2);
    order(&broker, "lose-lock", r#""count":1"#);
    let answer = client.outcome(0, received[0].id(), DeliveryState::Accepted);
    assert_eq!(condition(answer.state.as_ref()), "com.microsoft:message-lock-lost");
    client.complete(&received[1]);
    let again = client.receive(2, 1).remove(0);
    assert_eq!((again.text().as_str(), again.header().delivery_count), ("tea", 1));
    client.complete(&again);
    client.nothing_on(2);
    assert_eq!(listed(&broker), r#"{"faults":[]}"#);
}

#[test]
fn a_busy_server_refuses_sends_and_attaches_as_often_as_ordered() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    order(&broker, "server-busy", r#""count":3"#);
    for _ in 0..2 {
        client.send(1, false, &crate::message::message("tea"));
        let answer = client.wire.disposed().unwrap();
        assert_eq!(condition(answer.state.as_ref()), "com.microsoft:server-busy");
    }
    let mut attach = Attach::new("receiver", 2, Role::Receiver);
    attach.source = Some(Source::new(QUEUE));
    attach.target = Some(Target::new("here"));
    assert_eq!(client.refused(0, attach).condition, "com.microsoft:server-busy");
    innocent.works();
    client.accepted(1, &["milk"]);
    client.receiver(3, QUEUE, SECOND);
    let received = client.receive(3, 1).remove(0);
    assert_eq!(received.text(), "milk", "what was refused was not stored");
    client.complete(&received);
}

#[test]
fn links_are_dropped_and_their_connection_goes_on() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.sender(2, "innocent");
    client.receiver(3, QUEUE, SECOND);
    order(&broker, "drop-link", r#""count":2"#);
    let mut handles = Vec::new();
    for _ in 0..2 {
        let detach = client.wire.detached().unwrap();
        assert_eq!(detach.error.unwrap().condition, "amqp:link:detach-forced");
        handles.push(detach.handle);
    }
    assert_ne!(handles[0], handles[1]);
    innocent.works();
    client.accepted(2, &["still here"]);
}

#[test]
fn connections_end_without_a_word_and_their_locks_with_them() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["tea"]);
    client.receiver(2, QUEUE, SECOND);
    client.receive(2, 1);
    order(&broker, "drop-connection", r#""count":1"#);
    assert!(client.wire.rest().unwrap().is_empty(), "neither a detach nor a close");
    innocent.works();
    let mut another = broker.plain();
    another.receiver(2, QUEUE, SECOND);
    let received = another.receive(2, 1).remove(0);
    another.complete(&received);
}

#[test]
fn a_rejected_settlement_leaves_the_message_locked() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["tea"]);
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 1).remove(0);
    order(&broker, "reject-settlement", r#""count":1"#);
    let answer = client.outcome(0, received.id(), DeliveryState::Accepted);
    assert_eq!(condition(answer.state.as_ref()), "amqp:internal-error");
    client.nothing_on(2);
    advance(broker.address, Duration::from_secs(61));
    let again = client.receive(2, 1).remove(0);
    assert_eq!(again.header().delivery_count, 1);
    client.complete(&again);
}

#[test]
fn a_settlement_is_held_up_and_done() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["tea"]);
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 1).remove(0);
    order(&broker, "delay-settlement", r#""count":1,"delay_ms":200"#);
    let began = Instant::now();
    client.complete(&received);
    assert!(began.elapsed() >= Duration::from_millis(200));
    client.nothing_on(2);
}

#[test]
fn faults_are_listed_cleared_and_end_with_the_brokers_time() {
    let broker = Broker::start();
    let one = order(&broker, "server-busy", r#""for_ms":60000"#);
    let two = order(&broker, "lose-lock", r#""count":7,"for_ms":120000"#);
    let both = listed(&broker);
    assert!(
        both.contains(r#""count":7"#) && both.contains("server-busy") && both.contains("lose-lock"),
        "{both}"
    );
    advance(broker.address, Duration::from_secs(60));
    assert!(!listed(&broker).contains("server-busy"), "its time is over");
    assert_eq!(ask(broker.address, &format!("DELETE /$ferrybus/faults/{one}"), "").0, 404);
    assert_eq!(ask(broker.address, &format!("DELETE /$ferrybus/faults/{two}"), "").0, 200);
    order(&broker, "drop-link", r#""count":1"#);
    let (status, text) = ask(broker.address, "DELETE /$ferrybus/faults", "");
    assert_eq!((status, text.as_str()), (200, r#"{"cleared":1}"#));
    let (status, _) = ask(broker.address, "POST /$ferrybus/faults", r#"{"kind":"server-busy"}"#);
    assert_eq!(status, 400, "without an end");
    assert_eq!(ask(broker.address, "PUT /$ferrybus/faults", "").0, 405);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["tea"]);
}
