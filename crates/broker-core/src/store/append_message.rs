//! Records of messages, and the slots that stand for them.
//!
//! Invariant: a slot says what the record at its position says: times, state, deliveries and due time.

use super::slot::Slot;
use crate::{Output, Position, record::MessageIndex};

/// Appends the record of a message: its index, then `parts`. Returns the slot that stands for it.
#[inline]
pub(crate) fn append_message(index: &MessageIndex, parts: &[&[u8]], out: &mut impl Output) -> Slot {
    let (position, length) = out.record(index.encode().as_slice(), parts);
    slot_of(index, position, length)
}

/// The slot of a message whose record lies at `position`. Its session and its lock are up to the caller.
#[inline]
pub(crate) fn slot_of(index: &MessageIndex, position: Position, length: u32) -> Slot {
    let mut slot = Slot::new(position, length, index.enqueued_at, index.expires_at);
    slot.state = index.state;
    slot.delivery_count = index.delivery_count;
    slot.set_due(index.due);
    slot
}
