//! Owners of locks, for consumers that close one after the other.
//!
//! No list is kept while messages come and go. The first consumer that leaves locks behind has it made, of all locks of the
//! store in one walk, and those that leave after it find theirs in it. A lock that is granted meanwhile is noted. Once as many
//! were noted as the walk met, the list is given up: so the locks that were granted pay for the next walk, and a
//! departure costs what it leaves.
//!
//! Invariant: while there is a list, each locked slot is in it under its holder. It may name others too: whoever reads it
//! looks at the slot.

use std::collections::BTreeMap;

use crate::slot::ConsumerNumber;

/// Locks that are noted at least before a list is given up.
const NOTED_MIN: usize = 64;

/// Numbers of messages by the consumer that has locked them.
#[derive(Debug)]
pub(crate) struct LockOwners {
    by: BTreeMap<ConsumerNumber, Vec<u64>>,
    /// Number of locks that may still be added.
    left: usize,
}

impl LockOwners {
    /// A list of `locks`, found in a walk over so many slots.
    pub(crate) fn of(locks: impl Iterator<Item = (ConsumerNumber, u64)>, walk: usize) -> Self {
        let mut by: BTreeMap<ConsumerNumber, Vec<u64>> = BTreeMap::new();
        for (holder, sequence) in locks {
            by.entry(holder).or_default().push(sequence);
        }
        Self { by, left: walk + NOTED_MIN }
    }

    /// Notes a lock that was granted; false when the list is to be given up instead.
    pub(crate) fn note(&mut self, holder: ConsumerNumber, sequence: u64) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        self.by.entry(holder).or_default().push(sequence);
        true
    }

    /// Numbers that a closed consumer may have locked.
    pub(crate) fn take(&mut self, holder: ConsumerNumber) -> Vec<u64> {
        self.by.remove(&holder).unwrap_or_default()
    }

    /// Whether it names nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }
}
