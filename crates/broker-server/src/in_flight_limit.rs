//! In-flight limit: the bytes that all connections together may have waiting for the node, and who reads next where they wait for room.
//!
//! Namespaces share the last tenth. While no more than that is free, a namespace has room for what is free times its weight: one that comes last
//! finds room, however much the others have in flight. Messages that are not whole yet have bytes of their own, shared alike.
//!
//! Connections that wait for room are called one at a time: by each removal, and by each called connection once it may read. Namespaces are
//! called in turn, and the connections of each in the order in which they came.
//!
//! Invariant: while a connection waits for which there is room, another one is called and has not looked yet, or bytes are in flight
//! whose removal calls it.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::ingress_credit::IngressCredit;

/// Part of the bytes that is shared by namespaces: the last tenth.
const SHARED_PART: usize = 10;
/// Accounts that one removal looks at to find one that has room. Where all bytes are removed, the first one has it.
const LOOKS: usize = 16;

/// The bytes that all connections together may have in flight.
#[derive(Debug)]
pub(crate) struct InFlightLimit {
    limit: usize,
    bytes: AtomicUsize,
    /// Bytes of unfinished messages, which the node does not have and which keep no connection from reading.
    unfinished: AtomicUsize,
    /// Namespaces that have an account.
    namespaces: AtomicUsize,
    /// Accounts with connections that wait, each once, in the order in which they are called.
    waiting: Mutex<VecDeque<Arc<IngressCredit>>>,
    /// Length of `waiting`.
    listed: AtomicUsize,
}

impl InFlightLimit {
    /// Nothing is in flight; `limit` is in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            namespaces: AtomicUsize::new(0),
            waiting: Mutex::default(),
            listed: AtomicUsize::new(0),
        }
    }

    /// One namespace more has an account.
    pub(crate) fn add_namespace(&self) {
        self.namespaces.fetch_add(1, Ordering::Relaxed);
    }

    /// One namespace less has an account.
    pub(crate) fn remove_namespace(&self) {
        self.namespaces.fetch_sub(1, Ordering::Relaxed);
        self.call_one();
    }

    /// Whether no two namespaces have an account.
    #[inline]
    pub(crate) fn has_one_namespace(&self) -> bool {
        self.namespaces.load(Ordering::Relaxed) <= 1
    }

    /// Counts `bytes` handed to the node.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// The node has processed `bytes`. Afterwards, [`Self::call_one`] is due.
    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Bytes that a namespace of this weight, which has `own`, may add while `free` bytes are left; only whether there is one counts
    /// where what it adds is not known before.
    fn share(&self, own: usize, weight: usize, free: usize) -> usize {
        let unshared = free.saturating_sub(self.limit / SHARED_PART);
        if self.has_one_namespace() {
            return free;
        }
        // The largest `n` with `own + n <= weight * (free - n)`.
        let shared = free.saturating_mul(weight).saturating_sub(own) / weight.saturating_add(1);
        unshared.max(shared.min(free))
    }

    /// Whether an account of this weight, which has `own` bytes in flight, has room for more.
    pub(crate) fn has_room(&self, own: usize, weight: usize) -> bool {
        let free = self.limit.saturating_sub(self.bytes.load(Ordering::SeqCst));
        self.share(own, weight, free) > 0
    }

    /// Bytes of unfinished messages for which an account of this weight, which has `own`, has room.
    pub(crate) fn unfinished_left(&self, own: usize, weight: usize) -> usize {
        self.share(own, weight, self.limit.saturating_sub(self.unfinished.load(Ordering::Relaxed)))
    }

    /// A connection that had `before` bytes of unfinished messages has `after` bytes.
    pub(crate) fn count_unfinished(&self, before: usize, after: usize) {
        move_count(&self.unfinished, before, after);
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<IngressCredit>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether connections wait anywhere. Ask after a removal, or one that begins to wait can be missed.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.listed.load(Ordering::SeqCst) > 0
    }

    /// An account has connections that wait, and had none. The connections look for room once more afterwards.
    pub(crate) fn list(&self, account: &Arc<IngressCredit>) {
        self.waiting().push_back(Arc::clone(account));
        self.listed.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls the connection that is next, if one waits that has room.
    pub(crate) fn call_one(&self) {
        while self.is_waited_for() {
            let Some(account) = self.next_with_room() else { return };
            if account.call_first_of_unlisted() {
                return;
            }
        }
    }

    /// Takes the next account that has room out of the list.
    fn next_with_room(&self) -> Option<Arc<IngressCredit>> {
        let mut waiting = self.waiting();
        for _ in 0..waiting.len().min(LOOKS) {
            let account = waiting.pop_front()?;
            if account.has_room() {
                self.listed.fetch_sub(1, Ordering::SeqCst);
                return Some(account);
            }
            waiting.push_back(account);
        }
        None
    }
}

/// A part of `count` that was `before` is `after`.
pub(crate) fn move_count(count: &AtomicUsize, before: usize, after: usize) {
    if after >= before {
        count.fetch_add(after - before, Ordering::Relaxed);
    } else {
        count.fetch_sub(before - after, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
