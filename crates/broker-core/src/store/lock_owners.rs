//! Owners of locks, for consumers that close one after the other.
//!
//! No list is kept in normal operation. The first consumer that closes with locks makes it, of all locks of the store
//! in one walk, and those that close after it find their locks in it. A lock that is granted meanwhile is added. Once
//! as many were added as the walk visited, the list is dropped: the granted locks pay for the next walk, so the cost of
//! a close is in proportion to its locks.
//!
//! Invariant: while there is a list, each locked slot is in it under its holder. It may name others too, so the slot
//! decides.

use std::collections::BTreeMap;

use super::{
    slot::{ConsumerNumber, Slot},
    slots::Slots,
    timers::Timers,
};

/// Locks that are added at least before a list is dropped.
const NOTED_MIN: usize = 64;

/// The list, while there is one.
#[derive(Debug, Default)]
pub(super) struct LockOwners(Option<Box<Owners>>);

/// Numbers of messages by the consumer that has locked them.
#[derive(Debug)]
struct Owners {
    by: BTreeMap<ConsumerNumber, Vec<u64>>,
    /// Number of locks that may still be added.
    left: usize,
}

impl LockOwners {
    /// Notes a lock that was granted.
    pub(super) fn note(&mut self, holder: ConsumerNumber, sequence: u64) {
        let Some(owners) = &mut self.0 else { return };
        let Some(left) = owners.left.checked_sub(1) else {
            self.0 = None;
            return;
        };
        owners.left = left;
        owners.by.entry(holder).or_default().push(sequence);
    }

    /// Makes the list, if there is none, from all locks of the store; returns how many slots the walk visited.
    pub(super) fn list(&mut self, timers: &Timers, slots: &Slots<Slot>) -> usize {
        if self.0.is_some() {
            return 0;
        }
        let mut by: BTreeMap<ConsumerNumber, Vec<u64>> = BTreeMap::new();
        let mut visited = 0;
        for run in timers.lock_runs() {
            let mut from = run.first;
            while let Some(sequence) = slots.next_before(from, run.sequences().end) {
                if let Some(slot) = slots.get(sequence).filter(|slot| slot.is_locked()) {
                    by.entry(slot.holder()).or_default().push(sequence);
                }
                from = sequence + 1;
                visited += 1;
            }
        }
        self.0 = Some(Box::new(Owners { by, left: visited + NOTED_MIN }));
        visited
    }

    /// Numbers that a closed consumer may have locked.
    pub(super) fn take(&mut self, holder: ConsumerNumber) -> Vec<u64> {
        self.0.as_mut().and_then(|owners| owners.by.remove(&holder)).unwrap_or_default()
    }

    /// Drops a list that names nothing.
    pub(super) fn drop_empty(&mut self) {
        self.0 = self.0.take().filter(|owners| !owners.by.is_empty());
    }
}
