//! Locks that are to end and wait for a call with room for them.
//!
//! Invariant: a lock in this queue is locked like any other until it is taken from the queue.

use std::collections::VecDeque;

use crate::LockRef;

/// Locks that no client will settle.
#[derive(Debug, Default)]
pub(crate) struct LockReleaseQueue {
    pub(crate) waiting: VecDeque<PendingRelease>,
}

/// A lock to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) lock: LockRef,
    /// It counts as a failed delivery.
    pub(crate) fail: bool,
}

impl LockReleaseQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A lock ends, as failed or not, as soon as there is room for it.
    pub(crate) fn push(&mut self, lock: LockRef, fail: bool) {
        self.waiting.push_back(PendingRelease { lock, fail });
    }
}
