//! Encoding of a stored message for a receiver: a new header and annotations in front of the bare message.
//!
//! Invariant: properties, application properties, body and footer go out as the bytes they came, but for what
//! the broker was told to add and what Service Bus stamps; for Service Bus, keys of annotations and footers are symbols, and decimals
//! have the form of its libraries.

mod changes;

use std::{collections::BTreeSet, ops::Range};

use amqp_codec::{
    message::{
        AnnotationValue, PropertyChanges, application_properties_changed, message_annotations_changed,
        properties_with, with_service_bus_decimals, with_symbol_keys, write_delivery_annotations,
        write_header, write_lock_token_annotations,
    },
    raw::RawValue,
    sections::{Header, PropertyField, Section, Sections},
    types::code,
};
use broker_core::{Lock, LockToken, Properties, SYSTEM, SequenceNumber, Stored, Timestamp};
use bytes::{Bytes, BytesMut};

pub(crate) use changes::write_value;

use crate::{
    dialect::Dialect,
    disposition::outcome::ANNOTATION,
    transfer::message_parse::{SCHEDULED_ENQUEUE_TIME, hex},
};

/// For whom a message is written, and what only that client is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipient {
    pub(crate) dialect: Dialect,
    /// First half of the message-ids made for messages without one.
    pub(crate) id_base: u64,
    /// When a scheduled message is due that a Service Bus client peeks at.
    pub(crate) due: Option<Timestamp>,
    /// The message is part of the answer of a management node, not a delivery of its own.
    pub(crate) in_answer: bool,
}

/// Appends the sections that differ from what is stored, and returns the rest of the stored bytes.
pub(crate) fn write(
    out: &mut BytesMut,
    stored: &Stored,
    sequence: SequenceNumber,
    lock: Option<&Lock>,
    recipient: &Recipient,
) -> Bytes {
    stored.payload.slice(write_front(out, stored, sequence, lock, recipient))
}

/// The same, and says where the rest of the stored bytes lies in the payload.
pub(crate) fn write_front(
    out: &mut BytesMut,
    stored: &Stored,
    sequence: SequenceNumber,
    lock: Option<&Lock>,
    recipient: &Recipient,
) -> Range<usize> {
    let payload = &stored.payload;
    // Only checked messages are stored. Should one be unreadable all the same, it goes out as it is.
    let Ok(sections) = Sections::scan(payload) else { return 0..payload.len() };
    let rest = write_sections(out, stored, &sections, sequence, lock, recipient);
    if recipient.dialect == Dialect::Plain || sections.footer.is_empty() {
        return rest;
    }
    let footer = sections.footer.range();
    let Some(symbols) = symbol_keys(Section::Footer, payload.get(footer.clone()).unwrap_or_default()) else {
        return rest;
    };
    out.extend_from_slice(payload.get(rest.start..footer.start).unwrap_or_default());
    out.extend_from_slice(&symbols);
    payload.len()..payload.len()
}

/// A section with symbols as keys, where it has others. The SDKs for Service Bus read symbols only: the one for Java ends
/// its receiver on a string.
fn symbol_keys(section: Section, bytes: &[u8]) -> Option<Bytes> {
    // A section that is no map goes out unchanged.
    with_symbol_keys(section, bytes).ok().flatten()
}

