//! Connection limit: up to the limit connections are served, and a few over it are refused with an error.
//!
//! Invariant: a connection over the limit takes no slot of those within it, so refused clients that retry cannot starve
//! the next free slot.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::io_threads::CountGuard;

/// Connections beyond the limit that are kept until they were sent the error; HTTP clients, which manage the broker,
/// are answered. Connections beyond these are closed without an error.
const OVER_LIMIT_MAX: usize = 64;

/// The places of one server.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimit {
    limit: usize,
    within: Arc<AtomicUsize>,
    over_limit: Arc<AtomicUsize>,
}

/// A place of one of the two kinds.
#[derive(Debug)]
pub(crate) enum ConnectionSlot {
    /// It is served.
    Admitted(CountGuard),
    /// It is only told that there are too many.
    OverLimit(CountGuard),
}

impl ConnectionLimit {
    /// For at most `limit` connections.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, within: Arc::default(), over_limit: Arc::default() }
    }

    /// Largest number of connections that are served at once.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// A place for one more; `None`: it is closed at once.
    pub(crate) fn take(&self) -> Option<ConnectionSlot> {
        if let Some(guard) = CountGuard::take_below(&self.within, self.limit) {
            return Some(ConnectionSlot::Admitted(guard));
        }
        CountGuard::take_below(&self.over_limit, OVER_LIMIT_MAX).map(ConnectionSlot::OverLimit)
    }

    /// Number of connections, within the limit and over it.
    pub(crate) fn taken(&self) -> usize {
        self.within.load(Ordering::Relaxed) + self.over_limit.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
