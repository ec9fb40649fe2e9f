//! Effect queue of a connection task, with its control messages.
//!
//! Invariant: a connection that has [`IN_FLIGHT_MAX`] bytes of commands with the node does not read on, and none does
//! while those of its namespace or all together have as much as they may: what waits in the executor is bounded by that and one read
//! of each thread.

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use amqp_gateway::{About, CloseReason};
use broker_core::Effect;
use tokio::sync::oneshot;

use crate::{
    ingress_credit::{IngressCredit, QueueEnd},
    queue_place::{Left, QueuePlace},
};

/// Bytes of commands one connection may have waiting with the node.
pub(crate) const IN_FLIGHT_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
struct State {
    effects: Vec<Effect>,
    control_messages: Vec<ControlMessage>,
    waker: Option<Waker>,
}

/// Control message for a connection.
#[derive(Debug)]
pub(crate) enum ControlMessage {
    /// Say what it is.
    Report(oneshot::Sender<Report>),
    /// Look whether its links are still permitted: keys of entities have changed.
    LookAtKeys,
    /// The namespace takes no connections any more.
    LeaveNamespace(CloseReason),
    End,
}

/// Properties and counters of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) about: About,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Effects on their way to one connection, and the account of its commands on their way to the node.
#[derive(Debug, Default)]
pub(crate) struct EffectQueue {
    state: Mutex<State>,
    ingress_credit: AtomicUsize,
    /// The account that it counts in at first.
    first: Arc<IngressCredit>,
    /// The account of its namespace, once that is known. Before, a connection submits nothing.
    placed: OnceLock<Arc<IngressCredit>>,
    /// Among those that are called when there is room again.
    place: QueuePlace,
    has_errands: AtomicBool,
    /// The node that brought effects here has ended.
    abandoned: AtomicBool,
}

impl EffectQueue {
    /// Empty; what its connection has in flight counts in `account` too.
    pub(crate) fn new(account: Arc<IngressCredit>) -> Self {
        let mut queue = Self::default();
        queue.first = account;
        queue
    }

    /// The namespace of the connection is known, and has this account. Only the first call counts.
    pub(crate) fn count_in(&self, account: Arc<IngressCredit>) {
        self.placed.set(account).ok();
    }

    fn account(&self) -> &Arc<IngressCredit> {
        self.placed.get().unwrap_or(&self.first)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds effects, in order, and wakes the connection.
    pub(crate) fn put(&self, mut effects: Vec<Effect>) {
        let waker = {
            let mut state = self.lock();
            if state.effects.is_empty() {
                state.effects = effects;
            } else {
                state.effects.append(&mut effects);
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes all effects, or registers to be woken.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Vec<Effect>> {
        let mut state = self.lock();
        if state.effects.is_empty() {
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(mem::take(&mut state.effects))
    }

    /// Asks the connection to do something, and wakes it.
    pub(crate) fn ask(&self, control_message: ControlMessage) {
        let waker = {
            let mut state = self.lock();
            state.control_messages.push(control_message);
            self.has_errands.store(true, Ordering::Relaxed);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Control messages for the connection, mostly none. Call after `poll_take` has registered the waker.
    pub(crate) fn control_messages(&self) -> Vec<ControlMessage> {
        if !self.has_errands.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut state = self.lock();
        self.has_errands.store(false, Ordering::Relaxed);
        mem::take(&mut state.control_messages)
    }

    /// Takes what is there.
    pub(crate) fn take(&self) -> Vec<Effect> {
        mem::take(&mut self.lock().effects)
    }

    /// The connection is at work and will look here before it rests: it needs no waking.
    pub(crate) fn attend(&self) {
        drop(self.lock().waker.take());
    }

    /// Counts `bytes` handed to the node.
    pub(crate) fn handed_over(&self, bytes: usize) {
        self.ingress_credit.fetch_add(bytes, Ordering::Relaxed);
        self.account().add(bytes);
    }

    /// The node has dealt with `bytes`; wakes the connection if it had stopped reading.
    pub(crate) fn processed(&self, bytes: usize) {
        // A node that ended meanwhile has taken all of them out.
        let take = |before: usize| Some(before.saturating_sub(bytes));
        let before = match self.ingress_credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(before) | Err(before) => before,
        };
        let taken = before.min(bytes);
        self.account().remove(taken);
        if before >= IN_FLIGHT_MAX && before - taken < IN_FLIGHT_MAX {
            self.wake();
        }
    }

    /// The node has ended: nothing more comes, and nothing that was handed over is handled.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        let left = self.ingress_credit.swap(0, Ordering::Relaxed);
        self.account().remove(left);
        self.wake();
    }

    /// Whether the node has ended.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The connection was the next in the queue of those that wait, and there is room. False: it is gone.
    pub(crate) fn call(&self) -> bool {
        let called = self.place.call();
        if called {
            self.wake();
        }
        called
    }

    fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the connection may read on. Ask after `poll_take` has registered the waker, or a wake can be missed.
    pub(crate) fn may_read(self: &Arc<Self>) -> bool {
        if self.place.is_called() {
            return self.answers_call();
        }
        self.has_own_room() && (self.account().has_room() || self.waited(QueueEnd::Back))
    }

    fn has_own_room(&self) -> bool {
        self.ingress_credit.load(Ordering::Relaxed) < IN_FLIGHT_MAX
    }

    /// Looks for the room for which the connection was called, and calls the next one. If there is none by now, the connection waits at
    /// its old place.
    #[cold]
    fn answers_call(self: &Arc<Self>) -> bool {
        self.place.answer();
        let reads = self.has_own_room() && (self.account().has_room() || self.waited(QueueEnd::Front));
        self.account().call_next();
        reads
    }

    /// Waits for room; whether there is some by now.
    #[cold]
    fn waited(self: &Arc<Self>, end: QueueEnd) -> bool {
        if self.place.enter() {
            self.account().wait(Arc::clone(self), end);
        }
        self.account().has_room()
    }

    /// The connection does not read for a while, whatever room there is: if it was called, the next one is.
    pub(crate) fn pass_call_on(&self) {
        if self.place.is_called() {
            self.place.answer();
            self.account().call_next();
        }
    }

    /// The connection is gone, and reads no more.
    pub(crate) fn leave(&self) {
        match self.place.leave() {
            Left::Alone => {}
            Left::Waiting => self.account().forget(self),
            Left::Called => self.account().call_next(),
        }
    }
}

/// The bytes of a closed connection with a node that has ended are out of the account with the last that knows of them.
impl Drop for EffectQueue {
    fn drop(&mut self) {
        let left = mem::take(self.ingress_credit.get_mut());
        if left > 0 {
            self.account().remove(left);
        }
    }
}

#[cfg(test)]
mod tests;
