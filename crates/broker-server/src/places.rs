//! Places for connections: so many that are served, and a few beyond them that are told that there is no room.
//!
//! Invariant: who is beyond the limit takes no place of those within it, so however fast the refused come back, a
//! place that is given back goes to the next who asks.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::threads::Place;

/// Connections beyond the limit that are served for long enough to be told so; HTTP clients, who have come to look
/// after the broker, are answered. Those beyond these are closed without a word.
const BEYOND_MAX: usize = 64;

/// The places of one server.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    limit: usize,
    within: Arc<AtomicUsize>,
    beyond: Arc<AtomicUsize>,
}

/// A place of one of the two kinds.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is served.
    Within(Place),
    /// It is only told that there are too many.
    Beyond(Place),
}

impl Places {
    /// For at most `limit` connections.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, within: Arc::default(), beyond: Arc::default() }
    }

    /// How many are served at once.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// A place for one more; `None`: it is closed at once.
    pub(crate) fn take(&self) -> Option<Taken> {
        if let Some(place) = Place::take_below(&self.within, self.limit) {
            return Some(Taken::Within(place));
        }
        Place::take_below(&self.beyond, BEYOND_MAX).map(Taken::Beyond)
    }

    /// How many places of both kinds are taken.
    pub(crate) fn taken(&self) -> usize {
        self.within.load(Ordering::Relaxed) + self.beyond.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
