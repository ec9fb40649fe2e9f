//! Ingress credit: the bytes of commands that several connections together have waiting for the node.
//!
//! There is an account of each namespace, which counts in the account of all connections.
//!
//! Invariant: at the limit no connection begins to read; connections that wait are woken when the bytes fall below it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use crate::effect_queue::EffectQueue;

/// An account of connections.
#[derive(Debug)]
pub(crate) struct IngressCredit {
    limit: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes of unfinished messages, which the node does not have and which keep no connection from reading.
    unfinished: AtomicUsize,
    /// The account in which this one counts too.
    above: Option<Arc<Self>>,
    /// Connections that wait for credit here, each once.
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
        Self {
            limit: AtomicUsize::new(limit),
            bytes: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            above: None,
            waiting: Mutex::default(),
        }
    }

    /// An account that counts in `above` too.
    pub(crate) fn below(above: Arc<Self>, limit: usize) -> Self {
        Self { above: Some(above), ..Self::new(limit) }
    }

    /// From now on `limit` bytes may be in flight.
    pub(crate) fn set_limit(&self, limit: usize) {
        if self.limit.swap(limit, Ordering::Relaxed) < limit {
            self.wake();
        }
    }

    /// Bytes in flight.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts `bytes` handed to the node.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(above) = &self.above {
            above.add(bytes);
        }
    }

    /// Bytes for unfinished messages that are left.
    pub(crate) fn unfinished_left(&self) -> usize {
        self.limit.load(Ordering::Relaxed).saturating_sub(self.unfinished.load(Ordering::Relaxed))
    }

    /// A connection that had `before` bytes of unfinished messages has `after` bytes.
    pub(crate) fn count_unfinished(&self, before: usize, after: usize) {
        if after >= before {
            self.unfinished.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.unfinished.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// The node has processed `bytes`; wakes the connections that wait to read, if they may again.
    pub(crate) fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(above) = &self.above {
            above.remove(bytes);
        }
        let limit = self.limit.load(Ordering::Relaxed);
        if before >= limit && before - bytes < limit {
            self.wake();
        }
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for effect_queue in waiting {
            effect_queue.may_read_again();
        }
    }

    fn has_own_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed)
    }

    /// Whether there is room for more, here and above.
    pub(crate) fn has_room(&self) -> bool {
        self.has_own_room() && self.above.as_ref().is_none_or(|above| above.has_room())
    }

    /// Has `effect_queue` woken when there is room again. Look once more afterwards: there may be by then.
    pub(crate) fn wait(&self, effect_queue: Arc<EffectQueue>) {
        match &self.above {
            Some(above) if self.has_own_room() => above.wait(effect_queue),
            _ => self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(effect_queue),
        }
    }
}

#[cfg(test)]
mod tests;