/// Appends the sections in front of the body that differ from what is stored, and says where the rest lies.
fn write_sections(
    out: &mut BytesMut,
    stored: &Stored,
    sections: &Sections,
    sequence: SequenceNumber,
    lock: Option<&Lock>,
    recipient: &Recipient,
) -> Range<usize> {
    let payload = &stored.payload;
    let service_bus = recipient.dialect == Dialect::ServiceBus;
    let original = sections.read_header(payload).unwrap_or_default();
    // A scheduled message begins to age when it is due.
    let start = recipient.due.unwrap_or(stored.enqueued_at);
    let keeps_end = original.ttl.is_none() && has_own_end(stored, sections, start);
    write_header(out, &header(original, stored, start, keeps_end, service_bus));
    if service_bus {
        write_own_annotations(out, sections.delivery_annotations.of(payload), lock, recipient.in_answer);
    }
    let annotations = sections.message_annotations.of(payload);
    let symbols = if service_bus { symbol_keys(Section::MessageAnnotations, annotations) } else { None };
    let annotations = symbols.as_deref().unwrap_or(annotations);
    let changed = changes::encoded(&stored.properties, sections.application_properties_view(payload));
    write_annotations(out, annotations, stored, &changed, sequence, lock, recipient);
    let end = stored.expires_at.filter(|_| !keeps_end);
    let stamps = service_bus && {
        end.is_some() || sections.properties_view(payload).get(PropertyField::MessageId).is_none()
    };
    let additions = changed.0.iter().any(|(name, _)| is_application_property(name));
    let fields = changes::fields(&changed);
    let application_properties = sections.application_properties.of(payload);
    let decimals = if service_bus { with_service_bus_decimals(application_properties) } else { None };
    let application_properties = decimals.as_deref().unwrap_or(application_properties);
    if !stamps && !additions && fields.is_empty() && decimals.is_none() {
        return sections.bare().range();
    }
    let properties = sections.properties.of(payload);
    if stamps {
        let lifetime = end.map(|end| (start, end));
        write_properties(out, properties, lifetime, &fields, sequence, recipient.id_base);
    } else {
        let own = PropertyChanges { others: &fields, ..PropertyChanges::default() };
        write_changed_properties(out, properties, &own);
    }
    if additions {
        write_application_properties(out, application_properties, &changed);
    } else {
        out.extend_from_slice(application_properties);
    }
    let rest = Sections { body: sections.body, footer: sections.footer, ..Sections::default() };
    rest.bare().range()
}

/// The 16 bytes of a delivery-tag: the token as .NET writes a GUID, the first three fields little-endian.
#[expect(clippy::cast_possible_truncation, reason = "each cast takes a field out of the token")]
pub(crate) const fn guid_order(token: LockToken) -> [u8; 16] {
    // Swap the bytes of the fields of 4, 2 and 2 bytes in the upper half; the lower half stays.
    let (high, low) = ((token.0 >> 64) as u64, token.0 as u64);
    let first = ((high >> 32) as u32).swap_bytes();
    let second = ((high >> 16) as u16).swap_bytes();
    let third = (high as u16).swap_bytes();
    let swapped = (first as u64) << 32 | (second as u64) << 16 | third as u64;
    ((swapped as u128) << 64 | low as u128).to_be_bytes()
}

/// The tag of a delivery without a lock.
pub(crate) fn plain_tag(sequence: SequenceNumber, count: u64) -> [u8; 16] {
    (u128::from(count) << 64 | u128::from(sequence.0)).to_be_bytes()
}

/// Whether the message ends when its sender has said, by the absolute expiry time alone: then both ends of its life stay as
/// the sender wrote them. A shorter life, by the default of its entity, is told as any other.
fn has_own_end(stored: &Stored, sections: &Sections, start: Timestamp) -> bool {
    let Some(expires) = stored.expires_at.map(millis) else { return false };
    let properties = sections.properties_view(&stored.payload);
    let time = |field| properties.get(field).and_then(RawValue::as_timestamp);
    let Some(end) = time(PropertyField::AbsoluteExpiryTime) else { return false };
    // Service Bus senders name both ends by their own clock, and what counts is the time between them.
    let created = time(PropertyField::CreationTime);
    end == expires || created.is_some_and(|created| end.saturating_sub(created) == expires - millis(start))
}

const LOCK_TOKEN: &str = "x-opt-lock-token";

/// `Stored::state` of a message in its order.
const ACTIVE: u8 = 0;

