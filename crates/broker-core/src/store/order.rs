//! The retrieval order of a store: which message is next.
//!
//! Invariant: a number that was put in is handed on exactly once, until it is put in again: by number, and where there
//! are partitions each partition by number, one partition after the other.

use std::collections::BTreeSet;

use super::{partition::PartitionId, slot::Slot, slots::Slots};

/// Which numbers are still to be handed out.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Nothing at or after this number was ever taken.
    cursor: u64,
    /// Numbers before `cursor` that are in the order.
    returned: BTreeSet<u64>,
    /// With partitions, the number at which the search begins. `cursor` is at the end then, because new numbers lie
    /// between old ones.
    turn: Option<u64>,
}

impl Order {
    /// The numbers have partitions. Call it before the first message is stored.
    pub(crate) fn set_partitions(&mut self) {
        self.turn.get_or_insert_default();
        self.cursor = u64::MAX;
    }

    /// A message that is ready is in the order, wherever its number lies.
    #[inline]
    pub(crate) fn put(&mut self, sequence: u64) {
        if sequence < self.cursor {
            self.returned.insert(sequence);
        }
    }

    /// A message that was ready is removed or hidden.
    #[inline]
    pub(crate) fn remove(&mut self, sequence: u64) {
        if sequence < self.cursor {
            self.returned.remove(&sequence);
            self.end_turn(sequence);
        }
    }

    /// The next message. It stays in the order until it is taken.
    pub(crate) fn next(&mut self, slots: &Slots<Slot>) -> Option<u64> {
        if let Some(turn) = self.turn {
            let next = self.returned.range(turn..).next().or_else(|| self.returned.first());
            return next.copied();
        }
        let first_new = loop {
            let Some(sequence) = slots.next(self.cursor) else { break None };
            self.cursor = sequence;
            if slots.get(sequence).is_some_and(Slot::is_ready) {
                break Some(sequence);
            }
            self.cursor = sequence + 1;
        };
        // Messages of a session are handed out in another order, and may be locked. They come back by `put`.
        while let Some(sequence) = self.returned.first()
            && !slots.get(*sequence).is_some_and(Slot::is_ready)
        {
            self.returned.pop_first();
        }
        match (self.returned.first().copied(), first_new) {
            (Some(returned), Some(first_new)) => Some(returned.min(first_new)),
            (returned, first_new) => returned.or(first_new),
        }
    }

    /// A message leaves the order and stays in the store.
    pub(crate) fn take(&mut self, sequence: u64) {
        if sequence < self.cursor {
            self.returned.remove(&sequence);
            self.end_turn(sequence);
        } else {
            self.cursor = sequence + 1;
        }
    }

    /// Everything that is ready is in the order.
    pub(crate) fn begin_anew(&mut self, slots: &Slots<Slot>) {
        self.returned = BTreeSet::new();
        if self.turn.is_some() {
            let ready = slots.iter().filter(|(_, slot)| slot.is_ready());
            self.returned.extend(ready.map(|(sequence, _)| sequence));
        } else {
            self.cursor = 0;
        }
    }

    /// After a message of one partition comes one of the next.
    fn end_turn(&mut self, sequence: u64) {
        if let Some(turn) = &mut self.turn {
            *turn = PartitionId::end_of(sequence);
        }
    }
}
