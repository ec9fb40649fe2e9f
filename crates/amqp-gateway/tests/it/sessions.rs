//! Receiving by session, with the session filter and the management operations of the Service Bus SDKs.

use std::time::Duration;

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{Attach, DeliveryState, Detach, Disposition, Performative, Source, Target, Transfer},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::{PropertyField, Sections},
    types::{ReceiverSettleMode, Role},
};
use broker_core::EntitySettings;
use bytes::Bytes;
use testkit::Script;

use crate::harness::{START, World, body_map, property, status, text, texts};

const FILTER: &str = "com.microsoft:session-filter";
/// The lock of the queue `s`.
pub(crate) const LOCK: Duration = Duration::from_secs(30);

pub(crate) fn world() -> World {
    let mut world = World::new();
    let settings =
        EntitySettings { requires_session: true, lock_duration: LOCK, ..EntitySettings::default() };
    world.create("s", settings);
    world
}

/// Sends messages; `a1` is of session `a`.
pub(crate) fn send(world: &mut World, client: usize, messages: &[&str]) {
    world.script(client).attach_sender(0, 50, "sender", Some("s"));
    world.run();
    for message in messages {
        let encoded = MessageBuilder::new()
            .message_id(message)
            .property(PropertyField::GroupId, AnnotationValue::Str(&message[..1]))
            .data(message.as_bytes())
            .build();
        world.transfer(client, 50, true, &encoded);
    }
    world.script(client).detach(0, 50, true);
    world.run();
    world.received(client);
}

