//! Faults that a test orders: what the client sees of each, and what becomes of its messages.

use std::time::{Duration, Instant};

use amqp_codec::{
    performative::{Attach, DeliveryState, Source, Target},
    types::{ReceiverSettleMode, Role},
};

use broker_core::{EntitySettings, LockLifetime};

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
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
    let broker = Broker::with_queue(EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() });
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

const DELAY: Duration = Duration::from_millis(500);
const KINDS: [&str; 6] =
    ["lose-lock", "server-busy", "drop-link", "drop-connection", "reject-settlement", "delay-settlement"];

/// A client with what a fault strikes; those that drop links and connections strike who comes later.
fn victim(broker: &Broker, kind: &str) -> Client {
    let mut client = broker.plain();
    if !kind.starts_with("drop") {
        client.sender(1, QUEUE);
        client.receiver(2, QUEUE, SECOND);
    }
    client
}

/// Whether something goes wrong when a client does what this fault is about.
fn struck(broker: &Broker, client: &mut Client, kind: &str) -> bool {
    if kind.starts_with("drop") {
        let mut late = broker.plain();
        let mut attach = Attach::new("late", 1, Role::Sender);
        attach.source = Some(Source::new("here"));
        attach.target = Some(Target::new(QUEUE));
        attach.initial_delivery_count = Some(0);
        late.wire.script.attach(0, attach);
        // A connection that ends without a word answers nothing.
        return late.wire.attached().map_or(true, |answer| answer.target.is_none());
    }
    if kind == "server-busy" {
        client.send(1, false, &crate::message::message("tea"));
        return matches!(client.wire.disposed().unwrap().state, Some(DeliveryState::Rejected(_)));
    }
    client.accepted(1, &["tea"]);
    let received = client.receive(2, 1).remove(0);
    let began = Instant::now();
    let answer = client.outcome(0, received.id(), DeliveryState::Accepted);
    let is_rejected = matches!(answer.state, Some(DeliveryState::Rejected(_)));
    if kind == "delay-settlement" { began.elapsed() >= DELAY } else { is_rejected }
}

#[test]
fn each_fault_ends_with_its_count_or_its_time_whichever_is_first() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    // What is ordered, how far the clock is moved before each strike, and before there are no more.
    let cases: [(&str, &[u64], u64); 4] = [
        (r#""count":2"#, &[0, 0], 0),
        (r#""for_ms":3600000"#, &[0, 59], 1),
        (r#""count":1,"for_ms":3600000"#, &[59], 0),
        (r#""count":9,"for_ms":3600000"#, &[0], 60),
    ];
    for kind in KINDS {
        for (limits, strikes, left) in cases {
            let broker = Broker::start();
            let mut client = victim(&broker, kind);
            let delay = if kind == "delay-settlement" { r#","delay_ms":500"# } else { "" };
            order(&broker, kind, &format!("{limits}{delay}"));
            for before in strikes {
                advance(broker.address, minutes(*before));
                assert!(struck(&broker, &mut client, kind), "{kind} {limits} after {before} minutes");
            }
            advance(broker.address, minutes(left));
            // A busy machine may be slow by itself, but not each time.
            let tries = if kind == "delay-settlement" { 10 } else { 1 };
            let over = (0..tries).any(|_| !struck(&broker, &mut client, kind));
            assert!(over, "{kind} {limits}: it is over");
            assert_eq!(listed(&broker), r#"{"faults":[]}"#, "{kind} {limits}");
        }
    }
}
