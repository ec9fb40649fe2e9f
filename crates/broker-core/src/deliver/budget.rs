//! Bound of one call of `deliver`, in messages, payload bytes and work.
//!
//! Invariant: a budget only falls; a call with a spent budget delivers nothing more. A call delivers one message at least,
//! if there is one.

use crate::{CoreConfig, Output, Work};

/// Most messages that one store hands out before it is another store's turn.
pub(crate) const ROUND_MESSAGES_MAX: u32 = 256;

/// Messages and bytes that one call of `deliver` may still hand out.
pub(crate) struct DeliveryBudget {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

impl DeliveryBudget {
    pub(crate) fn of(config: &CoreConfig) -> Self {
        Self { messages: config.deliver_messages_max.max(1), bytes: config.deliver_bytes_max.max(1) }
    }

    /// One message was visited, and so many bytes of it are handed out.
    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize, out: &mut impl Output) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        out.charge(Work::MESSAGE + Work::of_bytes(bytes as u64));
    }

    #[inline]
    pub(crate) fn is_spent(&self, out: &impl Output) -> bool {
        self.messages == 0 || self.bytes == 0 || out.work_left() == Work(0)
    }
}
