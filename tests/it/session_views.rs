//! What the SDKs ask about sessions by request, of queues and of subscriptions: lists of them, and what one of them
//! holds, peeked at and received by number.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp_codec::{
    performative::DeliveryState,
    raw::{AnnotationValue, RawMap, RawValue},
    types::TypeKind,
    value::Value,
};
use broker_core::{EntityKind, EntitySettings};
use broker_server::EntityPlan;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, RECEIVER, Sdk},
    message::{Delivery, message_of_session, uuids},
    numbers::{longs, map, messages, outcome},
    sdk_dotnet::DOTNET,
    sdk_go::GO,
    sdk_java::JAVA,
    sessions::{LOCK, accept_of, asking_of, is_refused, texts},
};

const TOPIC: &str = "events";
const SUBSCRIPTION: &str = "events/Subscriptions/s";

/// `DateTime.MaxValue` of .NET: the sessions that have a message or a state.
const ANY_TIME: i64 = 253_402_300_800_000;

/// Where to send and where to receive.
const PLACES: [(&str, &str); 2] = [(QUEUE, QUEUE), (TOPIC, SUBSCRIPTION)];

fn broker() -> Broker {
    let settings =
        EntitySettings { requires_session: true, lock_duration: LOCK, ..EntitySettings::default() };
    let plan = |name: &str, kind, settings| EntityPlan { kind, ..EntityPlan::queue(name, settings) };
    Broker::with(|config| {
        config.entities = vec![
            plan(QUEUE, EntityKind::Queue, settings.clone()),
            plan(TOPIC, EntityKind::Topic, EntitySettings::default()),
            plan(SUBSCRIPTION, EntityKind::Subscription, settings),
        ];
    })
}

/// Sends messages; `a1` is of session `a`.
fn send(broker: &Broker, dialect: &Dialect, entity: &str, texts: &[&str]) {
    let mut sdk = Sdk::connect(broker, dialect);
    let channel = sdk.sender(entity);
    for text in texts {
        sdk.send(channel, 0, &message_of_session(text));
    }
    sdk.client.close();
}

/// One page of the sessions since a time, sorted; `None` where there are none.
fn listed(sdk: &mut Sdk<'_>, node: u16, since: i64, skip: i32, top: i32) -> Option<Vec<String>> {
    let since = Value::Timestamp(since.into());
    let body = map(&[("last-updated-time", since), ("skip", Value::Int(skip)), ("top", Value::Int(top))]);
    let answer = sdk.manage(node, "com.microsoft:get-message-sessions", &body);
    if answer.status("statusCode") == 204 {
        assert_eq!(answer.error_condition().as_deref(), Some("com.microsoft:session-not-found"));
        return None;
    }
    assert_eq!(outcome(&answer), (200, None));
    let body = answer.body();
    assert_eq!(body.get("skip").unwrap().kind(), Some(TypeKind::Int));
    let ids = body.get("sessions-ids").unwrap();
    assert_eq!(ids.kind(), Some(TypeKind::Array), "Java and Python read an array");
    let items = ids.to_items().unwrap();
    let mut ids: Vec<String> =
        items.iter().map(|id| RawValue::first(id).unwrap().as_string().unwrap().to_owned()).collect();
    ids.sort_unstable();
    Some(ids)
}

fn set_state(sdk: &mut Sdk<'_>, node: u16, session: &str, state: AnnotationValue<'_>) {
    let body =
        RawMap::with_string_keys(&[("session-id", AnnotationValue::Str(session)), ("session-state", state)]);
    assert_eq!(outcome(&sdk.manage(node, "com.microsoft:set-session-state", &body)), (200, None));
}

/// The texts of what a session holds, and the states of the messages.
fn peeked(sdk: &mut Sdk<'_>, node: u16, session: &str) -> Vec<(String, i64)> {
    let body = map(&[
        ("from-sequence-number", Value::Long(1)),
        ("message-count", Value::Int(9)),
        ("session-id", Value::String(session.into())),
    ]);
    let answer = sdk.manage(node, "com.microsoft:peek-message", &body);
    if answer.status("statusCode") == 204 {
        return Vec::new();
    }
    let state =
        |message: &Delivery| message.annotation("x-opt-message-state", TypeKind::Int).as_i64().unwrap();
    messages(&answer).iter().map(|message| (message.text(), state(message))).collect()
}

fn by_number(session: &str, number: i64) -> RawMap {
    map(&[
        ("sequence-numbers", longs(&[number])),
        ("receiver-settle-mode", Value::Uint(1)),
        ("session-id", Value::String(session.into())),
    ])
}

