//! What deleted entities leave behind: their records are given back to the journal, and their bodies to nobody.
//!
//! Invariant: nothing of it shows any more, and a restart finds nothing of it. One call gives back a bounded number of
//! records; the others wait for [`Core::handle_deadline`], which is due as long as some wait.

use std::collections::VecDeque;

use super::Core;
use crate::{Output, store::Store};

/// Stores of deleted entities, with what has not been given back yet.
#[derive(Debug, Default)]
pub(super) struct Remains(VecDeque<Box<Store>>);

impl Remains {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left of them.
    pub(super) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.0.iter().map(|store| &**store)
    }

    /// A store that nothing refers to any more.
    pub(super) fn leave(&mut self, store: Box<Store>) {
        self.0.push_back(store);
    }
}

impl Core {
    /// Whether deleted entities still hold records that are not given back. The journal may clean no segment meanwhile:
    /// nobody would move them, and it would find them alive.
    pub fn gives_back(&self) -> bool {
        !self.remains.is_empty()
    }

    /// Gives records back, until `left` is used up; says how much of that is left.
    pub(super) fn work_off_remains(&mut self, mut left: u32, out: &mut impl Output) -> u32 {
        while left > 0
            && let Some(mut store) = self.remains.0.pop_front()
        {
            while left > 0 && self.give_one_back(&mut store, out) {
                left -= 1;
            }
            if left == 0 {
                self.remains.0.push_front(store);
            }
        }
        left
    }

    /// Gives one record of a deleted store back, or the place of a session; false when nothing is left of it.
    fn give_one_back(&mut self, store: &mut Store, out: &mut impl Output) -> bool {
        if let Some(sequence) = store.slots.next(0) {
            let body = store.forget_body(sequence);
            if let Some(slot) = store.slots.remove(sequence) {
                out.release(slot.position, slot.length);
            }
            if let Some(body) = body {
                self.drop_reference(body, out);
            }
            return true;
        }
        if let Some((position, length)) = store.history.as_mut().and_then(|history| history.pop_record()) {
            out.release(position, length);
            return true;
        }
        let Some(session) = store.sessions.as_mut().and_then(|sessions| sessions.pop()) else { return false };
        if let Some(state) = session.state() {
            out.release(state.position, state.length);
        }
        true
    }
}
