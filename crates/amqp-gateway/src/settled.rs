//! What the core has made of settlements, told to the peer.
//!
//! Invariant: a delivery whose peer waits for an answer is settled once, when the core has answered for it.

use amqp_codec::performative::DeliveryState;
use amqp_engine::DeliveryId;
use broker_core::Ticket;

use crate::{condition::Refusal, gateway::Gateway, requests::Pending, tickets::Errand};

impl Gateway {
    /// A settlement under each of these tickets is done.
    pub(crate) fn on_settled(&mut self, first: Ticket, last: Ticket) {
        match (Errand::unpack(first), Errand::unpack(last)) {
            (Some(Errand::Sent(session, from, outcome)), Some(Errand::Sent(_, to, _))) => {
                self.trace_settled(session, (from, to), false);
                let Some(session) = self.sessions.get_mut(session.0) else { return };
                let state = Some(outcome.state());
                self.engine.settle_outgoing_range(session.id, DeliveryId(from), DeliveryId(to), state);
                if let Some(oldest) = session.forgetting.answer(to.wrapping_sub(from).wrapping_add(1)) {
                    self.engine.forget_outgoing(session.id, oldest);
                }
            }
            (Some(Errand::Request(from)), Some(Errand::Request(to))) => {
                for number in from..=to {
                    self.on_request_done(number);
                }
            }
            _ => {}
        }
    }

    /// The settlement under this ticket changed nothing.
    pub(crate) fn on_settle_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        match Errand::unpack(ticket) {
            Some(Errand::Sent(session, delivery, _)) => {
                self.trace_settled(session, (delivery, delivery), true);
                let error = self.error(refusal, "");
                self.settle_sent(session, delivery, DeliveryState::Rejected(Some(Box::new(error))));
                let Some(session) = self.sessions.get_mut(session.0) else { return };
                if let Some(oldest) = session.forgetting.answer(1) {
                    self.engine.forget_outgoing(session.id, oldest);
                }
            }
            Some(Errand::Request(number)) => match self.pending.get(&number) {
                Some(Pending::Settle(settlement)) => {
                    let settlement = *settlement;
                    self.pending.remove(&number);
                    self.on_enlisting_refused(settlement, refusal);
                }
                _ => self.on_request_refused(ticket, refusal),
            },
            _ => {}
        }
    }
}
