//! What clients ask of `<entity>/$management`: schedules, deferred messages, deletion in bulk.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Modified, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::{Header, PropertyField, Sections},
    types::{Role, TypeKind},
    value::{Array, OrderedMap, Timestamp, Uuid, Value},
};
use amqp_gateway::GatewayConfig;
use broker_auth::{Anonymous, Right};
use broker_core::{EntityKind, EntitySettings};
use bytes::Bytes;

use crate::harness::{World, body_map, property, status, text, texts};

/// A request's body.
pub(crate) fn map(entries: &[(&str, Value)]) -> RawMap {
    let mut map = OrderedMap::new();
    for (key, value) in entries {
        map.insert(Value::String((*key).into()), value.clone());
    }
    RawMap::from_value(&Value::Map(map)).unwrap()
}

pub(crate) fn nested(entries: &[(&str, Value)]) -> Value {
    map(entries).to_value()
}

pub(crate) fn binary(bytes: &Bytes) -> Value {
    Value::Binary(bytes.to_vec().into())
}

pub(crate) fn longs(numbers: &[i64]) -> Value {
    Value::Array(Array(numbers.iter().copied().map(Value::Long).collect()))
}

fn uuids(tokens: &[[u8; 16]]) -> Value {
    Value::Array(Array(tokens.iter().copied().map(|token| Value::Uuid(Uuid::from(token))).collect()))
}

/// A message that is due `delay` after the world's start.
pub(crate) fn due(world: &World, builder: MessageBuilder, delay: Duration) -> Bytes {
    let at = i64::try_from(world.now.utc.after(delay).as_millis()).unwrap();
    let annotations =
        RawMap::with_symbol_keys(&[("x-opt-scheduled-enqueue-time", AnnotationValue::Timestamp(at))]);
    builder.message_annotations(annotations).build()
}

pub(crate) fn ids(reply: &Bytes) -> Vec<i64> {
    let body = body_map(reply);
    let array = body.get("sequence-numbers").unwrap();
    assert_eq!(array.kind(), Some(TypeKind::Array));
    array.to_items().unwrap().iter().map(|item| RawValue::first(item).unwrap().as_i64().unwrap()).collect()
}

/// The maps in `messages`: the message, and its lock token if there is one.
fn messages(reply: &Bytes) -> Vec<(Bytes, Option<[u8; 16]>)> {
    let body = body_map(reply);
    let list = body.get("messages").unwrap();
    assert_eq!(list.kind(), Some(TypeKind::List));
    let entry = |entry: RawValue<'_>| {
        let entry = entry.as_map().unwrap();
        let message = Bytes::copy_from_slice(entry.get("message").unwrap().as_binary().unwrap());
        (message, entry.get("lock-token").map(|token| token.as_uuid().unwrap()))
    };
    list.as_list().unwrap().map(entry).collect()
}

pub(crate) fn annotation(message: &Bytes, key: &str) -> Option<i64> {
    let sections = Sections::scan(message).unwrap();
    let view = sections.message_annotations_view(message);
    let value = view.get(key)?;
    value.as_i64().or_else(|| value.as_timestamp())
}

fn message_id(message: &Bytes) -> String {
    let sections = Sections::scan(message).unwrap();
    sections.properties_view(message).get(PropertyField::MessageId).unwrap().as_str().unwrap().to_owned()
}

