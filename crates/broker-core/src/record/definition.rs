//! The record of a queue's definition.
//!
//! Invariant: durations keep whole milliseconds, so that a recovered queue equals the one that was created.

use std::time::Duration;

use super::{Reader, RecordError, VERSION, kind};
use crate::{QueueId, QueueSettings};

/// The only kind of entity so far.
const QUEUE: u8 = 1;
const DEAD_LETTER_ON_EXPIRATION: u32 = 1;
/// Stands for `None` where a number would be.
const NONE: u64 = u64::MAX;

/// What exists under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    /// The store of its messages.
    pub(crate) queue: QueueId,
    /// The store of its dead letters.
    pub(crate) dead_letter: QueueId,
    /// As first written.
    pub(crate) name: Box<str>,
    pub(crate) settings: QueueSettings,
    /// The number that the next message gets.
    pub(crate) next_sequence: u64,
}

impl Definition {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let settings = &self.settings;
        let flags = if settings.dead_letter_on_expiration { DEAD_LETTER_ON_EXPIRATION } else { 0 };
        let mut record = Vec::with_capacity(64 + self.name.len());
        record.extend_from_slice(&[VERSION, kind::DEFINITION, QUEUE, 0]);
        record.extend_from_slice(&self.queue.0.to_le_bytes());
        record.extend_from_slice(&self.dead_letter.0.to_le_bytes());
        record.extend_from_slice(&self.next_sequence.to_le_bytes());
        record.extend_from_slice(&millis(settings.lock_duration).to_le_bytes());
        record.extend_from_slice(&settings.default_time_to_live.map_or(NONE, millis).to_le_bytes());
        record.extend_from_slice(&settings.max_message_bytes.unwrap_or(NONE).to_le_bytes());
        record.extend_from_slice(&settings.max_size_bytes.unwrap_or(NONE).to_le_bytes());
        record.extend_from_slice(&settings.max_delivery_count.to_le_bytes());
        record.extend_from_slice(&flags.to_le_bytes());
        let length = u16::try_from(self.name.len()).expect("names have at most 260 characters");
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(self.name.as_bytes());
        record
    }

    /// Version and kind are read already.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let entity = reader.u8("entity kind")?;
        if entity != QUEUE {
            return Err(RecordError::Value { field: "entity kind", value: u64::from(entity) });
        }
        reader.u8("reserved")?;
        let queue = QueueId(reader.u32("queue")?);
        let dead_letter = QueueId(reader.u32("dead_letter")?);
        if queue == dead_letter {
            return Err(RecordError::Value { field: "dead_letter", value: u64::from(dead_letter.0) });
        }
        let next_sequence = reader.u64("next_sequence")?;
        if matches!(next_sequence, 0 | NONE) {
            return Err(RecordError::Value { field: "next_sequence", value: next_sequence });
        }
        let lock_duration = Duration::from_millis(reader.u64("lock_duration")?);
        let default_time_to_live = optional(reader.u64("default_time_to_live")?).map(Duration::from_millis);
        let max_message_bytes = optional(reader.u64("max_message_bytes")?);
        let max_size_bytes = optional(reader.u64("max_size_bytes")?);
        let max_delivery_count = reader.u32("max_delivery_count")?;
        let flags = reader.u32("flags")?;
        if flags & !DEAD_LETTER_ON_EXPIRATION != 0 {
            return Err(RecordError::Value { field: "flags", value: u64::from(flags) });
        }
        let length = reader.u16("name length")?;
        let name = reader.text(usize::from(length), "name")?.into();
        let settings = QueueSettings {
            lock_duration,
            max_delivery_count,
            default_time_to_live,
            dead_letter_on_expiration: flags & DEAD_LETTER_ON_EXPIRATION != 0,
            max_message_bytes,
            max_size_bytes,
        };
        Ok(Self { queue, dead_letter, name, settings, next_sequence })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NONE)
}

fn optional(value: u64) -> Option<u64> {
    (value != NONE).then_some(value)
}
