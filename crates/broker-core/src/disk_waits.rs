//! Deliveries, requests and due work that wait for reads of the disk.
//!
//! Invariant: each goes on when its read is done, and nothing else of the namespace waits for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ClientId, QueueId, ReadId, store::sessions::SessionNumber};

/// Reads that this namespace waits for, and for what.
#[derive(Debug, Default)]
pub(crate) struct DiskWaits {
    waiting: BTreeSet<(ReadId, DiskWaiter)>,
    /// The read that the first of the requests to peek, or for deferred messages, waits for.
    requests: Option<ReadId>,
    /// Times that the first command of a client was put off for reads.
    put_off: BTreeMap<ClientId, u8>,
    /// Stores whose due work waits.
    due: usize,
}

/// Something that goes on when a read is done.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum DiskWaiter {
    /// A store whose next message is read: to be handed out, or to be forwarded.
    Store(QueueId),
    Session(QueueId, SessionNumber),
    /// A store with a message that expires, comes due or was delivered too often.
    DueWork(QueueId),
}

impl DiskWaits {
    /// It goes on when the read is done.
    pub(crate) fn add(&mut self, read: ReadId, waiter: DiskWaiter) {
        let is_new = self.waiting.insert((read, waiter));
        self.due += usize::from(is_new && waiter.is_due());
    }

    /// The requests to peek, or for deferred messages, go on when the read is done.
    pub(crate) fn add_requests(&mut self, read: ReadId) {
        self.requests = Some(read);
    }

    /// Whether these requests wait.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.is_some()
    }

    /// Whether work that is due waits.
    pub(crate) fn has_due_work(&self) -> bool {
        self.due > 0
    }

    /// The read is done: one that goes on, if there is one more.
    pub(crate) fn pop(&mut self, read: ReadId) -> Option<DiskWaiter> {
        self.requests.take_if(|waited| *waited == read);
        let first = (read, DiskWaiter::Store(QueueId(0)));
        let found = self.waiting.range(first..).next().copied().filter(|(other, _)| *other == read)?;
        self.waiting.remove(&found);
        self.due -= usize::from(found.1.is_due());
        Some(found.1)
    }

    /// The first command of a client is put off for reads. Says how often it was before.
    pub(crate) fn put_off(&mut self, client: ClientId) -> u8 {
        let times = self.put_off.entry(client).or_default();
        let before = *times;
        *times = times.saturating_add(1);
        before
    }

    /// The command is done.
    pub(crate) fn no_longer_put_off(&mut self, client: ClientId) {
        if !self.put_off.is_empty() {
            self.put_off.remove(&client);
        }
    }
}

impl DiskWaiter {
    /// Whether it is work that the time brings.
    const fn is_due(self) -> bool {
        matches!(self, Self::DueWork(_))
    }
}

#[cfg(test)]
mod tests;
