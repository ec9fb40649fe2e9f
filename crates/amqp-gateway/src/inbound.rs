//! Incoming transfers.
//!
//! Invariant: an unsettled message is answered once, `accepted` or `rejected` with an error, and settled; a
//! settled one is not answered.

use std::iter;

use amqp_codec::{
    message::BATCH_FORMAT,
    performative::{DeliveryState, Error, TxnId},
    raw::{AnnotationValue, RawMap},
    types::DeliveryTag,
};
use amqp_engine::{Connection, DeliveryId, IncomingDelivery, LinkKey, SessionId};
use broker_auth::Right;
use broker_core::{Command, EntityPath, LinkId, Message, NodeKind, Ticket};

use crate::{
    address::{self, AddressError, Node},
    attach::REQUEST_CREDIT,
    condition::Refusal,
    correlation::{Correlation, SessionNumber},
    early_outcomes,
    enlist::inside,
    gateway::Gateway,
    link::{LinkRole, TrackedPublish},
    message_parse::{self, ParseOptions},
    requested_kind::{self, asking},
    requests::Pending,
};

impl Gateway {
    /// A whole delivery has come; its payload is taken.
    pub(crate) fn on_transfer(&mut self, delivery: &mut IncomingDelivery) {
        let number = self.by_key.find(delivery.link);
        let Some((number, link)) = number.and_then(|number| Some((number, self.links.get(number)?))) else {
            // It was detached when this had come already.
            return self.on_enlisted_work_lost(delivery.state.as_ref());
        };
        let (id, key) = (LinkId(number), link.key);
        match &link.role {
            LinkRole::Producer(_) => {
                let session = link.session;
                self.top_up(key, self.config.credit_window);
                if self.config.traces {
                    self.trace_publish(id, session, delivery);
                }
                self.publish(id, delivery);
            }
            LinkRole::Requests(_) => {
                self.top_up(key, REQUEST_CREDIT);
                self.on_request(id, delivery);
            }
            LinkRole::Coordinator { .. } => {
                self.top_up(key, REQUEST_CREDIT);
                self.on_control(id, delivery);
            }
            // The engine lets nobody send on a link that receives.
            LinkRole::Consumer(_) | LinkRole::Replies(_) | LinkRole::SubscriptionLookup(_) => {}
        }
    }

    /// A delivery has come that is larger than its link takes: refused, and the link stays.
    pub(crate) fn on_too_large(
        &mut self,
        key: LinkKey,
        (delivery, tag): (DeliveryId, DeliveryTag),
        state: Option<&DeliveryState>,
        refusal: &Refusal,
    ) {
        let transaction = self.open_transaction(state);
        let Some(number) = self.by_key.find(key) else { return };
        let Some(link) = self.links.get(number) else { return };
        let (id, session) = (LinkId(number), link.session);
        match &link.role {
            LinkRole::Producer(_) => {
                self.top_up(key, self.config.credit_window);
                let delivery = delivery.0;
                self.refuse_tracked(
                    &TrackedPublish { link: id, session, delivery, tag, settled: false, transaction },
                    refusal,
                );
            }
            LinkRole::Requests(_) | LinkRole::Coordinator { .. } => {
                let place = link.entity_name().to_owned();
                self.top_up(key, REQUEST_CREDIT);
                let error = self.error(refusal, &place);
                self.settle_received(session, delivery.0, DeliveryState::Rejected(Some(Box::new(error))));
            }
            LinkRole::Consumer(_) | LinkRole::Replies(_) | LinkRole::SubscriptionLookup(_) => {}
        }
    }

    /// Credit is no throttle: it is granted anew at half, whatever waits.
    fn top_up(&mut self, key: LinkKey, window: u32) {
        if self.engine.credit_left(key) <= window / 2 {
            self.engine.grant_credit(key, window);
        }
    }

