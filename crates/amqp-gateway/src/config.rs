//! Configuration of a gateway.
//!
//! Invariant: plain data; nothing here is looked up or changed after a connection began.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use broker_core::Timestamp;

use crate::{
    address::prefixes::AddressPrefixes, dynamic::pool::DynamicNodePool, fault_injection::table::Faults,
    refusal_log::RefusalLog,
};

/// The clocks, read together by the shell.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For time-outs within the connection.
    pub instant: Instant,
    /// The broker's time: for what goes to the wire. A test may have put it ahead.
    pub utc: Timestamp,
    /// The time of the rest of the world: for the validity of tokens, which clients make by their own clocks.
    pub wall: Timestamp,
}

impl Now {
    /// Whole seconds since 1970 UTC, as tokens count.
    pub(crate) const fn unix_seconds(self) -> u64 {
        self.wall.as_millis() / 1000
    }

    /// When a token ends that ends at `unix_seconds` since 1970, on the monotonic clock; an hour from now at most, because
    /// clocks drift, and looking once more costs nothing.
    pub(crate) fn instant_of(self, unix_seconds: u64) -> Option<Instant> {
        let left = unix_seconds.saturating_mul(1000).saturating_sub(self.wall.as_millis());
        self.instant.checked_add(Duration::from_millis(left.min(3_600_000)))
    }

    /// Whole seconds since 1970 by the broker's time. They fit until the year 2106.
    pub(crate) fn broker_seconds(self) -> u32 {
        u32::try_from(self.utc.as_millis() / 1000).unwrap_or(u32::MAX)
    }
}

/// Limits and names, the same for all connections of a server.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// `open.container-id`.
    pub container_id: String,
    /// Name of this broker in error texts (`SystemTracker:<name>:<entity>`).
    pub server_name: String,
    /// Largest frame that is accepted, in bytes.
    pub max_frame_bytes: u32,
    /// Largest message in bytes, where the queue does not say otherwise.
    pub max_message_bytes: u64,
    /// The same for clients of Service Bus, in bytes.
    pub tier_message_bytes: u64,
    /// Sessions of one connection.
    pub max_sessions: u16,
    /// Links of one connection, all sessions together. At most 65,535.
    pub max_links: u32,
    /// `open.idle-time-out`: silence after which a peer should have said something. It is dropped after twice
    /// that. .NET refuses less than 5 s.
    pub idle_time_out: Duration,
    /// Time after which a link to an entity is detached on which nothing happens; `None`: never.
    pub link_idle_time_out: Option<Duration>,
    /// Time for SASL and open.
    pub open_time_out: Duration,
    /// A client may create a queue by attaching to a missing one.
    pub auto_create: bool,
    /// Credit granted to a sending client, topped up at half. It does not throttle: transfers beyond it count.
    pub credit_window: u32,
    /// Bytes of message payload on their way to one client: with the node, in the gateway, or in the engine.
    pub deliver_window_bytes: u64,
    /// Deliveries of one link that a client may leave unsettled; above that its credit does not count.
    pub max_unsettled: u32,
    /// Messages in one batch transfer.
    pub max_batch_messages: usize,
    /// Bytes of messages in one answer of `peek-message`.
    pub max_peek_bytes: u64,
    /// Bytes of messages in one answer of `receive-by-sequence-number`.
    pub max_deferred_bytes: u64,
    /// Answers of a management node that may wait for credit on one link.
    pub max_waiting_replies: usize,
    /// Bytes of answers of `$cbs` that a client may leave unread; beyond it the link that they go on is detached.
    pub max_unread_cbs_bytes: u64,
    /// The same of answers of management nodes, of which each may be as large as [`max_peek_bytes`](Self::max_peek_bytes).
    pub max_unread_answer_bytes: u64,
    /// The dynamic nodes of all connections: their limits and the key of their names.
    pub dynamic_nodes: Arc<DynamicNodePool>,
    /// Prefixes of the addresses of plain clients.
    pub address_prefixes: AddressPrefixes,
    /// Make spans of the messages that belong to a trace.
    pub traces: bool,
    /// The log of refusals, of all connections.
    pub refusals: Arc<RefusalLog>,
    /// Faults that tests may order; `None`: nobody can.
    pub faults: Option<Arc<Faults>>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            container_id: "ferrybus".to_owned(),
            server_name: "ferrybus".to_owned(),
            max_frame_bytes: 65_536,
            max_message_bytes: 100 << 20,
            tier_message_bytes: 1 << 20,
            max_sessions: 2048,
            max_links: 4096,
            idle_time_out: Duration::from_secs(120),
            link_idle_time_out: None,
            open_time_out: Duration::from_secs(30),
            auto_create: false,
            credit_window: 1000,
            deliver_window_bytes: 1 << 20,
            max_unsettled: 100_000,
            max_batch_messages: 65_536,
            max_peek_bytes: 1 << 20,
            max_deferred_bytes: 16 << 20,
            max_waiting_replies: 64,
            max_unread_cbs_bytes: 1 << 20,
            max_unread_answer_bytes: 64 << 20,
            dynamic_nodes: Arc::default(),
            address_prefixes: AddressPrefixes::default(),
            traces: false,
            refusals: Arc::default(),
            faults: None,
        }
    }
}
