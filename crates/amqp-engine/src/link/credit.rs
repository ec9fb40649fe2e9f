//! Link credit on both sides (transport 2.6.7).
//!
//! Invariant: what the sender may still send is the receiver's delivery-count plus its credit,
//! minus the sender's own delivery-count, in serial number arithmetic.

use crate::ids::serial_distance;

/// Credit of a link we send on. Counts are absolute: deliveries since the link was attached, with
/// an initial delivery-count of 0 on the wire.
#[derive(Debug, Default)]
pub(crate) struct SendCredit {
    /// Deliveries that were handed over to be sent, or given up by a drain.
    handed: u64,
    /// The count up to which the peer has given credit.
    limit: u64,
}

impl SendCredit {
    /// Applies a flow of the receiver. `on_wire` is how many deliveries were sent, `count` what the
    /// receiver knew of it.
    pub(crate) fn update(&mut self, on_wire: u64, count: Option<u32>, credit: u32) {
        self.limit = Self::seen_by_receiver(on_wire, count).saturating_add(u64::from(credit));
    }

    /// The receiver's delivery-count as an absolute count. A receiver that does not tell has not
    /// yet seen our attach, so it knows of none.
    fn seen_by_receiver(on_wire: u64, count: Option<u32>) -> u64 {
        let Some(count) = count else { return 0 };
        on_wire.saturating_add_signed(i64::from(serial_distance(wire(on_wire), count)))
    }

    /// One delivery is handed over.
    #[inline]
    pub(crate) const fn take(&mut self) {
        self.handed += 1;
    }

    /// `count` deliveries that were handed over are given back.
    pub(crate) const fn restore(&mut self, count: u64) {
        self.handed = self.handed.saturating_sub(count);
    }

    /// Gives up the credit up to `count`, but never beyond what the peer gave.
    pub(crate) fn drain_to(&mut self, count: u64) {
        self.handed = self.handed.max(count.min(self.limit));
        self.limit = self.handed;
    }

    /// Deliveries handed over or given up.
    #[inline]
    pub(crate) const fn handed(&self) -> u64 {
        self.handed
    }

    /// The count up to which the peer has given credit.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Number of deliveries that may still be handed over.
    pub(crate) fn available(&self) -> u32 {
        u32::try_from(self.limit.saturating_sub(self.handed)).unwrap_or(u32::MAX)
    }
}

/// Credit of a link we receive on.
#[derive(Debug)]
pub(crate) struct ReceiveCredit {
    /// The sender's delivery-count as far as we know it.
    count: u32,
    /// Deliveries that the sender may still send.
    credit: u32,
}

impl ReceiveCredit {
    pub(crate) const fn new(initial_delivery_count: u32) -> Self {
        Self { count: initial_delivery_count, credit: 0 }
    }

    /// Sets what the sender may send from here on.
    pub(crate) const fn grant(&mut self, credit: u32) {
        self.credit = credit;
    }

    /// A delivery has begun; false when there was no credit for it.
    #[inline]
    pub(crate) const fn take(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        let had_credit = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        had_credit
    }

    /// The sender tells its delivery-count: credit it has given up is gone.
    pub(crate) fn sender_is_at(&mut self, count: u32) {
        if let Ok(given_up) = u32::try_from(serial_distance(self.count, count)) {
            self.count = count;
            self.credit = self.credit.saturating_sub(given_up);
        }
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) const fn credit(&self) -> u32 {
        self.credit
    }
}

/// An absolute count as the wire has it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the wire's counts wrap at 2^32")]
pub(crate) const fn wire(count: u64) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests;
