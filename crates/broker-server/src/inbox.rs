//! What waits for the node thread.
//!
//! Invariant: handing over wakes the node only if it sleeps; it takes everything that waits at once.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use broker_core::{Batch, ClientId};
use broker_log::IoDone;

use crate::mailbox::Mailbox;

/// One thing for the node to do.
#[derive(Debug)]
pub(crate) enum Item {
    /// A connection begins; its effects go to this mailbox.
    Register(ClientId, Arc<Mailbox>),
    /// Commands of a connection, and what they weigh in its in-flight account (bytes).
    Batch(Batch, usize),
    /// A connection is over: no more batches, nobody reads its mailbox.
    Forget(ClientId),
    /// The disk thread finished something.
    Io(IoDone),
    /// Make everything durable and stop.
    Stop,
}

#[derive(Debug, Default)]
struct State {
    items: Vec<Item>,
    sleeping: bool,
}

/// The node's only input.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while holding the lock cannot leave the Vec half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over one item.
    pub(crate) fn push(&self, item: Item) {
        let mut state = self.lock();
        state.items.push(item);
        if state.sleeping {
            state.sleeping = false;
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Moves everything that waits into `into`; sleeps for at most `patience` when nothing does (`None`: for ever).
    pub(crate) fn take(&self, into: &mut Vec<Item>, patience: Option<Duration>) {
        let mut state = self.lock();
        if state.items.is_empty() && patience != Some(Duration::ZERO) {
            state.sleeping = true;
            state = match patience {
                None => self
                    .arrived
                    .wait_while(state, |state| state.sleeping)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    self.arrived
                        .wait_timeout_while(state, patience, |state| state.sleeping)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
            state.sleeping = false;
        }
        into.append(&mut state.items);
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }
}
