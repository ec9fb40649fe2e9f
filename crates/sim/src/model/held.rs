//! Messages that a link held, without a timer, when the broker crashed.
//!
//! Invariant: the first delivery after the crash has the delivery count that the message had: being held is no failure.

use super::{Broken, Message, Model, ObservedDelivery, broken};
use crate::plan::LOCK_DURATION_MIN_MS;

/// The state of such a message at the crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldAtCrash {
    delivery_count: u32,
    at: u64,
}

impl HeldAtCrash {
    /// None of a message that has a timer, or that a transaction has.
    pub(super) fn of(message: &Message, now: u64) -> Option<Self> {
        let lock = message.lock.as_ref()?;
        let is_held = lock.until == u64::MAX && !lock.may_end;
        is_held.then_some(Self { delivery_count: message.delivery_count, at: now })
    }

    /// Whether a lock can have run out since the crash, of a delivery that its receiver never saw. That counts.
    fn is_old(self, now: u64) -> bool {
        now >= self.at + LOCK_DURATION_MIN_MS
    }
}

impl Model {
    /// Compares a delivery with what its message was at the last crash.
    pub(super) fn check_held_at_crash(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let message = self.messages.get_mut(&(observed.id, observed.entity));
        let held = message.and_then(|message| message.held_at_crash.take());
        let Some(held) = held.filter(|held| !held.is_old(observed.now) && !observed.dead_letter) else {
            return Ok(());
        };
        if observed.delivery_count != held.delivery_count {
            let promise = "a held message comes again after a crash with the count that it had";
            return broken(observed.id, promise, &(observed, held));
        }
        self.count("held messages that came again after a crash");
        Ok(())
    }
}