pub(crate) fn attach(
    handle: u32,
    address: &str,
    session: AnnotationValue<'_>,
    timeout_ms: Option<u32>,
) -> Attach {
    let mut source = Source::new(address);
    source.filter = Some(RawMap::with_symbol_keys(&[(FILTER, session)]));
    let mut attach = Attach::new(format!("r{handle}"), handle, Role::Receiver);
    (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
    attach.rcv_settle_mode = Some(ReceiverSettleMode::Second);
    attach.properties = timeout_ms
        .map(|ms| RawMap::with_symbol_keys(&[("com.microsoft:timeout", AnnotationValue::Uint(ms))]));
    attach
}

/// Asks for a session and says what came back.
fn ask(world: &mut World, client: usize, attach: Attach) -> (Vec<Attach>, Vec<Detach>) {
    world.script(client).attach(0, attach);
    world.run();
    world.link_frames(client)
}

/// The session and the end of its lock, as an attach tells them.
fn told(attach: &Attach) -> (String, i64) {
    let filter = attach.source.as_ref().unwrap().filter.as_ref().unwrap();
    let id = filter.get(FILTER).unwrap().undescribed().as_string().unwrap().to_owned();
    let until = attach.properties.as_ref().unwrap().get("com.microsoft:locked-until-utc").unwrap();
    (id, until.as_i64().unwrap())
}

pub(crate) fn accept(world: &mut World, client: usize, handle: u32, session: &str) {
    let (attaches, detaches) = ask(world, client, attach(handle, "s", AnnotationValue::Str(session), None));
    assert!(detaches.is_empty(), "{detaches:?}");
    assert_eq!(told(&attaches[0]).0, session);
}

/// The lock token of a message that was delivered, in an array.
pub(crate) fn lock_token(payload: &Bytes) -> Vec<u8> {
    let sections = Sections::scan(payload).unwrap();
    let annotations = sections.delivery_annotations_view(payload);
    [&[0xe0, 18, 1][..], annotations.get("x-opt-lock-token").unwrap().bytes()].concat()
}

fn condition(detaches: &[Detach]) -> &str {
    &detaches[0].error.as_ref().unwrap().condition
}

fn ticks(at_ms: u64) -> i64 {
    i64::try_from(at_ms).unwrap() * 10_000 + 621_355_968_000_000_000
}

pub(crate) fn session(id: &str) -> (&'static str, AnnotationValue<'_>) {
    ("session-id", AnnotationValue::Str(id))
}

#[test]
fn an_accepted_session_is_named_in_the_filter_with_the_end_of_its_lock() {
    let described: &[u8] = &[0x00, 0x80, 0, 0, 0, 0x13, 0x70, 0, 0, 0x0c, 0xa1, 1, b'b'];
    let described_null: &[u8] = &[0x00, 0x80, 0, 0, 0, 0x13, 0x70, 0, 0, 0x0c, 0x40];
    let cases = [
        (AnnotationValue::Str("b"), "b"),
        (AnnotationValue::Str(""), ""),
        (AnnotationValue::Null, "a"),
        (AnnotationValue::Raw(RawValue::first(described).unwrap()), "b"),
        (AnnotationValue::Raw(RawValue::first(described_null).unwrap()), "a"),
    ];
    for (value, expected) in cases {
        let mut world = world();
        let client = world.service_bus();
        send(&mut world, client, &["a1", "b2"]);
        let (attaches, detaches) = ask(&mut world, client, attach(1, "s", value, None));
        assert!(detaches.is_empty(), "{value:?}: {detaches:?}");
        let until = ticks(START + 30_000);
        assert_eq!(told(&attaches[0]), (expected.to_owned(), until), "{value:?}");
        assert_eq!(attaches[0].rcv_settle_mode, Some(ReceiverSettleMode::Second));
    }
}

#[test]
fn sessions_and_receivers_that_do_not_fit_are_refused_with_the_services_conditions() {
    let mut world = world();
    let (client, other) = (world.service_bus(), world.service_bus());
    send(&mut world, client, &["a1"]);
    accept(&mut world, client, 1, "a");
    let named = |handle, address: &'static str| attach(handle, address, AnnotationValue::Str("a"), None);
    let mut plain = Attach::new("plain", 2, Role::Receiver);
    (plain.source, plain.target) = (Some(Source::new("s")), Some(Target::new("t")));
    let mut shared = named(7, "s");
    let list = AnnotationValue::Str("a");
    shared.source.as_mut().unwrap().filter =
        Some(RawMap::with_symbol_keys(&[("com.microsoft:non-exclusive-session-filter:list", list)]));
    let cases = [
        (plain, "amqp:not-allowed"),
        (named(3, "q"), "amqp:not-allowed"),
        (named(4, "s/$DeadLetterQueue"), "amqp:not-allowed"),
        (named(5, "s"), "com.microsoft:session-cannot-be-locked"),
        (attach(6, "s", AnnotationValue::Int(1), None), "amqp:invalid-field"),
        (shared, "amqp:not-allowed"),
        (attach(8, "s", AnnotationValue::Null, Some(0)), "com.microsoft:timeout"),
        (attach(9, "s", AnnotationValue::Str(&"x".repeat(129)), None), "com.microsoft:argument-out-of-range"),
        (named(10, "missing"), "amqp:not-found"),
    ];
    for (attach, expected) in cases {
        let handle = attach.handle;
        let (attaches, detaches) = ask(&mut world, other, attach);
        assert!(attaches[0].source.is_none(), "{handle}: a refused link has no terminus");
        assert_eq!(condition(&detaches), expected, "{handle}");
        world.script(other).detach(0, handle, true);
        world.run();
        world.received(other);
    }
}

#[test]
fn a_shared_session_is_refused_in_the_words_that_the_sdk_for_net_looks_for() {
    let mut world = world();
    let client = world.service_bus();
    let mut shared = attach(7, "s", AnnotationValue::Null, None);
    let list = AnnotationValue::Str("a");
    shared.source.as_mut().unwrap().filter =
        Some(RawMap::with_symbol_keys(&[("com.microsoft:non-exclusive-session-filter:list", list)]));
    let (_, detaches) = ask(&mut world, client, shared);
    let text = detaches[0].error.as_ref().unwrap().description.as_deref().unwrap();
    let expected = "contains invalid filter type. System only support Jms or Apache selector filter type.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn an_id_is_one_session_in_any_case() {
    let mut world = world();
    let (client, other) = (world.service_bus(), world.service_bus());
    send(&mut world, client, &["a1", "A2"]);
    accept(&mut world, client, 1, "A");
    let (_, detaches) = ask(&mut world, other, attach(1, "s", AnnotationValue::Str("a"), None));
    assert_eq!(condition(&detaches), "com.microsoft:session-cannot-be-locked");
    world.credit(client, 0, 1, 0, 10, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["a1", "A2"]);
    world.script(client).detach(0, 1, true);
    world.run();
    world.received(client);
    let (attaches, _) = ask(&mut world, client, attach(2, "s", AnnotationValue::Null, None));
    assert_eq!(told(&attaches[0]).0, "a", "the spelling that came first");
}

#[test]
fn a_link_that_looks_on_locks_no_session_and_gets_no_message() {
    for session in [AnnotationValue::Str("a"), AnnotationValue::Null] {
        let mut world = world();
        let (client, other) = (world.service_bus(), world.service_bus());
        send(&mut world, client, &["a1", "b2"]);
        let mut looks_on = attach(1, "s", session, None);
        looks_on.properties =
            Some(RawMap::with_symbol_keys(&[("com.microsoft:peek-mode", AnnotationValue::Bool(true))]));
        let (attaches, detaches) = ask(&mut world, client, looks_on);
        assert!(detaches.is_empty(), "{detaches:?}");
        let filter = attaches[0].source.as_ref().unwrap().filter.as_ref();
        let echoed = filter.and_then(|filter| filter.get(FILTER)).and_then(RawValue::as_string);
        assert_eq!(echoed, if let AnnotationValue::Str(id) = session { Some(id) } else { None });
        assert_eq!(attaches[0].properties, None, "no lock, so no end of one");
        world.credit(client, 0, 1, 0, 10, true);
        world.run();
        let flows = world.flows(client);
        assert!(flows.iter().any(|flow| flow.drain && flow.link_credit == Some(0)), "{flows:?}");
        // The session is free for who wants it.
        accept(&mut world, other, 2, "a");
        world.credit(client, 0, 1, 10, 20, false);
        world.credit(other, 0, 2, 0, 10, false);
        world.run();
        assert!(world.transfers(client).is_empty());
        assert_eq!(texts(&world.transfers(other)), ["a1"]);
    }
}

#[test]
fn who_takes_any_session_waits_for_one_and_is_answered_before_its_own_time_is_over() {
    let mut world = world();
    let (client, other) = (world.service_bus(), world.service_bus());
    let (attaches, _) = ask(&mut world, client, attach(1, "s", AnnotationValue::Null, Some(5_000)));
    assert!(attaches.is_empty(), "it waits");
    world.pass(Duration::from_secs(2));
    send(&mut world, other, &["z1"]);
    let (attaches, _) = world.link_frames(client);
    assert_eq!(told(&attaches[0]).0, "z");
    let (attaches, _) = ask(&mut world, client, attach(2, "s", AnnotationValue::Null, Some(5_000)));
    assert!(attaches.is_empty());
    world.pass(Duration::from_millis(4_890));
    assert!(world.link_frames(client).1.is_empty());
    world.pass(Duration::from_millis(20));
    assert_eq!(condition(&world.link_frames(client).1), "com.microsoft:timeout");
}

#[test]
fn a_detach_gives_the_session_to_the_next_and_a_lost_connection_does_not() {
    let mut world = world();
    let (client, other) = (world.service_bus(), world.service_bus());
    send(&mut world, client, &["a1", "a2"]);
    accept(&mut world, client, 1, "a");
    world.credit(client, 0, 1, 0, 5, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["a1", "a2"]);
    world.script(client).detach(0, 1, true);
    world.run();
    accept(&mut world, other, 1, "a");
    world.credit(other, 0, 1, 0, 1, false);
    world.run();
    let (_, payload) = world.transfers(other).remove(0);
    let header = Sections::scan(&payload).unwrap().read_header(&payload).unwrap();
    assert_eq!((text(&payload), header.delivery_count), ("a1".into(), 0));
    world.lose(other);
    world.received(client);
    let named = |handle| attach(handle, "s", AnnotationValue::Str("a"), None);
    let (_, detaches) = ask(&mut world, client, named(2));
    assert_eq!(condition(&detaches), "com.microsoft:session-cannot-be-locked");
    world.pass(LOCK);
    let (attaches, detaches) = ask(&mut world, client, named(3));
    assert!(detaches.is_empty(), "{detaches:?}");
    assert_eq!(told(&attaches[0]).0, "a");
    world.credit(client, 0, 3, 0, 1, false);
    world.run();
    let (_, payload) = world.transfers(client).remove(0);
    let header = Sections::scan(&payload).unwrap().read_header(&payload).unwrap();
    assert_eq!((text(&payload), header.delivery_count), ("a1".into(), 1), "its lock expired");
}

#[test]
fn a_lost_session_detaches_its_link_and_its_locks_settle_nothing() {
    let mut world = world();
    let client = world.service_bus();
    send(&mut world, client, &["a1"]);
    accept(&mut world, client, 1, "a");
    world.credit(client, 0, 1, 0, 1, false);
    world.run();
    let (_, payload) = world.transfers(client).remove(0);
    let tokens = lock_token(&payload);
    world.pass(LOCK);
    let (_, detaches) = world.link_frames(client);
    assert_eq!(condition(&detaches), "com.microsoft:session-lock-lost");
    assert!(detaches[0].closed);
    world.management(client, "s");
    let body = RawMap::with_string_keys(&[
        ("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap())),
        ("disposition-status", AnnotationValue::Str("completed")),
        session("a"),
    ]);
    let reply = world.request(client, "com.microsoft:update-disposition", &body);
    assert_eq!(status(&reply, "statusCode"), 410);
    assert_eq!(property(&reply, "errorCondition").as_deref(), Some("com.microsoft:session-lock-lost"));
}

#[test]
fn the_lock_of_a_session_ends_with_its_time_for_a_plain_receiver_too() {
    let mut world = world();
    let (client, other) = (world.plain(), world.service_bus());
    send(&mut world, other, &["a1"]);
    let (attaches, _) = ask(&mut world, client, attach(1, "s", AnnotationValue::Str("a"), None));
    assert_eq!(attaches.len(), 1);
    world.credit(client, 0, 1, 0, 1, false);
    world.run();
    assert_eq!(world.transfers(client).len(), 1);
    world.pass(LOCK.checked_sub(Duration::from_secs(1)).unwrap());
    assert!(world.link_frames(client).1.is_empty());
    world.pass(Duration::from_secs(2));
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches.len(), 1);
    accept(&mut world, other, 2, "a");
    world.credit(other, 0, 2, 0, 1, false);
    world.run();
    assert_eq!(world.transfers(other).len(), 1, "its message is the next holder's");
}

#[test]
fn a_settlement_that_comes_too_late_is_rejected_as_session_lock_lost() {
    let mut world = world();
    let (client, other) = (world.service_bus(), world.service_bus());
    send(&mut world, client, &["a1"]);
    accept(&mut world, client, 1, "a");
    world.credit(client, 0, 1, 0, 1, false);
    world.run();
    let (transfer, _) = world.transfers(client).remove(0);
    // The clock has passed the end, and nobody has looked.
    world.now.instant += LOCK;
    world.now.utc = world.now.utc.after(LOCK);
    let id = transfer.delivery_id.unwrap();
    world.script(client).disposition(0, id, id, false, Some(DeliveryState::Accepted));
    world.run();
    // The detach comes first: the SDK for Go reports success where it is told of the rejection alone.
    let told: Vec<Performative> = world.frames(client).into_iter().map(|frame| frame.performative).collect();
    let [Performative::Detach(detach), Performative::Disposition(answer)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(detach.error.as_ref().unwrap().condition, "com.microsoft:session-lock-lost");
    let Some(DeliveryState::Rejected(Some(error))) = &answer.state else { panic!("{answer:?}") };
    assert_eq!(error.condition, "com.microsoft:session-lock-lost");
    accept(&mut world, other, 1, "a");
}

#[test]
fn the_holder_renews_and_keeps_state_and_nobody_else_does() {
    let mut world = world();
    let (client, other) = (world.service_bus(), world.service_bus());
    accept(&mut world, client, 1, "a");
    world.management(client, "s");
    world.management(other, "s");
    let only = RawMap::with_string_keys(&[session("a")]);
    world.pass(Duration::from_secs(10));
    let reply = world.request(client, "com.microsoft:renew-session-lock", &only);
    let until = body_map(&reply).get("expiration").and_then(RawValue::as_timestamp);
    assert_eq!(until, Some(i64::try_from(START).unwrap() + 40_000));
    let get = |world: &mut World, client| world.request(client, "com.microsoft:get-session-state", &only);
    let state_of = |reply: &Bytes| {
        let body = body_map(reply);
        let state = body.get("session-state").unwrap();
        (!state.is_null()).then(|| state.as_binary().unwrap().to_vec())
    };
    assert_eq!(state_of(&get(&mut world, client)), None);
    // No bytes are no state: so the Go SDK takes one away.
    for state in [&b"state"[..], b"", b"\0"] {
        let set =
            RawMap::with_string_keys(&[session("a"), ("session-state", AnnotationValue::Binary(state))]);
        let reply = world.request(client, "com.microsoft:set-session-state", &set);
        assert_eq!((status(&reply, "statusCode"), body_map(&reply).len()), (200, 0));
        let kept = (!state.is_empty()).then_some(state);
        assert_eq!(state_of(&get(&mut world, client)).as_deref(), kept);
    }
    let clear = RawMap::with_string_keys(&[session("a"), ("session-state", AnnotationValue::Null)]);
    world.request(client, "com.microsoft:set-session-state", &clear);
    assert_eq!(state_of(&get(&mut world, client)), None);
    for operation in ["renew-session-lock", "get-session-state", "set-session-state"] {
        let reply = world.request(other, &format!("com.microsoft:{operation}"), &only);
        assert_eq!(status(&reply, "statusCode"), 410, "{operation}");
        assert_eq!(property(&reply, "errorCondition").as_deref(), Some("com.microsoft:session-lock-lost"));
        let reply = world.request(client, &format!("com.microsoft:{operation}"), &RawMap::empty());
        assert_eq!(status(&reply, "statusCode"), 400, "{operation} without a session");
    }
}

#[test]
fn sessions_are_listed_by_page_and_by_the_time_of_their_state() {
    let mut world = world();
    let client = world.service_bus();
    send(&mut world, client, &["a1", "b2", "c3"]);
    accept(&mut world, client, 1, "d");
    world.management(client, "s");
    let set = RawMap::with_string_keys(&[session("d"), ("session-state", AnnotationValue::Binary(b"x"))]);
    world.request(client, "com.microsoft:set-session-state", &set);
    let page = |after: i64, last: AnnotationValue<'_>, skip: i32, top: i32| {
        RawMap::with_string_keys(&[
            ("last-updated-time", AnnotationValue::Timestamp(after)),
            ("last-session-id", last),
            ("skip", AnnotationValue::Int(skip)),
            ("top", AnnotationValue::Int(top)),
        ])
    };
    let mut list = |after: i64, last: Option<&str>, skip: i32, top: i32| {
        let body = page(after, last.map_or(AnnotationValue::Null, AnnotationValue::Str), skip, top);
        let reply = world.request(client, "com.microsoft:get-message-sessions", &body);
        if status(&reply, "statusCode") == 204 {
            let condition = property(&reply, "errorCondition");
            assert_eq!(condition.as_deref(), Some("com.microsoft:session-not-found"));
            return Vec::new();
        }
        let body = body_map(&reply);
        assert_eq!(body.get("skip").and_then(RawValue::as_i64), Some(skip.into()));
        let items = body.get("sessions-ids").unwrap().to_items().unwrap();
        items.iter().map(|id| RawValue::first(id).unwrap().as_string().unwrap().to_owned()).collect()
    };
    let any_time = 253_402_300_800_000;
    assert_eq!(list(any_time, None, 0, 100), ["a", "b", "c", "d"]);
    assert_eq!(list(any_time, None, 1, 2), ["b", "c"]);
    assert!(list(any_time, None, 4, 100).is_empty());
    assert_eq!(list(0, None, 0, 100), ["d"]);
    assert!(list(i64::try_from(START).unwrap() + 1_000, None, 0, 100).is_empty());
    // The older SDK for Java names the last one of the page before.
    assert_eq!(list(any_time, Some("b"), 0, 100), ["c", "d"]);
    assert_eq!(list(any_time, Some("B"), 1, 100), ["d"], "in any case");
    assert!(list(any_time, Some("d"), 0, 100).is_empty());
    let bad = page(any_time, AnnotationValue::Int(7), 0, 100);
    assert_eq!(status(&world.request(client, "com.microsoft:get-message-sessions", &bad), "statusCode"), 400);
}

#[test]
fn peeking_may_keep_to_one_session() {
    let mut world = world();
    let client = world.service_bus();
    send(&mut world, client, &["a1", "b2", "a3"]);
    world.management(client, "s");
    let body = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(10)),
        session("a"),
    ]);
    let reply = world.request(client, "com.microsoft:peek-message", &body);
    let messages = body_map(&reply).get("messages").unwrap().to_items().unwrap();
    assert_eq!(messages.len(), 2);
}

