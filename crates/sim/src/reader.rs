//! Parser of a delivered message: the fields that the model checks.
//!
//! Invariant: the body is compared byte for byte with what was sent.

use amqp_codec::{
    message::MessageBuilder,
    raw::{AnnotationValue, RawMap, RawValue},
    sections::{Header, PropertyField, Sections},
    types::Reader,
};
use bytes::Bytes;

use crate::{
    model::{EntityIndex, Id, Incarnations, Location, Model, ObservedDelivery, Session},
    plan::Topology,
};

/// Number of sessions: more than the clients hold at a time, so that some are free.
pub(crate) const SESSIONS: u64 = 6;

/// The session's name on the wire, in one of the spellings that are the same session.
pub(crate) fn session_name(session: Session, pick: u64) -> String {
    let prefix = if pick.is_multiple_of(2) { 's' } else { 'S' };
    format!("{prefix}{session}")
}

/// The session of a name.
pub(crate) fn session_of_name(name: &str) -> Option<Session> {
    name.strip_prefix(['s', 'S'])?.parse().ok()
}

/// A message that is to be sent.
pub(crate) struct NewMessage {
    pub(crate) id: Id,
    /// For rules to look at.
    pub(crate) number: u64,
    pub(crate) session: Session,
    pub(crate) key: Key,
    /// Time to live in milliseconds.
    pub(crate) ttl: Option<u64>,
    /// Time at which it is to be enqueued, in milliseconds.
    pub(crate) due: Option<u64>,
    /// Bytes of the body, beside the name.
    pub(crate) length: u64,
}

/// Property from which the broker derives the partition of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Key {
    Session,
    /// Its partition key, which has the same name; it has no session.
    Own,
    Both,
    Nothing,
}

impl Key {
    pub(crate) const EACH: [Self; 4] = [Self::Session, Self::Both, Self::Own, Self::Nothing];
}

/// A new message as bytes.
pub(crate) fn write(new_message: &NewMessage) -> Bytes {
    let NewMessage { id, number, session, key, ttl, due, length } = *new_message;
    let name = session_name(session, id);
    // The case of a partition key matters, and that of a session's does not: this is the partition of each spelling.
    let own_key = session_name(session, 0);
    let mut message = MessageBuilder::new()
        .message_id(&id.to_string())
        .subject(&format!("n{number}"))
        .application_property("number", AnnotationValue::Uint(u32::try_from(number).unwrap_or(0)))
        .application_property("spare", AnnotationValue::Str("as it was"))
        .data(&body(id, length));
    if let Some(ttl) = ttl {
        message = message.header(Header { ttl: u32::try_from(ttl).ok(), ..Header::default() });
    }
    if matches!(key, Key::Session | Key::Both) {
        message = message.property(PropertyField::GroupId, AnnotationValue::Str(&name));
    }
    let due = due.map(|due| AnnotationValue::Timestamp(i64::try_from(due).unwrap_or(i64::MAX)));
    let own = matches!(key, Key::Own | Key::Both).then_some(AnnotationValue::Str(&own_key));
    let due = due.map(|due| ("x-opt-scheduled-enqueue-time", due));
    let annotations: Vec<_> = due.into_iter().chain(own.map(|own| ("x-opt-partition-key", own))).collect();
    if !annotations.is_empty() {
        message = message.message_annotations(RawMap::with_symbol_keys(&annotations));
    }
    message.build()
}

fn body(id: Id, length: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(16);
    body.extend_from_slice(&id.to_be_bytes());
    body.extend_from_slice(&length.to_be_bytes());
    body.extend((0..length).map(|entity| (id.wrapping_mul(31).wrapping_add(entity)).to_le_bytes()[0]));
    body
}

/// Fields of a delivered message that the model checks.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedMessage {
    pub(crate) id: Id,
    pub(crate) sequence: u64,
    pub(crate) delivery_count: u32,
    /// Never handed out before; told to plain clients only.
    pub(crate) first_acquirer: bool,
    pub(crate) locked_until: Option<u64>,
    /// By which its lock is renewed.
    pub(crate) token: Option<[u8; 16]>,
    /// The properties that rules look at and change.
    pub(crate) number: Option<i64>,
    pub(crate) changed: Option<i64>,
    pub(crate) has_spare: bool,
    pub(crate) label: String,
    enqueued: u64,
    expired: bool,
    /// Its first number, and where it was dead-lettered; told to clients of Service Bus only.
    origin: Option<u64>,
    source: Option<String>,
    partition: Option<i64>,
}

