//! Messages by their numbers, through the real server: scheduled, cancelled, deferred, deleted in bulk.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp_codec::{
    message::MessageBuilder,
    raw::{AnnotationValue, RawMap, RawValue},
    types::TypeKind,
    value::{Array, OrderedMap, Value},
};
use bytes::Bytes;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, RECEIVER, Sdk},
    message::{Delivery, peek, update},
    sdk_dotnet::DOTNET,
    sdk_go::GO,
    sdk_java::JAVA,
    service_bus::filled,
    testing::advance,
};

/// A map with string keys, of any values.
pub(crate) fn map(entries: &[(&str, Value)]) -> RawMap {
    let mut map = OrderedMap::new();
    for (key, value) in entries {
        map.insert(Value::String((*key).into()), value.clone());
    }
    RawMap::from_value(&Value::Map(map)).unwrap()
}

pub(crate) fn longs(numbers: &[i64]) -> Value {
    Value::Array(Array(numbers.iter().copied().map(Value::Long).collect()))
}

/// The body of a schedule of messages that are due so far from now.
pub(crate) fn schedule(texts: &[&str], delay: Duration) -> RawMap {
    let due = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + delay;
    let due = AnnotationValue::Timestamp(i64::try_from(due.as_millis()).unwrap());
    let entry = |text: &&str| {
        let message = MessageBuilder::new()
            .message_annotations(RawMap::with_symbol_keys(&[("x-opt-scheduled-enqueue-time", due)]))
            .data(text.as_bytes())
            .build();
        let id = Value::String(format!("id of {text}"));
        map(&[("message", Value::Binary(message.to_vec().into())), ("message-id", id)]).to_value()
    };
    map(&[("messages", Value::List(texts.iter().map(entry).collect()))])
}

/// The messages of an answer.
pub(crate) fn messages(answer: &Delivery) -> Vec<Delivery> {
    let body = answer.body();
    let entries = body.get("messages").unwrap().as_list().unwrap();
    let message = |entry: RawValue<'_>| {
        let entry = entry.as_map().unwrap();
        let payload = Bytes::copy_from_slice(entry.get("message").unwrap().as_binary().unwrap());
        let message = Delivery { payload, ..answer.clone() };
        let token = entry.get("lock-token").map(|token| token.as_uuid().unwrap());
        // A message that was taken for good has the nil token, which Rust's SDK needs to see.
        let is_one = |token| token == [0; 16] || token == message.lock_token();
        assert!(token.is_none_or(is_one), "one token in both places");
        message
    };
    entries.map(message).collect()
}

/// Status and condition of an answer.
pub(crate) fn outcome(answer: &Delivery) -> (i64, Option<String>) {
    (answer.status("statusCode"), answer.error_condition())
}

fn missing() -> (i64, Option<String>) {
    (404, Some("com.microsoft:message-not-found".into()))
}

/// Scheduled messages have numbers, can be cancelled, and come in time under new numbers.
fn schedules(dialect: &Dialect) {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.management();
    let later = schedule(&["a", "b"], Duration::from_secs(3_600));
    let answer = sdk.manage(channel, "com.microsoft:schedule-message", &later);
    assert_eq!(outcome(&answer), (200, None));
    let body = answer.body();
    let array = body.get("sequence-numbers").unwrap();
    assert_eq!(array.kind(), Some(TypeKind::Array));
    let numbers: Vec<i64> = array
        .to_items()
        .unwrap()
        .iter()
        .map(|number| RawValue::first(number).unwrap())
        .inspect(|number| assert_eq!(number.kind(), Some(TypeKind::Long)))
        .map(|number| number.as_i64().unwrap())
        .collect();
    let peeked = messages(&sdk.manage(channel, "com.microsoft:peek-message", &peek(1, 9)));
    for (message, number) in peeked.iter().zip(&numbers) {
        assert_eq!(message.sequence_number(), *number);
        assert_eq!(message.annotation("x-opt-message-state", TypeKind::Int).as_i64(), Some(2));
        assert_eq!(message.message_id().as_str(), Some(format!("id of {}", message.text()).as_str()));
    }
    let cancel = |sdk: &mut Sdk<'_>, numbers: &[i64]| {
        let body = map(&[("sequence-numbers", longs(numbers))]);
        outcome(&sdk.manage(channel, "com.microsoft:cancel-scheduled-message", &body))
    };
    assert_eq!(cancel(&mut sdk, &[numbers[0], 99]), missing());
    assert_eq!(cancel(&mut sdk, &numbers), (200, None));
    assert_eq!(cancel(&mut sdk, &numbers), missing());
    let soon = schedule(&["soon"], Duration::from_secs(600));
    sdk.manage(channel, "com.microsoft:schedule-message", &soon);
    advance(broker.address, Duration::from_secs(600));
    let receiver = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    let delivery = sdk.receive(receiver, RECEIVER, 1).remove(0);
    assert_eq!(delivery.text(), "soon");
    assert!(delivery.sequence_number() > numbers[1] + 1, "a new number");
    let due = delivery.annotation("x-opt-scheduled-enqueue-time", TypeKind::Timestamp).as_timestamp();
    assert!(delivery.annotation("x-opt-enqueued-time", TypeKind::Timestamp).as_timestamp() >= due);
    assert_eq!(cancel(&mut sdk, &[numbers[1] + 1]), missing());
    sdk.client.close();
}

