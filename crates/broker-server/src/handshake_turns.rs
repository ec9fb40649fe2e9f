//! Turns of the TLS handshakes of one I/O thread, which namespaces share by weight.
//!
//! A handshake computes for 0.1 to 1 ms when the client's hello has come: the key exchange and the signature. A task cannot be
//! interrupted, so turns only decide who computes next. A handshake waits for its turn each time before it computes, and
//! keeps none while it waits for its peer.
//!
//! Invariant: between the moment at which a turn is given and that at which it is used the thread has looked for what has come
//! from its sockets. So handshakes wait here, where namespaces are told apart, and not as tasks that are ready to run.

use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use crate::{
    clock,
    task_turns::{Residence, TaskTurns},
    turn_queue::{Step, TurnId},
};

/// The turns of one thread.
#[derive(Debug)]
pub(crate) struct HandshakeTurns {
    turns: TaskTurns,
}

impl Default for HandshakeTurns {
    fn default() -> Self {
        Self { turns: TaskTurns::new(AT_ONCE, EXPECTED) }
    }
}

impl HandshakeTurns {
    /// Waits for a turn of a handshake of this namespace, which has this weight.
    pub(crate) async fn wait(&self, namespace: Residence, weight: u16, step: Step) -> Grant<'_> {
        let mut waiting: Option<QueueEntry<'_>> = None;
        let entry = poll_fn(move |cx| {
            let entry = waiting.take().unwrap_or_else(|| self.enter(namespace, weight, step));
            if self.turns.has_begun(entry.id, cx) {
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

    fn enter(&self, namespace: Residence, weight: u16, step: Step) -> QueueEntry<'_> {
        let id = self.turns.enter(namespace, weight, step);
        QueueEntry { turns: &self.turns, id, cost: Duration::ZERO }
    }
}

/// An entry in the queue, also while its turn lasts. Dropped, it is given up: a handshake may be cut off while it waits.
#[derive(Debug)]
struct QueueEntry<'a> {
    turns: &'a TaskTurns,
    id: TurnId,
    cost: Duration,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.turns.leave(self.id, self.cost);
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
/// sockets. While messages keep the thread busy, the runtime looks once in eight turns of tasks: a storm of clients that connect
/// again has a ninth of them.
const AT_ONCE: usize = 1;
/// Cost of a turn until it is known.
const EXPECTED: Duration = Duration::from_micros(250);

#[cfg(test)]
mod tests;