impl ReceivedMessage {
    /// Whether a rule's action has changed it; `Err`: it has neither the properties that it was sent with, nor those that
    /// the action of its entity sets.
    pub(crate) fn check_properties(&self, entity: EntityIndex, topology: &Topology) -> Result<bool, String> {
        let is_changed = topology.is_changed(entity);
        let number = self.number.ok_or_else(|| format!("message {} has lost its number", self.id))?;
        let label = if is_changed { "changed".to_owned() } else { format!("n{number}") };
        let expected = (is_changed.then_some(number * 2 + 1), !is_changed, label);
        let found = (self.changed, self.has_spare, self.label.clone());
        if found == expected {
            return Ok(is_changed);
        }
        Err(format!(
            "the properties of message {} at place {entity} are {found:?}, not {expected:?}",
            self.id
        ))
    }

    /// As a client sees it that asks the entity for it, not in a session, and gets it under a lock. `Err`: it is not said
    /// rightly where it was dead-lettered.
    pub(crate) fn observed(
        &self,
        at: EntityIndex,
        holder: u64,
        (model, topology): (&Model, &Topology),
        now: u64,
    ) -> Result<ObservedDelivery, String> {
        let (entity, stands) = model.home(self.id, at);
        let partition = i64::try_from(self.sequence >> 48).ok().filter(|partition| *partition != 0);
        if self.origin.is_some() && self.partition != partition {
            return Err(format!("message {} is said to be of partition {:?}", self.id, self.partition));
        }
        let source = matches!(stands, Location::DeadLetterTarget(_)).then(|| topology.address(entity));
        if self.origin.is_some() && self.source != source {
            return Err(format!("message {} has the source {:?}, not {source:?}", self.id, self.source));
        }
        // The lock of a session is older than the delivery.
        let duration = topology.settings(at).filter(|settings| !settings.requires_session);
        let duration = duration.map(|settings| settings.lock_duration.as_millis());
        let duration = duration.and_then(|duration| u64::try_from(duration).ok());
        Ok(ObservedDelivery {
            id: self.id,
            entity,
            location: stands,
            incarnations: Incarnations::default(),
            dead_letter: false,
            by_number: false,
            expired: self.expired,
            enqueued: self.enqueued,
            handed_out: self
                .locked_until
                .zip(duration)
                .map(|(until, duration)| until.saturating_sub(duration)),
            session: None,
            sequence: self.sequence,
            origin: self.origin,
            delivery_count: self.delivery_count,
            locked_until: self.locked_until,
            holder,
            now,
        })
    }
}

/// Reads it back; `Err` says what is wrong with it.
pub(crate) fn read(payload: &[u8]) -> Result<ReceivedMessage, String> {
    let sections = Sections::scan(payload).map_err(|error| error.to_string())?;
    let header = sections.read_header(payload).map_err(|error| format!("{error:?}"))?;
    let annotations = sections.message_annotations_view(payload);
    let properties = sections.application_properties_view(payload);
    let number = |name| {
        annotations
            .get(name)
            .and_then(|value| value.as_i64().or_else(|| value.as_timestamp()))
            .and_then(|n| u64::try_from(n).ok())
    };
    let content = content(sections.body.of(payload)).ok_or("there is no data section")?;
    let (id, rest) = content.split_first_chunk::<8>().ok_or("the body is cut short")?;
    let (length, _) = rest.split_first_chunk::<8>().ok_or("the body is cut short")?;
    let (id, length) = (u64::from_be_bytes(*id), u64::from_be_bytes(*length));
    if length > 1 << 20 || content != body(id, length) {
        return Err(format!("the body of message {id} is not what was sent"));
    }
    Ok(ReceivedMessage {
        id,
        sequence: number("x-opt-sequence-number").ok_or("there is no sequence number")?,
        delivery_count: header.delivery_count,
        first_acquirer: header.is_first_acquirer(),
        // The nil timestamp is that of no lock.
        locked_until: number("x-opt-locked-until"),
        token: sections
            .delivery_annotations_view(payload)
            .get("x-opt-lock-token")
            .and_then(RawValue::as_uuid),
        number: properties.get("number").and_then(RawValue::as_i64),
        changed: properties.get("changed").and_then(RawValue::as_i64),
        has_spare: properties.get("spare").and_then(RawValue::as_str) == Some("as it was"),
        label: sections.properties_view(payload).subject().unwrap_or_default().to_owned(),
        enqueued: number("x-opt-enqueued-time").ok_or("there is no enqueued time")?,
        origin: number("x-opt-enqueue-sequence-number"),
        source: annotations.get("x-opt-deadletter-source").and_then(RawValue::as_str).map(str::to_owned),
        partition: annotations.get("x-opt-partition-id").and_then(RawValue::as_i64),
        expired: properties.get("DeadLetterReason").and_then(RawValue::as_str) == Some("TTLExpiredException"),
    })
}

/// The bytes in the one data section.
fn content(section: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(section);
    reader.descriptor().ok()?;
    match reader.byte().ok()? {
        0xa0 => reader.sized8().ok(),
        0xb0 => reader.sized32().ok(),
        _ => None,
    }
}
