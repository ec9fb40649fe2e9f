//! Messages that the peer sends.
//!
//! Invariant: an unsettled message is answered once, `accepted` or `rejected` with an error, and settled; a
//! settled one is not answered. One that the core has taken into a transaction is answered with that transaction and the
//! outcome in it; one that is refused is answered with a plain `rejected`, which every client understands, and its
//! transaction can only roll back.

use std::{iter, mem};

use amqp_codec::{
    message::BATCH_FORMAT,
    performative::{DeliveryState, Error, TxnId},
    raw::{AnnotationValue, RawMap},
    types::DeliveryTag,
};
use amqp_engine::{DeliveryId, IncomingDelivery};
use broker_core::{Command, EntityPath, LinkId, Message, NodeKind, TransactionId, Work};

use super::message_parse::{self, ParseOptions};
use crate::{
    condition::Refusal,
    correlation::Correlation,
    cx::Cx,
    endpoints::Endpoints,
    fault_injection,
    link::{LinkKind, asking, attach::REQUEST_CREDIT, detach::Detacher},
    pending::{Pending, TrackedPublish},
    transaction::{inside, read_name},
};

/// Takes the messages that come on the links of one connection.
#[derive(Debug)]
pub(crate) struct Publisher<'a> {
    cx: &'a mut Cx,
    ends: &'a mut Endpoints,
}