pub(crate) fn peek(world: &mut World, client: usize) -> Vec<Bytes> {
    let body = map(&[("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(100))]);
    let reply = world.request(client, "com.microsoft:peek-message", &body);
    if status(&reply, "statusCode") == 204 {
        return Vec::new();
    }
    messages(&reply).into_iter().map(|(message, _)| message).collect()
}

/// Status and condition of an answer.
fn outcome(reply: &Bytes) -> (i64, Option<String>) {
    (status(reply, "statusCode"), property(reply, "errorCondition"))
}

fn ok() -> (i64, Option<String>) {
    (200, None)
}

fn refused(status: i64, condition: &str) -> (i64, Option<String>) {
    (status, Some(condition.into()))
}

/// Sends these texts to `q`, receives and defers them, and says their numbers.
fn defer(world: &mut World, client: usize, texts: &[&str]) -> Vec<i64> {
    // Its message-ids are its texts, which only a plain client may have as long as it likes.
    let sender = world.plain();
    world.send(sender, "q", texts);
    let got = world.receive(client, "q", u32::try_from(texts.len()).unwrap());
    let defer =
        DeliveryState::Modified(Box::new(Modified { undeliverable_here: Some(true), ..Modified::default() }));
    for (transfer, _) in &got {
        let id = transfer.delivery_id.unwrap();
        world.script(client).disposition(0, id, id, false, Some(defer.clone()));
    }
    world.script(client).detach(0, 2, true);
    world.run();
    world.received(client);
    got.iter().map(|(_, payload)| annotation(payload, "x-opt-sequence-number").unwrap()).collect()
}

fn receive_deferred(world: &mut World, client: usize, numbers: &[i64], mode: Value) -> Bytes {
    let body = map(&[("sequence-numbers", longs(numbers)), ("receiver-settle-mode", mode)]);
    world.request(client, "com.microsoft:receive-by-sequence-number", &body)
}

fn update(world: &mut World, client: usize, status: &str, token: [u8; 16]) -> Bytes {
    let body = map(&[("disposition-status", Value::String(status.into())), ("lock-tokens", uuids(&[token]))]);
    world.request(client, "com.microsoft:update-disposition", &body)
}

#[test]
fn scheduled_messages_are_numbered_hidden_peeked_and_come_in_time() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    let minute = Duration::from_secs(60);
    let entries = [
        // sections' id, map's id, id that the receiver sees
        (Some("inner"), Value::String("outer".into()), Some("inner")),
        (None, Value::String("outer".into()), Some("outer")),
        (None, Value::Null, None),
        (None, Value::Uuid([7; 16].into()), Some("07070707-0707-0707-0707-070707070707")),
    ];
    let list = entries.iter().map(|(inner, outer, _)| {
        let builder = MessageBuilder::new().data(b"later");
        let builder = inner.map_or_else(|| builder.clone(), |id| builder.clone().message_id(id));
        nested(&[("message", binary(&due(&world, builder, minute))), ("message-id", outer.clone())])
    });
    let body = map(&[("messages", Value::List(list.collect()))]);
    let reply = world.request(client, "com.microsoft:schedule-message", &body);
    assert_eq!((outcome(&reply), ids(&reply)), (ok(), vec![1, 2, 3, 4]));
    let peeked = peek(&mut world, client);
    let states: Vec<_> = peeked.iter().map(|message| annotation(message, "x-opt-message-state")).collect();
    assert_eq!(states, [Some(2); 4]);
    assert_eq!(world.receive(client, "q", 9).len(), 0);
    world.pass(Duration::from_millis(59_999));
    assert_eq!(world.transfers(client).len(), 0);
    world.pass(Duration::from_millis(1));
    let got = world.transfers(client);
    let numbers: Vec<_> =
        got.iter().map(|(_, payload)| annotation(payload, "x-opt-sequence-number")).collect();
    assert_eq!(numbers, [Some(5), Some(6), Some(7), Some(8)], "new numbers");
    for ((_, payload), (_, _, expected)) in got.iter().zip(&entries) {
        let id = message_id(payload);
        assert!(expected.map_or(id.len() == 32, |expected| id == expected), "{id}");
        let due = annotation(payload, "x-opt-scheduled-enqueue-time");
        assert_eq!(annotation(payload, "x-opt-enqueued-time"), due);
    }
}

#[test]
fn a_scheduled_message_is_peeked_with_the_lifetime_that_begins_when_it_is_due() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    let header = Header { ttl: Some(600_000), ..Header::default() };
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let message = due(&world, MessageBuilder::new().header(header).data(b"m"), minutes(2));
    let list = Value::List(vec![nested(&[("message", binary(&message))])]);
    world.request(client, "com.microsoft:schedule-message", &map(&[("messages", list)]));
    let at = |count| Some(i64::try_from(world.now.utc.after(minutes(count)).as_millis()).unwrap());
    let (due, end) = (at(2), at(12));
    for state in [2, 0] {
        let message = peek(&mut world, client).pop().unwrap();
        let sections = Sections::scan(&message).unwrap();
        assert_eq!(annotation(&message, "x-opt-message-state"), Some(state));
        assert_eq!(sections.read_header(&message).unwrap().ttl, Some(600_000));
        let properties = sections.properties_view(&message);
        let time = |field| properties.get(field).unwrap().as_timestamp();
        assert_eq!(time(PropertyField::CreationTime), due);
        assert_eq!(time(PropertyField::AbsoluteExpiryTime), end);
        world.pass(minutes(2));
        world.received(client);
    }
}

#[test]
fn a_peek_without_bodies_shows_everything_else() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let builder = || {
        let builder = MessageBuilder::new().message_id("id");
        builder.application_property("colour", AnnotationValue::Str("red"))
    };
    let footer = b"\0Sx\xc1\x07\x02\xa3\x01k\xa1\x01v";
    let sent = [
        builder().data(b"body").build(),
        Bytes::from([&builder().body_value(&string("body")).build()[..], footer].concat()),
        builder().build(),
    ];
    for message in &sent {
        world.transfer(client, 1, true, message);
    }
    world.run();
    world.received(client);
    let peeked = |world: &mut World, omit: Option<Value>| {
        let mut entries = vec![("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(9))];
        entries.extend(omit.map(|omit| ("omit-message-body", omit)));
        let reply = world.request(client, "com.microsoft:peek-message", &map(&entries));
        assert_eq!(outcome(&reply), ok());
        messages(&reply).into_iter().map(|(message, _)| message).collect::<Vec<_>>()
    };
    let whole = peeked(&mut world, None);
    for omit in [Value::Bool(false), Value::Null] {
        assert_eq!(peeked(&mut world, Some(omit)), whole);
    }
    let bare = peeked(&mut world, Some(Value::Bool(true)));
    for ((bare, whole), sent) in bare.iter().zip(&whole).zip(&sent) {
        let (bare_sections, whole_sections) = (Sections::scan(bare).unwrap(), Sections::scan(whole).unwrap());
        assert!(bare_sections.body.is_empty());
        assert_eq!(whole_sections.body.of(whole), Sections::scan(sent).unwrap().body.of(sent));
        assert_eq!(bare_sections.footer.of(bare), whole_sections.footer.of(whole));
        let front = |payload: &Bytes, body: usize| payload[..payload.len() - body].to_vec();
        let behind = bare_sections.footer.of(bare).len();
        let body = whole_sections.body.of(whole).len();
        assert_eq!(front(bare, behind), front(whole, body + behind), "all that stands in front of it");
    }
    assert_eq!(bare.len(), 3);
    assert_eq!(Sections::scan(&bare[1]).unwrap().footer.of(&bare[1]), footer);
}

#[test]
fn a_schedule_is_cancelled_by_its_numbers_all_or_none() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    let entry = |world: &World| {
        let message = due(world, MessageBuilder::new().data(b"m"), Duration::from_secs(60));
        nested(&[("message", binary(&message))])
    };
    let list = Value::List((0..3).map(|_| entry(&world)).collect());
    let reply = world.request(client, "com.microsoft:schedule-message", &map(&[("messages", list)]));
    assert_eq!(ids(&reply), [1, 2, 3]);
    let cancel = |world: &mut World, numbers: &[i64]| {
        let body = map(&[("sequence-numbers", longs(numbers))]);
        outcome(&world.request(client, "com.microsoft:cancel-scheduled-message", &body))
    };
    let missing = refused(404, "com.microsoft:message-not-found");
    assert_eq!(cancel(&mut world, &[1, 9]), missing);
    assert_eq!(cancel(&mut world, &[1, 2]), ok());
    assert_eq!(cancel(&mut world, &[1]), missing);
    world.pass(Duration::from_secs(60));
    assert_eq!(cancel(&mut world, &[3]), missing, "activated");
    assert_eq!(world.receive(client, "q", 9).len(), 1);
}

#[test]
fn deferred_messages_are_received_by_number_under_a_lock() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    let numbers = defer(&mut world, client, &["a", "b", "c", "d"]);
    let states: Vec<_> =
        peek(&mut world, client).iter().map(|message| annotation(message, "x-opt-message-state")).collect();
    assert_eq!(states, [Some(1); 4]);

    let reply = receive_deferred(&mut world, client, &numbers, Value::Uint(1));
    assert_eq!(outcome(&reply), ok());
    let got = messages(&reply);
    assert_eq!(got.iter().map(|(message, _)| text(message)).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    let until = i64::try_from(world.now.utc.after(Duration::from_secs(60)).as_millis()).unwrap();
    for ((message, token), number) in got.iter().zip(&numbers) {
        assert_eq!(annotation(message, "x-opt-sequence-number"), Some(*number));
        assert_eq!(annotation(message, "x-opt-message-state"), Some(1));
        assert_eq!(annotation(message, "x-opt-locked-until"), Some(until));
        let sections = Sections::scan(message).unwrap();
        let view = sections.delivery_annotations_view(message);
        assert_eq!(view.get("x-opt-lock-token").unwrap().as_uuid(), *token);
        assert_eq!(sections.read_header(message).unwrap().delivery_count, 1);
    }
    let missing = refused(404, "com.microsoft:message-not-found");
    assert_eq!(outcome(&receive_deferred(&mut world, client, &numbers[..1], Value::Uint(1))), missing);

    // Another connection settles and renews them by their tokens.
    let other = world.service_bus();
    world.management(other, "q");
    let token = |place: usize| got[place].1.unwrap();
    for (place, status) in ["completed", "abandoned", "suspended", "defered"].into_iter().enumerate() {
        assert_eq!(outcome(&update(&mut world, other, status, token(place))), ok(), "{status}");
        let again = outcome(&update(&mut world, other, status, token(place)));
        assert_eq!(again, refused(410, "com.microsoft:message-lock-lost"), "{status}");
    }
    let reply = receive_deferred(&mut world, other, &[numbers[1], numbers[3]], Value::Ubyte(1));
    let got = messages(&reply);
    let counts: Vec<u32> = got
        .iter()
        .map(|(message, _)| Sections::scan(message).unwrap().read_header(message).unwrap().delivery_count)
        .collect();
    assert_eq!(counts, [2, 2], "each of both deliveries counts");
    let tokens = uuids(&[got[0].1.unwrap(), got[1].1.unwrap()]);
    world.pass(Duration::from_secs(59));
    world.received(other);
    let reply = world.request(other, "com.microsoft:renew-lock", &map(&[("lock-tokens", tokens)]));
    assert_eq!(outcome(&reply), ok());
    world.pass(Duration::from_secs(59));
    world.received(other);
    assert_eq!(outcome(&update(&mut world, other, "completed", got[0].1.unwrap())), ok());
    let dead = world.receive(client, "q/$DeadLetterQueue", 9);
    assert_eq!(texts(&dead), ["c"]);
}

#[test]
fn deferred_messages_are_received_and_deleted() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    let numbers = defer(&mut world, client, &["a", "b"]);
    let reply = receive_deferred(&mut world, client, &numbers, Value::Uint(0));
    let got = messages(&reply);
    assert_eq!(got.iter().map(|(message, _)| text(message)).collect::<Vec<_>>(), ["a", "b"]);
    for (message, token) in &got {
        assert_eq!((*token, annotation(message, "x-opt-locked-until")), (Some([0; 16]), None));
    }
    assert!(peek(&mut world, client).is_empty());
}

