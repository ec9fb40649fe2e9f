//! Configuration of a server. The binary makes it from its settings; nothing here reads files or the environment.
//!
//! Invariant: plain data; the components (disk, clock, randomness) are not part of it.

use std::{net::SocketAddr, num::NonZero, path::PathBuf, sync::Arc, thread, time::Duration};

use amqp_gateway::{ALL_DYNAMIC_NODES, AddressPrefixes, CONNECTION_DYNAMIC_NODES};
use broker_auth::{Authority, Credentials};
use broker_core::{CoreConfig, EntityKind, EntitySettings, NamespaceSettings, Rule, namespace_key};
use broker_log::JournalConfig;

use crate::{
    jwks_refresh::KeySource, observability::ObservabilityConfig, process_memory::ProcessMemory,
    recovery_gate::RecoveryGate, tls::TlsFiles,
};

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

/// A namespace that the configuration names, beside the default one.
#[derive(Clone, Debug)]
pub struct NamespacePlan {
    /// As written; [`broker_core::namespace_key`] takes it.
    pub name: String,
    /// Its hostnames, weight and limits. Whether it is held is not the configuration's to say: a hold that an administrator
    /// has put on it stays.
    pub settings: NamespaceSettings,
    /// Credentials that the configuration gives it. Keys that an interface has made come on top.
    pub authority: Arc<Authority>,
    /// Key sources of its issuers whose keys are not in files.
    pub key_sources: Vec<KeySource>,
    /// Entities to create where they do not exist, topics before their subscriptions; at a reload, where the namespace is new.
    pub entities: Vec<EntityPlan>,
}

impl NamespacePlan {
    /// The key by which the namespace is found, and its credentials.
    pub(crate) fn entry(&self) -> (Box<str>, Arc<Authority>) {
        let key = namespace_key(&self.name).unwrap_or_else(|_| (*self.name).into());
        (key, Arc::clone(&self.authority))
    }
}

/// Everything `Server::start` needs. The default opens no port and grants no right.
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
    /// Directory of the journal. Unused with [`broker_log::Durability::None`].
    pub data_dir: PathBuf,
    /// The journal. The server draws its salt at each start.
    pub journal: JournalConfig,
    /// The core, with the limits of entities. The server draws its token key at each start and tells it how payloads
    /// are read.
    pub core: CoreConfig,
    /// Entities to create at start when they do not exist, topics before their subscriptions.
    pub entities: Vec<EntityPlan>,
    /// Create a queue when a client attaches to a missing one, in each namespace.
    pub auto_create: bool,
    /// Prefixes of the addresses of plain clients.
    pub address_prefixes: AddressPrefixes,
    /// Credentials of the default namespace and their rights.
    pub authority: Arc<Authority>,
    /// Key sources of its issuers whose keys are not in files.
    pub key_sources: Vec<KeySource>,
    /// Hostnames, weight and limits of the default namespace; `None`: the configuration does not name it, and it keeps those
    /// that it has.
    pub default_namespace: Option<NamespaceSettings>,
    /// The other namespaces of the configuration.
    pub namespaces: Vec<NamespacePlan>,
    /// Credentials that a namespace which an interface creates begins with, before its own keys.
    pub created_namespace: Credentials,
    /// Administrators of the installation. Without any, whoever may manage the default namespace is one.
    pub administrators: Arc<Authority>,
    /// Close a connection whose host name leads to no namespace, instead of taking it to the default one.
    pub strict_hostnames: bool,
    /// Memory of the process, and its limit.
    pub memory: ProcessMemory,
    /// Shards, each with a journal of its own.
    pub shards: u16,
    /// Connections at the same time. Up to 64 more are accepted and refused with an error; the rest are closed at once.
    pub max_connections: usize,
    /// Dynamic nodes of all connections.
    pub max_dynamic_nodes: usize,
    /// Dynamic nodes of one connection.
    pub max_dynamic_nodes_per_connection: usize,
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
    /// Time in which an HTTP peer must take some of its answer. Tests shorten it.
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
    /// Gate of the recoveries of shards.
    pub recovery_gate: RecoveryGate,
    /// Metrics, logs and traces.
    pub observe: ObservabilityConfig,
    /// `open.container-id`.
    pub container_id: String,
}

impl ServerConfig {
    /// Free disk space in bytes below which sends are refused, for so many shards: what the configuration says, and at least
    /// room for one more segment of each shard, because settlements have to be written then too. Without a reserve it is 0.
    pub(crate) fn disk_reserve(&self, shards: usize) -> u64 {
        match self.journal.reserve_bytes {
            0 => 0,
            configured => configured.max(self.journal.segment_bytes.saturating_mul(shards as u64)),
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            listen_http: Vec::new(),
            tls: None,
            data_dir: PathBuf::new(),
            journal: JournalConfig::default(),
            core: CoreConfig::default(),
            entities: Vec::new(),
            auto_create: false,
            address_prefixes: AddressPrefixes::default(),
            authority: Arc::new(Authority::new(Credentials::default())),
            key_sources: Vec::new(),
            default_namespace: None,
            namespaces: Vec::new(),
            created_namespace: Credentials::default(),
            administrators: Arc::new(Authority::new(Credentials::default())),
            strict_hostnames: false,
            memory: ProcessMemory::default(),
            shards: 1,
            max_connections: 10_000,
            max_dynamic_nodes: ALL_DYNAMIC_NODES,
            max_dynamic_nodes_per_connection: CONNECTION_DYNAMIC_NODES,
            max_frame_bytes: 64 << 10,
            max_in_flight_bytes: 256 << 20,
            idle_time_out: Duration::from_secs(120),
            link_idle_time_out: None,
            handshake_time_out: Duration::from_secs(30),
            http_write_time_out: Duration::from_secs(30),
            tcp_max_segment: None,
            shutdown_time_out: Duration::from_secs(5),
            io_threads: thread::available_parallelism().map_or(2, NonZero::get),
            missing_right: MissingRight::default(),
            testing: false,
            recovery_gate: RecoveryGate::default(),
            observe: ObservabilityConfig::default(),
            container_id: "ferrybus".to_owned(),
        }
    }
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