impl<'a> Publisher<'a> {
    pub(crate) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints) -> Self {
        Self { cx, ends }
    }

    /// A message has come on a link; its payload is taken.
    pub(crate) fn on_transfer(&mut self, id: LinkId, delivery: &mut IncomingDelivery) {
        let Some(link) = self.ends.links.get(id) else { return };
        let LinkKind::Sender(sender) = &link.kind else { return };
        self.cx.top_up(link.key, self.cx.config.credit_window);
        if self.cx.config.traces {
            let (now, ids) = (self.cx.now, &mut self.cx.tracking);
            self.cx.spans.on_transfer(link.session, delivery, link.entity_name(), now, ids);
        }
        if self.cx.config.faults.is_some()
            && let Some(refusal) = fault_injection::throttle(link, sender, delivery, self.cx)
        {
            // Or its transaction would commit without this message.
            self.ends.transactions.on_work_lost(delivery.state.as_ref(), self.cx);
            return self.refuse(id, delivery, &refusal);
        }
        let options = sender.parse_options(link.dialect, self.cx.now.utc);
        if let Some(DeliveryState::Transactional { txn_id, .. }) = &delivery.state {
            let txn_id = txn_id.clone();
            return self.publish_transacted(id, delivery, options, txn_id);
        }
        if let Err(refusal) = sender.check_size(delivery) {
            return self.refuse(id, delivery, &refusal);
        }
        let Some(queue) = sender.direct_queue() else {
            return self.publish_by_path(id, delivery, options);
        };
        let (session, number) = (link.session, delivery.delivery_id.0);
        let ticket = (!delivery.settled).then(|| Correlation::Received(session, number).pack());
        if delivery.message_format == BATCH_FORMAT {
            if let Some(messages) = self.read(id, delivery, options) {
                self.cx.commands.push(Command::PublishBatch { queue, messages, ticket });
            }
            return;
        }
        match message_parse::message(mem::take(&mut delivery.payload), options, &mut self.cx.tracking) {
            // `extend` makes the command in its place; `push` would make it on the stack and copy it.
            Ok(message) => {
                let publish = iter::once_with(|| Command::Publish { queue, message, ticket });
                self.cx.commands.extend(publish);
            }
            Err(refusal) => self.refuse_unreadable(id, delivery, &refusal),
        }
    }

    /// A delivery has come that is larger than its link takes: refused, and the link stays.
    pub(crate) fn on_too_large(
        &mut self,
        id: LinkId,
        (delivery, tag): (DeliveryId, DeliveryTag),
        state: Option<&DeliveryState>,
        refusal: &Refusal,
    ) {
        let Some(link) = self.ends.links.get(id) else { return };
        let (session, delivery) = (link.session, delivery.0);
        match &link.kind {
            LinkKind::Sender(_) => {
                self.cx.top_up(link.key, self.cx.config.credit_window);
                let transaction = self.ends.transactions.named_by(state);
                let tracked =
                    TrackedPublish { link: id, session, delivery, tag, settled: false, transaction };
                self.refuse_tracked(&tracked, refusal);
            }
            LinkKind::Request(_) | LinkKind::Coordinator { .. } => {
                self.cx.top_up(link.key, REQUEST_CREDIT);
                let error = self.cx.error(refusal, link.entity_name());
                let state = DeliveryState::Rejected(Some(Box::new(error)));
                self.ends.sessions.settle_received(self.cx, session, delivery, state);
            }
            LinkKind::Receiver(_) | LinkKind::Reply(_) | LinkKind::SubscriptionLookup(_) => {}
        }
    }

    /// For the anonymous terminus, for a link that the core has not answered yet or that goes through another entity,
    /// and for one whose refusals must find it.
    fn publish_by_path(&mut self, id: LinkId, delivery: &mut IncomingDelivery, options: ParseOptions) {
        let Some(dialect) = self.ends.links.get(id).map(|link| link.dialect) else { return };
        let Some(sender) = self.ends.links.sender_mut(id) else { return };
        let (path, kind) = match sender.destination(delivery, dialect, self.cx) {
            Ok(destination) => destination,
            Err(refusal) => return self.refuse(id, delivery, &refusal),
        };
        let Some(messages) = self.read(id, delivery, options) else { return };
        let Some(link) = self.ends.links.get(id) else { return };
        let LinkKind::Sender(sender) = &link.kind else { return };
        let (session, number) = (link.session, delivery.delivery_id.0);
        let via = sender.via().cloned();
        let ticket = if sender.is_tracked() {
            let tracked = TrackedPublish {
                link: id,
                session,
                delivery: number,
                tag: delivery.tag,
                settled: delivery.settled,
                transaction: None,
            };
            Some(self.ends.pending.add(Pending::Publish(tracked)))
        } else {
            (!delivery.settled).then(|| Correlation::Received(session, number).pack())
        };
        let auto_create = self.cx.config.auto_create;
        self.cx.commands.push(match via {
            Some(via) => Command::PublishVia { path, via, messages, ticket },
            None => asking(kind, Command::PublishTo { path, messages, auto_create, ticket }),
        });
    }

    /// A message whose transfer names a transaction.
    fn publish_transacted(
        &mut self,
        id: LinkId,
        delivery: &mut IncomingDelivery,
        options: ParseOptions,
        name: TxnId,
    ) {
        let (transaction, path, kind) = match self.join_transaction(id, delivery, &name) {
            Ok(joined) => joined,
            Err(refusal) => {
                self.ends.transactions.mark_rollback_only(&name, self.cx);
                if delivery.settled && refusal == Refusal::NoTransaction {
                    // Nothing else would tell its sender.
                    return Detacher::new(self.cx, self.ends).detach(id, &refusal);
                }
                return self.refuse(id, delivery, &refusal);
            }
        };
        let Some(messages) = self.read(id, delivery, options) else {
            return self.ends.transactions.mark_rollback_only(&name, self.cx);
        };
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let LinkKind::Sender(sender) = &mut link.kind else { return };
        let session = link.session;
        let (settled, tag) = (delivery.settled, delivery.tag);
        let ticket = (!settled).then(|| {
            if let Some(name) = read_name(&name) {
                sender.on_enlisted(name);
            }
            let delivery = delivery.delivery_id.0;
            let transaction = Some(name);
            let tracked = TrackedPublish { link: id, session, delivery, tag, settled, transaction };
            self.ends.pending.add(Pending::Publish(tracked))
        });
        let command = sender.transacted_send(path, self.cx.config.auto_create, messages, ticket);
        self.cx.commands.push(asking(kind, command.within(transaction)));
    }

    /// The transaction that a message joins, and where it goes.
    fn join_transaction(
        &mut self,
        id: LinkId,
        delivery: &IncomingDelivery,
        name: &TxnId,
    ) -> Result<(TransactionId, EntityPath, Option<NodeKind>), Refusal> {
        if !self.ends.transactions.knows(name) {
            return Err(Refusal::NoTransaction);
        }
        let link = self.ends.links.get(id).ok_or(Refusal::Unexpected)?;
        let LinkKind::Sender(sender) = &link.kind else { return Err(Refusal::Unexpected) };
        let (path, kind) = sender.destination(delivery, link.dialect, self.cx)?;
        sender.check_size(delivery)?;
        let entity = sender.via().map_or_else(|| path.entity.clone(), |via| via.entity.clone());
        let transaction = self.ends.transactions.join(name, link, &entity, self.cx)?;
        Ok((transaction, path, kind))
    }

    /// The messages of a delivery; `None` when they are refused, which has been told.
    fn read(
        &mut self,
        id: LinkId,
        delivery: &mut IncomingDelivery,
        options: ParseOptions,
    ) -> Option<Vec<Message>> {
        let payload = mem::take(&mut delivery.payload);
        let read = if delivery.message_format == BATCH_FORMAT {
            let most = self.cx.config.max_batch_messages;
            message_parse::batch(&payload, options, most, &mut self.cx.tracking)
        } else {
            message_parse::message(payload, options, &mut self.cx.tracking).map(|message| vec![message])
        };
        match read {
            Ok(messages) => {
                // The first is counted with the transfer.
                let more = messages.len().saturating_sub(1) as u64;
                self.cx.work.charge(Work::COMMAND.times(more));
                return Some(messages);
            }
            Err(refusal) => self.refuse_unreadable(id, delivery, &refusal),
        }
        None
    }

    /// A message that its ticket does not tell apart is stored.
    pub(crate) fn on_published(&mut self, tracked: &TrackedPublish) {
        if tracked.settled {
            return;
        }
        self.on_answered(tracked);
        let mut state = DeliveryState::Accepted;
        if let Some(name) = &tracked.transaction {
            state = inside(name, state);
        }
        self.ends.sessions.settle_received(self.cx, tracked.session, tracked.delivery, state);
    }

    /// A message that its ticket does not tell apart is refused by the core.
    pub(crate) fn on_refused(&mut self, tracked: &TrackedPublish, refusal: &Refusal) {
        self.on_answered(tracked);
        self.refuse_tracked(tracked, refusal);
    }

    /// The core has answered for a message, in a transaction or in none.
    fn on_answered(&mut self, tracked: &TrackedPublish) {
        if let Some(name) = tracked.transaction.as_ref().and_then(read_name)
            && let Some(sender) = self.ends.links.sender_mut(tracked.link)
        {
            sender.on_answered(name);
        }
    }

    /// Refuses a message, or detaches the link of one whose bytes are no message.
    fn refuse_unreadable(&mut self, id: LinkId, delivery: &IncomingDelivery, refusal: &Refusal) {
        if matches!(refusal, Refusal::Malformed(_)) {
            Detacher::new(self.cx, self.ends).detach(id, refusal);
        } else {
            self.refuse(id, delivery, refusal);
        }
    }

    /// Refuses a message before the core has seen it.
    fn refuse(&mut self, id: LinkId, delivery: &IncomingDelivery, refusal: &Refusal) {
        let Some(session) = self.ends.links.get(id).map(|link| link.session) else { return };
        let tracked = TrackedPublish {
            link: id,
            session,
            delivery: delivery.delivery_id.0,
            tag: delivery.tag,
            settled: delivery.settled,
            transaction: self.ends.transactions.named_by(delivery.state.as_ref()),
        };
        self.refuse_tracked(&tracked, refusal);
    }

    /// Rejects a message, or detaches its link where `rejected` cannot be said.
    fn refuse_tracked(&mut self, tracked: &TrackedPublish, refusal: &Refusal) {
        let Some(link) = self.ends.links.get(tracked.link) else { return };
        let LinkKind::Sender(sender) = &link.kind else { return };
        let (anonymous, takes_rejected) = (sender.path().is_none(), sender.takes_rejected());
        let mut error = self.cx.error_to(link.dialect, refusal, link.entity_name());
        if anonymous && !tracked.tag.is_too_long() {
            error = with_delivery_tag(error, &tracked.tag);
        }
        if !tracked.settled && takes_rejected {
            let mut state = DeliveryState::Rejected(Some(Box::new(error)));
            if let Some(name) = &tracked.transaction {
                state = inside(name, state);
            }
            self.ends.sessions.settle_received(self.cx, tracked.session, tracked.delivery, state);
        } else if anonymous || !takes_rejected {
            Detacher::new(self.cx, self.ends).detach_with(tracked.link, error);
        }
        // Else it was sent settled to a known place: fire and forget.
    }
}

/// The anonymous terminus names the message it refuses (anonterm 1.0, 2.2).
fn with_delivery_tag(error: Error, tag: &[u8]) -> Error {
    Error { info: Some(RawMap::with_symbol_keys(&[("delivery-tag", AnnotationValue::Binary(tag))])), ..error }
}
