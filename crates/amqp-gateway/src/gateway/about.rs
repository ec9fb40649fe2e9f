//! Summary of a connection, for operators.
//!
//! Invariant: it has no secret: keys and users by their names alone.

use broker_core::Timestamp;

/// Summary of a connection for operators: its client, and what it has open.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct About {
    /// The namespace that it means; empty before that is known.
    pub namespace: Box<str>,
    /// Container id; empty before its open.
    pub container_id: Box<str>,
    /// The user, key or certificate subject that it logged in as; `anonymous` without one.
    pub user: Box<str>,
    /// Names of the keys and providers whose tokens it has put.
    pub keys: Vec<Box<str>>,
    /// It has shown that it is a client of Service Bus.
    pub is_service_bus: bool,
    /// Sessions that are open.
    pub sessions: usize,
    /// Links that are attached.
    pub links: usize,
    /// Deliveries that the client has not settled.
    pub unsettled: usize,
    /// When the oldest of them went out, to the second by the broker's time.
    pub oldest_unsettled: Option<Timestamp>,
}
