//! Filter properties: the properties of a message that the rules of a topic read.
//!
//! Invariant: reads bytes that were checked; what has no kind of its own for a rule is present and null.

use amqp_codec::{
    raw::RawValue,
    sections::{PropertyField, Sections},
    types::{Descriptor, TypeKind},
};
use broker_core::Message;
use broker_filter::{PropertySet, SystemProperty, Value};
use uuid::Uuid;

/// Fields of the properties section that rules know.
pub(crate) const FIELDS: [(SystemProperty, PropertyField); 8] = [
    (SystemProperty::MessageId, PropertyField::MessageId),
    (SystemProperty::CorrelationId, PropertyField::CorrelationId),
    (SystemProperty::Label, PropertyField::Subject),
    (SystemProperty::To, PropertyField::To),
    (SystemProperty::ReplyTo, PropertyField::ReplyTo),
    (SystemProperty::ReplyToSessionId, PropertyField::ReplyToGroupId),
    (SystemProperty::SessionId, PropertyField::GroupId),
    (SystemProperty::ContentType, PropertyField::ContentType),
];

/// Message annotations that rules know.
pub(crate) const ANNOTATIONS: [(SystemProperty, &str); 3] = [
    (SystemProperty::PartitionKey, "x-opt-partition-key"),
    (SystemProperty::ViaPartitionKey, "x-opt-via-partition-key"),
    (SystemProperty::ScheduledEnqueueTimeUtc, "x-opt-scheduled-enqueue-time"),
];

/// Reads the sections of a message of which the rest is known already.
pub(crate) fn read(payload: &[u8], sections: &Sections, message: &Message) -> PropertySet {
    let mut found = PropertySet::new();
    let properties = sections.properties_view(payload);
    for (name, field) in FIELDS {
        if let Some(value) = properties.get(field) {
            found.set_system(name, as_text(value));
        }
    }
    let annotations = sections.message_annotations_view(payload);
    for (name, key) in ANNOTATIONS {
        if let Some(value) = annotations.get(key) {
            found.set_system(name, self::value(value));
        }
    }
    if let Some(lifetime) = message.time_to_live {
        let millis = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        found.set_system(SystemProperty::TimeToLive, Value::duration_ms(millis));
    }
    let users = sections.application_properties_view(payload);
    found.extend_user(
        users.iter().filter_map(|(name, value)| Some((name.as_str()?.into(), self::value(value)))),
    );
    found
}

/// The fixed fields are strings for rules, however they were sent: numbers and uuids in their usual text.
fn as_text(value: RawValue<'_>) -> Value {
    if let Some(number) = value.as_u64() {
        return Value::Text(number.to_string().into());
    }
    match value.as_uuid() {
        Some(uuid) => Value::Text(Uuid::from_bytes(uuid).to_string().into()),
        None => self::value(value),
    }
}

/// A value as rules know it.
pub(crate) fn value(raw: RawValue<'_>) -> Value {
    if let Some((descriptor, inner)) = raw.described() {
        return described(descriptor, inner);
    }
    if let Some(text) = raw.as_str() {
        return Value::Text(text.into());
    }
    match raw.kind() {
        Some(TypeKind::Boolean) => raw.as_bool().map_or(Value::Null, Value::Bool),
        Some(TypeKind::Timestamp) => raw.as_timestamp().map_or(Value::Null, Value::Timestamp),
        Some(TypeKind::Uuid) => raw.as_uuid().map_or(Value::Null, Value::Uuid),
        Some(TypeKind::Binary) => raw.as_binary().map_or(Value::Null, |bytes| Value::Binary(bytes.into())),
        Some(TypeKind::Char) => character(raw),
        Some(TypeKind::Float | TypeKind::Double) => raw.as_f64().map_or(Value::Null, Value::Double),
        _ => match (raw.as_i64(), raw.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::unsigned(number),
            // Lists, maps, arrays and decimals.
            (None, None) => Value::Null,
        },
    }
}

/// The described types of .NET's Service Bus SDK.
fn described(descriptor: Descriptor<'_>, inner: RawValue<'_>) -> Value {
    match (descriptor, inner.as_i64()) {
        (Descriptor::Name(URI), _) => inner.as_str().map_or(Value::Null, Value::from),
        (Descriptor::Name(DATE_TIME), Some(ticks)) => {
            Value::Timestamp((ticks.saturating_sub(TICKS_AT_1970)).div_euclid(TICKS_PER_MILLI))
        }
        (Descriptor::Name(TIME_SPAN), Some(ticks)) => Value::Duration(ticks),
        _ => Value::Null,
    }
}

/// A `char` is four bytes of Unicode scalar.
fn character(raw: RawValue<'_>) -> Value {
    let scalar = raw.bytes().get(1..).and_then(|bytes| bytes.first_chunk::<4>());
    let found = scalar.and_then(|bytes| char::from_u32(u32::from_be_bytes(*bytes)));
    found.map_or(Value::Null, |found| Value::Text(found.to_string().into()))
}

const URI: &str = "com.microsoft:uri";
const DATE_TIME: &str = "com.microsoft:datetime-offset";
/// Descriptor of a duration in ticks.
pub(crate) const TIME_SPAN: &str = "com.microsoft:timespan";
/// Ticks of 100 ns from the year 1 to 1970.
const TICKS_AT_1970: i64 = 621_355_968_000_000_000;
const TICKS_PER_MILLI: i64 = 10_000;

#[cfg(test)]
mod tests;
