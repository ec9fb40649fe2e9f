//! Configuration of a connection, and the limits of every connection.
//!
//! Invariant: every buffer, table and queue that a peer can fill has its limit here.

use std::time::Duration;

use amqp_codec::performative::Error;
use amqp_codec::raw::RawMap;
use amqp_codec::text::cut;
use amqp_codec::types::Symbol;

/// Configuration of a connection. Shared by many connections, so [`Connection::new`] takes it in an
/// [`Arc`](std::sync::Arc).
///
/// [`Connection::new`]: crate::Connection::new
#[derive(Clone, Debug)]
pub struct Config {
    /// Our container-id, sent in the open.
    pub container_id: String,
    /// Largest frame we accept, in bytes. The protocol's minimum is 512.
    pub max_frame_size: u32,
    /// Highest channel number a peer may use, so one less than the most sessions it may have.
    pub channel_max: u16,
    /// Highest handle a peer may use, so one less than the most links a session may have.
    pub handle_max: u32,
    /// Most links one connection may have over all its sessions.
    pub max_links: usize,
    /// The idle time-out we advertise. A peer is dropped after twice this time without a byte.
    /// `None` or zero: never.
    pub idle_time_out: Option<Duration>,
    /// Longest silence on our side, whatever the peer asked for. Half of the peer's idle time-out
    /// is used when that is shorter.
    pub heartbeat_interval: Duration,
    /// Longest time from connecting to the end of the open exchange.
    pub open_timeout: Duration,
    /// Longest wait for the peer's close after ours.
    pub close_timeout: Duration,
    /// The SASL mechanisms we offer, in this order.
    pub sasl_mechanisms: Vec<Symbol>,
    /// Whether a peer must authenticate by SASL. When not, one may start with the AMQP header.
    pub require_sasl: bool,
    /// Largest message a link takes when the answer to its attach says nothing else, in bytes.
    /// Zero: no limit, which makes `max_partial_bytes` the only one.
    pub max_message_size: u64,
    /// Transfer frames a session may receive before we have to renew its window. Should be twice
    /// what the largest message needs: the Python SDK counts deliveries where frames are meant.
    pub session_incoming_window: u32,
    /// Transfer frames we say we may send; without effect on what we do.
    pub session_outgoing_window: u32,
    /// Most unsettled incoming deliveries of a session before its window is no longer renewed.
    pub max_unsettled: usize,
    /// Most bytes of unfinished deliveries (transfers with more to come) of a connection.
    pub max_partial_bytes: usize,
    /// Most bytes of input kept while the answer to a SASL init or an open is awaited.
    pub max_held_input: usize,
    /// Most bytes of set-up and tear-down frames that wait for a peer that does not read.
    pub max_control_backlog: usize,
    /// Whether a transfer beyond the link credit detaches the link. Python's Service Bus senders
    /// send without credit, so it is off by default.
    pub strict_credit: bool,
    /// Whether a delivery-id that does not go up or a next-outgoing-id that goes back ends the session, and a
    /// delivery-tag that is in use the link (transport 2.5.6, 2.6.12). Python's Service Bus SDK does all three when threads share one of its clients, its own renewer of locks among them, and
    /// Azure Service Bus answers each such delivery by the id that it came with.
    pub strict_ids: bool,
    /// The first transfer-id and delivery-id we send. Any will do, and the tests of other brokers' makers assume 0.
    pub initial_outgoing_id: u32,
    /// Keys the table of delivery-tags. A random value per process keeps a peer from choosing tags
    /// that collide.
    pub hash_seed: u64,
    /// Capabilities offered in our open, when its answer names no others.
    pub offered_capabilities: Vec<Symbol>,
    /// Properties of our open, when its answer names no others.
    pub open_properties: Option<RawMap>,
    /// Follows the description of every error that the engine raises itself, such as a reference
    /// that an operator finds in the log. Empty: nothing follows.
    pub error_note: String,
}

impl Config {
    /// An error that the engine raises itself, with [`error_note`](Self::error_note) behind it. The text gives way to
    /// the note, which small frames must not cost.
    #[cold]
    pub(crate) fn with_note(&self, error: Error) -> Error {
        let text = error.description.unwrap_or_default();
        let front = cut(&text, SHORT_DESCRIPTION.saturating_sub(self.error_note.len()));
        Error { description: Some(format!("{front}{}", self.error_note)), ..error }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            container_id: String::from("ferrybus"),
            max_frame_size: 65_536,
            channel_max: 4_999,
            handle_max: 4_095,
            max_links: 16_384,
            idle_time_out: Some(Duration::from_secs(120)),
            heartbeat_interval: Duration::from_secs(25),
            open_timeout: Duration::from_secs(20),
            close_timeout: Duration::from_secs(5),
            sasl_mechanisms: ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"].map(Symbol::from).to_vec(),
            require_sasl: true,
            max_message_size: 1_048_576,
            session_incoming_window: 5_000,
            session_outgoing_window: 0x7fff_ffff,
            max_unsettled: 16_384,
            max_partial_bytes: 128 * 1_048_576,
            max_held_input: 1_048_576,
            max_control_backlog: 4 * 1_048_576,
            strict_credit: false,
            strict_ids: false,
            initial_outgoing_id: 0,
            hash_seed: 0x9e37_79b9_7f4a_7c15,
            offered_capabilities: Vec::new(),
            open_properties: None,
            error_note: String::new(),
        }
    }
}

/// Largest SASL frame, in bytes. The protocol promises 512; tokens of some kilobytes come in them.
pub const MAX_SASL_FRAME: u32 = 16_384;

/// Most challenges of one SASL exchange.
pub const MAX_SASL_CHALLENGES: u8 = 16;

/// Shortest idle time-out of a peer that we promise to satisfy.
pub const MIN_PEER_IDLE_TIME_OUT: Duration = Duration::from_millis(20);

/// Most runs of delivery-ids of a session that were handed over and never sent, see
/// [`Event::Unsent`](crate::Event::Unsent), since the oldest delivery that
/// [`Connection::forget_outgoing`](crate::Connection::forget_outgoing) left.
pub const MAX_ID_GAPS: usize = 1_024;

/// Most outcomes of a connection that wait for their time, see
/// [`Connection::settle_incoming_at`](crate::Connection::settle_incoming_at). Beyond it the oldest goes out at once.
pub const MAX_DELAYED_OUTCOMES: usize = 1_024;

/// Backlog of set-up and tear-down frames, in bytes, beyond which
/// [`wants_input`](crate::Connection::wants_input) says no.
pub const CONTROL_BACKLOG_HIGH: usize = 65_536;

/// Longest description of an error that we never shorten, in bytes: with all that may stand around it, it fits into the
/// smallest frames that a peer may ask for, of 512 bytes.
pub const SHORT_DESCRIPTION: usize = 320;