#[test]
fn a_deferred_message_can_be_had_after_its_time() {
    let mut world = World::new();
    let settings =
        EntitySettings { default_time_to_live: Some(Duration::from_secs(1)), ..EntitySettings::default() };
    world.delete("q");
    world.create("q", settings);
    let client = world.service_bus();
    world.management(client, "q");
    let numbers = defer(&mut world, client, &["a"]);
    world.pass(Duration::from_secs(100));
    world.received(client);
    let reply = receive_deferred(&mut world, client, &numbers, Value::Uint(1));
    assert_eq!(messages(&reply).len(), 1);
}

#[test]
fn messages_are_deleted_in_bulk_oldest_first() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    world.send(client, "q", &["locked", "a", "b"]);
    assert_eq!(texts(&world.receive(client, "q", 1)), ["locked"]);
    let cut = i64::try_from(world.now.utc.after(Duration::from_secs(1)).as_millis()).unwrap();
    world.pass(Duration::from_secs(2));
    world.received(client);
    world.send(client, "q", &["c"]);
    let delete = |world: &mut World, count: i32, before: Option<i64>| {
        let mut entries = vec![("message-count", Value::Int(count))];
        entries.extend(before.map(|at| ("enqueued-time-utc", Value::Timestamp(Timestamp::from(at)))));
        let reply = world.request(client, "com.microsoft:batch-delete-messages", &map(&entries));
        (status(&reply, "statusCode"), body_map(&reply).get("message-count").unwrap().as_i64().unwrap())
    };
    assert_eq!(delete(&mut world, 1, Some(cut)), (200, 1));
    assert_eq!(delete(&mut world, i32::MAX, Some(cut)), (200, 1));
    assert_eq!(delete(&mut world, 10, Some(cut)), (204, 0));
    assert_eq!(delete(&mut world, 10, Some(-1)), (204, 0));
    world.pass(Duration::from_millis(1));
    world.received(client);
    assert_eq!(delete(&mut world, 10, None), (200, 1));
    let left: Vec<String> = peek(&mut world, client).iter().map(text).collect();
    assert_eq!(left, ["locked"]);
}

