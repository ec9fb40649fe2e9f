//! Replies to settlements: dispositions for the peer once the core has answered.
//!
//! Invariant: a delivery whose peer waits for an answer is settled once, when the core has answered for it.

use amqp_codec::performative::DeliveryState;
use amqp_engine::DeliveryId;
use broker_core::Ticket;

use crate::{condition::Refusal, correlation::Correlation, gateway::Gateway, requests::Pending};

impl Gateway {
    /// A settlement under each of these tickets is done.
    pub(crate) fn on_settled(&mut self, first: Ticket, last: Ticket) {
        match (Correlation::unpack(first), Correlation::unpack(last)) {
            (Some(Correlation::Sent(session, from, outcome)), Some(Correlation::Sent(_, to, _))) => {
                self.trace_settled(session, (from, to), false);
                let Some(session) = self.sessions.get_mut(session.0) else { return };
                let state = Some(outcome.state());
                self.engine.settle_outgoing_range(session.id, DeliveryId(from), DeliveryId(to), state);
                if let Some(oldest) = session.watermark.answer(to.wrapping_sub(from).wrapping_add(1)) {
                    self.engine.forget_outgoing(session.id, oldest);
                }
            }
            (Some(Correlation::Request(from)), Some(Correlation::Request(to))) => {
                for number in from..=to {
                    self.on_request_done(number);
                }
            }
            _ => {}
        }
    }

    /// The settlement under this ticket changed nothing.
    pub(crate) fn on_settle_refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        match Correlation::unpack(ticket) {
            Some(Correlation::Sent(session, delivery, _)) => {
                self.trace_settled(session, (delivery, delivery), true);
                let error = self.error(refusal, "");
                self.settle_sent(session, delivery, DeliveryState::Rejected(Some(Box::new(error))));
                let Some(session) = self.sessions.get_mut(session.0) else { return };
                if let Some(oldest) = session.watermark.answer(1) {
                    self.engine.forget_outgoing(session.id, oldest);
                }
            }
            Some(Correlation::Request(number)) => match self.pending.get(&number) {
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
