//! Refusals of dynamic nodes by the gateway.
//!
//! Invariant: for a refused request no node was created and none is counted.

/// Most distribution modes of a request. AMQP 1.0 defines two (messaging 3.5.7).
pub(super) const DISTRIBUTION_MODES_MAX: usize = 16;

/// Reason for which a dynamic node is not created.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum DynamicRefusal {
    /// The terminus has an address, which is for the broker to give (messaging 3.5.3).
    #[error("the address of a dynamic terminus must be null")]
    Address,
    /// The value is none of the four policies (messaging 3.5.9).
    #[error("the `lifetime-policy` of a dynamic node must be one of those that AMQP 1.0 defines")]
    Lifetime,
    /// The value is not of the type that messaging 3.5.9 demands, or has too many modes.
    #[error("the `supported-dist-modes` of a dynamic node must be symbols, at most {DISTRIBUTION_MODES_MAX}")]
    DistributionModes,
    #[error("the connection has {limit} dynamic nodes, as many as it may")]
    ConnectionLimit { limit: usize },
    #[error("the broker has {limit} dynamic nodes, as many as it may")]
    BrokerLimit { limit: usize },
}
