//! Settlement of deliveries by their receiver.
//!
//! Invariant: one disposition settles a delivery once, by the rules of its link.

use std::iter;

use amqp_codec::performative::{DeliveryState, TxnId};
use amqp_engine::{DeliveryId, SessionId};
use broker_core::{Command, LinkId, LockId, Outcome, Properties, SettleError};

use super::{
    outcome::SharedOutcomes,
    reply::is_lost,
    rules::{PeerState, QueueAction, SettlementReply, SettlementRule},
    unsettled::{DeliveryIdRange, UnsettledDelivery},
};
use crate::{
    condition::Refusal,
    correlation::Correlation,
    cx::Cx,
    dialect::Dialect,
    endpoints::Endpoints,
    fault_injection::{InjectedFaults, table::FaultKind},
    link::{LinkKind, detach::Detacher},
    transaction::enlisted::SentDelivery,
};

/// Disposition of the peer for a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerDisposition<'a> {
    pub(crate) settled: bool,
    /// The state, or the outcome that waits for the transaction.
    pub(crate) said: PeerState,
    /// With its data.
    pub(crate) state: Option<&'a DeliveryState>,
    /// The transaction it waits for.
    pub(crate) transaction: Option<&'a TxnId>,
}

/// Settles the deliveries of one connection.
#[derive(Debug)]
pub(crate) struct Settlements<'a> {
    pub(super) cx: &'a mut Cx,
    pub(super) ends: &'a mut Endpoints,
    faults: &'a mut InjectedFaults,
    /// Of the disposition in hand.
    pub(super) outcomes: SharedOutcomes,
}

