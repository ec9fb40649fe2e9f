//! What waits for a connection task.
//!
//! Invariant: a connection that has more than [`IN_FLIGHT_MAX`] bytes of commands with the node does not read on,
//! so what waits in the inbox is bounded by the number of connections.

use std::{
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use broker_core::Effect;

/// Bytes of commands one connection may have waiting with the node.
pub(crate) const IN_FLIGHT_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
struct State {
    effects: Vec<Effect>,
    waker: Option<Waker>,
}

/// Effects on their way to one connection, and the account of its commands on their way to the node.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    in_flight: AtomicUsize,
}

impl Mailbox {
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
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The node has dealt with `bytes`; wakes the connection if it had stopped reading.
    pub(crate) fn dealt_with(&self, bytes: usize) {
        let before = self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        if before >= IN_FLIGHT_MAX && before - bytes < IN_FLIGHT_MAX {
            let waker = self.lock().waker.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Whether the connection may read on. Ask after `poll_take` has registered the waker, or a wake can be missed.
    pub(crate) fn may_read(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < IN_FLIGHT_MAX
    }
}
