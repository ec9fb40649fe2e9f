//! Counts of the messages of a store by state, and their bytes.
//!
//! Invariant: the counts are the sums over the slots, and over the states of the sessions: a slot that changes is
//! subtracted as it was and added as it is.

use super::slot::{Slot, State};
use crate::Timestamp;

/// Sums over the slots of a store.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    /// Active, locked or not.
    pub(crate) active: usize,
    pub(crate) deferred: usize,
    pub(crate) scheduled: usize,
    pub(crate) bodies: usize,
    /// Of the others, how many are locked.
    pub(crate) locked: usize,
    /// Of the others, how many cannot be read.
    pub(crate) damaged: usize,
    /// Of the others, how many may expire.
    pub(crate) expiring: usize,
    /// Record bytes.
    pub(crate) bytes: u64,
}

impl Counts {
    #[inline]
    pub(super) fn add(&mut self, slot: &Slot) {
        *self.of(slot.state) += 1;
        self.locked += usize::from(slot.is_locked());
        self.damaged += usize::from(slot.is_damaged());
        self.expiring += usize::from(slot.expires_at != Timestamp::MAX);
        self.bytes += u64::from(slot.length);
    }

    pub(super) fn subtract(&mut self, slot: &Slot) {
        *self.of(slot.state) -= 1;
        self.locked -= usize::from(slot.is_locked());
        self.damaged -= usize::from(slot.is_damaged());
        self.expiring -= usize::from(slot.expires_at != Timestamp::MAX);
        self.bytes -= u64::from(slot.length);
    }

    #[inline]
    fn of(&mut self, state: State) -> &mut usize {
        match state {
            State::Active => &mut self.active,
            State::Deferred => &mut self.deferred,
            State::Scheduled => &mut self.scheduled,
            State::Body => &mut self.bodies,
        }
    }
}
