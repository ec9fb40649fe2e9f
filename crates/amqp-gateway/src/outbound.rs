//! Outgoing deliveries, their dispositions, and link credit.
//!
//! Invariant: the core is asked for no more deliveries than the peer's credit and the limit of unsettled ones
//! allow; every delivery that the peer was shown unsettled is in the session's table until it is settled.

use std::{collections::VecDeque, iter, mem};

use amqp_codec::{
    performative::{DeliveryState, TxnId},
    raw::RawMap,
    types::{DeliveryTag, SenderSettleMode},
};
use amqp_engine::{DeliveryId, LinkKey, OutgoingDelivery, SessionId};
use broker_core::{Command, Delivery, LinkId, Outcome, Properties, SubQueue};
use bytes::Buf as _;

use crate::{
    condition::Refusal,
    correlation::{Correlation, SessionNumber},
    delivery::{self, Recipient},
    gateway::{DELIVERY_BYTES, Gateway, SCRATCH_LOW},
    link::{Consumer, LinkRole},
    outcome,
    requests::Pending,
    settlement_rules::{self, PeerState, QueueAction, SettlementReply},
    unsettled::{DeliveryIdRange, UnsettledDelivery},
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

/// Drains of one link that are answered one by one.
const DRAINS_MAX: usize = 64;

/// The link state property by which a receiver takes messages inside a transaction.
const TXN_ID: &str = "txn-id";

impl Gateway {
    /// The core hands out a message; its payload is taken.
    pub(crate) fn on_delivery(&mut self, delivery: &mut Delivery) {
        self.delivery_window.delivered(delivery.stored.payload.len().max(DELIVERY_BYTES as usize));
        let Some(link) = self.links.get_mut(delivery.consumer.0) else {
            return self.release_undelivered(delivery);
        };
        let LinkRole::Consumer(consumer) = &mut link.role else { return self.release_undelivered(delivery) };
        let Some(session) = self.sessions.get_mut(link.session.0) else { return };
        consumer.delivered += 1;
        let recipient = Recipient { dialect: link.dialect, id_base: consumer.id_base };
        let lock = delivery.lock.as_ref();
        if self.scratch.capacity() < SCRATCH_LOW {
            self.scratch.reserve(self.scratch_chunk);
        }
        let rest =
            delivery::write_front(&mut self.scratch, &delivery.stored, delivery.sequence, lock, &recipient);
        let sections = self.scratch.split().freeze();
        let bytes = (sections.len() + rest.len()) as u64;
        if consumer.sets_aside(bytes) && lock.is_some() {
            return self.dead_letter_too_large(delivery);
        }
        let settled = consumer.sends_settled(lock.is_some());
        let tag = match lock {
            Some(lock) => DeliveryTag::from(delivery::guid_order(lock.token)),
            // Some SDKs read a token out of every tag, so it has the length of one.
            None => DeliveryTag::from(delivery::plain_tag(delivery.sequence, consumer.delivered)),
        };
        // Tracing reads the properties of the message.
        let payload = &mut delivery.stored.payload;
        let mut bare = if self.config.traces { payload.clone() } else { mem::take(payload) };
        bare.truncate(rest.end);
        bare.advance(rest.start);
        // A browsed copy is not shown again, and what is taken for good is gone.
        let given = lock.is_none();
        let outgoing = OutgoingDelivery { settled, given, ..OutgoingDelivery::new(tag, sections, bare) };
        let size = outgoing.len();
        let Some(id) = self.engine.send(link.key, outgoing) else {
            return self.release_undelivered(delivery);
        };
        session.given(size.max(DELIVERY_BYTES as usize));
        let session_number = link.session;
        if settled {
            self.commands.extend(consumer.raise(delivery.consumer, self.config.max_unsettled));
        } else {
            consumer.unsettled += 1;
            let (consumer, queue, sequence) = (delivery.consumer, delivery.queue, delivery.sequence);
            let since_seconds = self.now.broker_seconds();
            let lock = lock.map(|lock| lock.id);
            session
                .unsettled
                .insert(id.0, UnsettledDelivery { consumer, queue, sequence, lock, since_seconds });
        }
        if self.config.traces {
            self.trace_delivery((session_number, id.0), delivery, settled);
        }
    }

    /// A message came for a link that is gone: the peer never saw it.
    fn release_undelivered(&mut self, delivery: &Delivery) {
        if let Some(lock) = &delivery.lock {
            self.commands.push(Command::Settle {
                queue: delivery.queue,
                sequence: delivery.sequence,
                lock: lock.id,
                outcome: Outcome::Release(Properties::default()),
                ticket: None,
            });
        }
    }

    /// A message is larger than the peer takes: it would come again and again, so it is set aside, and the
    /// credit that the core counted for it is made up for.
    fn dead_letter_too_large(&mut self, delivery: &Delivery) {
        let Some(lock) = &delivery.lock else { return };
        let (queue, sequence) = (delivery.queue, delivery.sequence);
        let outcome = Outcome::DeadLetter(outcome::too_large());
        self.commands.push(Command::Settle { queue, sequence, lock: lock.id, outcome, ticket: None });
        if let Some(consumer) = self.consumer_mut(delivery.consumer) {
            consumer.offset += 1;
            self.raise(delivery.consumer);
        }
    }

    /// Tells the core of a consumer that may have more.
    fn raise(&mut self, id: LinkId) {
        let most = self.config.max_unsettled;
        let more = self.consumer_mut(id).and_then(|consumer| consumer.raise(id, most));
        self.commands.extend(more);
    }

    /// The peer says something of deliveries it received.
    pub(crate) fn on_disposition(
        &mut self,
        session: SessionId,
        first: DeliveryId,
        last: DeliveryId,
        settled: bool,
        state: Option<&DeliveryState>,
    ) {
        let (transaction, state) = match state {
            Some(DeliveryState::Transactional { txn_id, outcome }) => (Some(txn_id), outcome.as_deref()),
            state => (None, state),
        };
        let said = PeerState::of(state);
        let unknown = transaction.is_some_and(|name| !self.knows_transaction(name));
        if !settled && !unknown && matches!(said, PeerState::Nothing | PeerState::Received) {
            return;
        }
        let Some(number) = self.by_session.find(session) else { return };
        let number = SessionNumber(number);
        if transaction.is_some() || !self.transactions.enlisted.is_empty() {
            let disposition = PeerDisposition { settled, said, state, transaction };
            return self.settle_amid_transactions(number, (first.0, last.0), disposition);
        }
        let mut range = DeliveryIdRange::new(first.0, last.0);
        loop {
            let Some(session) = self.sessions.get_mut(number.0) else { return };
            let Some((id, entry)) = session.unsettled.take_next(&mut range) else { return };
            self.settle_taken(number, id, entry, PeerDisposition { settled, said, state, transaction });
        }
    }

    /// A delivery is no longer open; an ordered fault may strike before it is settled.
    pub(crate) fn settle_taken(
        &mut self,
        session: SessionNumber,
        id: u32,
        entry: UnsettledDelivery,
        disposition: PeerDisposition<'_>,
    ) {
        let spared = match disposition.transaction {
            None if self.config.faults.is_some() => self.strike_settlement(session, id, entry, &disposition),
            _ => Some(entry),
        };
        if let Some(entry) = spared {
            self.settle(session, id, entry, disposition);
        }
    }

    /// A delivery of a link is settled: its place is free for another.
    pub(crate) fn settled_one(&mut self, id: LinkId) {
        let most = self.config.max_unsettled;
        let Some(link) = self.links.get_mut(id.0) else { return };
        let LinkRole::Consumer(consumer) = &mut link.role else { return };
        consumer.unsettled = consumer.unsettled.saturating_sub(1);
        self.commands.extend(consumer.raise(id, most));
    }

    pub(crate) fn settle(
        &mut self,
        session: SessionNumber,
        id: u32,
        entry: UnsettledDelivery,
        disposition: PeerDisposition<'_>,
    ) {
        let PeerDisposition { settled, said, state, transaction } = disposition;
        let transaction = transaction.filter(|_| entry.lock.is_some());
        let said = match transaction {
            Some(name) if !self.knows_transaction(name) => PeerState::Transactional,
            _ => said,
        };
        let most = self.config.max_unsettled;
        let Some(link) = self.links.get_mut(entry.consumer.0) else { return };
        let LinkRole::Consumer(consumer) = &mut link.role else { return };
        let rule = settlement_rules::settlement(
            link.dialect,
            consumer.mode,
            settled,
            said,
            consumer.default_outcome,
        );
        consumer.unsettled = consumer.unsettled.saturating_sub(1);
        self.commands.extend(consumer.raise(entry.consumer, most));
        let dialect = link.dialect;
        let awaits_core = rule.answer == SettlementReply::WhenDone;
        if link.detached_by_broker
            && !self.may_settle_after_detach((session, id), entry.consumer, awaits_core)
        {
            return transaction.into_iter().for_each(|name| self.mark_rollback_only(name));
        }
        if rule.answer == SettlementReply::Detach {
            if let Some(name) = transaction {
                self.mark_rollback_only(name);
            }
            return self.detach_link(entry.consumer, &Refusal::ForeignState);
        }
        let repeated = said.outcome().filter(|_| awaits_core);
        if let (Some(name), Some(lock), true) = (transaction, entry.lock, rule.action != QueueAction::Nothing)
            && said != PeerState::Transactional
        {
            let outcome = outcome::of(rule.action, dialect, state);
            return self.settle_transacted(name, &entry, lock, outcome);
        }
        let ticket = repeated.map(|outcome| Correlation::Sent(session, id, outcome).pack());
        self.trace_settle((session, id), ticket.is_some() && entry.lock.is_some());
        match entry.lock {
            Some(lock) if rule.action != QueueAction::Nothing => {
                if ticket.is_some()
                    && let Some(session) = self.sessions.get_mut(session.0)
                {
                    session.watermark.ask();
                }
                let outcome = outcome::of(rule.action, dialect, state);
                let (queue, sequence) = (entry.queue, entry.sequence);
                // It is made in its place.
                self.commands.extend(iter::once_with(|| Command::Settle {
                    queue,
                    sequence,
                    lock,
                    outcome,
                    ticket,
                }));
            }
            // A copy: there is nothing to do, and so nothing to wait for.
            _ => {
                if let Some(outcome) = repeated {
                    self.settle_sent(session, id, outcome.state());
                }
            }
        }
        if rule.answer == SettlementReply::NoTransaction {
            if settled {
                return self.detach_link(entry.consumer, &Refusal::NoTransaction);
            }
            let error = self.error(&Refusal::NoTransaction, "");
            self.settle_sent(session, id, DeliveryState::Rejected(Some(Box::new(error))));
        }
    }

    /// Settles a delivery towards the peer.
    pub(crate) fn settle_sent(&mut self, session: SessionNumber, id: u32, state: DeliveryState) {
        let Some(session) = self.sessions.get(session.0) else { return };
        self.engine.settle_outgoing(session.id, DeliveryId(id), Some(state));
    }

    /// Deliveries that the engine was given did not go out, and the peer does not know of them.
    pub(crate) fn on_unsent(&mut self, key: LinkKey, deliveries: &[DeliveryId]) {
        let number = self.by_session.find(key.session());
        let Some(session) = number.and_then(|number| self.sessions.get_mut(number)) else { return };
        let mut taken = 0;
        for entry in deliveries.iter().filter_map(|id| session.unsettled.take(id.0)) {
            taken += 1;
            if let Some(lock) = entry.lock {
                let (queue, sequence) = (entry.queue, entry.sequence);
                let outcome = Outcome::Release(Properties::default());
                self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket: None });
            }
        }
        // The engine keeps an account of what did not go out as long as an earlier delivery is named.
        if let Some(next) = self.engine.next_outgoing(session.id) {
            let transacted = self.pending.values().filter_map(|pending| match pending {
                Pending::Settle(settlement) if Some(settlement.session.0) == number => {
                    Some(settlement.delivery)
                }
                _ => None,
            });
            let named = session.unsettled.oldest().into_iter().chain(transacted);
            if let Some(oldest) = session.watermark.mark(named, next) {
                self.engine.forget_outgoing(session.id, oldest);
            }
        }
        let Some(number) = self.by_key.find(key) else { return };
        if let Some(consumer) = self.consumer_mut(LinkId(number)) {
            consumer.unsettled = consumer.unsettled.saturating_sub(taken);
            // The core counted them, the peer did not.
            consumer.offset += i64::try_from(deliveries.len()).unwrap_or(0);
            self.raise(LinkId(number));
        }
    }

    /// The peer says how many deliveries it wants.
    pub(crate) fn on_flow(&mut self, key: LinkKey, limit: u64, drain: bool, properties: Option<&RawMap>) {
        let Some(number) = self.by_key.find(key) else { return };
        if properties.is_some_and(|properties| properties.get(TXN_ID).is_some()) {
            return self.detach_link(LinkId(number), &Refusal::TransactedReceive);
        }
        let most = self.config.max_unsettled;
        let consumer_id = LinkId(number);
        let Some(link) = self.links.get_mut(number) else { return };
        match &mut link.role {
            LinkRole::Consumer(consumer) => {
                consumer.limit = limit;
                let limit = consumer.allowed(most);
                let withdrawn = mem::replace(&mut consumer.draining, drain) && !drain;
                if drain {
                    await_drained(&mut consumer.drains, (consumer.limit, limit));
                } else if limit == consumer.announced && !withdrawn {
                    return;
                }
                consumer.announced = limit;
                self.commands.push(Command::Credit { consumer: consumer_id, limit, drain });
            }
            LinkRole::Replies(replies) => {
                replies.limit = limit;
                self.send_replies(consumer_id, drain);
            }
            LinkRole::Producer(_)
            | LinkRole::Requests(_)
            | LinkRole::SubscriptionLookup(_)
            | LinkRole::Coordinator { .. } => {}
        }
    }

    /// The core has given up the rest of a consumer's credit.
    pub(crate) fn on_drained(&mut self, id: LinkId, count: u64) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        let key = link.key;
        let LinkRole::Consumer(consumer) = &mut link.role else { return };
        // Drains that the core met in one go it answers in one go.
        let Some(limit) = drained_to(&mut consumer.drains, count) else { return };
        consumer.draining &= !consumer.drains.is_empty();
        consumer.delivered = count;
        // The peer counts to its own limit, the core to the one it was told.
        consumer.offset = count.wrapping_sub(limit).cast_signed();
        self.engine.drained(key, limit);
    }
}

