//! Messages on the screen: for people and as JSON.
//!
//! Invariant: no bytes of a message reach the terminal unchecked; control characters are escaped.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_admin::rfc_3339_millis;
use data_encoding::HEXLOWER;
use fe2o3_amqp_types::{
    messaging::{Body, Message, MessageId, annotations::OwnedKey},
    primitives::{SimpleValue, Symbol, Value},
};
use serde_json::{Map, Value as Json, json};

use crate::output::printable;

/// A message as it was received or peeked.
pub(super) type Received = Message<Body<Value>>;

/// Its place in the queue, as the broker annotated it.
pub(super) fn sequence_number(message: &Received) -> Option<i64> {
    match annotation(message, "x-opt-sequence-number") {
        Some(Value::Long(number)) => Some(*number),
        _ => None,
    }
}

fn annotation<'m>(message: &'m Received, name: &str) -> Option<&'m Value> {
    let annotations = message.message_annotations.as_ref()?;
    annotations
        .0
        .iter()
        .find(|(key, _)| matches!(key, OwnedKey::Symbol(Symbol(text)) if text == name))
        .map(|(_, v)| v)
}

/// One object with everything that is set.
pub(super) fn json(message: &Received) -> Json {
    let mut object = Map::new();
    let mut put = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            object.insert(key.into(), value);
        }
    };
    put("sequence_number", sequence_number(message).map(Into::into));
    put("enqueued_at", annotation(message, "x-opt-enqueued-time").map(value_json));
    put("locked_until", annotation(message, "x-opt-locked-until").map(value_json));
    if let Some(header) = &message.header {
        put("delivery_count", Some(header.delivery_count.into()));
        put("time_to_live_ms", header.ttl.map(Into::into));
    }
    if let Some(properties) = &message.properties {
        put("message_id", properties.message_id.as_ref().map(|id| id_text(id).into()));
        put("correlation_id", properties.correlation_id.as_ref().map(|id| id_text(id).into()));
        put("subject", properties.subject.clone().map(Into::into));
        put("to", properties.to.clone().map(Into::into));
        put("reply_to", properties.reply_to.clone().map(Into::into));
        put("content_type", properties.content_type.as_ref().map(|Symbol(text)| text.as_str().into()));
        put("group_id", properties.group_id.clone().map(Into::into));
    }
    if let Some(properties) = &message.application_properties {
        let map = properties.0.iter().map(|(key, value)| (key.clone(), simple_json(value))).collect();
        put("application_properties", Some(Json::Object(map)));
    }
    let (key, body) = body_json(&message.body);
    put(key, Some(body));
    Json::Object(object)
}

/// Two lines for a person: the body, and what is known about it.
pub(super) fn text(message: &Received) -> String {
    let number = sequence_number(message).map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mut facts = Vec::new();
    if let Some(Value::Timestamp(time)) = annotation(message, "x-opt-enqueued-time") {
        facts.push(format!("enqueued {}", rfc_3339_millis(time.milliseconds())));
    }
    if let Some(count) =
        message.header.as_ref().map(|header| header.delivery_count).filter(|count| *count > 0)
    {
        facts.push(format!("failed deliveries {count}"));
    }
    if let Some(properties) = &message.properties {
        facts.extend(properties.message_id.as_ref().map(|id| format!("id {}", printable(&id_text(id)))));
        facts.extend(properties.subject.as_ref().map(|subject| format!("subject {}", printable(subject))));
    }
    if let Some(properties) = &message.application_properties {
        let pair = |(key, value): (&String, &SimpleValue)| {
            let value = match value {
                SimpleValue::String(text) => printable(text),
                other => printable(&simple_json(other).to_string()),
            };
            format!("{}={value}", printable(key))
        };
        facts.extend(properties.0.iter().map(pair));
    }
    let body = match body_json(&message.body) {
        ("body", Json::String(text)) => printable(&text),
        ("body", other) => printable(&other.to_string()),
        (_, Json::String(base64)) => format!("<{} bytes>", decoded_length(&base64)),
        (_, other) => other.to_string(),
    };
    format!("{number:>6}  {body}\n        {}", facts.join(" · "))
}

fn decoded_length(base64: &str) -> usize {
    base64.len() / 4 * 3 - base64.bytes().rev().take_while(|byte| *byte == b'=').count()
}

/// `body` with text or a value, or `body_base64` with bytes that are not UTF-8.
fn body_json(body: &Body<Value>) -> (&'static str, Json) {
    match body {
        Body::Data(parts) => {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.0.iter().copied()).collect();
            match String::from_utf8(bytes) {
                Ok(text) => ("body", text.into()),
                Err(error) => ("body_base64", STANDARD.encode(error.as_bytes()).into()),
            }
        }
        Body::Value(value) => ("body", value_json(&value.0)),
        Body::Sequence(parts) => {
            ("body", parts.iter().flat_map(|part| part.0.iter()).map(value_json).collect::<Vec<_>>().into())
        }
        Body::Empty => ("body", Json::Null),
    }
}

/// An id of any type as text.
pub(super) fn id_text(id: &MessageId) -> String {
    match id {
        MessageId::String(text) => text.clone(),
        MessageId::Ulong(number) => number.to_string(),
        MessageId::Uuid(uuid) => HEXLOWER.encode(uuid.as_inner()),
        MessageId::Binary(bytes) => HEXLOWER.encode(bytes),
    }
}

fn simple_json(value: &SimpleValue) -> Json {
    value_json(&Value::from(value.clone()))
}

fn value_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Ubyte(number) => (*number).into(),
        Value::Ushort(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Ulong(number) => (*number).into(),
        Value::Byte(number) => (*number).into(),
        Value::Short(number) => (*number).into(),
        Value::Int(number) => (*number).into(),
        Value::Long(number) => (*number).into(),
        Value::Float(number) => json!(number.0),
        Value::Double(number) => json!(number.0),
        Value::Char(letter) => letter.to_string().into(),
        Value::Timestamp(time) => rfc_3339_millis(time.milliseconds()).into(),
        Value::Uuid(uuid) => HEXLOWER.encode(uuid.as_inner()).into(),
        Value::Binary(bytes) => json!({ "base64": STANDARD.encode(bytes) }),
        Value::String(text) | Value::Symbol(Symbol(text)) => text.as_str().into(),
        Value::List(items) => items.iter().map(value_json).collect::<Vec<_>>().into(),
        Value::Array(items) => items.0.iter().map(value_json).collect::<Vec<_>>().into(),
        Value::Map(map) => {
            let key = |key: &Value| match value_json(key) {
                Json::String(text) => text,
                other => other.to_string(),
            };
            Json::Object(map.iter().map(|(name, value)| (key(name), value_json(value))).collect())
        }
        Value::Described(described) => value_json(&described.value),
        Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => "<decimal>".into(),
    }
}

#[cfg(test)]
mod tests;
