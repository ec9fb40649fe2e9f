//! Bodies that the copies of a topic's message share.
//!
//! Invariant: a body is there as long as a copy refers to it, and says how many do.

use super::Store;
use crate::{
    QueueId,
    record::BodyRef,
    slot::{Slot, State},
    slots::Slots,
};

/// References of the copies in a store to their bodies.
#[derive(Debug)]
pub(crate) struct BodyRefs {
    /// The main store of the topic.
    pub(crate) topic: QueueId,
    /// By the copy's number, the number of what it shares.
    pub(crate) bodies: Slots<u64>,
}

impl Store {
    /// Puts a copy in. All copies of a store are of one topic.
    pub(crate) fn insert_copy(&mut self, sequence: u64, slot: Slot, body: BodyRef) {
        self.insert(sequence, slot);
        self.refer(sequence, body);
    }

    /// Notes what a copy refers to.
    pub(crate) fn refer(&mut self, sequence: u64, body: BodyRef) {
        let new = || Box::new(BodyRefs { topic: body.topic, bodies: Slots::default() });
        self.body_refs.get_or_insert_with(new).bodies.insert(sequence, body.sequence);
    }

    /// Body of a copy; `None` for a message that is no copy.
    pub(crate) fn body_of(&self, sequence: u64) -> Option<BodyRef> {
        let body_refs = self.body_refs.as_ref()?;
        Some(BodyRef { topic: body_refs.topic, sequence: *body_refs.bodies.get(sequence)? })
    }

    /// Forgets what a copy refers to, and says it.
    pub(crate) fn forget_body(&mut self, sequence: u64) -> Option<BodyRef> {
        let body_refs = self.body_refs.as_mut()?;
        Some(BodyRef { topic: body_refs.topic, sequence: body_refs.bodies.remove(sequence)? })
    }

    /// One copy more, or one less, refers to a body; gives back one that no copy refers to any more.
    pub(crate) fn count_reference(&mut self, sequence: u64, more: bool) -> Option<Slot> {
        let slot = self.slots.get_mut(sequence)?;
        let references = slot.references();
        let now = if more { references.saturating_add(1) } else { references.saturating_sub(1) };
        slot.set_references(now);
        if slot.state == State::Body && now == 0 { self.remove(sequence).map(|(slot, _)| slot) } else { None }
    }
}
