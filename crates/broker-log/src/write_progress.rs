//! Progress of the journal's records on their way to the disk.
//!
//! ```text
//!   tail_known ≤ … ≤ synced ≤ durable ≤ committed
//! ```
//!
//! Invariant: no position goes back, and [`WriteProgress::durable`] never passes what the disk has confirmed.

use crate::writer::Outstanding;

/// Positions that writing has reached.
#[derive(Debug)]
pub(crate) struct WriteProgress {
    /// Position behind the last committed record.
    committed: u64,
    durable: u64,
    /// Confirmed by a sync: what batches claim.
    synced: u64,
    /// The disk knows that replay begins here.
    tail_known: u64,
    /// A caller waits for everything before this position.
    requested: u64,
    /// Writes since the start.
    writes: u64,
    /// Writes with a sync since the start.
    syncs: u64,
}

impl WriteProgress {
    /// Everything before `end` is durable, and the disk knows that replay begins at `tail`.
    pub(crate) fn new(end: u64, tail: u64) -> Self {
        Self {
            committed: end,
            durable: end,
            synced: end,
            tail_known: tail,
            requested: 0,
            writes: 0,
            syncs: 0,
        }
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    pub(crate) fn tail_known(&self) -> u64 {
        self.tail_known
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Everything before `end` is committed.
    pub(crate) fn commit(&mut self, end: u64) {
        self.committed = end;
    }

    /// Committed records count as durable at once: the journal lives in memory.
    pub(crate) fn confirm_committed(&mut self) {
        self.durable = self.committed;
    }

    /// A caller waits for everything before `up_to`.
    pub(crate) fn request(&mut self, up_to: u64) {
        self.requested = self.requested.max(up_to);
    }

    /// Whether a caller waits for something that is not durable.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested > self.durable
    }

    /// Bytes of committed records that are not durable.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        self.committed.saturating_sub(self.durable)
    }

    /// A write has succeeded. `by_sync`: records are durable by a sync only, so a sync confirms them.
    pub(crate) fn on_written(&mut self, write: Outstanding, by_sync: bool) {
        self.writes += 1;
        self.durable = write.end;
        if write.sync {
            self.syncs += 1;
            if by_sync {
                self.synced = write.end;
            }
            self.tail_known = self.tail_known.max(write.tail);
        }
    }
}

#[cfg(test)]
mod tests;