impl<'a> Settlements<'a> {
    pub(crate) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints, faults: &'a mut InjectedFaults) -> Self {
        Self { cx, ends, faults, outcomes: SharedOutcomes::new() }
    }

    /// The peer says something of deliveries it received.
    pub(crate) fn on_disposition(
        &mut self,
        session: SessionId,
        (first, last): (DeliveryId, DeliveryId),
        settled: bool,
        state: Option<&DeliveryState>,
    ) {
        let (transaction, state) = match state {
            Some(DeliveryState::Transactional { txn_id, outcome }) => (Some(txn_id), outcome.as_deref()),
            state => (None, state),
        };
        self.outcomes = SharedOutcomes::new();
        let said = PeerState::of(state);
        let unknown = transaction.is_some_and(|name| !self.ends.transactions.knows(name));
        if !settled && !unknown && matches!(said, PeerState::Nothing | PeerState::Received) {
            return;
        }
        let Some(number) = self.ends.sessions.find(session) else { return };
        let disposition = PeerDisposition { settled, said, state, transaction };
        if transaction.is_some() || !self.ends.transactions.enlisted.is_empty() {
            return self.settle_amid_transactions(number, (first.0, last.0), disposition);
        }
        let mut range = DeliveryIdRange::new(first.0, last.0);
        while let Some(session) = self.ends.sessions.get_mut(number)
            && let Some((id, entry)) = session.unsettled.take_next(&mut range)
        {
            self.settle_taken((number, id), entry, disposition);
        }
    }

    /// A delivery is no longer open; an ordered fault may strike before it is settled.
    pub(super) fn settle_taken(
        &mut self,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        disposition: PeerDisposition<'_>,
    ) {
        let struck = disposition.transaction.is_none()
            && self.cx.config.faults.is_some()
            && self.strike(delivery, entry, &disposition);
        if !struck {
            self.settle(delivery, entry, disposition);
        }
    }

    /// Does the settlements that a fault has held up and whose time has come.
    pub(crate) fn settle_delayed(&mut self) {
        for delayed in self.faults.take_due(self.cx.now.instant) {
            let state = delayed.state.as_ref();
            self.outcomes = SharedOutcomes::new();
            let said = PeerState::of(state);
            let disposition = PeerDisposition { settled: delayed.settled, said, state, transaction: None };
            self.settle(delayed.delivery, delayed.entry, disposition);
        }
    }

    fn settle(&mut self, delivery: SentDelivery, entry: UnsettledDelivery, disposition: PeerDisposition<'_>) {
        let PeerDisposition { settled, said, state, transaction } = disposition;
        let transaction = transaction.filter(|_| entry.lock.is_some());
        let said = match transaction {
            Some(name) if !self.ends.transactions.knows(name) => PeerState::Transactional,
            _ => said,
        };
        let Some(link) = self.ends.links.get_mut(entry.consumer) else { return };
        let LinkKind::Receiver(receiver) = &mut link.kind else { return };
        let rule = receiver.rule(link.dialect, settled, said);
        receiver.on_settled(entry.consumer, self.cx);
        let (dialect, detached) = (link.dialect, link.detached_by_broker);
        let awaits_core = rule.answer == SettlementReply::WhenDone;
        if detached && !self.may_settle_after_detach(delivery, entry.consumer, awaits_core) {
            return transaction
                .into_iter()
                .for_each(|name| self.ends.transactions.mark_rollback_only(name, self.cx));
        }
        if rule.answer == SettlementReply::Detach {
            if let Some(name) = transaction {
                self.ends.transactions.mark_rollback_only(name, self.cx);
            }
            return Detacher::new(self.cx, self.ends).detach(entry.consumer, &Refusal::ForeignState);
        }
        if let (Some(name), Some(lock), true) = (transaction, entry.lock, rule.action != QueueAction::Nothing)
            && said != PeerState::Transactional
        {
            let outcome = self.outcomes.of(rule.action, dialect, state);
            return self.settle_transacted(name, &entry, lock, outcome);
        }
        self.ask_core(delivery, entry, (rule, dialect), said, state);
        if rule.answer == SettlementReply::NoTransaction {
            self.refuse_unknown_transaction(delivery, entry.consumer, settled);
        }
    }

    /// Gives a settlement to the core, and a reply at once where the core need not be asked.
    fn ask_core(
        &mut self,
        (session, id): SentDelivery,
        entry: UnsettledDelivery,
        (rule, dialect): (SettlementRule, Dialect),
        said: PeerState,
        state: Option<&DeliveryState>,
    ) {
        let repeated = said.outcome().filter(|_| rule.answer == SettlementReply::WhenDone);
        let ticket = repeated.map(|outcome| Correlation::Sent(session, id, outcome).pack());
        let waits = ticket.is_some() && entry.lock.is_some();
        self.cx.spans.on_disposition((session, id), waits, self.cx.now, &mut self.cx.tracking);
        match entry.lock {
            Some(lock) if rule.action != QueueAction::Nothing => {
                if ticket.is_some()
                    && let Some(session) = self.ends.sessions.get_mut(session)
                {
                    session.watermark.ask();
                }
                let outcome = self.outcomes.of(rule.action, dialect, state);
                let (queue, sequence) = (entry.queue, entry.sequence);
                // `extend` makes the command in its place; `push` would make it on the stack and copy it.
                let settle = iter::once_with(|| Command::Settle { queue, sequence, lock, outcome, ticket });
                self.cx.commands.extend(settle);
            }
            // A copy: there is nothing to do, and so nothing to wait for.
            _ => {
                if let Some(outcome) = repeated {
                    self.ends.sessions.settle_sent(self.cx, session, id, outcome.state());
                }
            }
        }
    }

    /// A settlement names a transaction that does not exist.
    fn refuse_unknown_transaction(&mut self, (session, id): SentDelivery, link: LinkId, settled: bool) {
        if settled {
            return Detacher::new(self.cx, self.ends).detach(link, &Refusal::NoTransaction);
        }
        let error = self.cx.error(&Refusal::NoTransaction, "");
        let state = DeliveryState::Rejected(Some(Box::new(error)));
        self.ends.sessions.settle_sent(self.cx, session, id, state);
    }

    /// A receiver has settled a delivery, in a transaction which exists.
    fn settle_transacted(&mut self, name: &TxnId, entry: &UnsettledDelivery, lock: LockId, outcome: Outcome) {
        let Some(link) = self.ends.links.get(entry.consumer) else { return };
        let joined = self.ends.transactions.join(name, link, link.entity_name(), self.cx);
        let Ok(transaction) = joined else {
            return self.ends.transactions.mark_rollback_only(name, self.cx);
        };
        let (queue, sequence) = (entry.queue, entry.sequence);
        let command = Box::new(Command::Settle { queue, sequence, lock, outcome, ticket: None });
        self.cx.commands.push(Command::Enlist { transaction, command, settled: true });
    }

    /// Whether what is said of a departed link's delivery is heard: not where the right that the link lived by has
    /// ended. Says so, where an answer is asked for.
    pub(super) fn may_settle_after_detach(
        &mut self,
        (session, id): SentDelivery,
        link: LinkId,
        answered: bool,
    ) -> bool {
        let Some((scope, right)) = self.ends.links.get(link).and_then(|link| link.claim.as_ref()) else {
            return true;
        };
        let lost = self.cx.client.lost_claim(scope, *right, self.cx.now.unix_seconds());
        let Some(refusal) = lost else { return true };
        if answered {
            let error = self.cx.error(&refusal, "");
            let state = DeliveryState::Rejected(Some(Box::new(error)));
            self.ends.sessions.settle_sent(self.cx, session, id, state);
        }
        false
    }

    /// Whether an ordered fault has taken a settlement.
    fn strike(
        &mut self,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        disposition: &PeerDisposition<'_>,
    ) -> bool {
        let Some(lock) = entry.lock else { return false };
        let Some(link) = self.ends.links.get(entry.consumer) else { return false };
        let in_session = matches!(&link.kind, LinkKind::Receiver(receiver) if receiver.is_in_session());
        let refusal = match self.faults.on_settlement(link.entity_name(), self.cx) {
            Some(FaultKind::DelaySettlement(by)) => {
                let (due, state) = (self.cx.now.instant + by, disposition.state.cloned());
                self.faults.delay(due, delivery, entry, disposition.settled, state);
                return true;
            }
            Some(FaultKind::LoseLock) => {
                let outcome = Outcome::Abandon(Properties::default());
                self.cx.settle_unanswered(entry.queue, entry.sequence, lock, outcome);
                let lost = if in_session { SettleError::SessionLockLost } else { SettleError::LockLost };
                Refusal::Settle(lost)
            }
            Some(kind @ FaultKind::RejectSettlement) => Refusal::Fault(kind),
            _ => return false,
        };
        self.on_settled_one(entry.consumer);
        if is_lost(&refusal)
            && let Some(session) = self.ends.sessions.get_mut(delivery.0)
        {
            session.unsettled.give_up(delivery.1);
        }
        if !disposition.settled {
            let error = self.cx.error(&refusal, "");
            let (state, (session, id)) = (DeliveryState::Rejected(Some(Box::new(error))), delivery);
            self.ends.sessions.settle_sent(self.cx, session, id, state);
        }
        if refusal == Refusal::Settle(SettleError::SessionLockLost) {
            // A session is lost with all its messages.
            Detacher::new(self.cx, self.ends).on_session_lost(entry.consumer);
        }
        true
    }

    /// A delivery of a link is settled: its place is free for another.
    pub(super) fn on_settled_one(&mut self, id: LinkId) {
        if let Some(receiver) = self.ends.links.receiver_mut(id) {
            receiver.on_settled(id, self.cx);
        }
    }
}
