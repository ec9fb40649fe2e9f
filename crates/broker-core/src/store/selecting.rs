//! Notification of consumers with selectors about messages that become ready.
//!
//! Invariant: a message that becomes ready behind others is told to all of them.

use crate::{selection::Selection, store::Store};

impl Store {
    /// Tells those that have looked at the messages before this one.
    pub(super) fn note_return(&mut self, sequence: u64) {
        if let Some(selectors) = &mut self.selectors {
            selectors.note(sequence);
        }
    }

    /// Takes a message from the retrieval order, though it need not be the next; it stays in the store.
    pub(crate) fn take_any(&mut self, sequence: u64) {
        self.order.remove(sequence);
    }

    /// Whether a consumer with a selection has looked at all messages that there are.
    pub(crate) fn was_looked_through(&self, selection: &Selection) -> bool {
        let has_caught_up =
            self.selectors.as_ref().is_none_or(|selectors| selection.has_caught_up(selectors));
        has_caught_up && selection.next(self.has_partitions, &self.slots).is_none()
    }

    /// Whether somebody waits who wants some of the messages only.
    pub(crate) fn selects_now(&self) -> bool {
        self.selectors.as_ref().is_some_and(|selectors| !selectors.ring.is_empty())
    }
}
