//! Answers of the core that the connection waits for, beyond those whose ticket says everything.
//!
//! Invariant: a number is given to one request of the connection, and found until its answer is taken.

use std::collections::BTreeMap;

use amqp_codec::{performative::TxnId, types::DeliveryTag};
use broker_core::{LinkId, Ticket};

use crate::{
    correlation::{Correlation, SessionNumber},
    disposition::rules::WireOutcome,
    request::{Caller, operation::Operation},
};

/// Request that waits for an answer of the core.
#[derive(Debug)]
pub(crate) enum Pending {
    Publish(TrackedPublish),
    /// A declaration, and the name that it is to get.
    Declare(Control, u128),
    /// A discharge, the name of what it ends, and whether it is to be rolled back.
    Discharge(Control, u128, bool),
    /// A settlement that joins a transaction.
    Settle(TrackedSettlement),
    Request(Box<Caller>, Operation),
}

/// A message that waits for the core's answer and cannot be told apart by its ticket alone.
#[derive(Debug)]
pub(crate) struct TrackedPublish {
    /// The link it came on.
    pub(crate) link: LinkId,
    pub(crate) session: SessionNumber,
    pub(crate) delivery: u32,
    /// Its tag, for the error's `info`.
    pub(crate) tag: DeliveryTag,
    /// Whether the peer has settled it.
    pub(crate) settled: bool,
    /// The transaction it is part of.
    pub(crate) transaction: Option<TxnId>,
}

/// A message to the coordinator that waits for the core's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    /// The link it came on.
    pub(crate) link: LinkId,
    pub(crate) session: SessionNumber,
    pub(crate) delivery: u32,
    /// Whether the peer has settled it.
    pub(crate) settled: bool,
}

/// A settlement whose delivery stays open until the core has answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackedSettlement {
    /// The session of the delivery.
    pub(crate) session: SessionNumber,
    pub(crate) delivery: u32,
    /// Its outcome, which the answer repeats.
    pub(crate) outcome: WireOutcome,
    /// The transaction; `None` where it is settled outside of one, while one may have it.
    pub(crate) transaction: Option<u128>,
}

/// Requests of one connection that wait for an answer of the core, by number.
#[derive(Debug, Default)]
pub(crate) struct PendingAnswers {
    waiting: BTreeMap<u64, Pending>,
    next: u64,
}

impl PendingAnswers {
    /// Remembers what waits for the core, and gives it a ticket.
    pub(crate) fn add(&mut self, pending: Pending) -> Ticket {
        let (number, ticket) = self.next_ticket();
        self.waiting.insert(number, pending);
        ticket
    }

    /// The number of the next request to the core, and its ticket.
    pub(crate) fn next_ticket(&mut self) -> (u64, Ticket) {
        let number = self.next;
        self.next += 1;
        (number, Correlation::Request(number).pack())
    }

    /// Takes what waits under this number.
    pub(crate) fn take(&mut self, number: u64) -> Option<Pending> {
        self.waiting.remove(&number)
    }

    /// Takes what waits under this ticket.
    pub(crate) fn take_of(&mut self, ticket: Ticket) -> Option<Pending> {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return None };
        self.take(number)
    }

    /// Takes a settlement that waits under this number, and nothing else.
    pub(crate) fn take_settlement(&mut self, number: u64) -> Option<TrackedSettlement> {
        let Some(Pending::Settle(settlement)) = self.waiting.get(&number) else { return None };
        let settlement = *settlement;
        self.waiting.remove(&number);
        Some(settlement)
    }

    /// The sender of the request under this number.
    pub(crate) fn caller(&self, number: u64) -> Option<&Caller> {
        match self.waiting.get(&number) {
            Some(Pending::Request(caller, _)) => Some(caller),
            _ => None,
        }
    }

    /// The same by ticket, to be changed.
    pub(crate) fn caller_mut(&mut self, ticket: Ticket) -> Option<&mut Caller> {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return None };
        match self.waiting.get_mut(&number) {
            Some(Pending::Request(caller, _)) => Some(caller),
            _ => None,
        }
    }

    /// Deliveries of a session whose settlement waits.
    pub(crate) fn settlements_of(&self, session: SessionNumber) -> impl Iterator<Item = u32> {
        self.waiting.values().filter_map(move |pending| match pending {
            Pending::Settle(settlement) if settlement.session == session => Some(settlement.delivery),
            _ => None,
        })
    }

    /// Number of requests to nodes whose answers are large.
    pub(crate) fn large_requests(&self) -> usize {
        let is_large =
            |pending: &&Pending| matches!(pending, Pending::Request(_, it) if it.has_large_answer());
        self.waiting.values().filter(is_large).count()
    }
}
