//! Bound of one call of `deliver`, in messages and payload bytes.
//!
//! Invariant: a budget only falls; a call with a spent budget delivers nothing more.

use crate::CoreConfig;

/// Most messages that one store hands out before it is another store's turn.
pub(crate) const ROUND_MESSAGES_MAX: u32 = 256;

/// Work that one call of `deliver` may still do.
pub(crate) struct DeliveryBudget {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

impl DeliveryBudget {
    pub(crate) fn of(config: &CoreConfig) -> Self {
        Self { messages: config.deliver_messages_max.max(1), bytes: config.deliver_bytes_max.max(1) }
    }

    pub(crate) fn spend(&mut self, bytes: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.messages == 0 || self.bytes == 0
    }
}