fn completed(session: &str, token: [u8; 16]) -> RawMap {
    let tokens = uuids(&[token]);
    RawMap::with_string_keys(&[
        ("disposition-status", AnnotationValue::Str("completed")),
        ("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap())),
        ("session-id", AnnotationValue::Str(session)),
    ])
}

/// Sessions are listed by page, with messages or a state, or by the time of their state.
fn lists_sessions(dialect: &Dialect) {
    let broker = broker();
    for (entry, exit) in PLACES {
        let mut sdk = Sdk::connect(&broker, dialect);
        let node = sdk.management_of(exit);
        assert_eq!(listed(&mut sdk, node, ANY_TIME, 0, 100), None, "{exit}");
        send(&broker, dialect, entry, &["b1", "a2", "b3", "c4"]);
        let all = listed(&mut sdk, node, ANY_TIME, 0, 100).unwrap();
        assert_eq!(all, ["a", "b", "c"], "{exit}");
        let mut paged = listed(&mut sdk, node, ANY_TIME, 0, 2).unwrap();
        assert_eq!(paged.len(), 2, "{exit}");
        paged.extend(listed(&mut sdk, node, ANY_TIME, 2, 2).unwrap());
        paged.sort_unstable();
        assert_eq!(paged, all, "{exit}: no session on two pages");
        assert_eq!(listed(&mut sdk, node, ANY_TIME, 3, 2), None, "{exit}");

        assert_eq!(listed(&mut sdk, node, 0, 0, 100), None, "{exit}: no state was ever set");
        let (_, held) = accept_of(&mut sdk, exit, RECEIVER, Some("empty"));
        set_state(&mut sdk, node, &held, AnnotationValue::Binary(b"begun"));
        assert_eq!(listed(&mut sdk, node, 0, 0, 100).unwrap(), ["empty"], "{exit}");
        let later = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3_600);
        let later = i64::try_from(later.as_millis()).unwrap();
        assert_eq!(listed(&mut sdk, node, later, 0, 100), None, "{exit}");
        assert_eq!(listed(&mut sdk, node, ANY_TIME, 0, 100).unwrap(), ["a", "b", "c", "empty"], "{exit}");
        set_state(&mut sdk, node, &held, AnnotationValue::Null);
        assert_eq!(listed(&mut sdk, node, ANY_TIME, 0, 100).unwrap(), all, "{exit}");
        sdk.client.close();
    }
}

/// By name and the next one; what is deferred is peeked at and received within its session, by its holder.
fn looks_into_a_session(dialect: &Dialect) {
    let broker = broker();
    for (entry, exit) in PLACES {
        send(&broker, dialect, entry, &["b1", "a2", "b3"]);
        let (mut sdk, mut other) = (Sdk::connect(&broker, dialect), Sdk::connect(&broker, dialect));
        let (channel, session) = accept_of(&mut sdk, exit, RECEIVER, None);
        assert_eq!(session, "b", "{exit}: the oldest message's");
        other.authorize(exit);
        let taken = asking_of(&other, exit, RECEIVER, Some("b"));
        assert_eq!(is_refused(&mut other, taken), "com.microsoft:session-cannot-be-locked", "{exit}");
        let (free, session) = accept_of(&mut other, exit, RECEIVER + 10, None);
        assert_eq!(session, "a", "{exit}");
        let only = other.receive(free, RECEIVER + 10, 1).remove(0);
        assert_eq!(only.text(), "a2");

        let received = sdk.receive(channel, RECEIVER, 2);
        assert_eq!(texts(&received), ["b1", "b3"], "{exit}");
        sdk.settle(channel, &received[0], (dialect.defer)());
        let (node, others) = (sdk.management_of(exit), other.management_of(exit));
        assert_eq!(peeked(&mut sdk, node, "b"), [("b1".to_owned(), 1), ("b3".to_owned(), 0)], "{exit}");
        assert_eq!(peeked(&mut sdk, node, "a"), [("a2".to_owned(), 0)], "{exit}: looking needs no lock");
        assert_eq!(peeked(&mut sdk, node, "none"), [], "{exit}");

        let number = received[0].sequence_number();
        let lost = (410, Some("com.microsoft:session-lock-lost".to_owned()));
        let fetch = "com.microsoft:receive-by-sequence-number";
        assert_eq!(outcome(&other.manage(others, fetch, &by_number("b", number))), lost, "{exit}");
        let answer = sdk.manage(node, fetch, &by_number("b", number));
        assert_eq!(outcome(&answer), (200, None), "{exit}");
        let deferred = messages(&answer).remove(0);
        assert_eq!(deferred.text(), "b1");
        let settled =
            sdk.manage(node, "com.microsoft:update-disposition", &completed("b", deferred.lock_token()));
        assert_eq!(outcome(&settled), (200, None), "{exit}");
        assert_eq!(peeked(&mut sdk, node, "b"), [("b3".to_owned(), 0)], "{exit}");
        sdk.settle(channel, &received[1], DeliveryState::Accepted);
        assert_eq!(peeked(&mut sdk, node, "b"), [], "{exit}");
        other.settle(free, &only, DeliveryState::Accepted);
        sdk.client.close();
        other.client.close();
    }
}

#[test]
fn scripted_dotnet_lists_sessions_and_looks_into_them() {
    lists_sessions(&DOTNET);
    looks_into_a_session(&DOTNET);
}

#[test]
fn scripted_java_lists_sessions_and_looks_into_them() {
    lists_sessions(&JAVA);
    looks_into_a_session(&JAVA);
}

#[test]
fn scripted_go_lists_sessions_and_looks_into_them() {
    lists_sessions(&GO);
    looks_into_a_session(&GO);
}
