//! Delivery window: the bytes of messages that may be on their way to one client.
//!
//! Invariant: the core is never allowed more than one window beyond what the transport has taken, and the limit
//! only rises.

/// The account of one connection's deliveries.
#[derive(Debug)]
pub(crate) struct DeliveryWindow {
    /// Bytes that may be on their way.
    window: u64,
    /// Payload bytes the core has delivered.
    delivered: u64,
    /// Output bytes built and not yet taken by the transport.
    unwritten: u64,
    /// The limit that the core was told last.
    announced: u64,
}

impl DeliveryWindow {
    /// Nothing delivered, nothing allowed.
    pub(crate) const fn new(window: u64) -> Self {
        Self { window, delivered: 0, unwritten: 0, announced: 0 }
    }

    /// Another window, before anything was delivered.
    pub(crate) const fn resize(&mut self, window: u64) {
        self.window = window;
    }

    /// The core delivered a message.
    #[inline]
    pub(crate) const fn delivered(&mut self, bytes: usize) {
        self.delivered = self.delivered.saturating_add(bytes as u64);
    }

    /// Output was built.
    pub(crate) const fn built(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_add(bytes as u64);
    }

    /// Output was taken.
    pub(crate) const fn written(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes as u64);
    }

    /// The limit to tell the core, when it has risen by a quarter of the window; `waiting` are the bytes that the
    /// engine still holds.
    pub(crate) fn raise(&mut self, waiting: u64) -> Option<u64> {
        let backlog = self.unwritten.saturating_add(waiting);
        let limit = self.delivered.saturating_add(self.window.saturating_sub(backlog));
        if limit < self.announced.saturating_add((self.window / 4).max(1)) {
            return None;
        }
        self.announced = limit;
        Some(limit)
    }
}

#[cfg(test)]
mod tests;
