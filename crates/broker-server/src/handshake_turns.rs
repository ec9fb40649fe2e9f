//! Turns of the TLS handshakes of one I/O thread, which namespaces share by weight.
//!
//! A handshake computes for 0.1 to 1 ms when the client's hello has come: the key exchange and the signature. A task cannot be
//! interrupted, so turns only decide who computes next. A handshake waits for its turn each time before it computes, and
//! keeps none while it waits for its peer.
//!
//! Invariant: between the moment at which a turn is given and that at which it is used the thread has looked for what has come
//! from its sockets. So handshakes wait here, where namespaces are told apart, and not as tasks that are ready to run.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use broker_node::NamespaceId;

use crate::{
    clock,
    turn_queue::{Step, TurnId, TurnQueue},
};

/// The turns of one thread.
#[derive(Debug)]
pub(crate) struct HandshakeTurns {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queue: TurnQueue<(u16, NamespaceId)>,
    /// Tasks that wait for their turns.
    tasks: BTreeMap<TurnId, Waker>,
}

impl Default for HandshakeTurns {
    fn default() -> Self {
        let expected = u64::try_from(EXPECTED.as_nanos()).unwrap_or(u64::MAX);
        let state = State { queue: TurnQueue::new(AT_ONCE, expected), tasks: BTreeMap::new() };
        Self { state: Mutex::new(state) }
    }
}

impl HandshakeTurns {
    /// Waits for a turn of a handshake of this namespace, which has this weight.
    pub(crate) async fn wait(&self, namespace: (u16, NamespaceId), weight: u16, step: Step) -> Grant<'_> {
        let mut waiting: Option<QueueEntry<'_>> = None;
        let entry = poll_fn(move |cx| {
            let entry = waiting.take().unwrap_or_else(|| self.enter(namespace, weight, step));
            if self.has_begun(entry.id, cx) {
                return Poll::Ready(entry);
            }
            waiting = Some(entry);
            Poll::Pending
        })
        .await;
        // It comes back when the runtime has asked the system which sockets are ready.
        tokio::task::yield_now().await;
        Grant { entry, since: clock::instant() }
    }

    fn enter(&self, namespace: (u16, NamespaceId), weight: u16, step: Step) -> QueueEntry<'_> {
        let id = self.state().queue.enter(namespace, weight, step);
        self.grant();
        QueueEntry { turns: self, id, cost: Duration::ZERO }
    }

    /// Whether this turn has begun; else the task is called when it does.
    fn has_begun(&self, id: TurnId, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        if !state.queue.is_running(id) {
            state.tasks.insert(id, cx.waker().clone());
            return false;
        }
        true
    }

    /// Calls those whose turns begin.
    fn grant(&self) {
        let mut called = Vec::new();
        let mut state = self.state();
        while let Some(id) = state.queue.grant() {
            called.extend(state.tasks.remove(&id));
        }
        // A task that is called at the end of its runtime may be dropped, with a entry of its own.
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under this lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A entry in the queue, also while its turn lasts. Dropped, it is given up: a handshake may be cut off while it waits.
#[derive(Debug)]
struct QueueEntry<'a> {
    turns: &'a HandshakeTurns,
    id: TurnId,
    cost: Duration,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let cost = u64::try_from(self.cost.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.turns.state();
        state.tasks.remove(&self.id);
        state.queue.leave(self.id, cost);
        drop(state);
        self.turns.grant();
    }
}

/// The turn of a handshake. It ends when it is dropped, and costs the time for which it has lasted.
#[derive(Debug)]
pub(crate) struct Grant<'a> {
    entry: QueueEntry<'a>,
    since: Instant,
}

impl Grant<'_> {
    /// Ends the turn, and says what it has cost.
    pub(crate) fn end(mut self) -> Duration {
        self.take_time();
        self.entry.cost
    }

    fn take_time(&mut self) {
        self.entry.cost = clock::instant().saturating_duration_since(self.since);
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        self.take_time();
    }
}

/// Turns of a thread that may be given before one of them has ended, and so the handshakes that compute between two looks at the
/// sockets. While messages keep the thread busy, tokio looks once in 61 turns of tasks: fewer would let a storm of clients that
/// connect again last too long, and more would keep those of other namespaces waiting.
const AT_ONCE: usize = 8;
/// Cost of a turn until it is known.
const EXPECTED: Duration = Duration::from_micros(250);
