//! The bodies of requests and of their answers.
//!
//! Invariant: encoding and decoding depend on the values alone.

use amqp_codec::{
    raw::{RawMap, RawValue},
    sections::Sections,
    value::{Array, OrderedMap, Uuid, Value},
};
use bytes::Bytes;

fn map(entries: Vec<(&str, Value)>) -> Value {
    let mut map = OrderedMap::new();
    for (key, value) in entries {
        map.insert(Value::String(key.into()), value);
    }
    Value::Map(map)
}

/// Messages to schedule.
pub(super) fn schedule(messages: &[Bytes]) -> Option<RawMap> {
    let message = |bytes: &Bytes| map(vec![("message", Value::Binary(bytes.to_vec().into()))]);
    let messages = messages.iter().map(message).collect();
    RawMap::from_value(&map(vec![("messages", Value::List(messages))]))
}

/// Sequence numbers, and whether their messages are received for good.
pub(super) fn numbers(numbers: &[i64], delete: Option<bool>) -> Option<RawMap> {
    let array = Array(numbers.iter().copied().map(Value::Long).collect());
    let mut entries = vec![("sequence-numbers", Value::Array(array))];
    if let Some(delete) = delete {
        entries.push(("receiver-settle-mode", Value::Uint(u32::from(!delete))));
    }
    RawMap::from_value(&map(entries))
}

/// Body of a request that settles the message of a lock token.
pub(super) fn settle(status: &str, token: [u8; 16]) -> Option<RawMap> {
    let tokens = Value::Array(Array(vec![Value::Uuid(Uuid::from(token))]));
    let status = Value::String(status.into());
    RawMap::from_value(&map(vec![("disposition-status", status), ("lock-tokens", tokens)]))
}

/// The lock that is to be renewed.
pub(super) fn tokens(token: [u8; 16]) -> Option<RawMap> {
    let tokens = Value::Array(Array(vec![Value::Uuid(Uuid::from(token))]));
    RawMap::from_value(&map(vec![("lock-tokens", tokens)]))
}

fn millis(value: RawValue<'_>) -> Option<u64> {
    u64::try_from(value.as_timestamp()?).ok()
}

/// Until when one lock lasts now, in milliseconds.
pub(super) fn expiration(body: Option<&RawMap>) -> Option<u64> {
    let items = body?.get("expirations")?.to_items()?;
    let [until] = items.as_slice() else { return None };
    millis(RawValue::first(until).ok()?)
}

/// Until when a session is held now, in milliseconds.
pub(super) fn session_expiration(body: Option<&RawMap>) -> Option<u64> {
    millis(body?.get("expiration")?)
}

/// The status of an answer, and its body.
pub(super) fn answer(payload: &Bytes) -> Option<(i64, Option<RawMap>)> {
    let sections = Sections::scan(payload).ok()?;
    let status = sections.application_properties_view(payload).get("statusCode")?.as_i64()?;
    let body = sections.body_value(payload).and_then(|value| RawMap::copy_from_slice(value.bytes()).ok());
    Some((status, body))
}

/// The state of a session in an answer.
pub(super) fn state(body: Option<&RawMap>) -> Option<u64> {
    body?.get("session-state")?.as_binary()?.try_into().ok().map(u64::from_be_bytes)
}

/// The numbers that were given to scheduled messages.
pub(super) fn given(body: Option<&RawMap>) -> Option<Vec<i64>> {
    let items = body?.get("sequence-numbers")?.to_items()?;
    items.iter().map(|item| RawValue::first(item).ok()?.as_i64()).collect()
}

/// The messages of an answer, each with its lock token.
pub(super) fn messages(body: Option<&RawMap>) -> Option<Vec<(Bytes, [u8; 16])>> {
    let message = |entry: RawValue<'_>| {
        let entry = entry.as_map()?;
        let message = Bytes::copy_from_slice(entry.get("message")?.as_binary()?);
        Some((message, entry.get("lock-token")?.as_uuid()?))
    };
    body?.get("messages")?.as_list()?.map(message).collect()
}