fn header(original: Header, stored: &Stored, start: Timestamp, keeps_end: bool, service_bus: bool) -> Header {
    let end = stored.expires_at.filter(|_| !keeps_end);
    let lifetime = end.map(|end| end.as_millis().saturating_sub(start.as_millis()));
    Header {
        durable: original.durable,
        priority: original.priority,
        // A lifetime that does not fit is told by absolute-expiry-time alone.
        ttl: lifetime.and_then(|millis| u32::try_from(millis).ok()),
        // Azure Service Bus passes on what the sender wrote.
        first_acquirer: if service_bus { original.first_acquirer } else { Some(!stored.acquired_before) },
        delivery_count: stored.delivery_count,
    }
}

/// The delivery annotations of a Service Bus client: its lock token, beside what the sender has written there, which
/// Azure Service Bus passes on. A delivery without a lock has an empty section, as there.
fn write_own_annotations(out: &mut BytesMut, original: &[u8], lock: Option<&Lock>, in_answer: bool) {
    let token = lock.map(|lock| lock.token.0.to_be_bytes());
    if original.is_empty() {
        match token {
            Some(token) => write_lock_token_annotations(out, token),
            None if in_answer => {}
            None => out.extend_from_slice(&EMPTY_DELIVERY_ANNOTATIONS),
        }
        return;
    }
    let ours = token.map(|token| (LOCK_TOKEN, AnnotationValue::Uuid(token)));
    let symbols = symbol_keys(Section::DeliveryAnnotations, original);
    let original = symbols.as_deref().unwrap_or(original);
    // A message that was received and sent on may bring the token of a lock that is long over.
    if write_delivery_annotations(out, Some(original), ours.as_slice(), &[LOCK_TOKEN]).is_err()
        && let Some(token) = token
    {
        // The sender's cannot be read; the broker's own go out all the same.
        write_lock_token_annotations(out, token);
    }
}

/// A delivery-annotations section that is an empty map (AMQP 1.0 messaging 3.2.2).
const EMPTY_DELIVERY_ANNOTATIONS: [u8; 6] =
    [code::DESCRIBED, code::SMALL_ULONG, Section::DeliveryAnnotations.code(), code::MAP_8, 1, 0];

const ENQUEUE_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
const MESSAGE_STATE: &str = "x-opt-message-state";
const LOCKED_UNTIL: &str = "x-opt-locked-until";

fn write_annotations(
    out: &mut BytesMut,
    original: &[u8],
    stored: &Stored,
    changed: &Properties,
    sequence: SequenceNumber,
    lock: Option<&Lock>,
    recipient: &Recipient,
) {
    let service_bus = recipient.dialect == Dialect::ServiceBus;
    let long = |number: u64| AnnotationValue::Long(i64::try_from(number).unwrap_or(i64::MAX));
    let number = long(sequence.0);
    let extras = stored.extras.as_deref();
    let first = extras.and_then(|extras| extras.enqueued_sequence).map(long);
    let source = extras.and_then(|extras| extras.dead_letter_source.as_deref()).filter(|_| service_bus);
    let enqueued = ("x-opt-enqueued-time", timestamp(stored.enqueued_at));
    let mut ours = [("x-opt-sequence-number", number), enqueued, enqueued, enqueued, enqueued];
    let mut count = 2;
    let mut add = |name, value| {
        if let Some(place) = ours.get_mut(count) {
            *place = (name, value);
            count += 1;
        }
    };
    if service_bus {
        // The cloud writes both where they say something, and wherever a client looks messages up.
        if let Some(first) = first.or_else(|| recipient.in_answer.then_some(number)) {
            add(ENQUEUE_SEQUENCE_NUMBER, first);
        }
        if recipient.in_answer || stored.state != ACTIVE {
            add(MESSAGE_STATE, AnnotationValue::Int(stored.state.into()));
        }
    }
    // A lock without a timer has no end to tell.
    if let Some(lock) = lock.filter(|lock| lock.until != Timestamp::MAX) {
        add(LOCKED_UNTIL, timestamp(lock.until));
    }
    let all = ours.get(..count).unwrap_or(&ours);
    // A message that was received and sent on may bring those of its former life.
    let stale: &[&str] =
        if service_bus { &[ENQUEUE_SEQUENCE_NUMBER, MESSAGE_STATE, LOCKED_UNTIL] } else { &[] };
    let original = Some(original).filter(|section| !section.is_empty());
    let partition = sequence.partition().filter(|_| service_bus);
    if source.is_some()
        || partition.is_some()
        || recipient.due.is_some()
        || changed.0.iter().any(|(name, _)| !is_application_property(name))
    {
        let modified = changed
            .0
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(ANNOTATION)?, changes::annotation(value)?)));
        let source = source.map(|source| ("x-opt-deadletter-source", AnnotationValue::Str(source)));
        let partition = partition.and_then(|id| i16::try_from(id).ok());
        let partition = partition.map(|id| ("x-opt-partition-id", AnnotationValue::Short(id)));
        let due = recipient.due.map(|due| (SCHEDULED_ENQUEUE_TIME, timestamp(due)));
        let ours = all.iter().copied().chain(source).chain(partition).chain(due);
        let merged: Vec<_> = modified.chain(changes::annotations(changed)).chain(ours).collect();
        // The stored annotations were checked when they came in.
        let _checked = message_annotations_changed(out, original, &merged, stale);
        return;
    }
    let _checked = message_annotations_changed(out, original, all, stale);
}

