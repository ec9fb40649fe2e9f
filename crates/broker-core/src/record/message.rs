//! The record of a message.
//!
//! Invariant: the index alone is enough to rebuild the slot; the rest is read only to hand the message out.

use bytes::{Buf as _, Bytes};

use super::{
    SEQUENCE_END, VERSION, decode_properties, decode_state, encode_properties, head::Head, kind, put,
    reader::Reader,
};
use crate::{
    Properties, QueueId, RecordError, StoredExtras, Timestamp,
    store::slot::{Slot, State},
};

/// The sender asked for durability (`header.durable`).
pub(crate) const DURABLE: u8 = 1;
/// The message itself carried a time to live, so that Peek shows when it expires.
pub(crate) const OWN_TTL: u8 = 2;
/// It was handed out before the record was written.
pub(crate) const ACQUIRED: u8 = 4;

/// Bytes before the extensions.
const FIXED: usize = 44;
/// Tag and length of an extension.
const EXTENSION_HEAD: usize = 3;
/// An extension that is a 64-bit number.
const EXTENSION: usize = EXTENSION_HEAD + 8;
/// The extension that names a copy's body.
const BODY_EXTENSION: usize = EXTENSION_HEAD + 12;
/// Longest text in an extension; longer ones are refused before they come here.
const TEXT_BYTES_MAX: usize = 4_096;

mod tag {
    pub(super) const DUE: u8 = 1;
    pub(super) const OWN_TTL: u8 = 2;
    pub(super) const SESSION: u8 = 3;
    pub(super) const ENQUEUED_SEQUENCE: u8 = 4;
    pub(super) const HOPS: u8 = 5;
    pub(super) const DEAD_LETTER_SOURCE: u8 = 6;
    pub(super) const BODY: u8 = 32;
}

/// Reference of a copy to the body that all copies of a message share.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct BodyRef {
    /// The main store of the topic.
    pub(crate) topic: QueueId,
    /// The number that the message got there.
    pub(crate) sequence: u64,
}

/// The facts about a message that replay needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageIndex {
    pub(crate) queue: QueueId,
    pub(crate) sequence: u64,
    pub(crate) enqueued_at: Timestamp,
    /// [`Timestamp::MAX`]: never.
    pub(crate) expires_at: Timestamp,
    pub(crate) delivery_count: u32,
    pub(crate) state: State,
    /// [`DURABLE`], [`OWN_TTL`], [`ACQUIRED`].
    pub(crate) flags: u8,
    /// Bytes of broker-added properties between index and payload.
    pub(crate) properties_length: u32,
    /// When a scheduled message is due.
    pub(crate) due: Option<Timestamp>,
    /// Time to live of a scheduled message from its due time on, in milliseconds, if it has one.
    pub(crate) own_ttl: Option<u64>,
    /// Of a copy: where its sections lie.
    pub(crate) body: Option<BodyRef>,
    /// Properties that few messages have.
    pub(crate) extras: Option<Box<StoredExtras>>,
}

/// Bytes of an index with all extensions of a fixed length.
const SHORT: usize = FIXED + 2 * EXTENSION + BODY_EXTENSION;

/// An encoded index: on the stack, but for messages that have more.
pub(crate) enum IndexBytes {
    Short([u8; SHORT], usize),
    Long(Vec<u8>),
}

impl IndexBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short(bytes, length) => bytes.get(..*length).unwrap_or(bytes),
            Self::Long(bytes) => bytes,
        }
    }
}

impl MessageIndex {
    /// An active message that was never delivered, without flags, properties and extensions. Every message that is not
    /// read from a record begins with this one.
    #[inline]
    pub(crate) fn new(queue: QueueId, sequence: u64, enqueued_at: Timestamp, expires_at: Timestamp) -> Self {
        Self {
            queue,
            sequence,
            enqueued_at,
            expires_at,
            delivery_count: 0,
            state: State::Active,
            flags: 0,
            properties_length: 0,
            due: None,
            own_ttl: None,
            body: None,
            extras: None,
        }
    }

