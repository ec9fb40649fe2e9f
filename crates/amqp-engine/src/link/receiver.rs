//! Our end of a link we receive on.
//!
//! Invariant: at most one delivery of a link is unfinished.

use super::credit::ReceiveCredit;
use crate::delivery::Partial;

/// Credit given, and the delivery that is being gathered.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) credit: ReceiveCredit,
    pub(crate) partial: Option<Box<Partial>>,
    /// Largest message, in bytes; 0 for no limit.
    pub(crate) max_message_size: u64,
    /// Whether our unsettled map was incomplete: only resumed deliveries may come.
    pub(crate) only_resumed: bool,
    /// Whether the peer settles deliveries in rcv-settle-mode second, once it is told their outcome.
    pub(crate) settles_second: bool,
    /// Deliveries of this link that are unsettled.
    pub(crate) unsettled: u32,
}

impl Receiver {
    pub(crate) const fn new(initial_delivery_count: u32, max_message_size: u64) -> Self {
        Self {
            credit: ReceiveCredit::new(initial_delivery_count),
            partial: None,
            max_message_size,
            only_resumed: false,
            settles_second: false,
            unsettled: 0,
        }
    }

    /// Bytes of the delivery that is being gathered.
    pub(crate) fn partial_len(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.len())
    }
}