/// Receives this many messages of an entity, and leaves them under their locks: payloads and tokens.
fn take(world: &mut World, client: usize, source: &str, count: u32) -> Vec<(Bytes, [u8; 16])> {
    let got = world.receive(client, source, count);
    world.script(client).detach(0, 2, true);
    world.run();
    world.received(client);
    let token = |payload: &Bytes| {
        let sections = Sections::scan(payload).unwrap();
        sections.delivery_annotations_view(payload).get("x-opt-lock-token").unwrap().as_uuid().unwrap()
    };
    got.into_iter().map(|(_, payload)| (payload.clone(), token(&payload))).collect()
}

#[test]
fn a_dead_letter_queue_has_a_management_node_of_its_own() {
    for (entity, target) in [("q", "q"), ("t/Subscriptions/s", "t")] {
        let mut world = World::new();
        world.create_kind("t", EntityKind::Topic, EntitySettings::default());
        world.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
        let (client, other) = (world.service_bus(), world.service_bus());
        world.management(other, entity);
        world.send(client, target, &["a", "b", "c", "d"]);
        for (_, token) in take(&mut world, client, entity, 4) {
            assert_eq!(outcome(&update(&mut world, other, "suspended", token)), ok(), "{entity}");
        }
        assert!(peek(&mut world, other).is_empty(), "{entity}");
        let dead = format!("{entity}/$DeadLetterQueue");
        world.management(client, &dead);
        let shown = |world: &mut World| peek(world, client).iter().map(text).collect::<Vec<_>>();
        assert_eq!(shown(&mut world), ["a", "b", "c", "d"], "{entity}");

        let got = take(&mut world, client, &dead, 2);
        let tokens = uuids(&[got[0].1]);
        world.pass(Duration::from_secs(59));
        let reply = world.request(client, "com.microsoft:renew-lock", &map(&[("lock-tokens", tokens)]));
        assert_eq!(outcome(&reply), ok(), "{entity}");
        assert_eq!(outcome(&update(&mut world, client, "defered", got[1].1)), ok(), "{entity}");
        world.pass(Duration::from_secs(59));
        assert_eq!(outcome(&update(&mut world, client, "completed", got[0].1)), ok(), "{entity}");

        let number = annotation(&got[1].0, "x-opt-sequence-number").unwrap();
        let missing = refused(404, "com.microsoft:message-not-found");
        let reply = receive_deferred(&mut world, other, &[number], Value::Uint(0));
        assert_eq!(outcome(&reply), missing, "{entity}: it is in the dead-letter queue");
        let reply = receive_deferred(&mut world, client, &[number], Value::Uint(0));
        assert_eq!(outcome(&reply), ok(), "{entity}");
        assert_eq!(messages(&reply).iter().map(|(message, _)| text(message)).collect::<Vec<_>>(), ["b"]);

        let delete = map(&[("message-count", Value::Int(9))]);
        let reply = world.request(other, "com.microsoft:batch-delete-messages", &delete);
        assert_eq!(status(&reply, "statusCode"), 204, "{entity}: nothing is left there");
        assert_eq!(shown(&mut world), ["c", "d"], "{entity}");
        let reply = world.request(client, "com.microsoft:batch-delete-messages", &delete);
        assert_eq!(body_map(&reply).get("message-count").unwrap().as_i64(), Some(2), "{entity}");
        assert!(shown(&mut world).is_empty(), "{entity}");
    }
}

