//! Requests about a session that name the session's receiver instead of the session, as the SDK for Go does.

use amqp_codec::{
    performative::{DeliveryState, Modified},
    raw::{AnnotationValue, RawMap, RawValue},
};
use bytes::Bytes;

use crate::{
    harness::{World, body_map, property, status},
    sessions::{LOCK, accept, attach, lock_token, send, session, world},
};

/// An array of one `long`, 1.
const FIRST: [u8; 12] = [0xe0, 10, 1, 0x81, 0, 0, 0, 0, 0, 0, 0, 1];

/// Operation, fields of the body, and the status of the answer.
type Request<'a> = (&'static str, Vec<(&'static str, AnnotationValue<'a>)>, i64);

/// The requests that can be about a session, each with what it needs besides, and the status that answers it. They are asked in this
/// order: the message is taken by number, its token settles it, and nothing is left to delete.
fn requests(token: &[u8]) -> Vec<Request<'_>> {
    let first = AnnotationValue::Raw(RawValue::first(&FIRST).unwrap());
    let token = AnnotationValue::Raw(RawValue::first(token).unwrap());
    vec![
        ("renew-session-lock", vec![], 200),
        ("set-session-state", vec![("session-state", AnnotationValue::Binary(b"state"))], 200),
        ("get-session-state", vec![], 200),
        (
            "peek-message",
            vec![
                ("from-sequence-number", AnnotationValue::Long(1)),
                ("message-count", AnnotationValue::Int(10)),
            ],
            200,
        ),
        (
            "receive-by-sequence-number",
            vec![("sequence-numbers", first), ("receiver-settle-mode", AnnotationValue::Uint(1))],
            200,
        ),
        (
            "update-disposition",
            vec![("lock-tokens", token), ("disposition-status", AnnotationValue::Str("completed"))],
            410,
        ),
        ("batch-delete-messages", vec![("message-count", AnnotationValue::Int(10))], 204),
    ]
}

/// A client with the session `a` on link `r1`, whose message is deferred, and its token, in an array. Session `b` has a message too.
fn deferred() -> (World, usize, Vec<u8>) {
    let mut world = world();
    let client = world.service_bus();
    send(&mut world, client, &["a1", "b2"]);
    accept(&mut world, client, 1, "a");
    world.credit(client, 0, 1, 0, 1, false);
    world.run();
    let (transfer, payload) = world.transfers(client).remove(0);
    let defer = Modified { delivery_failed: None, undeliverable_here: Some(true), message_annotations: None };
    let id = transfer.delivery_id.unwrap();
    let state = Some(DeliveryState::Modified(Box::new(defer)));
    world.script(client).disposition(0, id, id, false, state);
    world.run();
    world.received(client);
    world.management(client, "s");
    (world, client, lock_token(&payload))
}

fn ask(world: &mut World, client: usize, link: Option<&str>, name: &str, body: &RawMap) -> Bytes {
    world.request_of_link(client, &format!("com.microsoft:{name}"), link, body)
}

#[test]
fn a_request_that_names_no_session_is_about_that_of_the_link_which_it_names() {
    let (mut world, client, token) = deferred();
    let other = world.service_bus();
    world.management(other, "s");
    for (name, body, wanted) in requests(&token) {
        let body = RawMap::with_string_keys(&body);
        let found = ask(&mut world, client, Some("r1"), name, &body);
        assert_eq!(status(&found, "statusCode"), wanted, "{name}: {found:?}");
        match name {
            "peek-message" => {
                let messages = body_map(&found).get("messages").unwrap().to_items().unwrap();
                assert_eq!(messages.len(), 1, "the message of session `b` is not shown");
            }
            "get-session-state" => {
                let found = body_map(&found);
                assert_eq!(found.get("session-state").unwrap().as_binary(), Some(&b"state"[..]));
            }
            _ => {}
        }
    }
    assert_eq!(world.active("s"), 1, "the message of session `b` is not deleted");
}

