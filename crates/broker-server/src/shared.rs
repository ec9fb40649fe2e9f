//! State that all connections share, and the peer of one.
//!
//! Invariant: it outlives every connection, and each part of it may be used from any thread.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use amqp_gateway::GatewayConfig;
use broker_admin::Namespace;
use broker_auth::{Authority, PeerFacts};
use broker_core::Profile;
use tokio::sync::watch;

use crate::{
    audit::Audit,
    clock::Clock,
    config::MissingRight,
    connection_limit::ConnectionLimit,
    connections::Connections,
    executor::Executor,
    http::{LastProbe, ScrapeThrottle, Scrapes},
    io_threads::Spawner,
    observability::ObservabilityConfig,
    otlp::Spans,
    shutdown::Shutdown,
    tls::TlsEndpoint,
    wrong_protocol::WrongProtocols,
};

/// State that all connections share.
pub(crate) struct Shared {
    pub(crate) gateway: Arc<GatewayConfig>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) executor: Arc<Executor>,
    pub(crate) tls: Arc<TlsEndpoint>,
    pub(crate) next_client: AtomicU64,
    pub(crate) seed: u64,
    /// Refusals that were told over HTTP.
    pub(crate) refusals: AtomicU64,
    /// Properties of the namespace, for the management API.
    pub(crate) namespace: Namespace,
    /// Service tier, with its bounds for entities.
    pub(crate) profile: Profile,
    pub(crate) connection_limit: ConnectionLimit,
    pub(crate) listing: Arc<Connections>,
    pub(crate) threads: Spawner,
    pub(crate) handshake_time_out: Duration,
    pub(crate) http_write_time_out: Duration,
    /// Changes when faults are ordered; `None` unless started for testing.
    pub(crate) faults: Option<watch::Sender<()>>,
    /// Response of the management API to a client without the right.
    pub(crate) missing_right: MissingRight,
    pub(crate) observe: ObservabilityConfig,
    pub(crate) audit: Arc<Audit>,
    /// Clients that speak something else than their port.
    pub(crate) wrong_protocols: Arc<WrongProtocols>,
    /// Listings and scrapes yield to message traffic (decision 24).
    pub(crate) scrape_throttle: ScrapeThrottle,
    /// One scrape at a time.
    pub(crate) scrapes: Scrapes,
    pub(crate) last_probe: LastProbe,
    /// Exporter of spans, where one is configured.
    pub(crate) spans: Option<Spans>,
    pub(crate) stop: watch::Receiver<Shutdown>,
}

/// Peer of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Facts on which its rights depend.
    pub(crate) facts: PeerFacts,
    pub(crate) address: SocketAddr,
    /// It is beyond the limit of connections: over AMQP it is only told so.
    pub(crate) over_limit: bool,
}
