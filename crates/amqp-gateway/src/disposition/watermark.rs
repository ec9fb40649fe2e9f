//! Settlement watermark: the deliveries of a session that neither side names any more.
//!
//! The engine keeps an account of deliveries that were taken back unsent as long as an earlier one may still be
//! settled or answered. A settlement is out of the table of open deliveries while the core works on it, so its
//! answer is counted instead: the core answers in order.
//!
//! Invariant: a delivery is not forgotten before its settlement is answered.

use amqp_engine::DeliveryId;

/// The settlements of one session that the core was asked for, and what may be forgotten behind them.
#[derive(Debug, Default)]
pub(crate) struct SettlementWatermark {
    /// Settlements that the core was asked for under a ticket. Wraps.
    asked: u32,
    /// Number of them that it has answered. Wraps.
    answered: u32,
    /// Deliveries before this one may be forgotten when so many are answered.
    mark: Option<(DeliveryId, u32)>,
}

impl SettlementWatermark {
    /// Notes that the core was asked to settle a delivery and will answer.
    pub(crate) const fn ask(&mut self) {
        self.asked = self.asked.wrapping_add(1);
    }

    /// Notes answers of the core. Gives the oldest delivery that is still named, when those before it
    /// can be forgotten now.
    pub(crate) fn answer(&mut self, count: u32) -> Option<DeliveryId> {
        self.answered = self.answered.wrapping_add(count);
        let (oldest, after) = self.mark?;
        if after.wrapping_sub(self.answered).cast_signed() > 0 {
            return None;
        }
        self.mark = None;
        Some(oldest)
    }

    /// Deliveries did not go out. Those before the oldest of `named`, or all before `next` when there is none,
    /// are forgotten when what the core was asked for until now is answered: gives that oldest one when it is.
    pub(crate) fn mark(
        &mut self,
        named: impl IntoIterator<Item = u32>,
        next: DeliveryId,
    ) -> Option<DeliveryId> {
        if self.mark.is_none() {
            let oldest = named.into_iter().max_by_key(|id| next.0.wrapping_sub(*id));
            self.mark = Some((oldest.map_or(next, DeliveryId), self.asked));
        }
        self.answer(0)
    }
}

#[cfg(test)]
mod tests;
