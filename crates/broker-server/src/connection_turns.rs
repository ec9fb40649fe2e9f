//! Turns of the connections of one I/O thread, which namespaces share by weight.
//!
//! A connection works for about a millisecond at a time, and for a quarter of that where the broker has several namespaces (decisions 50 and 72). The runtime runs the tasks that are ready in order: with
//! thousands of busy connections of one namespace, a connection of another one would have one turn in thousands. So where a thread
//! serves several namespaces, a connection waits for a turn before it takes effects or input, and one is given at a time
//! (decision 70).
//!
//! Invariant: a task that is given a turn uses it at its next poll and not at once, so that tasks which are ready meet here, where
//! namespaces are told apart. A turn ends with the poll in which it began.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Context,
    time::{Duration, Instant},
};

use crate::{
    clock,
    task_turns::{Residence, TaskTurns},
    turn_queue::{Step, TurnId},
};

/// Turns of a thread that are given before one of them has ended. The thread runs one task at a time, so more would only let those that
/// came first go before a namespace whose turn it is.
const AT_ONCE: usize = 1;
/// Cost of a turn until it is known.
const EXPECTED: Duration = Duration::from_micros(250);

/// The turns of one thread.
#[derive(Debug)]
pub(crate) struct ConnectionTurns {
    turns: TaskTurns,
    /// Connections of each namespace.
    members: Mutex<BTreeMap<Residence, usize>>,
    /// There are connections of several namespaces.
    is_shared: AtomicBool,
}

impl Default for ConnectionTurns {
    fn default() -> Self {
        Self {
            turns: TaskTurns::new(AT_ONCE, EXPECTED),
            members: Mutex::default(),
            is_shared: AtomicBool::new(false),
        }
    }
}

thread_local! {
    static OF_THIS_THREAD: Arc<ConnectionTurns> = Arc::default();
}

impl ConnectionTurns {
    /// Those of the thread that asks. A connection stays on the thread on which it began.
    pub(crate) fn of_this_thread() -> Arc<Self> {
        OF_THIS_THREAD.with(Arc::clone)
    }

    fn change_members(&self, change: impl FnOnce(&mut BTreeMap<Residence, usize>)) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut members);
        self.is_shared.store(members.len() > 1, Ordering::Relaxed);
    }
}

/// One connection's place among those of its thread.
#[derive(Debug)]
pub(crate) struct NamespaceTurn {
    thread: Arc<ConnectionTurns>,
    /// The namespace as whose it counts.
    namespace: Option<Residence>,
    state: TurnState,
}

#[derive(Clone, Copy, Debug)]
enum TurnState {
    None,
    /// It waits, or was given its turn since its last poll.
    Entered(TurnId),
    Lasts(TurnId, Instant),
}

impl NamespaceTurn {
    /// No turn is waited for.
    pub(crate) const fn new(thread: Arc<ConnectionTurns>) -> Self {
        Self { thread, namespace: None, state: TurnState::None }
    }

    /// Whether the connection, which is one of a namespace with this weight, has a turn; else its task is called when it is given
    /// one.
    pub(crate) fn poll_begin(
        &mut self,
        namespace: Residence,
        weight: impl FnOnce() -> u16,
        cx: &Context<'_>,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        if self.namespace.is_none() {
            self.join(namespace);
        }
        let turns = &self.thread.turns;
        match self.state {
            TurnState::Lasts(..) => true,
            TurnState::None if !self.thread.is_shared.load(Ordering::Relaxed) => true,
            TurnState::None => {
                let id = turns.enter(namespace, weight(), Step::Begin);
                self.state = TurnState::Entered(id);
                if turns.has_begun(id, cx) {
                    cx.waker().wake_by_ref();
                }
                false
            }
            TurnState::Entered(id) => {
                let has_begun = turns.has_begun(id, cx);
                if has_begun {
                    self.state = TurnState::Lasts(id, now());
                }
                has_begun
            }
        }
    }

    /// The connection's turn is over, if it has one.
    pub(crate) fn end(&mut self, now: impl FnOnce() -> Instant) {
        if let TurnState::Lasts(id, since) = self.state {
            self.state = TurnState::None;
            self.thread.turns.leave(id, now().saturating_duration_since(since));
        }
    }

    /// The connection takes no turns any more.
    pub(crate) fn leave(&mut self, now: impl FnOnce() -> Instant) {
        self.end(now);
        if let TurnState::Entered(id) = std::mem::replace(&mut self.state, TurnState::None) {
            self.thread.turns.leave(id, Duration::ZERO);
        }
        let Some(namespace) = self.namespace.take() else { return };
        self.thread.change_members(|members| {
            if let Some(count) = members.get_mut(&namespace) {
                *count -= 1;
                if *count == 0 {
                    members.remove(&namespace);
                }
            }
        });
    }

    fn join(&mut self, namespace: Residence) {
        self.namespace = Some(namespace);
        self.thread.change_members(|members| *members.entry(namespace).or_default() += 1);
    }
}

impl Drop for NamespaceTurn {
    fn drop(&mut self) {
        self.leave(clock::instant);
    }
}

#[cfg(test)]
mod tests;