fn write_properties(
    out: &mut BytesMut,
    original: &[u8],
    lifetime: Option<(Timestamp, Timestamp)>,
    fields: &[(PropertyField, AnnotationValue<'_>)],
    sequence: SequenceNumber,
    id_base: u64,
) {
    let view = amqp_codec::sections::PropertiesView::new(original);
    let has_id = view.is_ok_and(|view| view.get(PropertyField::MessageId).is_some());
    let digits = hex(u128::from(id_base) << 64 | u128::from(sequence.0));
    let made = AnnotationValue::Str(std::str::from_utf8(&digits).unwrap_or_default());
    let changes = PropertyChanges {
        message_id: (!has_id).then_some(made),
        creation_time: lifetime.map(|(start, _)| millis(start)),
        absolute_expiry_time: lifetime.map(|(_, end)| millis(end)),
        others: fields,
    };
    write_changed_properties(out, original, &changes);
}

fn write_changed_properties(out: &mut BytesMut, original: &[u8], changes: &PropertyChanges<'_>) {
    if properties_with(out, Some(original), changes).is_err() {
        out.extend_from_slice(original);
    }
}

fn write_application_properties(out: &mut BytesMut, original: &[u8], additions: &Properties) {
    let ours = additions.0.iter().filter(|(name, _)| is_application_property(name));
    let mut latest: Vec<(&str, AnnotationValue<'_>)> = Vec::new();
    let mut removed: Vec<&str> = Vec::new();
    // The latest of several values for one name counts, so they are read from behind.
    let many = additions.0.len() > COMPARED_MAX;
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (name, value) in ours.rev() {
        let is_first = if many {
            seen.insert(name)
        } else {
            #[cfg(test)]
            tests::COMPARED.set(tests::COMPARED.get() + removed.len() + latest.len());
            !removed.contains(&&**name) && latest.iter().all(|(known, _)| *known != &**name)
        };
        if !is_first {
            continue;
        }
        match changes::annotation(value) {
            Some(value) => latest.push((name, value)),
            None => removed.push(name),
        }
    }
    latest.reverse();
    if application_properties_changed(out, Some(original), &latest, &removed).is_err() {
        out.extend_from_slice(original);
    }
}

/// Most names that are compared with one another; a set of them would take memory of its own for each delivery.
const COMPARED_MAX: usize = 8;

/// Neither an annotation nor a fixed field.
fn is_application_property(name: &str) -> bool {
    !name.starts_with([ANNOTATION, SYSTEM])
}

fn timestamp(at: Timestamp) -> AnnotationValue<'static> {
    AnnotationValue::Timestamp(millis(at))
}

fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