impl Consumer {
    /// Whether a delivery goes out settled.
    const fn sends_settled(&self, locked: bool) -> bool {
        match self.mode {
            SenderSettleMode::Settled => true,
            SenderSettleMode::Mixed => !locked,
            SenderSettleMode::Unsettled => false,
        }
    }

    /// The peer's limit in the core's count.
    const fn wanted(&self) -> u64 {
        self.limit.saturating_add_signed(self.offset)
    }

    /// The limit that the core may have: the peer's, as long as few enough deliveries are unsettled. Where all go out
    /// settled there is nothing to bound.
    fn allowed(&self, most: u32) -> u64 {
        if self.mode == SenderSettleMode::Settled {
            return self.wanted();
        }
        self.wanted().min(self.delivered.saturating_add(u64::from(most.saturating_sub(self.unsettled))))
    }

    /// Whether a message of this size is dead-lettered instead of sent. A dead letter has nowhere else to go: it is
    /// sent, and the peer says what it does with it.
    fn sets_aside(&self, bytes: u64) -> bool {
        self.max_message_bytes.is_some_and(|limit| bytes > limit) && self.path.sub_queue == SubQueue::Main
    }

    /// Raises the core's limit when it is below what the peer wants and enough has been settled to make it worth
    /// telling; says what to tell. What the peer drains goes on draining, to the new limit: an answer to the old one
    /// that is on its way is none.
    fn raise(&mut self, id: LinkId, most: u32) -> Option<Command> {
        let wanted = self.wanted();
        if self.announced >= wanted {
            return None;
        }
        let limit = self.allowed(most);
        if limit < wanted && limit < self.announced.saturating_add(u64::from(most / 4).max(1)) {
            return None;
        }
        self.announced = limit;
        let offset = self.offset;
        for (peer, core) in &mut self.drains {
            *core = (*core).max(peer.saturating_add_signed(offset).min(limit));
        }
        Some(Command::Credit { consumer: id, limit, drain: self.draining })
    }
}

/// Notes the limits of a drain, the peer's and the core's, that is to be answered. Whoever asks again and again, and takes
/// nothing of what it was sent, has all but the first answered with the last.
fn await_drained(drains: &mut VecDeque<(u64, u64)>, limits: (u64, u64)) {
    drains.truncate(DRAINS_MAX - 1);
    drains.push_back(limits);
}

/// Forgets the drains that an answer at the core's `count` is for; says the peer's limit of the latest.
fn drained_to(drains: &mut VecDeque<(u64, u64)>, count: u64) -> Option<u64> {
    let answered = drains.iter().rposition(|(_, core)| *core <= count)?;
    drains.drain(..=answered).next_back().map(|(peer, _)| peer)
}

#[cfg(test)]
mod tests;
