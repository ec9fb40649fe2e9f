//! State that all connections share, and the peer of one.
//!
//! Invariant: it outlives every connection, and each part of it may be used from any thread.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use amqp_gateway::GatewayConfig;
use broker_auth::PeerFacts;
use broker_core::{Profile, Timestamp};
use tokio::sync::watch;

use crate::{
    administrators::Administrators,
    audit::Audit,
    clock::Clock,
    config::{MissingRight, ServerConfig},
    connection_limit::ConnectionLimit,
    connections::Connections,
    http::{LastProbe, ScrapeThrottle, Scrapes},
    io_threads::Spawner,
    metrics::Metrics,
    namespaces::{NamespaceDirectory, setup::NamespaceSetup},
    observability::ObservabilityConfig,
    otlp::Spans,
    process_memory::ProcessMemory,
    randomness::random,
    shards::Shards,
    shutdown::Shutdown,
    start_error::StartError,
    tls::TlsEndpoint,
    wrong_protocol::WrongProtocols,
};

/// State that all connections share.
pub(crate) struct Shared {
    /// Configuration of the gateways, the same in all namespaces.
    pub(crate) gateway: Arc<GatewayConfig>,
    pub(crate) namespaces: Arc<NamespaceDirectory>,
    pub(crate) administrators: Administrators,
    pub(crate) clock: Arc<Clock>,
    pub(crate) shards: Shards,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tls: Arc<TlsEndpoint>,
    pub(crate) next_client: Arc<AtomicU64>,
    pub(crate) seed: u64,
    /// Refusals that were told over HTTP.
    pub(crate) refusals: AtomicU64,
    /// Start of service.
    pub(crate) started_at: Timestamp,
    /// Service tier, with its bounds for entities.
    pub(crate) profile: Profile,
    pub(crate) connection_limit: Arc<ConnectionLimit>,
    pub(crate) memory: ProcessMemory,
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

impl Shared {
    /// The server's own way to change namespaces.
    pub(crate) fn namespace_setup(&self) -> NamespaceSetup {
        NamespaceSetup {
            directory: Arc::clone(&self.namespaces),
            shards: self.shards.clone(),
            next_client: Arc::clone(&self.next_client),
        }
    }
}

/// The parts of a server that its connections share; the rest is made of the configuration.
pub(crate) struct SharedParts {
    pub(crate) gateway: Arc<GatewayConfig>,
    pub(crate) namespaces: Arc<NamespaceDirectory>,
    pub(crate) administrators: Administrators,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) shards: Shards,
    pub(crate) tls: Arc<TlsEndpoint>,
    pub(crate) next_client: Arc<AtomicU64>,
    pub(crate) connection_limit: Arc<ConnectionLimit>,
    pub(crate) listing: Arc<Connections>,
    pub(crate) threads: Spawner,
    pub(crate) spans: Option<Spans>,
    pub(crate) stop: watch::Receiver<Shutdown>,
}

impl SharedParts {
    /// The state that connections share from now on.
    pub(crate) fn share(self, config: &ServerConfig) -> Result<Shared, StartError> {
        let audit = Audit::new(config.observe.refused_attempts_per_minute, Arc::clone(&self.metrics));
        Ok(Shared {
            gateway: self.gateway,
            namespaces: self.namespaces,
            administrators: self.administrators,
            started_at: self.clock.utc(),
            metrics: self.metrics,
            profile: config.core.profile,
            clock: self.clock,
            shards: self.shards,
            tls: self.tls,
            next_client: self.next_client,
            seed: u64::from_be_bytes(random()?),
            refusals: AtomicU64::new(0),
            connection_limit: self.connection_limit,
            memory: config.memory,
            listing: self.listing,
            threads: self.threads,
            handshake_time_out: config.handshake_time_out,
            http_write_time_out: config.http_write_time_out,
            faults: config.testing.then(|| watch::Sender::new(())),
            missing_right: config.missing_right,
            audit: Arc::new(audit),
            wrong_protocols: Arc::default(),
            observe: config.observe.clone(),
            scrape_throttle: ScrapeThrottle::default(),
            scrapes: Scrapes::default(),
            last_probe: LastProbe::default(),
            spans: self.spans,
            stop: self.stop,
        })
    }
}

/// Peer of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Facts on which its rights depend.
    pub(crate) facts: PeerFacts,
    pub(crate) address: SocketAddr,
    /// It is beyond the limit of connections: over AMQP it is only told so.
    pub(crate) over_limit: bool,
    /// The name by which it has called the broker in the TLS handshake, or as host of its HTTP request.
    pub(crate) host: Option<Box<str>>,
}
