//! Settlements while transactions are open, and the deliveries that they concern at the end of one.
//!
//! Invariant: a delivery that its receiver has not settled stays open until a settlement of it is done, in a transaction
//! that commits or in none; a transaction that loses one of its settlements is not committed.

use amqp_codec::performative::DeliveryState;
use amqp_engine::DeliveryId;
use broker_core::{Command, Outcome, Properties};

use super::{
    reply::is_lost,
    rules::{PeerState, QueueAction, WireOutcome},
    settle::{PeerDisposition, Settlements},
    unsettled::{DeliveryIdRange, UnsettledDelivery},
};
use crate::{
    condition::Refusal,
    correlation::SessionNumber,
    dialect::Dialect,
    link::LinkKind,
    pending::{Pending, TrackedSettlement},
    transaction::{enlisted::SentDelivery, inside, read_name, wire_name},
};

impl Settlements<'_> {
    /// The disposition names a transaction, or deliveries wait for one.
    pub(super) fn settle_amid_transactions(
        &mut self,
        session: SessionNumber,
        (first, last): (u32, u32),
        disposition: PeerDisposition<'_>,
    ) {
        let gave_up =
            self.ends.sessions.get(session).is_some_and(|found| found.unsettled.gave_up(first, last));
        let mut range = DeliveryIdRange::new(first, last);
        while let Some(found) = self.ends.sessions.get(session)
            && let Some((id, entry)) = found.unsettled.next(&mut range)
        {
            if disposition.settled {
                self.settled_amid_transactions((session, id), entry, disposition);
            } else {
                self.answered_amid_transactions((session, id), entry, disposition);
            }
        }
        if let Some(name) = disposition.transaction.filter(|_| gave_up) {
            // It was given up with its link, or refused, before this came: nothing can be done with it, and the discharge says so.
            self.ends.transactions.mark_rollback_only(name, self.cx);
        }
    }

    /// A receiver has settled a delivery: whatever the state says, it holds it no more.
    fn settled_amid_transactions(
        &mut self,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        disposition: PeerDisposition<'_>,
    ) {
        let named = disposition.transaction.and_then(read_name);
        if let Some(name) = named
            && disposition.transaction.is_some_and(|name| !self.ends.transactions.knows(name))
            && self.ends.transactions.enlisted.settle(name, delivery)
        {
            // That one is discharged, and its end says what becomes of the delivery.
            return;
        }
        // The receiver's last word is this one. A transaction that had another is not done.
        let others = self.ends.transactions.enlisted.transactions_of(delivery).to_vec();
        for other in others.into_iter().filter(|other| Some(*other) != named) {
            self.ends.transactions.mark_named_rollback_only(other, self.cx);
        }
        self.take_and_settle(delivery, entry, disposition);
    }

    /// A receiver has not settled a delivery, and waits for an answer.
    fn answered_amid_transactions(
        &mut self,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        disposition: PeerDisposition<'_>,
    ) {
        if matches!(disposition.said, PeerState::Nothing | PeerState::Received) {
            let unknown = disposition.transaction.is_some_and(|name| !self.ends.transactions.knows(name));
            if !unknown {
                return;
            }
        }
        let waits = !self.ends.transactions.enlisted.transactions_of(delivery).is_empty();
        let (Some(outcome), Some(_)) = (disposition.said.outcome(), entry.lock) else {
            return self.take_and_settle(delivery, entry, disposition);
        };
        match disposition.transaction {
            Some(name) if self.ends.transactions.knows(name) => {
                self.enlist_delivery(delivery, entry, outcome, disposition);
            }
            None if waits => self.settle_waiting(delivery, entry, outcome, disposition),
            Some(_) if waits => self.answer_refused(delivery, &Refusal::NoTransaction),
            _ => self.take_and_settle(delivery, entry, disposition),
        }
    }

    fn take_and_settle(
        &mut self,
        (session, id): SentDelivery,
        entry: UnsettledDelivery,
        disposition: PeerDisposition<'_>,
    ) {
        if let Some(session) = self.ends.sessions.get_mut(session) {
            session.unsettled.take(id);
        }
        self.settle_taken((session, id), entry, disposition);
    }

    /// Outcome of a delivery for the core; `None` where the peer may not say it any more, which is told.
    fn outcome_of(
        &mut self,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        disposition: &PeerDisposition<'_>,
    ) -> Option<Outcome> {
        let link = self.ends.links.get(entry.consumer)?;
        let LinkKind::Receiver(receiver) = &link.kind else { return None };
        let rule = receiver.rule(link.dialect, false, disposition.said);
        let (dialect, detached_by_broker) = (link.dialect, link.detached_by_broker);
        if detached_by_broker && !self.may_settle_after_detach(delivery, entry.consumer, true) {
            self.close_delivery(delivery);
            return None;
        }
        (rule.action != QueueAction::Nothing)
            .then(|| self.outcomes.of(rule.action, dialect, disposition.state))
    }

    /// An outcome joins a transaction.
    fn enlist_delivery(
        &mut self,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        wire: WireOutcome,
        disposition: PeerDisposition<'_>,
    ) {
        let (Some(txn_id), Some(lock)) = (disposition.transaction, entry.lock) else { return };
        let Some(name) = read_name(txn_id) else { return };
        let Some(outcome) = self.outcome_of(delivery, entry, &disposition) else {
            return self.ends.transactions.mark_rollback_only(txn_id, self.cx);
        };
        let Some(link) = self.ends.links.get(entry.consumer) else { return };
        let joined = self.ends.transactions.join(txn_id, link, link.entity_name(), self.cx);
        let transaction = match joined {
            Ok(transaction) => transaction,
            Err(refusal) => {
                self.ends.transactions.mark_rollback_only(txn_id, self.cx);
                return self.answer_refused(delivery, &refusal);
            }
        };
        self.ends.transactions.enlisted.add(name, delivery, wire);
        let (session, id) = delivery;
        let tracked = TrackedSettlement { session, delivery: id, outcome: wire, transaction: Some(name) };
        let ticket = Some(self.ends.pending.add(Pending::Settle(tracked)));
        let (queue, sequence) = (entry.queue, entry.sequence);
        let command = Command::Settle { queue, sequence, lock, outcome, ticket };
        self.cx.commands.push(command.within(transaction));
    }

    /// A delivery that a transaction has, or had, is to be settled outside of one: the core knows whether it still has it.
    fn settle_waiting(
        &mut self,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        wire: WireOutcome,
        disposition: PeerDisposition<'_>,
    ) {
        let Some(lock) = entry.lock else { return };
        let Some(outcome) = self.outcome_of(delivery, entry, &disposition) else { return };
        let (session, id) = delivery;
        let tracked = TrackedSettlement { session, delivery: id, outcome: wire, transaction: None };
        let ticket = Some(self.ends.pending.add(Pending::Settle(tracked)));
        let (queue, sequence) = (entry.queue, entry.sequence);
        self.cx.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket });
    }

    /// The core has taken a settlement whose delivery is open until then.
    pub(crate) fn on_enlisted(&mut self, settlement: TrackedSettlement) {
        let TrackedSettlement { session, delivery, outcome, transaction } = settlement;
        match transaction {
            Some(name) if self.is_open((session, delivery)) => {
                self.answer_unsettled((session, delivery), inside(&wire_name(name), outcome.state()));
            }
            None if self.close_delivery((session, delivery)).is_some() => {
                self.ends.sessions.settle_sent(self.cx, session, delivery, outcome.state());
            }
            _ => {}
        }
    }

    /// The core has refused it. Where the lock goes on, the receiver still has the delivery.
    pub(crate) fn on_enlisting_refused(&mut self, settlement: TrackedSettlement, refusal: &Refusal) {
        let TrackedSettlement { session, delivery, transaction, .. } = settlement;
        if let Some(name) = transaction {
            self.ends.transactions.enlisted.refuse(name, (session, delivery));
        }
        if !is_lost(refusal) {
            self.answer_refused((session, delivery), refusal);
        } else if self.close_delivery((session, delivery)).is_some() {
            if let Some(session) = self.ends.sessions.get_mut(session) {
                session.unsettled.give_up(delivery);
            }
            let error = self.cx.error(refusal, "");
            self.ends.sessions.settle_sent(
                self.cx,
                session,
                delivery,
                DeliveryState::Rejected(Some(Box::new(error))),
            );
        }
    }

    /// A transaction is committed: its deliveries are settled.
    pub(crate) fn settle_enlisted(&mut self, name: u128) {
        let txn_id = wire_name(name);
        for (delivery, enlisted) in self.ends.transactions.enlisted.end(name) {
            if self.close_delivery(delivery).is_some() && !enlisted.settled {
                let (session, id) = delivery;
                self.ends.sessions.settle_sent(
                    self.cx,
                    session,
                    id,
                    inside(&txn_id, enlisted.outcome.state()),
                );
            }
        }
    }

    /// A transaction is not done: its deliveries are as they were. One that its receiver has settled meanwhile returns to
    /// the queue and counts as failed, unless a lock of Service Bus runs on.
    pub(crate) fn leave_enlisted(&mut self, name: u128) {
        for (delivery, enlisted) in self.ends.transactions.enlisted.end(name) {
            if !enlisted.settled {
                continue;
            }
            let Some(entry) = self.close_delivery(delivery) else { continue };
            let dialect = self.ends.links.get(entry.consumer).map(|link| link.dialect);
            if let (Some(lock), Some(Dialect::Plain)) = (entry.lock, dialect) {
                let outcome = Outcome::Abandon(Properties::default());
                self.cx.settle_unanswered(entry.queue, entry.sequence, lock, outcome);
            }
        }
    }

    fn is_open(&self, (session, id): SentDelivery) -> bool {
        self.ends.sessions.get(session).is_some_and(|session| session.unsettled.get(id).is_some())
    }

    /// A delivery is no longer open; says what was behind it.
    fn close_delivery(&mut self, (session, id): SentDelivery) -> Option<UnsettledDelivery> {
        let entry = self.ends.sessions.get_mut(session)?.unsettled.take(id)?;
        self.on_settled_one(entry.consumer);
        Some(entry)
    }

    /// Refuses an outcome of a delivery that its receiver still has.
    fn answer_refused(&mut self, delivery: SentDelivery, refusal: &Refusal) {
        if self.is_open(delivery) {
            let error = self.cx.error(refusal, "");
            self.answer_unsettled(delivery, DeliveryState::Rejected(Some(Box::new(error))));
        }
    }

    fn answer_unsettled(&mut self, (session, id): SentDelivery, state: DeliveryState) {
        if let Some(session) = self.ends.sessions.get(session) {
            self.cx.engine.answer_outgoing(session.id, DeliveryId(id), state);
        }
    }
}
