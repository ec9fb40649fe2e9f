//! Records: facts as bytes, byte by byte in `docs/record-format.md`.
//!
//! Invariant: decoding what was encoded gives the same fact; decoding anything else gives an error, never a panic.

mod definition;
mod history;
mod message;
mod properties;
mod reader;
mod rule;
mod session_state;
mod value;

pub(crate) use definition::{Definition, Stores};
pub(crate) use history::{HISTORY_IDS_MAX, HistoryRun, encode_forgotten, encode_history};
pub(crate) use message::BodyRef;
pub(crate) use message::{ACQUIRED, DURABLE, MessageIndex, OWN_TTL, OpenRecord, Plain};
pub(crate) use properties::{decode_properties, encode_properties};
pub(crate) use rule::{RuleRecord, encode_rule, encode_rule_gone};
pub(crate) use session_state::{SessionStateIndex, encode_session_state, session_state_of};

use crate::{QueueId, store::slot::State};
use reader::Reader;

/// Version of the record format, the first byte of every record.
pub(crate) const VERSION: u8 = 1;

/// Numbers begin before this: so many never come to be, and on the wire they are signed.
pub(crate) const SEQUENCE_END: u64 = 1 << 63;

/// Bytes that are no record of this format.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("the record ends early, `{field}` is missing")]
    Short { field: &'static str },
    /// Written by a newer program, or no record.
    #[error("record format {version} is not known, this program reads format {VERSION}")]
    Version { version: u8 },
    /// Written by a newer program, or no record.
    #[error("record kind {kind} is not known")]
    Kind { kind: u8 },
    /// A number out of its range.
    #[error("`{field}` is {value}, which has no meaning")]
    Value { field: &'static str, value: u64 },
    /// A text that is none.
    #[error("`{field}` is not valid UTF-8")]
    Text { field: &'static str },
}

/// Kinds of record, the second byte.
pub(crate) mod kind {
    pub(crate) const DEFINITION: u8 = 1;
    pub(crate) const DELETED: u8 = 2;
    pub(crate) const MESSAGE: u8 = 3;
    pub(crate) const REMOVED: u8 = 4;
    pub(crate) const CHANGED: u8 = 5;
    pub(crate) const COPY: u8 = 6;
    pub(crate) const SESSION_STATE: u8 = 7;
    pub(crate) const HISTORY: u8 = 8;
    pub(crate) const RULE: u8 = 9;
}

/// One fact, read from a record's index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fact {
    /// An entity exists with these properties.
    Definition(Box<Definition>),
    /// An entity and its stores were deleted.
    Deleted(Stores),
    /// A message, or a copy of a topic's message, lies here.
    Message(MessageIndex),
    /// A subscription has this rule, or has it no more.
    Rule(Box<RuleRecord>),
    /// Messages were removed: runs of numbers.
    Removed { queue: QueueId, runs: Vec<(u64, u32)> },
    /// A session has another state, or none any more.
    SessionState(SessionStateIndex),
    /// A message has another count or state.
    Changed { queue: QueueId, sequence: u64, delivery_count: u32, state: State },
    /// Message ids were seen.
    History(HistoryRun),
    /// The runs of message ids before this number are forgotten.
    Forgotten { queue: QueueId, kept_from: u64 },
}

impl Fact {
    /// Reads the index of a record. Bytes after it are ignored, so the whole record will do as well.
    pub(crate) fn decode(index: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(index);
        let version = reader.u8("version")?;
        if version != VERSION {
            return Err(RecordError::Version { version });
        }
        match reader.u8("kind")? {
            kind::DEFINITION => Ok(Self::Definition(Box::new(Definition::decode(&mut reader)?))),
            kind::DELETED => {
                reader.u16("reserved")?;
                Ok(Self::Deleted(Stores::decode(&mut reader)?))
            }
            kind @ (kind::MESSAGE | kind::COPY) => {
                Ok(Self::Message(MessageIndex::decode(kind, &mut reader)?))
            }
            kind::RULE => Ok(Self::Rule(Box::new(RuleRecord::decode(&mut reader)?))),
            kind::REMOVED => decode_removed(&mut reader),
            kind::CHANGED => {
                let state = decode_state(reader.u8("state")?)?;
                reader.u8("reserved")?;
                Ok(Self::Changed {
                    queue: QueueId(reader.u32("queue")?),
                    sequence: reader.u64("sequence")?,
                    delivery_count: reader.u32("delivery_count")?,
                    state,
                })
            }
            kind::SESSION_STATE => Ok(Self::SessionState(SessionStateIndex::decode(&mut reader)?)),
            kind::HISTORY => history::decode(&mut reader),
            kind => Err(RecordError::Kind { kind }),
        }
    }
}

/// A `Deleted` record.
pub(crate) fn encode_deleted(stores: Stores) -> Vec<u8> {
    let mut record = vec![VERSION, kind::DELETED, 0, 0];
    stores.encode(&mut record);
    record
}

/// A `Changed` record.
pub(crate) fn encode_changed(queue: QueueId, sequence: u64, delivery_count: u32, state: State) -> [u8; 20] {
    let mut record = [0; 20];
    put(&mut record, 0, &[VERSION, kind::CHANGED, state as u8]);
    put(&mut record, 4, &queue.0.to_le_bytes());
    put(&mut record, 8, &sequence.to_le_bytes());
    put(&mut record, 16, &delivery_count.to_le_bytes());
    record
}

/// Most runs in one `Removed` record.
pub(crate) const REMOVED_RUNS_MAX: usize = 512;

/// Writes a `Removed` record of at most [`REMOVED_RUNS_MAX`] runs over `record`.
pub(crate) fn encode_removed(record: &mut Vec<u8>, queue: QueueId, runs: &[(u64, u32)]) {
    record.clear();
    let count = u16::try_from(runs.len()).expect("the caller keeps to REMOVED_RUNS_MAX");
    record.extend_from_slice(&[VERSION, kind::REMOVED]);
    record.extend_from_slice(&count.to_le_bytes());
    record.extend_from_slice(&queue.0.to_le_bytes());
    for (first, count) in runs {
        record.extend_from_slice(&first.to_le_bytes());
        record.extend_from_slice(&count.to_le_bytes());
    }
}

fn decode_removed(reader: &mut Reader<'_>) -> Result<Fact, RecordError> {
    let count = reader.u16("run count")?;
    if usize::from(count) > REMOVED_RUNS_MAX {
        return Err(RecordError::Value { field: "run count", value: u64::from(count) });
    }
    let queue = QueueId(reader.u32("queue")?);
    let mut runs = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        runs.push((reader.u64("first")?, reader.u32("count")?));
    }
    Ok(Fact::Removed { queue, runs })
}

fn decode_state(state: u8) -> Result<State, RecordError> {
    match state {
        0 => Ok(State::Active),
        1 => Ok(State::Deferred),
        2 => Ok(State::Scheduled),
        3 => Ok(State::Body),
        other => Err(RecordError::Value { field: "state", value: u64::from(other) }),
    }
}

/// Writes `bytes` at `at`; both ends are constants of the format.
#[inline]
fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = record.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
