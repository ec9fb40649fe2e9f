//! Messages that the core hands out.
//!
//! Invariant: every delivery that the peer was shown unsettled is in the session's table until it is settled.

use std::mem;

use amqp_codec::types::DeliveryTag;
use amqp_engine::{DeliveryId, LinkKey, OutgoingDelivery};
use broker_core::{Command, Delivery, Outcome};
use bytes::Buf as _;

use super::{
    SectionBuffer,
    delivery::{self, Recipient},
};
use crate::{
    connection::{CoreRegistration, DELIVERY_BYTES},
    cx::Cx,
    disposition::{outcome, unsettled::UnsettledDelivery},
    endpoints::Endpoints,
    link::LinkKind,
};

/// Sends the messages that the core hands out to the links of one connection.
#[derive(Debug)]
pub(crate) struct Deliverer<'a> {
    cx: &'a mut Cx,
    ends: &'a mut Endpoints,
}

impl<'a> Deliverer<'a> {
    pub(crate) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints) -> Self {
        Self { cx, ends }
    }

    /// The core hands out a message; its payload is taken.
    pub(crate) fn on_delivery(
        &mut self,
        delivery: &mut Delivery,
        registration: &mut CoreRegistration,
        sections: &mut SectionBuffer,
    ) {
        registration.delivered(delivery.stored.payload.len());
        let Some(link) = self.ends.links.get_mut(delivery.consumer) else {
            return self.release(delivery);
        };
        let LinkKind::Receiver(receiver) = &mut link.kind else { return self.release(delivery) };
        let Some(session) = self.ends.sessions.get_mut(link.session) else { return };
        let number = receiver.on_delivery();
        let recipient =
            Recipient { dialect: link.dialect, id_base: receiver.id_base(), in_answer: false, due: None };
        let lock = delivery.lock.as_ref();
        let (sections, rest) = sections
            .write(|out| delivery::write_front(out, &delivery.stored, delivery.sequence, lock, &recipient));
        let bytes = (sections.len() + rest.len()) as u64;
        if receiver.sets_aside(bytes) && lock.is_some() {
            return self.dead_letter_too_large(delivery);
        }
        let settled = receiver.sends_settled(lock.is_some());
        let tag = match lock {
            Some(lock) => DeliveryTag::from(delivery::guid_order(lock.token)),
            // The client would read a lock token out of a tag that is not empty.
            None if settled && self.cx.client.gets_empty_tags(link.dialect) => DeliveryTag::EMPTY,
            None => DeliveryTag::from(delivery::plain_tag(delivery.sequence, number)),
        };
        // Tracing reads the properties of the message.
        let payload = &mut delivery.stored.payload;
        let mut bare = if self.cx.config.traces { payload.clone() } else { mem::take(payload) };
        bare.truncate(rest.end);
        bare.advance(rest.start);
        // A browsed copy is not shown again, and what is taken for good is gone.
        let given = lock.is_none();
        let outgoing = OutgoingDelivery { settled, given, ..OutgoingDelivery::new(tag, sections, bare) };
        let size = outgoing.len();
        let Some(id) = self.cx.engine.send(link.key, outgoing) else {
            return self.release(delivery);
        };
        session.given(size.max(DELIVERY_BYTES as usize));
        if settled {
            receiver.raise(delivery.consumer, self.cx);
        } else {
            receiver.on_sent_unsettled();
            let entry = UnsettledDelivery {
                consumer: delivery.consumer,
                queue: delivery.queue,
                sequence: delivery.sequence,
                lock: lock.map(|lock| lock.id),
                since_seconds: self.cx.now.broker_seconds(),
            };
            session.unsettled.insert(id.0, entry);
        }
        if self.cx.config.traces {
            let (key, entity) = ((link.session, id.0), link.entity_name());
            let (now, ids) = (self.cx.now, &mut self.cx.tracking);
            self.cx.spans.on_delivery(key, &delivery.stored, settled, entity, now, ids);
        }
    }

    /// A message came for a link that is gone: the peer never saw it.
    fn release(&mut self, delivery: &Delivery) {
        if let Some(lock) = &delivery.lock {
            self.cx.commands.push(Command::release(delivery.queue, delivery.sequence, lock.id));
        }
    }

    /// A message is larger than the peer takes: it would come again and again, so it is set aside.
    fn dead_letter_too_large(&mut self, delivery: &Delivery) {
        let Some(lock) = &delivery.lock else { return };
        let outcome = Outcome::DeadLetter(outcome::too_large());
        self.cx.settle_unanswered(delivery.queue, delivery.sequence, lock.id, outcome);
        if let Some(receiver) = self.ends.links.receiver_mut(delivery.consumer) {
            receiver.on_set_aside(delivery.consumer, self.cx);
        }
    }

    /// Deliveries that the engine was given did not go out, and the peer does not know of them.
    pub(crate) fn on_unsent(&mut self, key: LinkKey, deliveries: &[DeliveryId]) {
        let Some(number) = self.ends.sessions.find(key.session()) else { return };
        let Some(session) = self.ends.sessions.get_mut(number) else { return };
        let mut taken = 0;
        for entry in deliveries.iter().filter_map(|id| session.unsettled.take(id.0)) {
            taken += 1;
            if let Some(lock) = entry.lock {
                self.cx.commands.push(Command::release(entry.queue, entry.sequence, lock));
            }
        }
        // The engine keeps an account of what did not go out as long as an earlier delivery is named.
        if let Some(next) = self.cx.engine.session(session.id).next_outgoing() {
            let transacted = self.ends.pending.settlements_of(number);
            let named = session.unsettled.oldest().into_iter().chain(transacted);
            if let Some(oldest) = session.watermark.mark(named, next) {
                self.cx.engine.forget_outgoing(session.id, oldest);
            }
        }
        // To a connection that is being closed no others go in their place: a receive-and-delete link would lose them too.
        if self.cx.engine.is_closing() {
            return;
        }
        let Some(id) = self.ends.links.find(key) else { return };
        if let Some(receiver) = self.ends.links.receiver_mut(id) {
            receiver.on_unsent(id, deliveries.len(), taken, self.cx);
        }
    }
}
