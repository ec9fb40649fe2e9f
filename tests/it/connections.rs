//! The list of connections over HTTP, and ending one.

use std::time::{Duration, Instant};

use amqp_codec::types::Symbol;
use serde_json::Value;

use crate::{
    broker::{Broker, QUEUE},
    http::{ask, ask_over, connect},
};

const PATH: &str = "/$ferrybus/connections";

fn listed(broker: &Broker) -> Vec<Value> {
    let (status, body) = ask(broker.address, &format!("GET {PATH}"), "");
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    body["connections"].as_array().unwrap().clone()
}

/// A connection that has said its last is struck out a moment later.
fn listed_at_last(broker: &Broker, count: usize) {
    let began = Instant::now();
    while listed(broker).len() != count {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", listed(broker));
    }
}

#[test]
fn clients_are_listed_with_what_they_have_open_until_they_go() {
    let broker = Broker::start();
    assert!(listed(&broker).is_empty());
    let mut one = broker.plain();
    one.sender(0, QUEUE);
    one.receiver(1, QUEUE, None);
    one.begin(1);
    let two = broker.plain();
    let all = listed(&broker);
    assert_eq!(all.len(), 2);
    let counts = |at: usize| (all[at]["sessions"].as_u64(), all[at]["links"].as_u64());
    assert_eq!((counts(0), counts(1)), ((Some(2), Some(2)), (Some(1), Some(0))));
    assert_eq!(all[0]["user"], broker_auth::DEVELOPMENT_KEY_NAME);
    assert_eq!(all[0]["transport"], "plain");
    assert!(all[0]["bytes_in"].as_u64() > Some(0) && all[0]["bytes_out"].as_u64() > Some(0), "{all:?}");
    two.close();
    one.close();
    listed_at_last(&broker, 0);
}

#[test]
fn a_connection_is_ended_and_told_why_and_no_other_is() {
    let broker = Broker::start();
    let mut one = broker.plain();
    let mut two = broker.plain();
    let ids: Vec<u64> = listed(&broker).iter().map(|it| it["id"].as_u64().unwrap()).collect();
    let (status, body) = ask(broker.address, &format!("DELETE {PATH}/{}", ids[0]), "");
    assert_eq!((status, body), (200, format!("{{\"closed\":{}}}", ids[0])));
    let error = one.wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, Symbol::from_static("amqp:connection:forced"));
    assert!(error.description.unwrap().starts_with("The connection was closed by an operator."));
    two.sender(0, QUEUE);
    two.accepted(0, &["tea"]);
    one.wire.script.close(None);
    listed_at_last(&broker, 1);
    two.close();
}

#[test]
fn who_may_not_manage_the_namespace_sees_and_ends_nothing() {
    let broker = Broker::start();
    let one = broker.plain();
    let id = listed(&broker)[0]["id"].as_u64().unwrap();
    let cases = [(format!("GET {PATH}"), 401), (format!("DELETE {PATH}/{id}"), 401)];
    for (request, expected) in cases {
        let (status, _) = ask_over(&mut connect(broker.address), &request, None, "");
        assert_eq!(status, expected, "{request}");
    }
    for (request, expected) in [
        (format!("DELETE {PATH}/{}", id + 1_000), 404),
        (format!("DELETE {PATH}/x"), 404),
        (format!("DELETE {PATH}"), 405),
        (format!("POST {PATH}"), 405),
        (format!("GET {PATH}/{id}"), 405),
    ] {
        assert_eq!(ask(broker.address, &request, "").0, expected, "{request}");
    }
    one.close();
}
