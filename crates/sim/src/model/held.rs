//! Messages that a link held, without a timer, when the broker crashed.
//!
//! Invariant: the first delivery after the crash has the delivery count that the message had: being held is no failure.

use super::observed::{Broken, ObservedDelivery, broken};
use crate::plan::LOCK_DURATION_MIN_MS;

/// The state of such a message at the crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldAtCrash {
    pub(super) delivery_count: u32,
    pub(super) at: u64,
}

impl HeldAtCrash {
    /// Whether a lock can have run out since the crash, of a delivery that its receiver never saw. That counts.
    fn is_old(self, now: u64) -> bool {
        now >= self.at + LOCK_DURATION_MIN_MS
    }

    /// Compares the first delivery after the crash with the message at the crash; false where it says nothing.
    pub(super) fn check(self, observed: &ObservedDelivery) -> Result<bool, Broken> {
        if self.is_old(observed.now) || observed.dead_letter {
            return Ok(false);
        }
        if observed.delivery_count != self.delivery_count {
            let promise = "a held message comes again after a crash with the count that it had";
            return broken(observed.id, promise, &(observed, self));
        }
        Ok(true)
    }
}