/// Operation, body, condition of the answer.
type Malformed = (&'static str, Vec<(&'static str, Value)>, &'static str);

const WRONG: &str = "com.microsoft:argument-error";
const RANGE: &str = "com.microsoft:argument-out-of-range";

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn malformed_lookups() -> Vec<Malformed> {
    let (text, long, wrong, range) = (string, Value::Long, WRONG, RANGE);
    vec![
        ("peek-message", vec![], wrong),
        ("peek-message", vec![("from-sequence-number", text("1")), ("message-count", long(1))], wrong),
        ("peek-message", vec![("from-sequence-number", long(1))], wrong),
        ("peek-message", vec![("from-sequence-number", long(1)), ("message-count", text("1"))], wrong),
        ("peek-message", vec![("from-sequence-number", long(1)), ("message-count", long(0))], range),
        ("peek-message", vec![("from-sequence-number", long(1)), ("message-count", long(i64::MIN))], range),
        (
            "peek-message",
            vec![
                ("from-sequence-number", long(1)),
                ("message-count", long(1)),
                ("omit-message-body", text("true")),
            ],
            wrong,
        ),
        ("renew-lock", vec![], wrong),
        ("renew-lock", vec![("lock-tokens", longs(&[1]))], wrong),
        ("renew-lock", vec![("lock-tokens", uuids(&[]))], wrong),
        ("update-disposition", vec![("disposition-status", text("completed"))], wrong),
        ("update-disposition", vec![("lock-tokens", uuids(&[[1; 16]]))], wrong),
        (
            "update-disposition",
            vec![("lock-tokens", uuids(&[[1; 16]])), ("disposition-status", text("lost"))],
            wrong,
        ),
    ]
}

