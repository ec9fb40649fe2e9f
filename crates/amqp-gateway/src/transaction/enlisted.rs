//! Deliveries that have an outcome in a transaction while their receiver has not settled them: they are settled at the
//! commit, and left as they are by a rollback (transactions 4.4.2).
//!
//! Invariant: a delivery is listed for a transaction from the request until the transaction has ended, its session has
//! ended, or the core has refused it.

use std::collections::BTreeMap;

use crate::{correlation::SessionNumber, disposition::rules::WireOutcome};

/// A delivery of a connection: its session and its number there.
pub(crate) type SentDelivery = (SessionNumber, u32);

/// State of a delivery in a transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Enlisted {
    /// Its outcome, if the transaction commits.
    pub(crate) outcome: WireOutcome,
    /// Its receiver has settled it since the transaction was discharged, and holds it no more.
    pub(crate) settled: bool,
}

/// All of them, by transaction.
#[derive(Debug, Default)]
pub(crate) struct EnlistedDeliveries {
    by_transaction: BTreeMap<u128, BTreeMap<SentDelivery, Enlisted>>,
    /// The transactions that list a delivery. More than one where the first has been discharged and not answered for.
    transactions: BTreeMap<SentDelivery, Vec<u128>>,
}

impl EnlistedDeliveries {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_transaction.is_empty()
    }

    /// Lists a delivery for a transaction.
    pub(crate) fn add(&mut self, transaction: u128, delivery: SentDelivery, outcome: WireOutcome) {
        let enlisted = Enlisted { outcome, settled: false };
        if self.by_transaction.entry(transaction).or_default().insert(delivery, enlisted).is_none() {
            self.transactions.entry(delivery).or_default().push(transaction);
        }
    }

    /// The transactions that list a delivery.
    pub(crate) fn transactions_of(&self, delivery: SentDelivery) -> &[u128] {
        self.transactions.get(&delivery).map_or(&[], Vec::as_slice)
    }

    /// Notes that a delivery's receiver has settled it; false where the transaction does not list it.
    pub(crate) fn settle(&mut self, transaction: u128, delivery: SentDelivery) -> bool {
        let listed = self.by_transaction.get_mut(&transaction).and_then(|listed| listed.get_mut(&delivery));
        listed.map(|enlisted| enlisted.settled = true).is_some()
    }

    /// The core has refused a delivery. One that its receiver has settled stays listed: the end of the transaction returns
    /// it.
    pub(crate) fn refuse(&mut self, transaction: u128, delivery: SentDelivery) {
        let Some(listed) = self.by_transaction.get_mut(&transaction) else { return };
        if listed.get(&delivery).is_none_or(|enlisted| enlisted.settled) {
            return;
        }
        listed.remove(&delivery);
        if listed.is_empty() {
            self.by_transaction.remove(&transaction);
        }
        self.unlist(transaction, delivery);
    }

    /// A transaction has ended: gives its deliveries, in order.
    pub(crate) fn end(&mut self, transaction: u128) -> BTreeMap<SentDelivery, Enlisted> {
        let ended = self.by_transaction.remove(&transaction).unwrap_or_default();
        for delivery in ended.keys() {
            self.unlist(transaction, *delivery);
        }
        ended
    }

    /// A session has ended, and its number may be another's.
    pub(crate) fn end_session(&mut self, session: SessionNumber) {
        let of_session = self.transactions.range((session, 0)..=(session, u32::MAX));
        let gone: Vec<SentDelivery> = of_session.map(|(delivery, _)| *delivery).collect();
        for delivery in gone {
            for transaction in self.transactions.remove(&delivery).unwrap_or_default() {
                let Some(listed) = self.by_transaction.get_mut(&transaction) else { continue };
                listed.remove(&delivery);
                if listed.is_empty() {
                    self.by_transaction.remove(&transaction);
                }
            }
        }
    }

    fn unlist(&mut self, transaction: u128, delivery: SentDelivery) {
        let Some(transactions) = self.transactions.get_mut(&delivery) else { return };
        transactions.retain(|listed| *listed != transaction);
        if transactions.is_empty() {
            self.transactions.remove(&delivery);
        }
    }
}

#[cfg(test)]
mod tests;
