//! Records: facts as bytes, byte by byte in `docs/record-format.md`.
//!
//! Invariant: decoding what was encoded gives the same fact; decoding anything else gives an error, never a panic.

mod definition;
mod head;
mod history;
mod message;
mod migrate;
mod namespace;
mod properties;
mod reader;
mod rule;
mod session_state;
mod value;

pub(crate) use definition::{Definition, Stores};
pub use head::RecordOwner;
pub(crate) use history::{HISTORY_IDS_MAX, HistoryRun, encode_forgotten, encode_history};
pub(crate) use message::BodyRef;
pub(crate) use message::{ACQUIRED, DURABLE, MessageIndex, OWN_TTL, OpenRecord, Plain};
pub use migrate::convert_record_of_0_1;
pub use namespace::NamespaceRecord;
pub(crate) use properties::{decode_properties, encode_properties};
pub(crate) use rule::{RuleRecord, encode_rule, encode_rule_gone};
pub(crate) use session_state::{
    SessionStateIndex, encode_session_state, session_state_length, session_state_of,
};

use crate::{QueueId, store::slot::State};
use head::Head;
use reader::Reader;

/// Version of the record format, the first byte of every record.
pub(crate) const VERSION: u8 = 2;

/// Numbers begin before this: so many never come to be, and on the wire they are signed.
pub(crate) const SEQUENCE_END: u64 = 1 << 63;

/// Bytes that are no record of this format.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("the record ends early, `{field}` is missing")]
    Short { field: &'static str },
    /// Written by a newer program, or no record.
    #[error("{} record format {version} is not known to this one, which reads format {VERSION}", writer_of(*version))]
    Version { version: u8 },
    /// Written by a newer program. Kinds up to 31 are the broker's, 32 to 63 those of a cluster's state.
    #[error("it was written by a newer version of ferrybus: record kind {kind} is not known to this one")]
    Kind { kind: u8 },
    /// A number out of its range.
    #[error("`{field}` is {value}, which has no meaning")]
    Value { field: &'static str, value: u64 },
    /// A text that is none.
    #[error("`{field}` is not valid UTF-8")]
    Text { field: &'static str },
}

/// The program that writes this version of the format.
const fn writer_of(version: u8) -> &'static str {
    if version > VERSION {
        "it was written by a newer version of ferrybus:"
    } else {
        "it is no record of this journal's format:"
    }
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
    pub(crate) const NAMESPACE: u8 = 10;
    pub(crate) const LAST: u8 = NAMESPACE;
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
        let Head { kind, queue } = Head::decode(&mut reader)?;
        match kind {
            kind::DEFINITION => Ok(Self::Definition(Box::new(Definition::decode(queue, &mut reader)?))),
            kind::DELETED => Ok(Self::Deleted(Stores::decode(queue, &mut reader)?)),
            kind::MESSAGE | kind::COPY => {
                Ok(Self::Message(MessageIndex::decode(Head { kind, queue }, &mut reader)?))
            }
            kind::RULE => Ok(Self::Rule(Box::new(RuleRecord::decode(queue, &mut reader)?))),
            kind::REMOVED => decode_removed(queue, &mut reader),
            kind::CHANGED => {
                let (sequence, delivery_count) = (reader.u64("sequence")?, reader.u32("delivery_count")?);
                let state = decode_state(reader.u8("state")?)?;
                reader.array::<3>("reserved")?;
                Ok(Self::Changed { queue, sequence, delivery_count, state })
            }
            kind::SESSION_STATE => Ok(Self::SessionState(SessionStateIndex::decode(queue, &mut reader)?)),
            kind::HISTORY => history::decode(queue, &mut reader),
            kind => Err(RecordError::Kind { kind }),
        }
    }
}

/// A `Deleted` record.
pub(crate) fn encode_deleted(stores: Stores) -> Vec<u8> {
    let mut record = Head::encode(kind::DELETED, stores.queue).to_vec();
    stores.encode_others(&mut record);
    record
}

/// A `Changed` record.
pub(crate) fn encode_changed(queue: QueueId, sequence: u64, delivery_count: u32, state: State) -> [u8; 24] {
    let mut record = [0; 24];
    put(&mut record, 0, &Head::encode(kind::CHANGED, queue));
    put(&mut record, 8, &sequence.to_le_bytes());
    put(&mut record, 16, &delivery_count.to_le_bytes());
    put(&mut record, 20, &[state as u8]);
    record
}

/// Most runs in one `Removed` record.
pub(crate) const REMOVED_RUNS_MAX: usize = 512;

/// Writes a `Removed` record of at most [`REMOVED_RUNS_MAX`] runs over `record`.
pub(crate) fn encode_removed(record: &mut Vec<u8>, queue: QueueId, runs: &[(u64, u32)]) {
    record.clear();
    let count = u16::try_from(runs.len()).expect("the caller keeps to REMOVED_RUNS_MAX");
    record.extend_from_slice(&Head::encode(kind::REMOVED, queue));
    record.extend_from_slice(&count.to_le_bytes());
    record.extend_from_slice(&[0, 0]);
    for (first, count) in runs {
        record.extend_from_slice(&first.to_le_bytes());
        record.extend_from_slice(&count.to_le_bytes());
    }
}

fn decode_removed(queue: QueueId, reader: &mut Reader<'_>) -> Result<Fact, RecordError> {
    let count = reader.u16("run count")?;
    if usize::from(count) > REMOVED_RUNS_MAX {
        return Err(RecordError::Value { field: "run count", value: u64::from(count) });
    }
    reader.u16("reserved")?;
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