    /// The index of the same message as its slot is now.
    pub(crate) fn updated(&self, slot: &Slot) -> Self {
        Self { delivery_count: slot.delivery_count, state: slot.state, ..self.clone() }
    }

    /// The index of the same message in a dead-letter store, where nothing is due and no session exists: there a message
    /// only keeps the id that its sender gave it.
    pub(crate) fn dead_letter(&self, queue: QueueId, delivery_count: u32) -> Self {
        let mut extras = self.extras.clone();
        if let Some(extras) = &mut extras {
            extras.session = None;
        }
        let extras = extras.filter(|extras| **extras != StoredExtras::default());
        let state = State::Active;
        Self { queue, delivery_count, state, due: None, own_ttl: None, extras, ..self.clone() }
    }

    pub(crate) fn encode(&self) -> IndexBytes {
        let mut bytes = [0; SHORT];
        let kind = if self.body.is_some() { kind::COPY } else { kind::MESSAGE };
        put(&mut bytes, 0, &Head::encode(kind, self.queue));
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        put(&mut bytes, 16, &self.enqueued_at.as_millis().to_le_bytes());
        put(&mut bytes, 24, &self.expires_at.as_millis().to_le_bytes());
        put(&mut bytes, 32, &self.delivery_count.to_le_bytes());
        put(&mut bytes, 36, &self.properties_length.to_le_bytes());
        put(&mut bytes, 42, &[self.state as u8, self.flags]);
        let mut length = FIXED;
        for (tag, value) in [(tag::DUE, self.due.map(Timestamp::as_millis)), (tag::OWN_TTL, self.own_ttl)] {
            if let Some(value) = value {
                put(&mut bytes, length, &[tag, 8, 0]);
                put(&mut bytes, length + EXTENSION_HEAD, &value.to_le_bytes());
                length += EXTENSION;
            }
        }
        if let Some(body) = self.body {
            put(&mut bytes, length, &[tag::BODY, 12, 0]);
            put(&mut bytes, length + EXTENSION_HEAD, &body.topic.0.to_le_bytes());
            put(&mut bytes, length + EXTENSION_HEAD + 4, &body.sequence.to_le_bytes());
            length += BODY_EXTENSION;
        }
        let Some(extras) = &self.extras else {
            put(&mut bytes, 40, &extensions_length(length));
            return IndexBytes::Short(bytes, length);
        };
        let mut bytes = bytes.get(..length).unwrap_or(&bytes).to_vec();
        extras.encode(&mut bytes);
        let length = extensions_length(bytes.len());
        put(&mut bytes, 40, &length);
        IndexBytes::Long(bytes)
    }

    /// The head is read already.
    pub(super) fn decode(head: Head, reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let mut index = Self {
            state: State::Active,
            flags: 0,
            queue: head.queue,
            sequence: reader.u64("sequence")?,
            enqueued_at: Timestamp::from_millis(reader.u64("enqueued_at")?),
            expires_at: Timestamp::from_millis(reader.u64("expires_at")?),
            delivery_count: reader.u32("delivery_count")?,
            properties_length: reader.u32("properties length")?,
            due: None,
            own_ttl: None,
            body: None,
            extras: None,
        };
        if !(1..SEQUENCE_END).contains(&index.sequence) {
            return Err(RecordError::Value { field: "sequence", value: index.sequence });
        }
        let extensions = reader.u16("extensions length")?;
        index.state = decode_state(reader.u8("state")?)?;
        index.flags = reader.u8("flags")?;
        let mut extensions = Reader::new(reader.bytes(usize::from(extensions), "extensions")?);
        while !extensions.rest().is_empty() {
            let (tag, length) = (extensions.u8("extension tag")?, extensions.u16("extension length")?);
            let value = extensions.bytes(usize::from(length), "extension")?;
            index.take(tag, value)?;
        }
        index.check_body(head.kind)?;
        Ok(index)
    }

