//! Turns of the tasks of one I/O thread, which namespaces share by weight.
//!
//! Invariant: a task that waits is called when its turn begins, and a turn begins as soon as there is room for it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use broker_node::NamespaceId;

use crate::turn_queue::{Step, TurnId, TurnQueue};

/// A namespace, with the number of its shard.
pub(crate) type Residence = (u16, NamespaceId);

/// The queue, and the tasks that wait in it.
#[derive(Debug)]
pub(crate) struct TaskTurns {
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) queue: TurnQueue<Residence>,
    /// Tasks that wait for their turns.
    tasks: BTreeMap<TurnId, Waker>,
}

impl TaskTurns {
    /// Turns of which `at_once` may last at the same time, and each of which costs so much until its cost is known.
    pub(crate) fn new(at_once: usize, expected: Duration) -> Self {
        let state = State { queue: TurnQueue::new(at_once, nanoseconds(expected)), tasks: BTreeMap::new() };
        Self { state: Mutex::new(state) }
    }

    /// Waits for a turn of this namespace, which has this weight.
    pub(crate) fn enter(&self, namespace: Residence, weight: u16, step: Step) -> TurnId {
        let id = self.state().queue.enter(namespace, weight, step);
        self.grant();
        id
    }

    /// Whether this turn has begun; else the task is called when it does.
    pub(crate) fn has_begun(&self, id: TurnId, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        if !state.queue.is_running(id) {
            state.tasks.insert(id, cx.waker().clone());
            return false;
        }
        true
    }

    /// The turn is over, and has cost so much; or it is not waited for any more.
    pub(crate) fn leave(&self, id: TurnId, cost: Duration) {
        let mut state = self.state();
        let task = state.tasks.remove(&id);
        state.queue.leave(id, nanoseconds(cost));
        drop(state);
        drop(task);
        self.grant();
    }

    /// Calls those whose turns begin.
    fn grant(&self) {
        let mut called = Vec::new();
        let mut state = self.state();
        while let Some(id) = state.queue.grant() {
            called.extend(state.tasks.remove(&id));
        }
        // A task that is called at the end of its runtime may be dropped, with an entry of its own.
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under this lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
