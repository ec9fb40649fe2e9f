//! The record of a message.
//!
//! Invariant: the index alone is enough to rebuild the slot; the rest is read only to hand the message out.

use bytes::{Buf as _, Bytes};

use super::{Reader, RecordError, VERSION, decode_properties, decode_state, kind, put};
use crate::{Properties, QueueId, Timestamp, slot::State};

/// The sender asked for durability (`header.durable`).
pub(crate) const DURABLE: u8 = 1;
/// The message itself carried a time to live, so that Peek shows when it expires.
pub(crate) const OWN_TTL: u8 = 2;
/// It was handed out before the record was written.
pub(crate) const ACQUIRED: u8 = 4;

/// Bytes before the extensions.
const FIXED: usize = 44;
/// Tag, length and a 64-bit number.
const EXTENSION: usize = 10;
const TAG_DUE: u8 = 1;
const TAG_OWN_TTL: u8 = 2;

/// The facts about a message that replay needs.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// What a scheduled message has to live from then on, in milliseconds, if it says.
    pub(crate) own_ttl: Option<u64>,
}

/// An encoded index.
pub(crate) struct IndexBytes {
    bytes: [u8; FIXED + 2 * EXTENSION],
    length: usize,
}

impl IndexBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }
}

impl MessageIndex {
    pub(crate) fn encode(&self) -> IndexBytes {
        let mut bytes = [0; FIXED + 2 * EXTENSION];
        put(&mut bytes, 0, &[VERSION, kind::MESSAGE, self.state as u8, self.flags]);
        put(&mut bytes, 4, &self.queue.0.to_le_bytes());
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        put(&mut bytes, 16, &self.enqueued_at.as_millis().to_le_bytes());
        put(&mut bytes, 24, &self.expires_at.as_millis().to_le_bytes());
        put(&mut bytes, 32, &self.delivery_count.to_le_bytes());
        put(&mut bytes, 36, &self.properties_length.to_le_bytes());
        let mut length = FIXED;
        for (tag, value) in [(TAG_DUE, self.due.map(Timestamp::as_millis)), (TAG_OWN_TTL, self.own_ttl)] {
            if let Some(value) = value {
                put(&mut bytes, length, &[tag, 8]);
                put(&mut bytes, length + 2, &value.to_le_bytes());
                length += EXTENSION;
            }
        }
        let extensions = u16::try_from(length - FIXED).unwrap_or_default();
        put(&mut bytes, 40, &extensions.to_le_bytes());
        IndexBytes { bytes, length }
    }

    /// Version and kind are read already.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let mut index = Self {
            state: decode_state(reader.u8("state")?)?,
            flags: reader.u8("flags")?,
            queue: QueueId(reader.u32("queue")?),
            sequence: reader.u64("sequence")?,
            enqueued_at: Timestamp::from_millis(reader.u64("enqueued_at")?),
            expires_at: Timestamp::from_millis(reader.u64("expires_at")?),
            delivery_count: reader.u32("delivery_count")?,
            properties_length: reader.u32("properties length")?,
            due: None,
            own_ttl: None,
        };
        // Zero is no number, and the last one has no successor.
        if matches!(index.sequence, 0 | u64::MAX) {
            return Err(RecordError::Value { field: "sequence", value: index.sequence });
        }
        let extensions = reader.u16("extensions length")?;
        reader.u16("reserved")?;
        let mut extensions = Reader::new(reader.bytes(usize::from(extensions), "extensions")?);
        while !extensions.rest().is_empty() {
            let (tag, length) = (extensions.u8("extension tag")?, extensions.u8("extension length")?);
            if length != 8 {
                return Err(RecordError::Value { field: "extension length", value: u64::from(length) });
            }
            let value = extensions.u64("extension")?;
            match tag {
                TAG_DUE => index.due = Some(Timestamp::from_millis(value)),
                TAG_OWN_TTL => index.own_ttl = Some(value),
                _ => return Err(RecordError::Value { field: "extension tag", value: u64::from(tag) }),
            }
        }
        Ok(index)
    }
}

/// A whole message record, read back.
#[derive(Clone, Debug)]
pub(crate) struct OpenRecord {
    pub(crate) index: MessageIndex,
    /// Encoded properties and payload: what follows the index.
    pub(crate) rest: Bytes,
}

impl OpenRecord {
    pub(crate) fn open(mut record: Bytes) -> Result<Self, RecordError> {
        let mut reader = Reader::new(&record);
        let version = reader.u8("version")?;
        if version != VERSION {
            return Err(RecordError::Version { version });
        }
        let kind = reader.u8("kind")?;
        if kind != kind::MESSAGE {
            return Err(RecordError::Kind { kind });
        }
        let index = MessageIndex::decode(&mut reader)?;
        let rest = reader.rest().len();
        record.advance(record.len() - rest);
        if (index.properties_length as usize) > rest {
            return Err(RecordError::Short { field: "properties" });
        }
        Ok(Self { index, rest: record })
    }

    pub(crate) fn properties(&self) -> Result<Properties, RecordError> {
        if self.index.properties_length == 0 {
            return Ok(Properties::default());
        }
        decode_properties(&self.rest.slice(..self.index.properties_length as usize))
    }

    pub(crate) fn into_payload(mut self) -> Bytes {
        self.rest.advance(self.index.properties_length as usize);
        self.rest
    }

    /// Without the properties.
    pub(crate) fn payload(&self) -> &[u8] {
        self.rest.get(self.index.properties_length as usize..).unwrap_or_default()
    }
}
