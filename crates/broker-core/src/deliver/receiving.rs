//! Receive modes and other parameters of consumers.
//!
//! Invariant: what a consumer was opened with holds for as long as it is open.

use std::time::Duration;

use broker_filter::Filter;

/// Receive mode of a consumer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReceiveMode {
    /// Each delivery is locked until settled or the lock expires.
    PeekLock,
    /// A message is removed when it is delivered.
    ReceiveAndDelete,
    /// Distribution mode `copy`: every message once, in order, without lock or effect.
    Browse,
}

/// Fate of a consumer's locked messages when it closes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UnsettledPolicy {
    /// The locks run on until they expire (Service Bus).
    KeepLocks,
    /// They return at once, without counting (plain AMQP; `released`).
    Release,
    /// They return at once and count as failed (`modified{delivery-failed}` as default outcome).
    Fail,
}

/// Session that a consumer of an entity with sessions wants (`docs/features/sessions.md`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SessionWanted {
    /// The one with this id; at most 128 characters. Refused if it is locked.
    Named(Box<str>),
    /// The free one whose oldest deliverable message has the lowest number.
    Next {
        /// Longest wait until there is one.
        patience: Duration,
    },
}

/// Receiver that attaches to a topic itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscriber {
    /// The container-id of the client; empty for a name that all clients share.
    pub container: Box<str>,
    /// By which it is known again in its container: one subscription at most in all topics.
    pub name: Box<str>,
    /// Identity of the client, from its log-in or token: a link of another client cannot take over these names.
    pub owner: Box<str>,
    pub filter: Filter,
    /// Receive mode. `copy` means browsing at a queue; at a topic every subscriber gets its own copies.
    pub mode: ReceiveMode,
    /// Whether others may receive from the same subscription.
    pub shared: bool,
    /// The gateway unsubscribes when the last link closes; a subscription that a crash leaves is deleted after five
    /// minutes.
    pub temporary: bool,
}
