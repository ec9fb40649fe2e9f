//! The records of the message ids that an entity has seen.
//!
//! Invariant: a record is no longer than any other that is all index, and a claimed count is checked before room is
//! made for it.

use super::{Fact, SEQUENCE_END, head::Head, kind, put, reader::Reader};
use crate::{QueueId, RecordError, Timestamp, store::history::Digest};

/// Most ids in one record: four kilobytes of digests.
pub(crate) const HISTORY_IDS_MAX: usize = 256;

/// Byte 16: the form of the record.
const SEEN: u8 = 0;
const FORGOTTEN: u8 = 1;
/// Bytes before the digests.
const FIXED: usize = 28;

/// Message ids that were seen together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HistoryRun {
    /// The entity's main store.
    pub(crate) queue: QueueId,
    /// Counts up within the entity.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) digests: Vec<Digest>,
}

/// A run of at most [`HISTORY_IDS_MAX`] ids.
pub(crate) fn encode_history<'a>(
    queue: QueueId,
    number: u64,
    at: Timestamp,
    digests: impl ExactSizeIterator<Item = &'a Digest>,
) -> Vec<u8> {
    let count = u16::try_from(digests.len()).expect("the caller keeps to HISTORY_IDS_MAX");
    let mut record = Vec::with_capacity(FIXED + digests.len() * Digest::BYTES);
    record.extend_from_slice(&Head::encode(kind::HISTORY, queue));
    record.extend_from_slice(&number.to_le_bytes());
    record.extend_from_slice(&[SEEN, 0]);
    record.extend_from_slice(&count.to_le_bytes());
    record.extend_from_slice(&at.as_millis().to_le_bytes());
    digests.for_each(|digest| record.extend_from_slice(&digest.0));
    record
}

/// Record that the runs before `kept_from` were dropped.
pub(crate) fn encode_forgotten(queue: QueueId, kept_from: u64) -> [u8; 20] {
    let mut record = [0; 20];
    put(&mut record, 0, &Head::encode(kind::HISTORY, queue));
    put(&mut record, 8, &kept_from.to_le_bytes());
    put(&mut record, 16, &[FORGOTTEN]);
    record
}

/// The head is read already.
pub(super) fn decode(queue: QueueId, reader: &mut Reader<'_>) -> Result<Fact, RecordError> {
    let number = reader.u64("number")?;
    if number >= SEQUENCE_END {
        return Err(RecordError::Value { field: "number", value: number });
    }
    let form = reader.u8("form")?;
    reader.u8("reserved")?;
    let count = reader.u16("id count")?;
    match form {
        SEEN => {
            let at = Timestamp::from_millis(reader.u64("at")?);
            if usize::from(count) > HISTORY_IDS_MAX {
                return Err(RecordError::Value { field: "id count", value: u64::from(count) });
            }
            let digest = |_| Ok(Digest(reader.array("id")?));
            let digests = (0..count).map(digest).collect::<Result<_, RecordError>>()?;
            Ok(Fact::History(HistoryRun { queue, number, at, digests }))
        }
        FORGOTTEN => Ok(Fact::Forgotten { queue, kept_from: number }),
        other => Err(RecordError::Value { field: "form", value: u64::from(other) }),
    }
}
