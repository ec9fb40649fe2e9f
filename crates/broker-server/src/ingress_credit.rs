//! Ingress credit: the bytes of commands that the connections of one namespace together have waiting for the node.
//!
//! They count among those of all connections, too ([`InFlightLimit`]).
//!
//! Invariant: at either limit no connection begins to read; those that wait are called in the order in which they came.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    effect_queue::EffectQueue,
    in_flight_limit::{InFlightLimit, move_count},
};

/// An account of connections.
#[derive(Debug)]
pub(crate) struct IngressCredit {
    limit: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes of unfinished messages, which the node does not have and which keep no connection from reading.
    unfinished: AtomicUsize,
    /// Its weight among namespaces.
    weight: AtomicUsize,
    /// False: it is that of connections whose namespace is not known yet, which submit nothing.
    is_namespace: bool,
    all: Arc<InFlightLimit>,
    waiting: Mutex<Waiting>,
}

/// The connections that wait for room.
#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Arc<EffectQueue>>,
    /// The account is in the list of those with connections that wait.
    is_listed: bool,
}

/// End of the queue of connections that wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum QueueEnd {
    /// The connection was called, and others had taken the room by then.
    Front,
    Back,
}

impl Default for IngressCredit {
    fn default() -> Self {
        Self::without_namespace(Arc::new(InFlightLimit::new(usize::MAX)))
    }
}

impl IngressCredit {
    /// The account of a namespace of weight 1, without a limit of its own. Nothing is in flight.
    pub(crate) fn of_namespace(all: Arc<InFlightLimit>) -> Self {
        all.add_namespace();
        let mut account = Self::without_namespace(all);
        account.is_namespace = true;
        account
    }

    /// The account of connections whose namespace is not known.
    pub(crate) fn without_namespace(all: Arc<InFlightLimit>) -> Self {
        Self {
            limit: AtomicUsize::new(usize::MAX),
            bytes: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            weight: AtomicUsize::new(1),
            is_namespace: false,
            all,
            waiting: Mutex::default(),
        }
    }

    /// From now on the namespace may have `limit` bytes in flight, and has this weight among the others.
    pub(crate) fn set(&self, limit: usize, weight: u16) {
        self.limit.store(limit, Ordering::SeqCst);
        self.weight.store(weight.into(), Ordering::SeqCst);
        self.call();
    }

    /// Whether the broker has no other namespace.
    #[inline]
    pub(crate) fn is_of_only_namespace(&self) -> bool {
        self.all.has_one_namespace()
    }

    /// Bytes in flight.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts `bytes` handed to the node.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.all.add(bytes);
    }

    /// The node has processed `bytes`; calls connections that wait to read, if they may again.
    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.all.remove(bytes);
        self.call();
    }

    /// Calls the next connection of this account, or of any other one, if there is room for it.
    fn call(&self) {
        // Only its own removals make room below its own limit, so this account does not depend on its turn among the others.
        let called = self.all.is_waited_for() && self.has_room() && self.call_first();
        if !called {
            self.all.call_one();
        }
    }

    /// A connection that was called has looked: calls the next one of any account for which there is room.
    pub(crate) fn call_next(&self) {
        self.all.call_one();
    }

    /// Whether there is room for more, here and among all.
    pub(crate) fn has_room(&self) -> bool {
        let own = self.bytes.load(Ordering::SeqCst);
        own < self.limit.load(Ordering::SeqCst) && self.all.has_room(own, self.weight.load(Ordering::SeqCst))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `effect_queue` called when there is room again. Look once more afterwards: there may be by then.
    pub(crate) fn wait(self: &Arc<Self>, effect_queue: Arc<EffectQueue>, end: QueueEnd) {
        let mut waiting = self.waiting();
        match end {
            QueueEnd::Front => waiting.queue.push_front(effect_queue),
            QueueEnd::Back => waiting.queue.push_back(effect_queue),
        }
        if !std::mem::replace(&mut waiting.is_listed, true) {
            self.all.list(self);
        }
    }

    /// A connection waits no longer: it is gone.
    pub(crate) fn forget(&self, effect_queue: &EffectQueue) {
        self.waiting().queue.retain(|waits| !std::ptr::eq(&raw const **waits, effect_queue));
    }

    /// The account is not listed any more. Calls its first connection and lists it again if others wait behind; false: none waits.
    pub(crate) fn call_first_of_unlisted(self: &Arc<Self>) -> bool {
        let called = {
            let mut waiting = self.waiting();
            let called = waiting.queue.pop_front();
            waiting.is_listed = !waiting.queue.is_empty();
            if waiting.is_listed {
                self.all.list(self);
            }
            called
        };
        called.is_some_and(|effect_queue| effect_queue.call())
    }

    /// Calls its first connection; the account stays listed. False: none waits.
    fn call_first(&self) -> bool {
        let called = self.waiting().queue.pop_front();
        called.is_some_and(|effect_queue| effect_queue.call())
    }

    /// Bytes of unfinished messages for which there is room.
    pub(crate) fn unfinished_left(&self) -> usize {
        let own = self.unfinished.load(Ordering::Relaxed);
        self.all.unfinished_left(own, self.weight.load(Ordering::Relaxed))
    }

    /// A connection that had `before` bytes of unfinished messages has `after` bytes.
    pub(crate) fn count_unfinished(&self, before: usize, after: usize) {
        move_count(&self.unfinished, before, after);
        self.all.count_unfinished(before, after);
    }
}

impl Drop for IngressCredit {
    fn drop(&mut self) {
        if self.is_namespace {
            self.all.remove_namespace();
        }
    }
}

#[cfg(test)]
mod tests;
