//! Deferred messages and messages with a time to live.
//!
//! Invariant: a deferred message is delivered by its sequence number only, and an expired message to no consumer.

use super::observed::{Broken, ObservedDelivery, broken};

/// Whether a message stands outside of the order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Deferral {
    /// It does not.
    #[default]
    No,
    /// This holder has asked for that, and it may have happened.
    Perhaps(u64),
    /// The broker has confirmed it.
    Yes,
}

impl Deferral {
    /// Whether a message comes in the way in which it may: in its order, or by its number.
    pub(super) fn check(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        match (*self, observed.by_number) {
            (Self::Yes, false) if !observed.dead_letter => {
                broken(observed.id, "a deferred message comes by its number only", observed)
            }
            (Self::No, true) => broken(observed.id, "only a deferred message comes by its number", observed),
            (_, by_number) => {
                *self = if by_number { Self::Yes } else { Self::No };
                Ok(())
            }
        }
    }
}

/// Time to live of a message, and its fate afterwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lifetime {
    /// Time of sending, in milliseconds; the broker counts from the arrival.
    pub(crate) since: u64,
    /// Its time to live, in milliseconds.
    pub(crate) ttl: u64,
    /// Whether it is dead-lettered in the end.
    pub(crate) dead_letters: bool,
}

impl Lifetime {
    /// Whether a message comes in its time.
    pub(super) fn check(self, observed: &ObservedDelivery) -> Result<(), Broken> {
        if observed.expired && observed.now < self.since + self.ttl {
            return broken(observed.id, "nothing expires before its time", &(observed, self));
        }
        let in_order = !observed.dead_letter && !observed.by_number;
        if in_order && observed.handed_out.is_some_and(|at| at >= observed.enqueued + self.ttl) {
            return broken(observed.id, "nothing comes after its time", &(observed, self));
        }
        Ok(())
    }
}
