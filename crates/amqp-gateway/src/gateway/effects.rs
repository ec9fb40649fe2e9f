//! Effects of the core: each goes to the part of the gateway that asked for it.
//!
//! Invariant: the client is told of an outcome only by an effect that says so.

use amqp_codec::performative::DeliveryState;
use broker_core::{Effect, Ticket};

use super::Gateway;
use crate::{
    condition::Refusal, correlation::Correlation, link::LinkKind, pending::Pending, request::reply::Replier,
    transfer::outgoing::Deliverer,
};

impl Gateway {
    /// The core says what has become of something. A delivery is not taken from where it lies: it is large, and there are
    /// millions of them.
    pub(super) fn handle_effect(&mut self, effect: &mut Effect) {
        match effect {
            Effect::Delivery(delivery) => {
                let Self { cx, ends, registration, sections, .. } = self;
                Deliverer::new(cx, ends).on_delivery(delivery, registration, sections);
            }
            Effect::Published { first, last } => self.on_published(*first, *last),
            Effect::PublishRefused { ticket, error } => {
                self.on_publish_refused(*ticket, &Refusal::Publish(error.clone()));
            }
            Effect::Settled { first, last } => self.on_settled(*first, *last),
            Effect::SettleRefused { ticket, error } => {
                self.on_settle_refused(*ticket, &Refusal::Settle(*error));
            }
            Effect::CompletedTooLate { entity, sequence, error } => {
                self.cx.log_completed_too_late(entity, *sequence, *error);
            }
            Effect::Drained { .. }
            | Effect::ProducerOpened { .. }
            | Effect::ConsumerOpened { .. }
            | Effect::SubscriberFound { .. }
            | Effect::AttachRefused { .. }
            | Effect::EntityDisabled { .. }
            | Effect::LinkStolen { .. }
            | Effect::EntityDeleted { .. }
            | Effect::EntityForwards { .. }
            | Effect::SessionLost { .. } => self.handle_link_effect(effect),
            Effect::DynamicNodeGone { name } => self.ends.dynamic_nodes.remove(name),
            Effect::TransactionDone { ticket } => self.coordinator().on_done(*ticket),
            Effect::TransactionRefused { ticket, error } => {
                self.coordinator().on_refused(*ticket, error.clone());
            }
            Effect::Renewed(_)
            | Effect::Peeked { .. }
            | Effect::Scheduled { .. }
            | Effect::Fetched { .. }
            | Effect::Deleted { .. }
            | Effect::SessionRenewed { .. }
            | Effect::SessionState { .. }
            | Effect::SessionList { .. }
            | Effect::SessionRefused { .. }
            | Effect::Rules { .. }
            | Effect::RequestRefused { .. }
            | Effect::EntityDone { .. } => {
                self.nodes.handle_effect(effect, &mut self.cx, &mut self.ends);
            }
            // A connection does not ask for these.
            Effect::Described { .. }
            | Effect::KeysChanged { .. }
            | Effect::NamespaceDone { .. }
            | Effect::NamespaceRefused { .. } => {}
        }
    }

    /// The core says what has become of a link.
    fn handle_link_effect(&mut self, effect: &mut Effect) {
        match effect {
            Effect::Drained { consumer, count } => {
                if let Some(link) = self.ends.links.get_mut(*consumer)
                    && let LinkKind::Receiver(receiver) = &mut link.kind
                {
                    receiver.on_drained(link.key, *count, &mut self.cx);
                }
            }
            Effect::ProducerOpened { producer, queue } => self.attacher().on_sender_opened(*producer, queue),
            Effect::ConsumerOpened { consumer, queue, session } => {
                self.attacher().on_receiver_opened(*consumer, queue, session.as_ref());
            }
            Effect::SubscriberFound { link, subscription, topic } => {
                self.attacher().on_subscriber_found(*link, std::mem::take(subscription), topic);
            }
            Effect::AttachRefused { link, error } => self.attacher().on_refused(*link, error.clone()),
            Effect::EntityDisabled { link } => self.detacher().on_entity_disabled(*link),
            Effect::LinkStolen { link } => self.detacher().detach(*link, &Refusal::Stolen),
            Effect::EntityDeleted { link } => self.detacher().on_entity_deleted(*link),
            Effect::EntityForwards { link } => self.detacher().on_entity_forwards(*link),
            Effect::SessionLost { consumer } => self.detacher().on_session_lost(*consumer),
            _ => {}
        }
    }

    /// Messages are stored.
    fn on_published(&mut self, first: Ticket, last: Ticket) {
        match (Correlation::unpack(first), Correlation::unpack(last)) {
            (Some(Correlation::Received(session, from)), Some(Correlation::Received(_, to))) => {
                self.ends.sessions.accept_received(&mut self.cx, session, (from, to));
            }
            (Some(Correlation::Request(from)), Some(Correlation::Request(to))) => {
                for number in from..=to {
                    if let Some(Pending::Publish(tracked)) = self.ends.pending.take(number) {
                        self.publisher().on_published(&tracked);
                    }
                }
            }
            _ => {}
        }
    }

    /// A message is refused by the core.
    fn on_publish_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        match Correlation::unpack(ticket) {
            Some(Correlation::Received(session, delivery)) => {
                let error = self.cx.error(refusal, "");
                let state = DeliveryState::Rejected(Some(Box::new(error)));
                self.ends.sessions.settle_received(&mut self.cx, session, delivery, state);
            }
            Some(Correlation::Request(number)) => match self.ends.pending.take(number) {
                Some(Pending::Publish(tracked)) => self.publisher().on_refused(&tracked, refusal),
                Some(Pending::Request(caller, _)) => {
                    Replier::new(&mut self.cx, &mut self.ends).refuse(&caller, refusal);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// A settlement under each of these tickets is done.
    fn on_settled(&mut self, first: Ticket, last: Ticket) {
        match (Correlation::unpack(first), Correlation::unpack(last)) {
            (Some(Correlation::Sent(session, from, outcome)), Some(Correlation::Sent(_, to, _))) => {
                self.settlements().on_settled(session, (from, to), outcome);
            }
            (Some(Correlation::Request(from)), Some(Correlation::Request(to))) => {
                for number in from..=to {
                    match self.ends.pending.take_settlement(number) {
                        Some(settlement) => self.settlements().on_enlisted(settlement),
                        None => self.nodes.management(&mut self.cx, &mut self.ends).on_done(number),
                    }
                }
            }
            _ => {}
        }
    }

    /// The settlement under this ticket changed nothing.
    fn on_settle_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        match Correlation::unpack(ticket) {
            Some(Correlation::Sent(session, delivery, _)) => {
                self.settlements().on_refused(session, delivery, refusal);
            }
            Some(Correlation::Request(number)) => match self.ends.pending.take_settlement(number) {
                Some(settlement) => self.settlements().on_enlisting_refused(settlement, refusal),
                None => self.nodes.management(&mut self.cx, &mut self.ends).on_refused(ticket, refusal),
            },
            _ => {}
        }
    }
}
