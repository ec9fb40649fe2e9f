//! Consumers that wait for any session.
//!
//! Invariant: the one that has waited longest is first. The deadline of each that waits is among the deadlines.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ClientId, LinkId, ReceiveMode, Timestamp};

/// A place among those that wait: lower ones came earlier.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct AcceptorNumber(u64);

/// A consumer that waits for a session.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    pub(crate) client: ClientId,
    pub(crate) link: LinkId,
    /// Receive mode of the consumer that it opens.
    pub(crate) mode: ReceiveMode,
    /// Until when it waits.
    pub(crate) deadline: Timestamp,
    /// Credit that it was given already: deliveries at which to stop.
    pub(crate) limit: u64,
    /// Whether it asked for a drain.
    pub(crate) drain: bool,
}

/// Consumers that wait for a session, in order.
#[derive(Debug, Default)]
pub(crate) struct Acceptors {
    waiting: BTreeMap<AcceptorNumber, Acceptor>,
    deadlines: BTreeSet<(Timestamp, AcceptorNumber)>,
    next: u64,
}

impl Acceptors {
    /// Whether no acceptor waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts one behind the others.
    pub(crate) fn push(&mut self, acceptor: Acceptor) -> AcceptorNumber {
        let number = AcceptorNumber(self.next);
        self.next += 1;
        self.deadlines.insert((acceptor.deadline, number));
        self.waiting.insert(number, acceptor);
        number
    }

    /// Notes the credit of one that waits.
    pub(crate) fn set_credit(&mut self, number: AcceptorNumber, limit: u64, drain: bool) {
        if let Some(acceptor) = self.waiting.get_mut(&number) {
            (acceptor.limit, acceptor.drain) = (limit, drain);
        }
    }

    /// It waits no more.
    pub(crate) fn remove(&mut self, number: AcceptorNumber) -> Option<Acceptor> {
        let acceptor = self.waiting.remove(&number)?;
        self.deadlines.remove(&(acceptor.deadline, number));
        Some(acceptor)
    }

    /// The acceptor that has waited longest.
    pub(crate) fn pop_first(&mut self) -> Option<Acceptor> {
        let number = *self.waiting.first_key_value()?.0;
        self.remove(number)
    }

    /// One that has waited as long as it would.
    pub(crate) fn pop_impatient(&mut self, now: Timestamp) -> Option<Acceptor> {
        let number = self.deadlines.first().filter(|(at, _)| *at <= now)?.1;
        self.remove(number)
    }

    /// When the first loses its patience.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}
