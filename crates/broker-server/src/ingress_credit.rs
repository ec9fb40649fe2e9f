//! Ingress credit: the bytes of commands that all connections together have waiting for the node.
//!
//! Invariant: at the limit no connection begins to read; connections that wait are woken when the bytes fall below it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use crate::effect_queue::EffectQueue;

/// The account of all connections.
#[derive(Debug)]
pub(crate) struct IngressCredit {
    limit: usize,
    bytes: AtomicUsize,
    /// Connections that wait for credit, each once.
    waiting: Mutex<Vec<Arc<EffectQueue>>>,
}

impl Default for IngressCredit {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl IngressCredit {
    /// Nothing is in flight; `limit` is in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, bytes: AtomicUsize::new(0), waiting: Mutex::default() }
    }

    /// Counts `bytes` handed to the node.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The node has processed `bytes`; wakes the connections that wait to read, if they may again.
    pub(crate) fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limit && before - bytes < self.limit {
            let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            for effect_queue in waiting {
                effect_queue.may_read_again();
            }
        }
    }

    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < self.limit
    }

    /// Has `effect_queue` woken when there is room again. Look once more afterwards: there may be by then.
    pub(crate) fn wait(&self, effect_queue: Arc<EffectQueue>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(effect_queue);
    }
}
