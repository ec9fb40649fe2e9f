//! Configuration of a server. The binary makes it from its settings; nothing here reads files or the environment.
//!
//! Invariant: plain data; the components (disk, clock, randomness) are not part of it.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use broker_auth::Authority;
use broker_core::{CoreConfig, EntityKind, EntitySettings, Expiry, Profile, Rule};
use broker_log::Durability;

use crate::{jwks_refresh::KeySource, observability::ObservabilityConfig, tls::TlsFiles};

/// Limits of the broker and of its entities. The defaults are the core's.
#[derive(Clone, Copy, Debug)]
pub struct Quotas {
    /// Service tier, with its bounds for entities.
    pub profile: Profile,
    /// Most entities: queues, topics and subscriptions.
    pub max_entities: u64,
    /// Most rules of all subscriptions of a topic.
    pub max_rules_per_topic: u64,
    /// Most receivers of one entity.
    pub max_receivers_per_entity: u64,
    /// Most subscriptions of one topic that receivers from the topic itself were given.
    pub max_subscribers_per_topic: u64,
    /// Most receivers of one entity that have a selector.
    pub max_selectors_per_entity: u64,
    /// Most messages sent in one transaction.
    pub max_transaction_messages: u64,
    /// Most bytes that one send, or one transaction by what it sends, may bring.
    pub max_send_bytes: u64,
    /// Most bytes of messages that one settlement by tokens may write anew.
    pub max_rewritten_bytes: u64,
    /// Most bytes that the open transactions of one connection may hold.
    pub max_transaction_bytes: u64,
    /// Most copies that the messages of one send to a topic may have.
    pub max_copies_per_send: u64,
    /// Time from the first operation of a transaction until it is rolled back.
    pub transaction_time_out: Duration,
}

impl Default for Quotas {
    fn default() -> Self {
        let core = CoreConfig::default();
        Self {
            profile: core.profile,
            max_entities: core.max_entities,
            max_rules_per_topic: core.max_rules_per_topic,
            max_receivers_per_entity: core.max_consumers_per_entity,
            max_subscribers_per_topic: core.max_subscribers_per_topic,
            max_selectors_per_entity: core.max_selectors_per_entity,
            max_transaction_messages: core.max_transaction_messages,
            max_send_bytes: core.max_send_bytes,
            max_rewritten_bytes: core.max_rewritten_bytes,
            max_transaction_bytes: core.max_transaction_bytes,
            max_copies_per_send: core.max_copies_per_send,
            transaction_time_out: core.transaction_time_out,
        }
    }
}

/// An entity to create.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityPlan {
    /// Its name; that of a subscription is `topic/Subscriptions/name`.
    pub name: String,
    pub kind: EntityKind,
    pub settings: EntitySettings,
    /// Of a subscription, its rules; `None`: the one that lets everything in.
    pub rules: Option<Vec<Rule>>,
}

impl EntityPlan {
    /// A queue.
    pub fn queue(name: impl Into<String>, settings: EntitySettings) -> Self {
        Self { name: name.into(), kind: EntityKind::Queue, settings, rules: None }
    }
}

/// Everything `Server::start` needs.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Addresses for AMQP. TLS clients are told apart by their first byte when `tls` is set.
    pub listen: Vec<SocketAddr>,
    /// Addresses for AMQP over TLS only.
    pub listen_tls: Vec<SocketAddr>,
    /// Addresses for HTTP: management, and AMQP over WebSocket. Every other address speaks HTTP too; a port of its own
    /// is where clients look for it.
    pub listen_http: Vec<SocketAddr>,
    /// Certificate and key, in PEM files.
    pub tls: Option<TlsFiles>,
    /// Directory of the journal. Unused with `Durability::None`.
    pub data_dir: PathBuf,
    /// Durability of acknowledged messages.
    pub durability: Durability,
    /// Size of a journal segment in bytes.
    pub segment_bytes: u64,
    /// Memory for recently written message bodies, in bytes.
    pub cache_bytes: u64,
    /// Free disk space below which sends are refused, in bytes.
    pub disk_reserve_bytes: u64,
    /// Entities to create at start when they do not exist, topics before their subscriptions.
    pub entities: Vec<EntityPlan>,
    /// Create a queue when a client attaches to a missing one.
    pub auto_create: bool,
    /// When messages whose time is over go.
    pub expiry: Expiry,
    /// Credentials and their rights.
    pub authority: Arc<Authority>,
    /// Key sources of its issuers whose keys are not in files.
    pub key_sources: Vec<KeySource>,
    /// Connections at the same time; one more is closed at once.
    pub max_connections: usize,
    pub max_links_per_connection: u32,
    /// Message ids that all entities together remember to detect duplicates.
    pub max_remembered_ids: u64,
    /// Other limits.
    pub quotas: Quotas,
    /// Largest message in bytes, where the queue does not say otherwise.
    pub max_message_bytes: u64,
    /// Largest frame we accept, in bytes.
    pub max_frame_bytes: u32,
    /// Bytes of commands that all connections together may have waiting for the node; beyond that no socket is read.
    pub max_in_flight_bytes: usize,
    /// Silence after which we ask a peer to show that it lives (`open.idle-time-out`).
    pub idle_time_out: Duration,
    /// Time after which a link to an entity is detached on which nothing happens; `None`: never.
    pub link_idle_time_out: Option<Duration>,
    /// Time a client has for the TLS handshake, SASL and open.
    pub handshake_time_out: Duration,
    /// Time in which an HTTP peer must take some of its answer.
    pub http_write_time_out: Duration,
    /// Largest segment of TCP in bytes, 88 to 32,767; `None`: what the interface allows.
    pub tcp_max_segment: Option<u16>,
    /// Time connections have to say goodbye at shutdown.
    pub shutdown_time_out: Duration,
    /// Threads that serve connections.
    pub io_threads: usize,
    /// Response of the management API to an authenticated client without the right to manage.
    pub missing_right: MissingRight,
    /// For tests against the broker: its clock can be moved.
    pub testing: bool,
    /// Metrics, logs and traces.
    pub observe: ObservabilityConfig,
    /// `open.container-id`.
    pub container_id: String,
}

/// Response of the management API to an authenticated client without the right to manage.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MissingRight {
    /// 403, so that it is told apart from a log-in that is no good.
    #[default]
    Forbidden,
    /// 401, as the service.
    Unauthorized,
}