#[test]
fn the_session_that_a_request_names_goes_before_that_of_its_link() {
    let (mut world, client, _) = deferred();
    accept(&mut world, client, 2, "b");
    let body = RawMap::with_string_keys(&[session("b"), ("session-state", AnnotationValue::Binary(b"of b"))]);
    assert_eq!(status(&ask(&mut world, client, Some("r1"), "set-session-state", &body), "statusCode"), 200);
    for (link, state) in [("r1", None), ("r2", Some(&b"of b"[..]))] {
        let found = ask(&mut world, client, Some(link), "get-session-state", &RawMap::empty());
        assert_eq!(body_map(&found).get("session-state").unwrap().as_binary(), state, "{link}");
    }
}

#[test]
fn a_link_that_looks_on_at_a_session_is_told_its_state_and_changes_nothing() {
    let (mut world, client, _) = deferred();
    let body = RawMap::with_string_keys(&[session("a"), ("session-state", AnnotationValue::Binary(b"kept"))]);
    ask(&mut world, client, Some("r1"), "set-session-state", &body);
    let other = world.service_bus();
    world.management(other, "s");
    let mut browser = attach(30, "s", AnnotationValue::Str("a"), None);
    browser.properties =
        Some(RawMap::with_symbol_keys(&[("com.microsoft:peek-mode", AnnotationValue::Bool(true))]));
    let name = browser.name.clone();
    world.script(other).attach(0, browser);
    world.run();
    world.received(other);
    let named = RawMap::with_string_keys(&[session("a")]);
    let mut of_link = |operation| ask(&mut world, other, Some(&name), operation, &named);
    let found = of_link("get-session-state");
    assert_eq!(status(&found, "statusCode"), 200, "{found:?}");
    assert_eq!(body_map(&found).get("session-state").unwrap().as_binary(), Some(&b"kept"[..]));
    for operation in ["renew-session-lock", "set-session-state"] {
        assert_eq!(status(&of_link(operation), "statusCode"), 410, "{operation}");
    }
    let unlinked = ask(&mut world, other, None, "get-session-state", &named);
    assert_eq!(status(&unlinked, "statusCode"), 410, "a request of no link that looks on");
}

#[test]
fn a_link_without_a_session_or_of_another_connection_or_entity_names_none() {
    let (mut world, client, token) = deferred();
    let other = world.service_bus();
    world.management(other, "s");
    world.create("plain", broker_core::EntitySettings::default());
    world.script(client).attach_receiver(0, 20, "plain", "plain", None);
    world.run();
    world.received(client);
    for (asker, link) in [
        (client, None),
        (client, Some("nobody's")),
        (client, Some("plain")),
        (client, Some("m-in")),
        (other, Some("r1")),
    ] {
        for (name, body, _) in requests(&token) {
            let found = ask(&mut world, asker, link, name, &RawMap::with_string_keys(&body));
            let told = (status(&found, "statusCode"), property(&found, "errorCondition"));
            let wanted = match name {
                "renew-session-lock" | "set-session-state" | "get-session-state" => {
                    (400, Some("com.microsoft:argument-error"))
                }
                "receive-by-sequence-number" => (400, Some("amqp:not-allowed")),
                "update-disposition" => (410, Some("com.microsoft:message-lock-lost")),
                // These are about the whole entity.
                "peek-message" => (200, None),
                _ => continue,
            };
            assert_eq!((told.0, told.1.as_deref()), wanted, "{name} of {link:?}");
        }
    }
}

#[test]
fn a_link_whose_session_is_lost_is_told_so() {
    let (mut world, client, token) = deferred();
    // Its second message keeps the link known after the broker has detached it.
    send(&mut world, client, &["a3"]);
    world.credit(client, 0, 1, 1, 1, false);
    world.run();
    world.received(client);
    world.pass(LOCK);
    world.received(client);
    for (name, body, _) in requests(&token) {
        if matches!(name, "peek-message" | "batch-delete-messages") {
            continue;
        }
        let found = ask(&mut world, client, Some("r1"), name, &RawMap::with_string_keys(&body));
        assert_eq!(status(&found, "statusCode"), 410, "{name}");
        let condition = property(&found, "errorCondition");
        assert_eq!(condition.as_deref(), Some("com.microsoft:session-lock-lost"), "{name}");
    }
}