fn malformed_schedules() -> Vec<Malformed> {
    let (text, wrong, range) = (string, WRONG, RANGE);
    let message = || binary(&MessageBuilder::new().data(b"m").build());
    let list = |entry: Value| Value::List(vec![entry]);
    vec![
        ("schedule-message", vec![], wrong),
        ("schedule-message", vec![("messages", text("m"))], wrong),
        ("schedule-message", vec![("messages", Value::List(vec![]))], range),
        ("schedule-message", vec![("messages", list(message()))], wrong),
        ("schedule-message", vec![("messages", list(nested(&[])))], wrong),
        ("schedule-message", vec![("messages", list(nested(&[("message", text("m"))])))], wrong),
        (
            "schedule-message",
            vec![("messages", list(nested(&[("message", message()), ("message-id", Value::Bool(true))])))],
            wrong,
        ),
        (
            "schedule-message",
            vec![(
                "messages",
                list(nested(&[("message", message()), ("message-id", text(&"x".repeat(129)))])),
            )],
            range,
        ),
        (
            "schedule-message",
            vec![("messages", list(nested(&[("message", Value::Binary(vec![0, 1, 2].into()))])))],
            "amqp:decode-error",
        ),
    ]
}

fn malformed_sessions() -> Vec<Malformed> {
    let (text, long, wrong) = (string, Value::Long, WRONG);
    let time = || ("last-updated-time", Value::Timestamp(0.into()));
    let page = |skip: Value, top: Value| vec![time(), ("skip", skip), ("top", top)];
    let mut cases = Vec::new();
    for operation in ["renew-session-lock", "get-session-state", "set-session-state"] {
        cases.push((operation, vec![], wrong));
        cases.push((operation, vec![("session-id", Value::Null)], wrong));
        cases.push((operation, vec![("session-id", long(1))], wrong));
        cases.push((operation, vec![("session-id", Value::Binary(vec![b'a'].into()))], wrong));
    }
    cases.extend([
        ("set-session-state", vec![("session-id", text("a")), ("session-state", text("state"))], wrong),
        ("set-session-state", vec![("session-id", text("a")), ("session-state", long(1))], wrong),
        ("peek-message", vec![("session-id", long(1))], wrong),
        ("batch-delete-messages", vec![("message-count", Value::Int(1)), ("session-id", long(1))], wrong),
        ("get-message-sessions", vec![], wrong),
        ("get-message-sessions", vec![("skip", Value::Int(0)), ("top", Value::Int(1))], wrong),
        (
            "get-message-sessions",
            vec![("last-updated-time", long(0)), ("skip", Value::Int(0)), ("top", Value::Int(1))],
            wrong,
        ),
        ("get-message-sessions", vec![time(), ("top", Value::Int(1))], wrong),
        ("get-message-sessions", vec![time(), ("skip", Value::Int(0))], wrong),
        ("get-message-sessions", page(Value::Int(-1), Value::Int(1)), wrong),
        ("get-message-sessions", page(Value::Int(0), Value::Int(-1)), wrong),
        ("get-message-sessions", page(text("0"), Value::Int(1)), wrong),
    ]);
    cases
}

