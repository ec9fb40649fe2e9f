//! Parser of messages: from the bytes of a message to the fields that the core needs.
//!
//! Invariant: what is stored is the bytes that came, in the standard's order of sections; only a Service Bus
//! client's missing message-id is put in.

use std::time::Duration;

use amqp_codec::{
    message::{PropertyChanges, batch_messages, properties_with},
    raw::{AnnotationValue, RawValue},
    sections::{PropertiesView, PropertyField, SectionError, Sections},
};
use broker_core::{EntityKind, Message, QueueInfo, Timestamp};
use bytes::{Bytes, BytesMut};
use uuid::Uuid;

use crate::{
    condition::Refusal,
    dialect::Dialect,
    tracking::Tracking,
    transfer::{delivery_delay, filter_properties, message_id, message_limits},
};

/// Options for parsing a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParseOptions {
    /// Dialect of the sender.
    pub(crate) dialect: Dialect,
    /// Now.
    pub(crate) utc: Timestamp,
    /// Optional fields that its target needs.
    pub(crate) required_fields: RequiredFields,
}

/// Optional fields of a message. Reading them costs time, so they are read only for entities that need them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RequiredFields {
    /// The message-id, to detect duplicates and as partition key.
    pub(crate) message_id: bool,
    pub(crate) partition_key: bool,
    /// All that the rules of a topic look at.
    pub(crate) rules: bool,
}

impl RequiredFields {
    /// For a target that is not known yet. What rules look at is much, and the core asks for it where it is missing.
    pub(crate) const ALL: Self = Self { message_id: true, partition_key: true, rules: false };

    /// For a known one.
    pub(crate) fn of(queue: &QueueInfo) -> Self {
        let rules = queue.kind == EntityKind::Topic;
        // In a transaction the id can stand for a partition key.
        let message_id = queue.detects_duplicates || queue.partitioned;
        Self { message_id, partition_key: queue.partitioned, rules }
    }
}

/// Reads one message.
#[inline]
pub(crate) fn message(payload: Bytes, options: ParseOptions, ids: &mut Tracking) -> Result<Message, Refusal> {
    message_or(payload, options, None, ids)
}

/// Reads one message. Inlined, for a message is large and would be copied from hand to hand. A Service Bus client's message without a message-id gets `fallback`, or a new one.
#[inline]
pub(crate) fn message_or(
    payload: Bytes,
    options: ParseOptions,
    fallback: Option<&str>,
    ids: &mut Tracking,
) -> Result<Message, Refusal> {
    let (payload, sections) = scan(payload)?;
    let mut message = Message { limits: options.dialect.limits(), ..Message::default() };
    let has_id = parse_message(&mut message, &payload, &sections, options)?;
    message_limits::check(&payload, &sections, options.dialect)?;
    message.payload = match fallback {
        _ if options.dialect != Dialect::ServiceBus || has_id => payload,
        Some(id) => with_message_id(&payload, &sections, id),
        None => {
            let digits = hex(ids.next_id());
            with_message_id(&payload, &sections, std::str::from_utf8(&digits).unwrap_or_default())
        }
    };
    Ok(message)
}

/// Notes in an empty message what the sections say, the payload aside; says whether a message-id is among it.
fn parse_message(
    message: &mut Message,
    payload: &[u8],
    sections: &Sections,
    options: ParseOptions,
) -> Result<bool, Refusal> {
    sections.check_contents(payload).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let header = sections.read_header(payload).map_err(|error| Refusal::Malformed(error.to_string()))?;
    message.durable = header.is_durable();
    message.time_to_live = header.ttl.map(|millis| Duration::from_millis(millis.into()));
    let mut has_id = false;
    if !sections.properties.is_empty() {
        let properties = sections.properties_view(payload);
        let id = properties.get(PropertyField::MessageId);
        has_id = id.is_some();
        if options.required_fields.message_id {
            message.message_id = id.and_then(message_id::canonical);
        }
        message.session_id = properties.get(PropertyField::GroupId).and_then(RawValue::as_str).map(Box::from);
        if header.ttl.is_none() || (header.ttl == Some(u32::MAX) && means_more(&properties, options)) {
            message.time_to_live = lifetime(&properties, options);
        }
    }
    if !sections.message_annotations.is_empty() {
        let annotations = sections.message_annotations_view(payload);
        let at = annotations.get(SCHEDULED_ENQUEUE_TIME);
        let at = demanded(at, RawValue::as_timestamp, SCHEDULED_ENQUEUE_TIME, "a timestamp")?;
        message.scheduled_enqueue_time =
            at.map(|millis| Timestamp::from_millis(u64::try_from(millis).unwrap_or(0)));
        if at.is_none() && options.dialect == Dialect::Plain {
            message.scheduled_enqueue_time = delivery_delay::due(annotations, options.utc)?;
        }
        if options.required_fields.partition_key {
            let key = annotations.get(PARTITION_KEY);
            message.partition_key =
                demanded(key, RawValue::as_str, PARTITION_KEY, "a string")?.map(Box::from);
        }
    }
    if options.required_fields.rules {
        message.properties = Some(Box::new(filter_properties::read(payload, sections, message)));
    }
    Ok(has_id)
}

/// An annotation in the type that it must have. Null stands for none, as everywhere in AMQP.
fn demanded<'a, T>(
    value: Option<RawValue<'a>>,
    read: impl Fn(RawValue<'a>) -> Option<T>,
    name: &'static str,
    wanted: &'static str,
) -> Result<Option<T>, Refusal> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    read(value).map(Some).ok_or(Refusal::BadAnnotation { name, wanted })
}

