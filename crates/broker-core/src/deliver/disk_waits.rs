//! Deliveries and requests that wait for reads of the disk.
//!
//! Invariant: each goes on when its read is done, and nothing else of the namespace waits for it.

use std::collections::BTreeSet;

use crate::{QueueId, ReadId, store::sessions::SessionNumber};

/// Reads that this namespace waits for, and for what.
#[derive(Debug, Default)]
pub(crate) struct DiskWaits {
    waiting: BTreeSet<(ReadId, DiskWaiter)>,
    /// The read that the first of the requests to peek, or for deferred messages, waits for.
    requests: Option<ReadId>,
}

/// A store or session whose next message is read.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum DiskWaiter {
    Store(QueueId),
    Session(QueueId, SessionNumber),
}

impl DiskWaits {
    /// It goes on when the read is done.
    pub(crate) fn add(&mut self, read: ReadId, waiter: DiskWaiter) {
        self.waiting.insert((read, waiter));
    }

    /// The requests to peek, or for deferred messages, go on when the read is done.
    pub(crate) fn add_requests(&mut self, read: ReadId) {
        self.requests = Some(read);
    }

    /// Whether these requests wait.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.is_some()
    }

    /// The read is done: one that goes on, if there is one more.
    pub(crate) fn pop(&mut self, read: ReadId) -> Option<DiskWaiter> {
        self.requests.take_if(|waited| *waited == read);
        let first = (read, DiskWaiter::Store(QueueId(0)));
        let found = self.waiting.range(first..).next().copied().filter(|(other, _)| *other == read)?;
        self.waiting.remove(&found);
        Some(found.1)
    }
}

/// A store, or a request, that found nothing at hand after so many reads waits for the disk: what was read for it went to make
/// room for others each time, before it was its turn.
pub(crate) const READS_IN_VAIN_MAX: u8 = 8;

#[cfg(test)]
mod tests;