    fn publish(&mut self, id: LinkId, delivery: &mut IncomingDelivery) {
        let Some(link) = self.links.get(id.0) else { return };
        let LinkRole::Producer(producer) = &link.role else { return };
        let (session, dialect) = (link.session, link.dialect);
        if self.config.faults.is_some()
            && let Some(refusal) = self.throttle_fault(id, delivery)
        {
            // Or its transaction would commit without this message.
            self.on_enlisted_work_lost(delivery.state.as_ref());
            return self.refuse_message(id, delivery, &refusal);
        }
        if let Some(DeliveryState::Transactional { txn_id, .. }) = &delivery.state {
            let txn_id = txn_id.clone();
            let options =
                ParseOptions { dialect, utc: self.now.utc, required_fields: producer.required_fields };
            return self.publish_transacted(id, delivery, options, txn_id);
        }
        let (bytes, limit) = (delivery.payload.len() as u64, producer.max_message_bytes);
        if bytes > limit {
            return self.refuse_message(id, delivery, &Refusal::TooLarge { bytes, limit });
        }
        let options = ParseOptions { dialect, utc: self.now.utc, required_fields: producer.required_fields };
        let Some(queue) = producer.queue.filter(|_| !producer.is_tracked()) else {
            return self.publish_by_path(id, delivery, options);
        };
        let ticket =
            (!delivery.settled).then(|| Correlation::Received(session, delivery.delivery_id.0).pack());
        if delivery.message_format == BATCH_FORMAT {
            if let Some(messages) = self.take_in(id, delivery, options) {
                self.commands.push(Command::PublishBatch { queue, messages, ticket });
            }
            return;
        }
        match message_parse::message(std::mem::take(&mut delivery.payload), options, &mut self.tracking) {
            // It is made in its place.
            Ok(message) => {
                self.commands.extend(iter::once_with(|| Command::Publish { queue, message, ticket }));
            }
            Err(refusal) => self.refuse_taken(id, delivery, &refusal),
        }
    }

    /// For the anonymous terminus, for a link that the core has not answered yet or that goes through another entity,
    /// and for one whose refusals must find it.
    fn publish_by_path(&mut self, id: LinkId, delivery: &mut IncomingDelivery, options: ParseOptions) {
        let (path, kind) = match self.destination(id, delivery) {
            Ok(destination) => destination,
            Err(refusal) => return self.refuse_message(id, delivery, &refusal),
        };
        let Some(messages) = self.take_in(id, delivery, options) else { return };
        let Some(link) = self.links.get(id.0) else { return };
        let LinkRole::Producer(producer) = &link.role else { return };
        let (session, delivery_id) = (link.session, delivery.delivery_id.0);
        let via = producer.via.clone();
        let ticket = if producer.is_tracked() {
            let tracked = TrackedPublish {
                link: id,
                session,
                delivery: delivery_id,
                tag: delivery.tag,
                settled: delivery.settled,
                transaction: None,
            };
            Some(self.await_answer(Pending::Publish(tracked)))
        } else {
            (!delivery.settled).then(|| Correlation::Received(session, delivery_id).pack())
        };
        let auto_create = self.config.auto_create;
        self.commands.push(match via {
            Some(via) => Command::PublishVia { path, via, messages, ticket },
            None => asking(kind, Command::PublishTo { path, messages, auto_create, ticket }),
        });
    }

    /// The messages of a delivery; `None` when they are refused, which has been told.
    pub(crate) fn take_in(
        &mut self,
        id: LinkId,
        delivery: &mut IncomingDelivery,
        options: ParseOptions,
    ) -> Option<Vec<Message>> {
        let payload = std::mem::take(&mut delivery.payload);
        let read = if delivery.message_format == BATCH_FORMAT {
            message_parse::batch(&payload, options, self.config.max_batch_messages, &mut self.tracking)
        } else {
            message_parse::message(payload, options, &mut self.tracking).map(|message| vec![message])
        };
        match read {
            Ok(messages) => return Some(messages),
            Err(refusal) => self.refuse_taken(id, delivery, &refusal),
        }
        None
    }

    /// Refuses a message, or detaches the link of one whose bytes are no message.
    fn refuse_taken(&mut self, id: LinkId, delivery: &IncomingDelivery, refusal: &Refusal) {
        if matches!(refusal, Refusal::Malformed(_)) {
            self.detach_link(id, refusal);
        } else {
            self.refuse_message(id, delivery, refusal);
        }
    }

    /// Destination of a message: that of its link, else that of its `to`, which may ask for a kind of node.
    pub(crate) fn destination(
        &self,
        id: LinkId,
        delivery: &IncomingDelivery,
    ) -> Result<(EntityPath, Option<NodeKind>), Refusal> {
        let link = self.links.get(id.0).ok_or(Refusal::Unexpected)?;
        let LinkRole::Producer(producer) = &link.role else { return Err(Refusal::Unexpected) };
        if let Some(path) = &producer.path {
            return Ok((path.clone(), producer.kind));
        }
        let (to, jms_destination) = message_parse::destination(&delivery.payload).ok_or(Refusal::NoTo)?;
        let bad = |error| Refusal::BadTo { to: to.clone(), error };
        let Node::Entity(path) = address::parse(&to).map_err(bad)? else {
            return Err(bad(AddressError::NotAQueue));
        };
        self.claim(&path, false, Right::Send)?;
        Ok((path, requested_kind::of_message(&to, jms_destination)?))
    }