/// Deferred messages are received by number, locked or for good, and settled by token.
fn defers(dialect: &Dialect) {
    let broker = filled(&["a", "b", "c"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let receiver = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    let deliveries = sdk.receive(receiver, RECEIVER, 3);
    for delivery in &deliveries {
        sdk.settle(receiver, delivery, (dialect.defer)());
    }
    let numbers: Vec<i64> = deliveries.iter().map(Delivery::sequence_number).collect();
    sdk.client.close();

    // Another connection knows nothing but the numbers.
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.management();
    let fetch = |sdk: &mut Sdk<'_>, numbers: &[i64], mode: u32| {
        let body = map(&[("sequence-numbers", longs(numbers)), ("receiver-settle-mode", Value::Uint(mode))]);
        sdk.manage(channel, "com.microsoft:receive-by-sequence-number", &body)
    };
    let locked = messages(&fetch(&mut sdk, &numbers[..2], 1));
    assert_eq!(locked.iter().map(Delivery::text).collect::<Vec<_>>(), ["a", "b"]);
    for message in &locked {
        assert_eq!(message.annotation("x-opt-message-state", TypeKind::Int).as_i64(), Some(1));
        message.annotation("x-opt-locked-until", TypeKind::Timestamp);
    }
    assert_eq!(outcome(&fetch(&mut sdk, &numbers, 1)), missing(), "two of them are locked");
    for (message, status) in locked.iter().zip(["completed", "abandoned"]) {
        let body = update(message.lock_token(), status);
        assert_eq!(outcome(&sdk.manage(channel, "com.microsoft:update-disposition", &body)), (200, None));
    }
    let gone = messages(&fetch(&mut sdk, &numbers[1..], 0));
    assert_eq!(gone.iter().map(Delivery::text).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(gone.iter().map(|message| message.header().delivery_count).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(sdk.manage(channel, "com.microsoft:peek-message", &peek(1, 9)).status("statusCode"), 204);
    sdk.client.close();
}

/// A purge deletes in bulk until nothing is left.
fn purges(dialect: &Dialect) {
    let broker = filled(&["a", "b", "c"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.management();
    let year_10000 = Value::Timestamp(253_402_300_800_000.into());
    let mut deleted = Vec::new();
    loop {
        let body = map(&[("message-count", Value::Int(2)), ("enqueued-time-utc", year_10000.clone())]);
        let answer = sdk.manage(channel, "com.microsoft:batch-delete-messages", &body);
        if answer.status("statusCode") == 204 {
            break;
        }
        deleted.push(answer.body().get("message-count").unwrap().as_i64().unwrap());
    }
    assert_eq!(deleted, [2, 1]);
    sdk.client.close();
}

#[test]
fn scripted_dotnet_schedules_defers_and_purges() {
    schedules(&DOTNET);
    defers(&DOTNET);
    purges(&DOTNET);
}

#[test]
fn scripted_java_schedules_defers_and_purges() {
    schedules(&JAVA);
    defers(&JAVA);
    purges(&JAVA);
}

#[test]
fn scripted_go_schedules_defers_and_purges() {
    schedules(&GO);
    defers(&GO);
    purges(&GO);
}
