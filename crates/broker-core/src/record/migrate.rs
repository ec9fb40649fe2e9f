//! Records of ferrybus 0.1.0, whose format is 1, in the present format.
//!
//! Invariant: the converted index says what the old one said; bytes that are no record of format 1 are an error.

use super::{
    Fact, HISTORY_IDS_MAX,
    head::{HEAD, Head},
    kind,
    reader::Reader,
};
use crate::{QueueId, RecordError};

/// The version of the records of 0.1.0.
const VERSION_0_1: u8 = 1;
/// Offset of the state and the flags of a message record. Format 1 had them in the second and third byte.
const MESSAGE_STATE: usize = 42;

/// The index of a record of ferrybus 0.1.0 as an index of the present format. What follows the index of a record has the
/// same bytes in both.
///
/// # Errors
/// [`RecordError`] when the bytes are no index of format 1.
pub fn convert_record_of_0_1(index: &[u8]) -> Result<Vec<u8>, RecordError> {
    let mut reader = Reader::new(index);
    let version = reader.u8("version")?;
    if version != VERSION_0_1 {
        return Err(RecordError::Version { version });
    }
    let kind = reader.u8("kind")?;
    // Two bytes whose meaning depends on the kind, in front of the number of the store.
    let own: [u8; 2] = reader.array("state")?;
    let [first, second] = own;
    let queue = QueueId(reader.u32("store")?);
    let mut record = Vec::with_capacity(index.len() + 4);
    record.extend_from_slice(&Head::encode(kind, queue));
    match kind {
        kind::DEFINITION | kind::REMOVED => record.extend_from_slice(&[first, second, 0, 0]),
        kind::MESSAGE | kind::COPY => {
            record.extend_from_slice(reader.bytes(MESSAGE_STATE - HEAD, "message")?);
            reader.u16("reserved")?;
            record.extend_from_slice(&own);
        }
        kind::CHANGED => {
            record.extend_from_slice(reader.bytes(12, "delivery_count")?);
            record.extend_from_slice(&[first, 0, 0, 0]);
        }
        kind::SESSION_STATE => {
            record.extend_from_slice(reader.bytes(10, "session length")?);
            reader.u16("reserved")?;
            record.extend_from_slice(&[first, 0]);
        }
        kind::HISTORY => convert_history(first, &mut reader, &mut record)?,
        kind::RULE => {
            record.extend_from_slice(reader.bytes(4, "number")?);
            record.extend_from_slice(&[first, 0, 0, 0]);
        }
        kind::DELETED => {}
        kind => return Err(RecordError::Kind { kind }),
    }
    record.extend_from_slice(reader.rest());
    // A record that the broker would refuse later is refused now, while the old journal is still in use.
    Fact::decode(&record)?;
    Ok(record)
}

/// Of form 0 the time and then a count of 32 bits; of form 1 nothing.
fn convert_history(form: u8, reader: &mut Reader<'_>, record: &mut Vec<u8>) -> Result<(), RecordError> {
    record.extend_from_slice(reader.bytes(8, "number")?);
    let seen = form == 0;
    let (at, count) = if seen { (reader.u64("at")?, reader.u32("id count")?) } else { (0, 0) };
    let short = u16::try_from(count).ok().filter(|count| usize::from(*count) <= HISTORY_IDS_MAX);
    let short = short.ok_or(RecordError::Value { field: "id count", value: u64::from(count) })?;
    record.extend_from_slice(&[form, 0]);
    record.extend_from_slice(&short.to_le_bytes());
    if seen {
        record.extend_from_slice(&at.to_le_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
