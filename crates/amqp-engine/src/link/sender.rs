//! Our end of a link we send on.
//!
//! Invariant: a drain is answered after the last delivery that was handed over before the answer.

use super::credit::{SendCredit, wire};

/// Credit, and what of it waits in the session's queue.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    pub(crate) credit: SendCredit,
    /// Deliveries of this link that wait in the session's queue, or are half sent.
    pub(crate) queued: u32,
    /// Of those, whether the foremost is half sent.
    pub(crate) half_sent: bool,
    /// Whether the peer has asked to drain.
    pub(crate) drain: bool,
    /// Whether the answer to a drain waits for the queue to empty.
    pub(crate) drain_answer_due: bool,
}

impl Sender {
    /// Delivery-count: deliveries sent, begun, or given up by a drain.
    pub(crate) fn on_wire(&self) -> u64 {
        let unsent = u64::from(self.queued) - u64::from(self.half_sent);
        self.credit.handed() - unsent
    }

    /// Our delivery-count as the wire has it.
    pub(crate) fn delivery_count(&self) -> u32 {
        wire(self.on_wire())
    }

    /// The credit the peer sees us to have.
    pub(crate) fn link_credit(&self) -> u32 {
        let left = self.credit.limit().saturating_sub(self.on_wire());
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// A frame of the foremost delivery is out, its last when `finished`. True when that was what
    /// the answer to a drain waited for.
    #[inline]
    pub(crate) const fn frame_sent(&mut self, finished: bool) -> bool {
        self.half_sent = !finished;
        if finished {
            self.queued -= 1;
        }
        self.queued == 0 && self.drain_answer_due
    }

    /// `count` waiting deliveries, none of them half sent, are given back to the layer above.
    pub(crate) fn taken_back(&mut self, count: u32) {
        self.queued = self.queued.saturating_sub(count);
        self.credit.restore(u64::from(count));
    }

    /// Number of waiting deliveries that may stay, where more are handed over than the peer's credit allows since the
    /// peer has lowered it.
    pub(crate) fn beyond_credit(&self) -> Option<u32> {
        let unsent = self.queued - u32::from(self.half_sent);
        let over = self.credit.handed().saturating_sub(self.credit.limit());
        let over = u32::try_from(over).unwrap_or(u32::MAX).min(unsent);
        (over > 0).then_some(unsent - over)
    }
}
