//! Dialect of a peer.
//!
//! Invariant: a link keeps the dialect in which it was attached.

/// Dialect of a peer: Service Bus SDK or plain AMQP 1.0.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// Azure Service Bus: locks outlive links, `modified` is abandon or defer.
    ServiceBus,
    /// AMQP 1.0 as the standard says it.
    Plain,
}