fn malformed_numbers(numbers: &[i64]) -> Vec<Malformed> {
    let (text, long, wrong, range) = (string, Value::Long, WRONG, RANGE);
    let list = |entry: Value| Value::List(vec![entry]);
    vec![
        ("cancel-scheduled-message", vec![], wrong),
        ("cancel-scheduled-message", vec![("sequence-numbers", longs(&[]))], wrong),
        ("cancel-scheduled-message", vec![("sequence-numbers", long(1))], wrong),
        ("cancel-scheduled-message", vec![("sequence-numbers", list(text("1")))], wrong),
        ("cancel-scheduled-message", vec![("sequence-numbers", longs(&[-1]))], range),
        (
            "cancel-scheduled-message",
            vec![("sequence-numbers", longs(numbers))],
            "com.microsoft:message-not-found",
        ),
        ("receive-by-sequence-number", vec![("receiver-settle-mode", Value::Uint(0))], wrong),
        ("receive-by-sequence-number", vec![("sequence-numbers", longs(numbers))], wrong),
        (
            "receive-by-sequence-number",
            vec![("sequence-numbers", longs(numbers)), ("receiver-settle-mode", text("0"))],
            wrong,
        ),
        (
            "receive-by-sequence-number",
            vec![("sequence-numbers", longs(numbers)), ("receiver-settle-mode", Value::Uint(2))],
            range,
        ),
        (
            "receive-by-sequence-number",
            vec![("sequence-numbers", longs(&[i64::MIN])), ("receiver-settle-mode", Value::Uint(0))],
            range,
        ),
        (
            "receive-by-sequence-number",
            vec![("sequence-numbers", longs(&[1; 4097])), ("receiver-settle-mode", Value::Uint(0))],
            range,
        ),
        ("batch-delete-messages", vec![], wrong),
        ("batch-delete-messages", vec![("message-count", text("all"))], wrong),
        ("batch-delete-messages", vec![("message-count", Value::Int(0))], range),
        ("batch-delete-messages", vec![("message-count", Value::Int(-5))], range),
        (
            "batch-delete-messages",
            vec![("message-count", Value::Int(1)), ("enqueued-time-utc", text("yesterday"))],
            wrong,
        ),
        ("no-such-operation", vec![], "amqp:not-implemented"),
    ]
}

#[test]
fn a_malformed_request_is_answered_with_what_is_wrong_and_changes_nothing() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    let numbers = defer(&mut world, client, &["kept"]);
    let cases =
        [malformed_lookups(), malformed_schedules(), malformed_sessions(), malformed_numbers(&numbers)];
    for (operation, body, condition) in cases.into_iter().flatten() {
        let reply = world.request(client, &format!("com.microsoft:{operation}"), &map(&body));
        let status = match condition {
            "com.microsoft:message-not-found" => 404,
            "amqp:not-implemented" => 501,
            _ => 400,
        };
        assert_eq!(outcome(&reply), refused(status, condition), "{operation} {body:?}");
        assert!(property(&reply, "statusDescription").unwrap().contains("TrackingId:"), "{operation}");
        assert!(Sections::scan(&reply).unwrap().body_value(&reply).unwrap().is_null());
    }
    let left = peek(&mut world, client);
    assert_eq!(left.iter().map(text).collect::<Vec<_>>(), ["kept"]);
}

#[test]
fn each_operation_needs_its_own_right() {
    // The rights are checked before the body, so an empty one will do.
    let cases = [
        ("peek-message", Right::Listen),
        ("renew-lock", Right::Listen),
        ("update-disposition", Right::Listen),
        ("receive-by-sequence-number", Right::Listen),
        ("batch-delete-messages", Right::Listen),
        ("schedule-message", Right::Send),
        ("cancel-scheduled-message", Right::Send),
        ("renew-session-lock", Right::Listen),
        ("get-session-state", Right::Listen),
        ("set-session-state", Right::Listen),
        ("get-message-sessions", Right::Listen),
        // A rule manager needs no more than its subscription's receiver; the administration client needs Manage.
        ("add-rule", Right::Listen),
        ("remove-rule", Right::Listen),
        ("enumerate-rules", Right::Listen),
    ];
    for held in [Right::Listen, Right::Send] {
        let (mut world, client) = World::limited(held);
        world.management(client, "q");
        for (operation, needed) in cases {
            let reply = world.request(client, &format!("com.microsoft:{operation}"), &RawMap::empty());
            let expected = if held == needed {
                // An empty page is a page; but a queue has no rules.
                let lists_rules = operation == "enumerate-rules";
                refused(400, if lists_rules { "amqp:not-allowed" } else { "com.microsoft:argument-error" })
            } else {
                refused(401, "amqp:unauthorized-access")
            };
            assert_eq!(outcome(&reply), expected, "{operation} with {held:?}");
        }
    }
}

