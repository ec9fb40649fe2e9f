//! Locks that are to end and wait for a call with room for them.
//!
//! Invariant: a lock in this queue is locked like any other until it is taken from the queue.

use std::collections::VecDeque;

use crate::{LockId, QueueId};

/// Locks that nobody will settle.
#[derive(Debug, Default)]
pub(crate) struct LockReleaseQueue {
    pub(crate) waiting: VecDeque<PendingRelease>,
}

/// A lock to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) queue: QueueId,
    pub(crate) sequence: u64,
    pub(crate) lock: LockId,
    /// It counts as a failed delivery.
    pub(crate) fail: bool,
}

impl LockReleaseQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A lock ends, as failed or not, as soon as there is room for it.
    pub(crate) fn push(&mut self, queue: QueueId, sequence: u64, lock: LockId, fail: bool) {
        self.waiting.push_back(PendingRelease { queue, sequence, lock, fail });
    }
}