/// Reads a stored payload anew, as if it arrived now: what the core asks when a message is activated or forwarded.
/// One that cannot be read (a repaired journal) has no facts.
pub fn describe(now: Timestamp, payload: &Bytes) -> Message {
    // Both ends of a lifetime count where the sender gave both. A plain client's delay is over.
    let required_fields = RequiredFields { rules: true, ..RequiredFields::ALL };
    let options = ParseOptions { dialect: Dialect::ServiceBus, utc: now, required_fields };
    let mut message = Message::default();
    let understood = Sections::scan(payload)
        .is_ok_and(|found| parse_message(&mut message, payload, &found, options).is_ok());
    let message = if understood { message } else { Message::default() };
    Message { payload: payload.clone(), ..message }
}

/// Reads the messages of a batch.
pub(crate) fn batch(
    payload: &Bytes,
    options: ParseOptions,
    limit: usize,
    ids: &mut Tracking,
) -> Result<Vec<Message>, Refusal> {
    let parts = batch_messages(payload).map_err(|error| Refusal::Malformed(error.to_string()))?;
    if parts.is_empty() || parts.len() > limit {
        return Err(Refusal::BatchLength { messages: parts.len(), limit });
    }
    parts.into_iter().map(|part| message(part, options, ids)).collect()
}

/// `properties.to`, if it is a text, and the kind of node that Qpid JMS says it names.
pub(crate) fn destination(payload: &[u8]) -> Option<(String, Option<i64>)> {
    let sections = Sections::scan_tolerant(payload).ok()?;
    let to = sections.properties_view(payload).get(PropertyField::To)?.as_str()?.to_owned();
    let annotations = sections.message_annotations_view(payload);
    Some((to, annotations.get(JMS_DESTINATION).and_then(RawValue::as_i64)))
}

/// Finds the sections. Python's Service Bus SDK writes delivery-annotations after the footer, and rhea the footer
/// before the body: such a message is put in order.
fn scan(payload: Bytes) -> Result<(Bytes, Sections), Refusal> {
    if let Ok(sections) = Sections::scan(&payload) {
        return Ok((payload, sections));
    }
    let malformed = |error: SectionError| Refusal::Malformed(error.to_string());
    let found = Sections::scan_tolerant(&payload).map_err(malformed)?;
    let mut ordered = BytesMut::with_capacity(payload.len());
    let parts = [
        found.header,
        found.delivery_annotations,
        found.message_annotations,
        found.properties,
        found.application_properties,
        found.body,
        found.footer,
    ];
    for part in parts {
        ordered.extend_from_slice(part.of(&payload));
    }
    let sections = Sections::scan(&ordered).map_err(malformed)?;
    Ok((ordered.freeze(), sections))
}

/// Whether the largest lifetime that a header can say stands for a longer one: the SDKs for .NET and JavaScript write it
/// then, with both ends of what they mean.
fn means_more(properties: &PropertiesView<'_>, options: ParseOptions) -> bool {
    let time = |field| properties.get(field).and_then(RawValue::as_timestamp);
    let ends = time(PropertyField::CreationTime).zip(time(PropertyField::AbsoluteExpiryTime));
    options.dialect == Dialect::ServiceBus
        && ends.is_some_and(|(created, end)| end.saturating_sub(created) > i64::from(u32::MAX))
}

/// Lifetime of a message by its absolute expiry time. The Service Bus SDKs stamp both ends of a lifetime that does not fit
/// the header, so the client's clock does not matter there.
fn lifetime(properties: &PropertiesView<'_>, options: ParseOptions) -> Option<Duration> {
    let end = properties.get(PropertyField::AbsoluteExpiryTime)?.as_timestamp()?;
    if end >= NEVER {
        return None;
    }
    let created = properties.get(PropertyField::CreationTime).and_then(RawValue::as_timestamp);
    let now = i64::try_from(options.utc.as_millis()).unwrap_or(i64::MAX);
    let start = if options.dialect == Dialect::ServiceBus { created.unwrap_or(now) } else { now };
    Some(Duration::from_millis(u64::try_from(end.saturating_sub(start)).unwrap_or(0)))
}

/// The annotation by which a message waits for its time.
pub(crate) const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
const JMS_DESTINATION: &str = "x-opt-jms-dest";
const PARTITION_KEY: &str = "x-opt-partition-key";

/// The last day of .NET's calendar, by which its SDK means never.
const NEVER: i64 = 253_402_243_199_000;

/// The same message with a message-id.
fn with_message_id(payload: &Bytes, sections: &Sections, id: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(payload.len() + id.len() + 32);
    for part in [sections.header, sections.delivery_annotations, sections.message_annotations] {
        out.extend_from_slice(part.of(payload));
    }
    let changes =
        PropertyChanges { message_id: Some(AnnotationValue::Str(id)), ..PropertyChanges::default() };
    if properties_with(&mut out, Some(sections.properties.of(payload)), &changes).is_err() {
        // The contents have been checked, so this is not reached; the message stays as it came.
        return payload.clone();
    }
    for part in [sections.application_properties, sections.body, sections.footer] {
        out.extend_from_slice(part.of(payload));
    }
    out.freeze()
}

/// 32 lower-case hexadecimal digits.
pub(crate) fn hex(id: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    Uuid::from_u128(id).simple().encode_lower(&mut digits);
    digits
}

#[cfg(test)]
mod tests;
