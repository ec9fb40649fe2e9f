//! Messages read back from the journal, to be handed out, shown or moved.
//!
//! Invariant: what is read is the message that the slot stands for, or an error.

use bytes::{Buf as _, Bytes};

use super::{Store, slot::Slot};
use crate::{
    Output, Properties, QueueId, StorageError, Stored,
    record::{OpenRecord, Plain},
};

/// Reads a message of a store back, a copy with its body from the topic's store `bodies`.
pub(crate) fn read_message(
    store: &Store,
    sequence: u64,
    slot: &Slot,
    bodies: Option<&Store>,
    out: &mut impl Output,
) -> Result<OpenRecord, StorageError> {
    let record = out.read(slot.position, slot.length)?;
    open_message(store, sequence, slot, record, bodies, out)
}

/// The same with the record at hand.
fn open_message(
    store: &Store,
    sequence: u64,
    slot: &Slot,
    record: Bytes,
    bodies: Option<&Store>,
    out: &mut impl Output,
) -> Result<OpenRecord, StorageError> {
    let record = open_record(store.id, sequence, slot, record)?;
    let Some(body) = record.index.body else { return Ok(record) };
    let lost = || StorageError { at: slot.position, reason: "the body of the copy is lost".into() };
    let bodies = bodies.filter(|bodies| bodies.id == body.topic).ok_or_else(lost)?;
    let shared = bodies.slots.get(body.sequence).ok_or_else(lost)?;
    let whole = out.read(shared.position, shared.length)?;
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
    out: &mut impl Output,
) -> Result<Stored, StorageError> {
    let mut record = out.read(slot.position, slot.length)?;
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
        _ => open_message(store, sequence, slot, record, bodies, out).and_then(|record| stored(slot, record)),
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