#[test]
fn answers_find_their_link_on_another_session_of_the_connection() {
    // As the older SDK for Java attaches: requests on one session, answers on another.
    for (reply_to, answered) in [("replies", true), ("nowhere", false)] {
        let mut world = World::new();
        let client = world.service_bus();
        world.send(client, "q", &["m"]);
        let mut replies = Attach::new("in", 0, Role::Receiver);
        (replies.source, replies.target) = (Some(Source::new("q/$management")), Some(Target::new("replies")));
        let script = world.script(client);
        script.begin(1).attach(1, replies).attach_sender(0, 3, "out", Some("q/$management"));
        world.credit(client, 1, 0, 0, 10, false);
        world.run();
        world.received(client);
        let body = map(&[("from-sequence-number", Value::Long(1)), ("message-count", Value::Int(1))]);
        let request = MessageBuilder::new()
            .message_id("request")
            .property(PropertyField::ReplyTo, AnnotationValue::Str(reply_to))
            .application_property("operation", AnnotationValue::Str("com.microsoft:peek-message"))
            .body_raw(RawValue::first(body.bytes()).unwrap())
            .build();
        world.transfer(client, 3, false, &request);
        world.run();
        let answers = world.transfers(client);
        assert_eq!(answers.len(), usize::from(answered), "{reply_to}");
        if let Some((_, reply)) = answers.first() {
            assert_eq!((outcome(reply), messages(reply).len()), (ok(), 1));
        }
    }
}

/// Each message and each answer is one frame.
fn in_one_frame() -> World {
    World::with(GatewayConfig { max_frame_bytes: 16 << 20, ..GatewayConfig::default() }, Anonymous::Deny)
}

#[test]
fn deferred_messages_of_several_megabytes_come_in_one_answer() {
    let mut world = in_one_frame();
    let client = world.service_bus();
    world.management(client, "q");
    let large = |letter: &str| letter.repeat(500_000);
    let texts = [large("a"), large("b"), large("c"), large("d")];
    let numbers = defer(&mut world, client, &texts.each_ref().map(String::as_str));
    let reply = receive_deferred(&mut world, client, &numbers, Value::Uint(1));
    assert_eq!(outcome(&reply), ok());
    let bodies: Vec<String> = messages(&reply).iter().map(|(message, _)| text(message)).collect();
    assert_eq!(bodies, texts);
}

#[test]
fn deferred_messages_beyond_the_limit_of_an_answer_are_refused_and_stay() {
    let config = GatewayConfig { max_deferred_bytes: 10_000, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.service_bus();
    world.management(client, "q");
    let large = "x".repeat(6_000);
    let numbers = defer(&mut world, client, &[&large, &large]);
    let reply = receive_deferred(&mut world, client, &numbers, Value::Uint(1));
    assert_eq!(outcome(&reply), refused(400, RANGE));
    for number in numbers {
        let reply = receive_deferred(&mut world, client, &[number], Value::Uint(0));
        assert_eq!((outcome(&reply), messages(&reply).len()), (ok(), 1), "alone it comes");
    }
}

#[test]
fn a_scheduled_message_that_is_too_large_is_answered_and_the_link_stays() {
    let mut world = in_one_frame();
    let client = world.service_bus();
    world.management(client, "q");
    for (bytes, expected) in [
        (1_000, ok()),
        ((1 << 20) + 1, refused(400, "amqp:link:message-size-exceeded")),
        ((1 << 20) + 70_000, refused(400, "amqp:link:message-size-exceeded")),
        (1_000, ok()),
    ] {
        let message =
            due(&world, MessageBuilder::new().message_id("m").data(&vec![0; bytes]), Duration::from_secs(60));
        let list = Value::List(vec![nested(&[("message", binary(&message))])]);
        let reply = world.request(client, "com.microsoft:schedule-message", &map(&[("messages", list)]));
        assert_eq!(outcome(&reply), expected, "{bytes}");
    }
}
