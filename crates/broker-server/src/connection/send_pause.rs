//! Pause of a connection whose namespace sends more than it may.
//!
//! A connection waits for the debt that its namespace has when it has sent messages. One that could send and has not yet waits
//! once for the debt of the others, so a client that connects for each batch is slowed down too. The end of a pause is known
//! when it begins, and the connection is read then whatever others owe by that time.
//!
//! Invariant: during a pause the connection is not read, and its client is not taken for silent. A client that sends nothing
//! has no pause.

use std::time::{Duration, Instant};

use amqp_gateway::Gateway;
use broker_core::Command;

use crate::{namespaces::ServedNamespace, submission::messages_sent};

/// Longest time for which a connection is not read before it looks again: the limit may have been lifted.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Whether a connection is read, as far as the limit of sends in a second is concerned.
#[derive(Debug, Default)]
pub(super) struct SendPause {
    /// The client has sent messages while there was a limit, or has waited for the debt of others.
    has_had_turn: bool,
    /// End of the pause.
    end: Option<Instant>,
    /// Time at which to call [`SendPause::renew`] during a pause.
    check_at: Option<Instant>,
}

impl SendPause {
    /// The time at which to call [`SendPause::renew`]; `None`: the connection is read.
    pub(super) const fn check_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// Counts the messages that these commands send.
    pub(super) fn count(
        &mut self,
        namespace: &ServedNamespace,
        commands: &[Command],
        now: impl Fn() -> Instant,
    ) {
        if !namespace.send_rate.is_limited() {
            return;
        }
        let messages = messages_sent(commands);
        if messages > 0 {
            let now = now();
            self.has_had_turn = true;
            namespace.send_rate.sent(messages, now);
            self.begin(namespace, now);
        }
    }

    /// Sees whether the connection is read. To be called before each look at the socket.
    pub(super) fn renew(
        &mut self,
        namespace: Option<&ServedNamespace>,
        gateway: &mut Gateway,
        now: impl Fn() -> Instant,
    ) {
        self.check_at = None;
        let limited = namespace.filter(|namespace| namespace.send_rate.is_limited());
        if let Some(end) = self.end {
            let now = now();
            gateway.input_withheld(now);
            let owes = limited.is_some_and(|namespace| namespace.send_rate.owes_until(now).is_some());
            self.end = Some(end).filter(|end| owes && now < *end);
            self.has_had_turn |= self.end.is_none();
        } else if let Some(namespace) = limited
            && !self.has_had_turn
            && gateway.has_senders()
        {
            self.begin(namespace, now());
        }
        self.check_at = self.end.map(|end| end.min(now() + LOOK_INTERVAL));
    }

    fn begin(&mut self, namespace: &ServedNamespace, now: Instant) {
        let end = namespace.send_rate.owes_until(now);
        if end.is_some() && self.end.is_none() {
            namespace.send_rate.note_wait();
        }
        self.end = end;
    }
}
