//! Dispatch of the engine's events and the core's effects to their handlers.
//!
//! Invariant: each kind of event, and each kind of effect, has one place that handles it.

use amqp_engine::Event;
use broker_core::Effect;

use crate::{condition::Refusal, error_reply, gateway::Gateway};

impl Gateway {
    /// The engine says that something has come in.
    pub(crate) fn handle_event(&mut self, event: Event) {
        match event {
            Event::Transfer(mut delivery) => self.on_transfer(&mut delivery),
            Event::Disposition { session, first, last, settled, state } => {
                self.on_disposition(session, first, last, settled, state.as_ref());
            }
            Event::TooLarge { link, delivery_id, tag, state, bytes, limit } => {
                self.on_enlisted_work_lost(state.as_ref());
                let refusal = Refusal::TooLarge { bytes, limit };
                self.on_too_large(link, (delivery_id, tag), state.as_ref(), &refusal);
            }
            Event::WorkLost { txn_id } => self.mark_rollback_only(&txn_id),
            Event::LinkFlow { link, limit, drain, properties, .. } => {
                self.on_flow(link, limit, drain, properties.as_ref());
            }
            Event::LinkAttached { link, attach } => self.on_attached(link, attach),
            Event::LinkDetached { link, closed, error, by } => {
                error_reply::by_engine(self, by, error.as_ref());
                self.on_detached(link, closed && error.is_none(), by);
            }
            Event::DetachAnswered { link } => self.on_detach_answered(link),
            Event::SessionBegun { session } => self.on_session(session),
            Event::SessionEnded { session, error, by } => {
                error_reply::by_engine(self, by, error.as_ref());
                self.on_session_ended(session, by);
            }
            Event::SaslInit { mechanism, initial_response, .. } => {
                self.on_sasl(mechanism, initial_response.as_ref());
            }
            Event::SaslResponse(response) => self.on_sasl_response(&response),
            Event::Opened(open) => self.on_opened(&open),
            Event::Unsent { link, deliveries } => self.on_unsent(link, &deliveries),
            // The peer's word on what it sent: it has settled, and needs no answer.
            Event::SettledByPeer { .. } => {}
            Event::Closed { error, by } => {
                error_reply::by_engine(self, by, error.as_ref());
                let judges = (&*self.authority, &self.peer);
                self.record.set_closed(by, error.as_ref(), self.engine.peer(), judges);
                self.on_closed(by);
            }
        }
    }

    /// The core says what has become of something.
    pub(crate) fn handle_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Delivery(mut delivery) => self.on_delivery(&mut delivery),
            Effect::Published { first, last } => self.on_published(first, last),
            Effect::PublishRefused { ticket, error } => {
                self.on_publish_refused(ticket, &Refusal::Publish(error));
            }
            Effect::Settled { first, last } => self.on_settled(first, last),
            Effect::SettleRefused { ticket, error } => {
                self.on_settle_refused(ticket, &Refusal::Settle(error));
            }
            Effect::CompletedTooLate { entity, sequence, error } => {
                error_reply::completed_too_late(self, &entity, sequence, error);
            }
            Effect::Drained { consumer, count } => self.on_drained(consumer, count),
            Effect::ProducerOpened { producer, queue } => self.on_producer_opened(producer, &queue),
            Effect::ConsumerOpened { consumer, queue, session } => {
                self.on_consumer_opened(consumer, &queue, session.as_ref());
            }
            Effect::SubscriberFound { link, subscription, topic } => {
                self.on_subscriber_found(link, subscription, &topic);
            }
            Effect::AttachRefused { link, error } => self.on_attach_refused(link, error),
            Effect::Renewed(renewed) => self.on_renewed(&renewed),
            Effect::Peeked { ticket, messages } => self.on_peeked(ticket, &messages),
            Effect::Scheduled { ticket, sequences } => self.on_scheduled(ticket, &sequences),
            Effect::Fetched { ticket, messages } => self.on_fetched(ticket, &messages),
            Effect::Deleted { ticket, count } => self.on_deleted(ticket, count),
            Effect::RequestRefused { ticket, error } => {
                let refusal = Refusal::Entity(error);
                if !self.on_entity_looked_for(ticket, Some(&refusal)) {
                    self.on_request_refused(ticket, &refusal);
                }
            }
            Effect::EntityDisabled { link } => self.on_entity_disabled(link),
            Effect::TransactionDone { ticket } => self.on_transaction_done(ticket),
            Effect::TransactionRefused { ticket, error } => self.on_transaction_refused(ticket, error),
            Effect::LinkStolen { link } => self.detach_link(link, &Refusal::Stolen),
            Effect::EntityDeleted { link } => self.on_entity_deleted(link),
            Effect::EntityForwards { link } => self.on_entity_forwards(link),
            Effect::SessionLost { consumer } => self.on_session_lost(consumer),
            Effect::SessionRenewed { ticket, until } => self.on_session_renewed(ticket, until),
            Effect::SessionState { ticket, state } => self.on_session_state(ticket, state.as_deref()),
            Effect::SessionList { ticket, skip, ids } => self.on_session_list(ticket, skip, &ids),
            Effect::SessionRefused { ticket, error } => {
                self.on_request_refused(ticket, &Refusal::Session(error));
            }
            Effect::Rules { ticket, rules } => self.on_rules(ticket, &rules),
            Effect::EntityDone { ticket } => {
                if !self.on_entity_looked_for(ticket, None) {
                    self.on_entity_done(ticket);
                }
            }
            // Nothing of ours asks what there is, or for keys.
            Effect::Described { .. } | Effect::KeysChanged { .. } => {}
        }
    }
}
