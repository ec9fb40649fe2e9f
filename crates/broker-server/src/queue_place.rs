//! Queue place: whether a connection waits in the queue of its account, or was called from there.
//!
//! Invariant: a connection is in a queue once at most, and one that was called either looks for room or passes the call on.

use std::sync::atomic::{AtomicU8, Ordering};

const NONE: u8 = 0;
const WAITS: u8 = 1;
const CALLED: u8 = 2;
const GONE: u8 = 3;

/// The place of one connection.
#[derive(Debug, Default)]
pub(crate) struct QueuePlace(AtomicU8);

/// State in which a connection has gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Left {
    /// It was in no queue.
    Alone,
    /// It is in a queue still.
    Waiting,
    /// It was called, and the call is for the next one.
    Called,
}

impl QueuePlace {
    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The connection goes into a queue. False: it is in one, or is gone.
    pub(crate) fn enter(&self) -> bool {
        self.change(NONE, WAITS)
    }

    /// The connection was taken out of the queue to look for room. False: it is gone.
    pub(crate) fn call(&self) -> bool {
        self.change(WAITS, CALLED)
    }

    /// Whether the connection was called.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CALLED
    }

    /// The connection looks, and has no place any more.
    pub(crate) fn answer(&self) {
        self.change(CALLED, NONE);
    }

    /// The connection is gone.
    pub(crate) fn leave(&self) -> Left {
        match self.0.swap(GONE, Ordering::AcqRel) {
            WAITS => Left::Waiting,
            CALLED => Left::Called,
            _ => Left::Alone,
        }
    }
}

#[cfg(test)]
mod tests;