#[test]
fn deleting_in_bulk_may_keep_to_one_session() {
    let mut world = world();
    let client = world.service_bus();
    send(&mut world, client, &["a1", "b2", "a3", "a4"]);
    world.pass(Duration::from_secs(1));
    world.received(client);
    world.management(client, "s");
    let mut delete = |id: &'static str, count: i32| {
        let body = RawMap::with_string_keys(&[("message-count", AnnotationValue::Int(count)), session(id)]);
        let reply = world.request(client, "com.microsoft:batch-delete-messages", &body);
        (status(&reply, "statusCode"), body_map(&reply).get("message-count").and_then(RawValue::as_i64))
    };
    assert_eq!(delete("a", 1), (200, Some(1)));
    assert_eq!(delete("nobody's", 10), (204, Some(0)));
    assert_eq!(delete("a", 10), (200, Some(2)));
    assert_eq!(delete("a", 10), (204, Some(0)));
    assert_eq!(delete("b", 10), (200, Some(1)));
}

#[test]
fn a_deferred_message_of_a_session_is_for_its_holder() {
    let mut world = world();
    let (client, other) = (world.service_bus(), world.service_bus());
    send(&mut world, client, &["a1"]);
    accept(&mut world, client, 1, "a");
    world.credit(client, 0, 1, 0, 1, false);
    world.run();
    let (transfer, _) = world.transfers(client).remove(0);
    let deferred = amqp_codec::performative::Modified {
        delivery_failed: None,
        undeliverable_here: Some(true),
        message_annotations: None,
    };
    let state = Some(DeliveryState::Modified(Box::new(deferred)));
    let id = transfer.delivery_id.unwrap();
    world.script(client).disposition(0, id, id, false, state);
    world.run();
    world.received(client);
    world.management(client, "s");
    world.management(other, "s");
    let numbers = [0xe0, 10, 1, 0x81, 0, 0, 0, 0, 0, 0, 0, 1];
    let body = |id: Option<&'static str>| {
        let numbers = ("sequence-numbers", AnnotationValue::Raw(RawValue::first(&numbers).unwrap()));
        let mode = ("receiver-settle-mode", AnnotationValue::Uint(1));
        let fields: Vec<_> = [numbers, mode].into_iter().chain(id.map(session)).collect();
        RawMap::with_string_keys(&fields)
    };
    let operation = "com.microsoft:receive-by-sequence-number";
    assert_eq!(status(&world.request(other, operation, &body(Some("a"))), "statusCode"), 410);
    assert_eq!(status(&world.request(client, operation, &body(None)), "statusCode"), 400);
    let reply = world.request(client, operation, &body(Some("a")));
    assert_eq!(status(&reply, "statusCode"), 200);
    assert_eq!(body_map(&reply).get("messages").unwrap().to_items().unwrap().len(), 1);
}

