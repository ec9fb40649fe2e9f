//! What all connections together have waiting with the node.
//!
//! Invariant: while that is not less than the limit nobody begins to read; who waits to read is woken when it is.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use crate::mailbox::Mailbox;

/// The account of all connections.
#[derive(Debug)]
pub(crate) struct InFlight {
    limit: usize,
    bytes: AtomicUsize,
    /// Who could read if others had less in flight. Each is in it once.
    waiting: Mutex<Vec<Arc<Mailbox>>>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl InFlight {
    /// Nothing is in flight; `limit` is in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, bytes: AtomicUsize::new(0), waiting: Mutex::default() }
    }

    /// Counts `bytes` handed to the node.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The node has dealt with `bytes`; wakes those who wait to read, if they may again.
    pub(crate) fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limit && before - bytes < self.limit {
            let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            for mailbox in waiting {
                mailbox.may_read_again();
            }
        }
    }

    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < self.limit
    }

    /// Has `mailbox` woken when there is room again. Look once more afterwards: there may be by then.
    pub(crate) fn wait(&self, mailbox: Arc<Mailbox>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(mailbox);
    }
}