    /// Messages are stored.
    pub(crate) fn on_published(&mut self, first: Ticket, last: Ticket) {
        match (Correlation::unpack(first), Correlation::unpack(last)) {
            (Some(Correlation::Received(session, from)), Some(Correlation::Received(_, to))) => {
                self.trace_answered(session, (from, to), false);
                let Some(session) = self.sessions.get(session.0) else { return };
                settle_received(&mut self.engine, session.id, from..=to);
            }
            (Some(Correlation::Request(from)), Some(Correlation::Request(to))) => {
                for number in from..=to {
                    if let Some(Pending::Publish(tracked)) = self.pending.remove(&number)
                        && !tracked.settled
                    {
                        self.note_answered(&tracked);
                        let state = DeliveryState::Accepted;
                        let state = match &tracked.transaction {
                            Some(name) => inside(name, state),
                            None => state,
                        };
                        self.settle_received(tracked.session, tracked.delivery, state);
                    }
                }
            }
            _ => {}
        }
    }

    /// A message is refused by the core.
    pub(crate) fn on_publish_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        match Correlation::unpack(ticket) {
            Some(Correlation::Received(session, delivery)) => {
                let error = self.error(refusal, "");
                self.settle_received(session, delivery, DeliveryState::Rejected(Some(Box::new(error))));
            }
            Some(Correlation::Request(number)) => match self.pending.remove(&number) {
                Some(Pending::Publish(tracked)) => {
                    self.note_answered(&tracked);
                    self.refuse_tracked(&tracked, refusal);
                }
                Some(Pending::Request(caller, _)) => self.reply_refused(&caller, refusal),
                _ => {}
            },
            _ => {}
        }
    }

    /// The open transaction that a message names.
    fn open_transaction(&self, state: Option<&DeliveryState>) -> Option<TxnId> {
        match state {
            Some(DeliveryState::Transactional { txn_id, .. }) if self.knows_transaction(txn_id) => {
                Some(txn_id.clone())
            }
            _ => None,
        }
    }

    /// Refuses a message before the core has seen it.
    pub(crate) fn refuse_message(&mut self, id: LinkId, delivery: &IncomingDelivery, refusal: &Refusal) {
        let Some(session) = self.links.get(id.0).map(|link| link.session) else { return };
        let transaction = self.open_transaction(delivery.state.as_ref());
        let tracked = TrackedPublish {
            link: id,
            session,
            delivery: delivery.delivery_id.0,
            tag: delivery.tag,
            settled: delivery.settled,
            transaction,
        };
        self.refuse_tracked(&tracked, refusal);
    }

    /// Rejects a message, or detaches its link where `rejected` cannot be said.
    fn refuse_tracked(&mut self, tracked: &TrackedPublish, refusal: &Refusal) {
        let Some(link) = self.links.get(tracked.link.0) else { return };
        let LinkRole::Producer(producer) = &link.role else { return };
        let (anonymous, takes_rejected) = (producer.path.is_none(), producer.takes_rejected);
        let place = link.entity_name().to_owned();
        let mut error = self.error(refusal, &place);
        if anonymous {
            error = with_delivery_tag(error, &tracked.tag);
        }
        if !tracked.settled && takes_rejected {
            let mut state = DeliveryState::Rejected(Some(Box::new(error)));
            if let Some(name) = &tracked.transaction {
                state = inside(name, state);
            }
            self.settle_received(tracked.session, tracked.delivery, state);
        } else if anonymous || !takes_rejected {
            self.detach_link_with(tracked.link, error);
        }
        // Else it was sent settled to a known place: fire and forget.
    }

    pub(crate) fn settle_received(&mut self, session: SessionNumber, delivery: u32, state: DeliveryState) {
        self.trace_answered(session, (delivery, delivery), matches!(state, DeliveryState::Rejected(_)));
        let Some(session) = self.sessions.get(session.0) else { return };
        let (session, delivery) = (session.id, DeliveryId(delivery));
        if self.delays_outcomes() && early_outcomes::differs_from_accepted(&state) {
            let due = self.now.instant + early_outcomes::DELAY;
            return self.engine.settle_incoming_at(due, session, delivery, state);
        }
        self.engine.settle_incoming(session, delivery, state);
    }
}

/// Accepts a run of deliveries.
fn settle_received(engine: &mut Connection, session: SessionId, ids: std::ops::RangeInclusive<u32>) {
    for id in ids {
        engine.settle_incoming(session, DeliveryId(id), DeliveryState::Accepted);
    }
}

/// The anonymous terminus names the message it refuses (anonterm 1.0, 2.2).
fn with_delivery_tag(error: Error, tag: &[u8]) -> Error {
    Error { info: Some(RawMap::with_symbol_keys(&[("delivery-tag", AnnotationValue::Binary(tag))])), ..error }
}
