//! Numbers of the messages that a peek can show, in a store that also holds bodies.
//!
//! Invariant: no list is kept before the first body, for until then every number can be shown. From then on it names
//! each message that is no body: a topic has many bodies and shows none of them, so a peek must not pass over each.

use std::collections::BTreeSet;

use super::{
    slot::{Slot, State},
    slots::Slots,
};

/// List of the numbers that are no bodies, once a body was there.
#[derive(Debug, Default)]
pub(super) struct Visible(Option<BTreeSet<u64>>);

impl Visible {
    /// A message with this number is in `slots` now.
    #[inline]
    pub(super) fn note(&mut self, sequence: u64, state: State, slots: &Slots<Slot>) {
        match (&mut self.0, state) {
            (None, State::Body) => self.list(slots),
            (Some(numbers), State::Active | State::Deferred | State::Scheduled) => {
                numbers.insert(sequence);
            }
            (None, _) | (Some(_), State::Body) => {}
        }
    }

    pub(super) fn remove(&mut self, sequence: u64) {
        if let Some(numbers) = &mut self.0 {
            numbers.remove(&sequence);
        }
    }

    /// The lowest number at or after `from`.
    pub(super) fn next(&self, from: u64, slots: &Slots<Slot>) -> Option<u64> {
        let Some(numbers) = &self.0 else { return slots.next(from) };
        numbers.range(from..).next().copied()
    }

    pub(super) fn list(&mut self, slots: &Slots<Slot>) {
        let visible = slots.iter().filter(|(_, slot)| slot.state != State::Body);
        self.0 = Some(visible.map(|(number, _)| number).collect());
    }
}
