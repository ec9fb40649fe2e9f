//! Registration of a connection with the core: its first and last command, and the bytes that the core may deliver.
//!
//! Invariant: the core learns of a client only once its open has been placed, and is told once that it is gone.

use broker_core::Command;

use super::delivery_window::DeliveryWindow;
use crate::cx::Cx;

/// A delivery on its way counts as at least so many bytes: what is known of it takes as much, however short its message is.
pub(crate) const DELIVERY_BYTES: u32 = 256;

/// One connection as a client of the core.
#[derive(Debug)]
pub(crate) struct CoreRegistration {
    /// Whether the core knows the client.
    connected: bool,
    /// The connections that the broker takes, where this one is beyond them.
    over_limit: Option<usize>,
    window: DeliveryWindow,
}

impl CoreRegistration {
    /// Not known to the core. So many bytes of messages may be on their way.
    pub(crate) const fn new(window_bytes: u64) -> Self {
        Self { connected: false, over_limit: None, window: DeliveryWindow::new(window_bytes) }
    }

    /// The connection is beyond the `limit` of them: its client may do nothing.
    pub(crate) const fn refuse_over_limit(&mut self, limit: usize) {
        self.over_limit = Some(limit);
    }

    /// The connections that the broker takes, where this one is beyond them.
    pub(crate) const fn over_limit(&self) -> Option<usize> {
        self.over_limit
    }

    /// So many bytes of messages may be on their way, instead of as many as before.
    pub(crate) const fn set_window(&mut self, bytes: u64) {
        self.window.resize(bytes);
    }

    /// The client's open has been placed: the core learns of the client.
    pub(crate) fn connect(&mut self, cx: &mut Cx) {
        if !self.connected {
            self.connected = true;
            cx.commands.push(Command::Connect);
        }
    }

    /// The core delivered a message of this size.
    #[inline]
    pub(crate) fn delivered(&mut self, bytes: usize) {
        self.window.delivered(bytes.max(DELIVERY_BYTES as usize));
    }

    /// Output was built.
    pub(crate) const fn built(&mut self, bytes: usize) {
        self.window.built(bytes);
    }

    /// The transport has taken output.
    pub(crate) const fn written(&mut self, bytes: usize) {
        self.window.written(bytes);
    }

    /// Tells the core of a limit that has risen; `unsent` counts the bytes that the engine still holds.
    pub(crate) fn raise_window(&mut self, unsent: impl FnOnce(&Cx) -> u64, cx: &mut Cx) {
        if !self.connected {
            return;
        }
        let unsent = unsent(cx);
        if let Some(limit) = self.window.raise(unsent) {
            cx.commands.push(Command::ByteBudget { limit, min_bytes: DELIVERY_BYTES });
        }
    }

    /// The connection has ended: the last command for the core, if it knows the client.
    pub(crate) const fn disconnect(&mut self) -> Option<Command> {
        if std::mem::replace(&mut self.connected, false) { Some(Command::Disconnect) } else { None }
    }
}
