//! Garbage collection of deleted entities: their records are released to the journal in bounded steps.
//!
//! Invariant: no request sees a deleted entity, and a restart finds none. One call releases a bounded number of
//! records; the others wait for [`Core::handle_deadline`](crate::Core::handle_deadline), which is due as long as some
//! wait.

use std::collections::VecDeque;

use crate::store::Store;

/// Stores of deleted entities, with what has not been given back yet.
#[derive(Debug, Default)]
pub(crate) struct DeletionQueue(VecDeque<Box<Store>>);

impl DeletionQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Stores of deleted entities that still have records.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.0.iter().map(|store| &**store)
    }

    /// The next store to give something back of.
    pub(crate) fn next(&mut self) -> Option<Box<Store>> {
        self.0.pop_front()
    }

    /// A store of which something is left.
    pub(crate) fn put_back(&mut self, store: Box<Store>) {
        self.0.push_front(store);
    }

    /// A store that nothing refers to any more.
    pub(crate) fn leave(&mut self, store: Box<Store>) {
        self.0.push_back(store);
    }
}