    /// A copy names a body in another store, and nothing else does.
    fn check_body(&self, kind: u8) -> Result<(), RecordError> {
        let fits = match self.body {
            None => kind == kind::MESSAGE,
            Some(body) => kind == kind::COPY && body.topic != self.queue && self.state != State::Body,
        };
        let topic = self.body.map_or(0, |body| u64::from(body.topic.0));
        if fits { Ok(()) } else { Err(RecordError::Value { field: "body", value: topic }) }
    }

    /// Takes in one extension.
    fn take(&mut self, tag: u8, value: &[u8]) -> Result<(), RecordError> {
        let mut reader = Reader::new(value);
        match tag {
            tag::DUE => self.due = Some(Timestamp::from_millis(reader.u64("due")?)),
            tag::OWN_TTL => self.own_ttl = Some(reader.u64("own ttl")?),
            tag::SESSION => self.extras().session = Some(reader.text(value.len(), "session")?.into()),
            tag::ENQUEUED_SEQUENCE => {
                self.extras().enqueued_sequence = Some(reader.u64("enqueued sequence")?);
            }
            tag::BODY => {
                let topic = QueueId(reader.u32("body")?);
                self.body = Some(BodyRef { topic, sequence: reader.u64("body")? });
            }
            tag::HOPS => self.extras().hops = reader.u8("hops")?,
            tag::DEAD_LETTER_SOURCE => {
                let source = reader.text(value.len(), "dead-letter source")?;
                self.extras().dead_letter_source = Some(source.into());
            }
            _ => return Err(RecordError::Value { field: "extension tag", value: u64::from(tag) }),
        }
        if reader.rest().is_empty() {
            Ok(())
        } else {
            Err(RecordError::Value { field: "extension length", value: value.len() as u64 })
        }
    }

    /// Extras of the message, created if there are none.
    pub(crate) fn extras(&mut self) -> &mut StoredExtras {
        self.extras.get_or_insert_default()
    }
}

impl StoredExtras {
    fn encode(&self, bytes: &mut Vec<u8>) {
        if let Some(session) = &self.session {
            extend(bytes, tag::SESSION, session.as_bytes());
        }
        if let Some(sequence) = self.enqueued_sequence {
            extend(bytes, tag::ENQUEUED_SEQUENCE, &sequence.to_le_bytes());
        }
        if self.hops != 0 {
            extend(bytes, tag::HOPS, &[self.hops]);
        }
        if let Some(source) = &self.dead_letter_source {
            extend(bytes, tag::DEAD_LETTER_SOURCE, source.as_bytes());
        }
    }
}

/// Appends one extension.
fn extend(bytes: &mut Vec<u8>, tag: u8, value: &[u8]) {
    debug_assert!(value.len() <= TEXT_BYTES_MAX, "texts are limited on arrival");
    let value = value.get(..TEXT_BYTES_MAX).unwrap_or(value);
    let length = u16::try_from(value.len()).unwrap_or_default();
    bytes.push(tag);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(value);
}

/// The extensions of an index of `length` bytes, as its length field says it.
fn extensions_length(length: usize) -> [u8; 2] {
    u16::try_from(length - FIXED).unwrap_or_default().to_le_bytes()
}

/// Record of most messages: active, with a body of its own, without properties of the broker and without extensions,
/// so that only the payload follows the index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Plain {
    pub(crate) queue: QueueId,
    pub(crate) sequence: u64,
    pub(crate) enqueued_at: Timestamp,
}

impl Plain {
    /// Length of the record in front of the payload, in bytes.
    pub(crate) const LENGTH: usize = FIXED;

    /// Reads such a record; `None` for any other, and for what is none: [`OpenRecord::open`] says what it is.
    #[inline]
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let fixed = record.first_chunk::<FIXED>()?;
        let is_plain = word(fixed, 0) & WITHOUT_NAMESPACE == PLAIN_HEAD
            && word(fixed, 36) == 0
            && word(fixed, 40) & WITHOUT_FLAGS == PLAIN_ENDING;
        let long = |at| u64::from(word(fixed, at)) | u64::from(word(fixed, at + 4)) << 32;
        is_plain.then(|| Self {
            queue: QueueId(word(fixed, 4)),
            sequence: long(8),
            enqueued_at: Timestamp::from_millis(long(16)),
        })
    }
}