#[test]
fn a_message_without_a_session_is_rejected_and_its_batch_with_it() {
    let mut world = world();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "sender", Some("s"));
    world.run();
    world.received(client);
    let lone = MessageBuilder::new().message_id("m").data(b"m").build();
    world.transfer(client, 1, false, &lone);
    world.run();
    let of_session = MessageBuilder::new().property(PropertyField::GroupId, AnnotationValue::Str("a"));
    let whole = of_session.clone().data(b"a1").build();
    let batches = [vec![&lone], vec![&whole, &lone], vec![&whole, &whole]];
    let refused = |world: &mut World| match &world.dispositions(client)[..] {
        [Disposition { state: Some(DeliveryState::Rejected(Some(error))), .. }] => {
            Some(error.condition.as_str().to_owned())
        }
        [Disposition { state: Some(DeliveryState::Accepted), .. }] => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut world).as_deref(), Some("amqp:not-allowed"));
    for (batch, stored) in batches.into_iter().zip([0, 0, 2]) {
        let payload = batch.iter().fold(MessageBuilder::new(), |built, message| built.data(message)).build();
        let id = world.next_delivery(client);
        let transfer =
            Transfer { message_format: Some(BATCH_FORMAT), ..Script::transfer_frame(1, id, false) };
        world.script(client).transfer_with(0, transfer, &payload);
        world.run();
        assert_eq!(refused(&mut world).is_some(), stored == 0, "{batch:?}");
        assert_eq!(world.active("s"), stored, "{batch:?}");
    }
}
