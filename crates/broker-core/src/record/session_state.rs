//! The record of a session's state.
//!
//! Invariant: the boundary of index and state is known without reading the state.

use bytes::{Buf as _, Bytes};

use super::{head::Head, kind, reader::Reader};
use crate::{QueueId, RecordError, Timestamp, store::session_id::session_key};

/// Bytes before the id.
const FIXED: usize = 20;
/// The session has a state; else it has none any more.
const HAS_STATE: u8 = 1;

/// The facts about a session's state that replay needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionStateIndex {
    pub(crate) queue: QueueId,
    pub(crate) updated_at: Timestamp,
    pub(crate) has_state: bool,
    pub(crate) session: Box<str>,
}

impl SessionStateIndex {
    /// The head is read already.
    pub(super) fn decode(queue: QueueId, reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let updated_at = Timestamp::from_millis(reader.u64("updated_at")?);
        let length = reader.u16("session length")?;
        let flags = reader.u8("flags")?;
        if flags & !HAS_STATE != 0 {
            return Err(RecordError::Value { field: "flags", value: u64::from(flags) });
        }
        reader.u8("reserved")?;
        let session = reader.text(usize::from(length), "session")?.into();
        Ok(Self { queue, updated_at, has_state: flags & HAS_STATE != 0, session })
    }
}

/// The index of a `SessionState` record; the state follows it.
pub(crate) fn encode_session_state(
    queue: QueueId,
    session: &str,
    updated_at: Timestamp,
    has_state: bool,
) -> Vec<u8> {
    let length = u16::try_from(session.len()).expect("ids of sessions are limited on arrival");
    let mut record = Vec::with_capacity(FIXED + session.len());
    record.extend_from_slice(&Head::encode(kind::SESSION_STATE, queue));
    record.extend_from_slice(&updated_at.as_millis().to_le_bytes());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&[u8::from(has_state), 0]);
    record.extend_from_slice(session.as_bytes());
    record
}

/// Length of the record of a state of so many bytes.
pub(crate) const fn session_state_length(session: &str, bytes: u64) -> u64 {
    (FIXED + session.len()) as u64 + bytes
}

/// The state in a whole record, if it is one of this session, in any spelling.
pub(crate) fn session_state_of(mut record: Bytes, queue: QueueId, session: &str) -> Option<Bytes> {
    let mut reader = Reader::new(&record);
    let head = Head::decode(&mut reader).ok().filter(|head| head.kind == kind::SESSION_STATE)?;
    let index = SessionStateIndex::decode(head.queue, &mut reader).ok()?;
    let rest = reader.rest().len();
    record.advance(record.len() - rest);
    (index.queue == queue && session_key(&index.session) == session_key(session) && index.has_state)
        .then_some(record)
}
