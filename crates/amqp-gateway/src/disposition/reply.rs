//! Replies to settlements: dispositions for the peer once the core has answered.
//!
//! Invariant: a delivery whose peer waits for an answer is settled once, when the core has answered for it.

use amqp_codec::performative::DeliveryState;
use amqp_engine::DeliveryId;
use broker_core::SettleError;

use super::{rules::WireOutcome, settle::Settlements};
use crate::{condition::Refusal, correlation::SessionNumber};

impl Settlements<'_> {
    /// Settlements of a run of deliveries are done, all with this outcome.
    pub(crate) fn on_settled(
        &mut self,
        session: SessionNumber,
        (first, last): (u32, u32),
        outcome: WireOutcome,
    ) {
        self.cx.spans.settled(session, (first, last), false, self.cx.now);
        let Some(session) = self.ends.sessions.get_mut(session) else { return };
        let state = Some(outcome.state());
        self.cx.engine.settle_outgoing_range(session.id, DeliveryId(first), DeliveryId(last), state);
        if let Some(oldest) = session.watermark.answer(last.wrapping_sub(first).wrapping_add(1)) {
            self.cx.engine.forget_outgoing(session.id, oldest);
        }
    }

    /// The settlement of a delivery changed nothing.
    pub(crate) fn on_refused(&mut self, session: SessionNumber, delivery: u32, refusal: &Refusal) {
        self.cx.spans.settled(session, (delivery, delivery), true, self.cx.now);
        // The SDK for Go takes a rejected delivery for settled. Where the link goes on, it accepts the session again, settles once more,
        // and reports success.
        if *refusal == Refusal::Settle(SettleError::SessionLockLost) {
            self.cx.engine.flush_detaches();
        }
        let error = self.cx.error(refusal, "");
        let state = DeliveryState::Rejected(Some(Box::new(error)));
        self.ends.sessions.settle_sent(self.cx, session, delivery, state);
        let Some(session) = self.ends.sessions.get_mut(session) else { return };
        if is_lost(refusal) {
            session.unsettled.give_up(delivery);
        }
        if let Some(oldest) = session.watermark.answer(1) {
            self.cx.engine.forget_outgoing(session.id, oldest);
        }
    }
}

/// Whether a settlement was refused because the lock is gone: no other settlement of the delivery can be done.
pub(super) fn is_lost(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Settle(SettleError::LockLost | SettleError::SessionLockLost | SettleError::EntityGone)
    )
}
