//! Dialect of a peer: whether it is a Service Bus SDK or a plain AMQP client.
//!
//! A connection is plain until one of these shows that it is a Service Bus SDK: the SASL mechanism `MSSBCBS`
//! (`connection/client.rs`), the `product` of its open (`connection/client_library.rs`), or a link to `$cbs` (`link/attach.rs`). A link
//! whose attach has a property that begins with `com.microsoft:` has the dialect of Service Bus whatever the connection has.
//!
//! These depend on it: the settlement rules, how unsettled deliveries end with their link, the reply to an attach, message limits,
//! annotations of deliveries, the idle timeout of links, entities per transaction, and whether outcomes are delayed.
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
