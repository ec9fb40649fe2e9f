//! Messages read back from the journal, to be handed out, shown or moved.
//!
//! Invariant: what is read is the message that the slot stands for, or an error.

use bytes::{Buf as _, Bytes};

use super::{Store, slot::Slot};
use crate::{
    Output, Position, Properties, QueueId, Read, ReadId, StorageError, Stored,
    record::{OpenRecord, Plain},
};

/// Whether a read waits for the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DiskAccess {
    Wait,
    /// The message may be [`Unread::Pending`].
    Later,
}

/// Reason why a message is not at hand.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Unread {
    /// It is to be read again when this read of the disk is done.
    Pending(ReadId),
    /// It cannot be read.
    Damaged(StorageError),
}

impl From<StorageError> for Unread {
    fn from(error: StorageError) -> Self {
        Self::Damaged(error)
    }
}

/// Reads a message of a store back, a copy with its body from the topic's store `bodies`.
pub(crate) fn read_open(
    store: &Store,
    sequence: u64,
    slot: &Slot,
    bodies: Option<&Store>,
    disk: DiskAccess,
    out: &mut impl Output,
) -> Result<OpenRecord, Unread> {
    let record = read_own(store, sequence, slot, bodies, disk, out)?;
    open_message(store, sequence, slot, record, bodies, disk, out)
}

/// Reads the record of a message itself. Where that of a copy is not at hand, its body is asked for as well: both are needed.
#[inline]
fn read_own(
    store: &Store,
    sequence: u64,
    slot: &Slot,
    bodies: Option<&Store>,
    disk: DiskAccess,
    out: &mut impl Output,
) -> Result<Bytes, Unread> {
    let record = read_record((slot.position, slot.length), disk, out);
    if matches!(record, Err(Unread::Pending(_)))
        && let Some(body) = store.body_refs.get(sequence)
        && let Some(shared) = bodies.and_then(|bodies| bodies.slots.get(body.sequence))
    {
        // It is read again, whatever comes of this.
        drop(out.read_soon(shared.position, shared.length));
    }
    record
}

/// Asks for a record. Says which read has to be done before it is at hand. One that the same call has appended is in memory.
pub(crate) fn ask_for_record((at, length): (Position, u32), out: &mut impl Output) -> Option<ReadId> {
    if at >= out.readable() {
        return None;
    }
    match out.read_soon(at, length) {
        Ok(Read::Pending(read)) => Some(read),
        Ok(Read::Record(_)) | Err(_) => None,
    }
}

#[inline]
fn read_record(
    (at, length): (Position, u32),
    disk: DiskAccess,
    out: &mut impl Output,
) -> Result<Bytes, Unread> {
    match disk {
        DiskAccess::Wait => Ok(out.read(at, length)?),
        DiskAccess::Later => match out.read_soon(at, length)? {
            Read::Record(record) => Ok(record),
            Read::Pending(read) => Err(Unread::Pending(read)),
        },
    }
}

/// The same with the record at hand.
fn open_message(
    store: &Store,
    sequence: u64,
    slot: &Slot,
    record: Bytes,
    bodies: Option<&Store>,
    disk: DiskAccess,
    out: &mut impl Output,
) -> Result<OpenRecord, Unread> {
    let record = open_record(store.id, sequence, slot, record)?;
    let Some(body) = record.index.body else { return Ok(record) };
    let lost = || StorageError { at: slot.position, reason: "the body of the copy is lost".into() };
    let bodies = bodies.filter(|bodies| bodies.id == body.topic).ok_or_else(lost)?;
    let shared = bodies.slots.get(body.sequence).ok_or_else(lost)?;
    let whole = read_record((shared.position, shared.length), disk, out)?;
    Ok(record.with_body(open_record(body.topic, body.sequence, shared, whole)?))
}

/// The same as a client sees it. Most messages are plain, and made in one step: what is handed on from function to
/// function is copied each time, and what was just written in small pieces is slow to be copied in large ones.
#[inline]
pub(crate) fn read_stored(
    store: &Store,
    sequence: u64,
    slot: &Slot,
    bodies: Option<&Store>,
    disk: DiskAccess,
    out: &mut impl Output,
) -> Result<Stored, Unread> {
    let mut record = read_own(store, sequence, slot, bodies, disk, out)?;
    match Plain::read(&record) {
        Some(plain) if plain.sequence == sequence && plain.queue == store.id => {
            record.advance(Plain::LENGTH);
            Ok(Stored {
                enqueued_at: plain.enqueued_at,
                expires_at: slot.expires(),
                delivery_count: slot.delivery_count,
                state: slot.state as u8,
                acquired_before: slot.is_acquired(),
                properties: Properties::default(),
                extras: None,
                payload: record,
            })
        }
        _ => Ok(stored(slot, open_message(store, sequence, slot, record, bodies, disk, out)?)?),
    }
}

/// Makes sure that a record is the one that should lie there.
fn open_record(
    queue: QueueId,
    sequence: u64,
    slot: &Slot,
    record: Bytes,
) -> Result<OpenRecord, StorageError> {
    let at = slot.position;
    let record =
        OpenRecord::open(record).map_err(|error| StorageError { at, reason: error.to_string().into() })?;
    if record.index.sequence != sequence || record.index.queue != queue {
        return Err(StorageError { at, reason: "another message lies there".into() });
    }
    Ok(record)
}

/// A message as a client sees it.
pub(crate) fn stored(slot: &Slot, mut record: OpenRecord) -> Result<Stored, StorageError> {
    let broken =
        |error: crate::RecordError| StorageError { at: slot.position, reason: error.to_string().into() };
    let properties = record.properties().map_err(broken)?;
    if record.index.body.is_some() {
        let sequence = record.enqueued_sequence();
        record.index.extras().enqueued_sequence = sequence;
    }
    Ok(Stored {
        enqueued_at: record.index.enqueued_at,
        expires_at: slot.expires(),
        delivery_count: slot.delivery_count,
        state: slot.state as u8,
        acquired_before: slot.is_acquired(),
        properties,
        extras: record.index.extras.take(),
        payload: record.into_payload(),
    })
}

impl Stored {
    /// The same message with what its slot says now.
    pub(crate) fn with_state_of(self, slot: &Slot) -> Self {
        Self {
            expires_at: slot.expires(),
            delivery_count: slot.delivery_count,
            state: slot.state as u8,
            acquired_before: slot.is_acquired(),
            ..self
        }
    }

    /// The same message without the memory that its bytes share with others.
    pub(crate) fn detached(self) -> Self {
        Self { payload: Bytes::copy_from_slice(&self.payload), ..self }
    }
}
