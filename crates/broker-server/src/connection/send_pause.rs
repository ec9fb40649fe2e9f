//! Pause of a connection whose namespace sends more than it may.
//!
//! Invariant: during the pause the connection is not read, and its client is not taken for silent. A client that sends nothing
//! has no pause.

use std::time::Instant;

use amqp_gateway::Gateway;
use broker_core::Command;

use crate::{namespaces::ServedNamespace, submission::messages_sent};

/// Whether a connection is read, as far as the limit of sends in a second is concerned.
#[derive(Debug, Default)]
pub(super) struct SendPause {
    /// The client has sent messages while there was a limit, by whatever way.
    has_sent: bool,
    /// The connection is not read until then.
    until: Option<Instant>,
}

impl SendPause {
    /// The end of the pause, or the time at which to call [`SendPause::renew`]; `None`: the connection is read.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Counts the messages that these commands send.
    pub(super) fn count(
        &mut self,
        namespace: &ServedNamespace,
        commands: &[Command],
        now: impl Fn() -> Instant,
    ) {
        if namespace.send_rate.is_limited() {
            let messages = messages_sent(commands);
            self.has_sent |= messages > 0;
            namespace.send_rate.sent(messages, now());
        }
    }

    /// Sees whether the namespace owes for messages. To be called before each look at the socket.
    pub(super) fn renew(
        &mut self,
        namespace: Option<&ServedNamespace>,
        gateway: &mut Gateway,
        now: impl Fn() -> Instant,
    ) {
        if self.until.is_some() {
            gateway.input_withheld(now());
        }
        self.until = namespace
            .filter(|namespace| namespace.send_rate.is_limited())
            .and_then(|namespace| namespace.send_rate.pause(now()))
            .filter(|_| self.has_sent || gateway.has_senders());
    }
}