/// Version and kind of a plain record.
const PLAIN_HEAD: u32 = u32::from_le_bytes([VERSION, kind::MESSAGE, 0, 0]);
/// All of that word but the namespace.
const WITHOUT_NAMESPACE: u32 = 0xffff;
/// Length of the extensions and state of a plain record.
const PLAIN_ENDING: u32 = u32::from_le_bytes([0, 0, State::Active as u8, 0]);
/// All of that word but the flags.
const WITHOUT_FLAGS: u32 = 0x00ff_ffff;

/// Four bytes of the fixed part.
fn word(fixed: &[u8; FIXED], at: usize) -> u32 {
    fixed.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A whole message record, read back.
#[derive(Clone, Debug)]
pub(crate) struct OpenRecord {
    pub(crate) index: MessageIndex,
    /// Bytes after the index: encoded properties and payload; of a copy, its own properties.
    pub(crate) rest: Bytes,
    /// Of a copy: the record that it shares with others.
    body: Option<Box<Self>>,
}

impl OpenRecord {
    pub(crate) fn open(mut record: Bytes) -> Result<Self, RecordError> {
        let mut reader = Reader::new(&record);
        let head = Head::decode(&mut reader)?;
        if !matches!(head.kind, kind::MESSAGE | kind::COPY) {
            return Err(RecordError::Kind { kind: head.kind });
        }
        let index = MessageIndex::decode(head, &mut reader)?;
        let rest = reader.rest().len();
        record.advance(record.len() - rest);
        if (index.properties_length as usize) > rest {
            return Err(RecordError::Short { field: "properties" });
        }
        Ok(Self { index, rest: record, body: None })
    }

    /// A copy with what it shares.
    pub(crate) fn with_body(self, body: Self) -> Self {
        Self { body: Some(Box::new(body)), ..self }
    }

    /// Of a copy, with the properties that the shared record brought: its own replace them.
    pub(crate) fn properties(&self) -> Result<Properties, RecordError> {
        let own = self.own_properties()?;
        match &self.body {
            Some(body) if body.index.properties_length != 0 => Ok(body.own_properties()?.merge(own)),
            _ => Ok(own),
        }
    }

    fn own_properties(&self) -> Result<Properties, RecordError> {
        if self.index.properties_length == 0 {
            return Ok(Properties::default());
        }
        decode_properties(&self.rest.slice(..self.index.properties_length as usize))
    }

    /// The number that the message got where it was first submitted, if that was elsewhere.
    pub(crate) fn enqueued_sequence(&self) -> Option<u64> {
        let own = self.index.extras.as_ref().and_then(|extras| extras.enqueued_sequence);
        let shared = || self.body.as_ref().and_then(|body| body.enqueued_sequence());
        own.or_else(shared).or_else(|| self.index.body.map(|body| body.sequence))
    }

    pub(crate) fn into_payload(mut self) -> Bytes {
        if let Some(body) = self.body {
            return body.into_payload();
        }
        self.rest.advance(self.index.properties_length as usize);
        self.rest
    }

    /// Length of the properties and all bytes after the index, of a record with a body of its own.
    pub(crate) fn whole(&self) -> (u32, Bytes) {
        if self.body.is_none() {
            return (self.index.properties_length, self.rest.clone());
        }
        // Records that were read have been decoded before.
        let mut whole = encode_properties(&self.properties().unwrap_or_default());
        let length = u32::try_from(whole.len()).expect("properties are limited to far less than 4 GiB");
        whole.extend_from_slice(&self.clone().into_payload());
        (length, whole.into())
    }

    /// Payload after the properties: empty for a copy.
    pub(crate) fn own_payload(&self) -> &[u8] {
        self.rest.get(self.index.properties_length as usize..).unwrap_or_default()
    }
}
