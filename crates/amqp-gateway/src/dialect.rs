//! Dialect of a peer: whether it is a Service Bus SDK or a plain AMQP client.
//!
//! A connection is plain until one of these shows that it is a Service Bus SDK: the SASL mechanism `MSSBCBS`
//! (`connection/client.rs`), the `product` of its open (`connection/client_library.rs`), or a link to `$cbs` (`link/attach.rs`). A link
//! whose attach has a property that begins with `com.microsoft:` has the dialect of Service Bus whatever the connection has.
//!
//! These depend on it: the settlement rules, how unsettled deliveries end with their link, the reply to an attach, the limits of
//! messages and transactions, annotations of deliveries, delays of messages, the idle timeout of links, entities per transaction, and
//! whether outcomes are delayed.
//!
//! Invariant: a link keeps the dialect in which it was attached.

use broker_core::{LimitScope, QueueInfo};

use crate::config::GatewayConfig;

/// Dialect of a peer: Service Bus SDK or plain AMQP 1.0.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// Azure Service Bus: locks outlive links, `modified` is abandon or defer.
    ServiceBus,
    /// AMQP 1.0 as the standard says it.
    Plain,
}

impl Dialect {
    /// Limits that hold for what a peer sends. A Service Bus SDK expects those of its tier; for a plain client they would be a surprise.
    pub(crate) const fn limits(self) -> LimitScope {
        match self {
            Self::ServiceBus => LimitScope::Tier,
            Self::Plain => LimitScope::Broker,
        }
    }

    /// Largest message for a link to the anonymous terminus, in bytes.
    pub(crate) fn largest_message(self, config: &GatewayConfig) -> u64 {
        match self {
            Self::ServiceBus => config.tier_message_bytes.min(config.max_message_bytes),
            Self::Plain => config.max_message_bytes,
        }
    }

    /// Largest message for a link to an entity, in bytes.
    pub(crate) fn largest_message_to(self, entity: &QueueInfo, config: &GatewayConfig) -> u64 {
        let largest = match self {
            Self::ServiceBus => entity.tier_message_bytes,
            Self::Plain => entity.max_message_bytes,
        };
        largest.min(config.max_message_bytes)
    }
}
