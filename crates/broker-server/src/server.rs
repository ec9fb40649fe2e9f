//! Starts everything, accepts connections, stops everything.
//!
//! Invariant: at a graceful stop connections say goodbye first, then the node makes all it holds durable, then the
//! process may end.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use amqp_gateway::{GatewayConfig, RefusalLog};
use broker_admin::Namespace;
use broker_core::EntityError;
use broker_log::OpenError;
use broker_node::RecoveryError;
use tokio::{
    runtime::{Builder, EnterGuard, Runtime},
    sync::{oneshot, watch},
};
use tracing::{info, warn};

use crate::{
    accept::PortKind,
    audit::Audit,
    clock::Clock,
    config::ServerConfig,
    connection_limit::ConnectionLimit,
    connections::Connections,
    disk_state::{DiskState, Volume, log_full_disk},
    entity_key_cache::{EntityKeyCache, tell_of_lost_keys},
    executor::{Executor, ExecutorItem},
    http::{LastProbe, ScrapeThrottle, Scrapes},
    io_threads::Threads,
    jwks_refresh::{Fetcher, KeyRefreshers},
    node_driver::Ended,
    node_identity::IdentityError,
    node_thread::NodeThread,
    otlp::{Exporter, Spans},
    prepared::{Ports, Prepared},
    reload::Reloader,
    remote::RemoteError,
    shared::Shared,
    shutdown::{self, Shutdown},
    signals::{Action, Signals},
    tls::{self, TlsEndpoint, TlsError},
};

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    /// The journal cannot be opened.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The disk cannot be opened.
    #[error(transparent)]
    Disk(#[from] OpenError),
    /// The file with the id of the node cannot be read or made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The TLS endpoint cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A provider of keys, or the collector of spans, cannot be asked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A configured entity cannot be created.
    #[error("entity `{name}`: {error}")]
    Entity { name: String, error: EntityError },
    /// A thread or the runtime cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The machine gives no random numbers.
    #[error("no randomness: {0}")]
    Randomness(String),
    /// The journal failed while starting.
    #[error("the journal failed while starting")]
    Journal,
}

/// End of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It was stopped and everything accepted is durable.
    Stopped,
    /// The journal failed; what was acknowledged is safe, a restart recovers it.
    JournalFailed,
    /// A fault of ours; what was acknowledged is safe, a restart recovers it.
    Panicked,
}

/// A running broker. Dropped, it ends like one that is stopped, but waits for no connection's goodbye.
#[derive(Debug)]
pub struct Server {
    /// Accepts connections; others serve them.
    /// `None` once it has ended.
    runtime: Option<Runtime>,
    /// Dropped with the server, after the node has ended.
    _threads: Threads,
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    http_addresses: Vec<SocketAddr>,
    executor: Arc<Executor>,
    stop: watch::Sender<Shutdown>,
    connection_limit: ConnectionLimit,
    node: NodeThread,
    reloader: Reloader,
    shutdown_time_out: Duration,
}

impl Server {
    /// Recovers the journal, starts the threads, creates the configured entities that do not exist, and listens.
    pub fn start(config: &ServerConfig) -> Result<Self, StartError> {
        let mut prepared = Self::prepare(config)?;
        prepared.create(&config.entities)?;
        prepared.listen()
    }

    /// Takes the ports, recovers the journal and starts the threads. No client can connect before [`Prepared::listen`].
    pub fn prepare(config: &ServerConfig) -> Result<Prepared, StartError> {
        raise_file_limit(config.max_connections);
        let tls = Arc::new(TlsEndpoint::new(config.tls.as_ref(), Arc::clone(&config.authority))?);
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("listeners").enable_all().build()?;
        // First, so that a wrong address fails at once and not when a large journal has been read.
        let ports = Ports::take(config)?;
        let clock = Arc::new(Clock::default());
        let executor = Arc::new(Executor::new(Arc::clone(&clock), config.max_in_flight_bytes));
        let (stop, stopped) = watch::channel(Shutdown::No);
        let listing = Arc::<Connections>::default();
        let (lost_keys, told) = watch::channel(());
        drop(runtime.spawn(tell_of_lost_keys(told, Arc::clone(&listing))));
        let entity_key_cache = EntityKeyCache::new(Arc::clone(&config.authority), lost_keys.clone());
        let (space, news) = watch::channel(DiskState::default());
        let node = NodeThread::start(config, &clock, &executor, entity_key_cache, space, stop.clone())?;
        let volume = Volume { path: config.data_dir.clone(), reserve_bytes: config.journal.reserve_bytes };
        let asked = Arc::clone(&executor);
        let measure = move || asked.push(ExecutorItem::View(oneshot::channel().0));
        drop(runtime.spawn(log_full_disk(volume, news, measure)));
        let key_refreshers = keep_keys(config, &runtime)?;
        drop(runtime.spawn(tls::watch_files(Arc::clone(&tls), Arc::clone(&clock))));
        let (authority, time) = (Arc::clone(&config.authority), Arc::clone(&clock));
        let reloader = Reloader { authority, tls: Arc::clone(&tls), key_refreshers, lost_keys, clock: time };
        let spans = start_exporter(config, &runtime, &executor, &stopped)?;
        let connection_limit = ConnectionLimit::new(config.max_connections);
        let threads = Threads::start(config.io_threads)?;
        let shared = Arc::new(Shared {
            gateway: Arc::new(gateway_config(config)),
            authority: Arc::clone(&config.authority),
            namespace: Namespace { tier: config.core.profile.tier(), created_at: clock.utc() },
            profile: config.core.profile,
            clock,
            executor: Arc::clone(&executor),
            tls,
            next_client: AtomicU64::new(FIRST_CLIENT),
            seed: u64::from_be_bytes(random()?),
            refusals: AtomicU64::new(0),
            connection_limit: connection_limit.clone(),
            listing,
            threads: threads.spawner(),
            handshake_time_out: config.handshake_time_out,
            http_write_time_out: config.http_write_time_out,
            faults: config.testing.then(|| watch::Sender::new(())),
            missing_right: config.missing_right,
            audit: Arc::new(Audit::new(
                config.observe.refused_attempts_per_minute,
                Arc::clone(executor.metrics()),
            )),
            wrong_protocols: Arc::default(),
            observe: config.observe.clone(),
            scrape_throttle: ScrapeThrottle::default(),
            scrapes: Scrapes::default(),
            last_probe: LastProbe::default(),
            spans,
            stop: stopped,
        });
        let server = Self {
            addresses: ports.addresses(PortKind::Any),
            tls_addresses: ports.addresses(PortKind::Tls),
            http_addresses: ports.addresses(PortKind::Watched),
            runtime: Some(runtime),
            _threads: threads,
            executor,
            stop,
            connection_limit,
            node,
            reloader,
            shutdown_time_out: config.shutdown_time_out,
        };
        Ok(Prepared::new(server, shared, ports))
    }

    /// Addresses for AMQP clients, with the ports the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Addresses for AMQP clients with TLS only.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// Addresses for HTTP clients.
    pub fn http_addresses(&self) -> &[SocketAddr] {
        &self.http_addresses
    }

    /// The owner of the state that a reload replaces.
    pub const fn reloader(&mut self) -> &mut Reloader {
        &mut self.reloader
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(future));
        }
    }

    /// Serves until SIGTERM, SIGINT or another signal that asks to end, or a failure of the node, then ends gracefully.
    /// A reload has nothing to read.
    pub fn run_until_signal(self) -> Outcome {
        match Signals::watch() {
            Ok(signals) => self.run(signals, |_| warn!("there is no configuration to read again")),
            Err(error) => {
                warn!(%error, "signals cannot be watched");
                self.stop()
            }
        }
    }

    /// The same with `signals`, which were watched before. `reload` is called for each one that asks for it.
    pub fn run(mut self, mut signals: Signals, mut reload: impl FnMut(&mut Reloader)) -> Outcome {
        signals.watch_shutdown();
        let ended = self.node.take_ended();
        let Some(runtime) = &self.runtime else { return self.stop() };
        runtime.block_on(async {
            let node = async {
                match ended {
                    Some(ended) => drop(ended.await),
                    None => std::future::pending().await,
                }
            };
            tokio::pin!(node);
            loop {
                let (action, signal) = tokio::select! {
                    came = signals.next() => came,
                    () = &mut node => return warn!("the node has ended"),
                };
                match action {
                    Action::Shutdown => return info!(%signal, "stopping"),
                    Action::Reload => reload(&mut self.reloader),
                    Action::Ignore => info!(%signal, "a signal was ignored"),
                }
            }
        });
        self.stop()
    }

    /// Ends gracefully within the configured time.
    pub fn stop(mut self) -> Outcome {
        shutdown::order(&self.stop, Shutdown::Asked);
        let Some(runtime) = self.runtime.take() else { return Outcome::Panicked };
        let patience = self.shutdown_time_out;
        let connection_limit = &self.connection_limit;
        runtime.block_on(async {
            let all_gone = async {
                while connection_limit.taken() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            if tokio::time::timeout(patience, all_gone).await.is_err() {
                warn!("some connections did not close in {patience:?}");
            }
        });
        let ended = self.node.stop();
        runtime.shutdown_timeout(Duration::from_millis(100));
        match ended {
            Ended::Stopped => Outcome::Stopped,
            Ended::Poisoned => Outcome::JournalFailed,
            Ended::Panicked => Outcome::Panicked,
        }
    }

    pub(crate) fn executor(&self) -> &Arc<Executor> {
        &self.executor
    }

    /// Enters the runtime: a socket registers with the runtime that is current when it is made.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }

    /// Waits for this, or fails when the node ends before.
    pub(crate) fn unless_node_ends<T>(&mut self, wanted: impl Future<Output = T>) -> Result<T, StartError> {
        let Some(runtime) = &self.runtime else { return Err(StartError::Journal) };
        let ended = self.node.ended();
        runtime.block_on(async {
            match ended {
                None => Ok(wanted.await),
                Some(ended) => tokio::select! {
                    result = wanted => Ok(result),
                    _ = ended => Err(StartError::Journal),
                },
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            shutdown::order(&self.stop, Shutdown::Asked);
            self.node.stop();
            // Dropping may happen inside another runtime, where waiting for tasks would panic.
            runtime.shutdown_background();
        }
    }
}

/// Connections count from here; before it is the client of [`Prepared`].
const FIRST_CLIENT: u64 = 1;

/// Has the keys of identity providers kept fresh.
fn keep_keys(config: &ServerConfig, runtime: &Runtime) -> Result<KeyRefreshers, StartError> {
    let fetchers = Fetcher::all(&config.key_sources)?;
    let mut key_refreshers = KeyRefreshers::new(&config.authority, runtime.handle().clone());
    key_refreshers.keep(fetchers, &config.authority.issuers());
    Ok(key_refreshers)
}

/// Has spans brought to the collector, if one is configured.
fn start_exporter(
    config: &ServerConfig,
    runtime: &Runtime,
    executor: &Executor,
    stopped: &watch::Receiver<Shutdown>,
) -> Result<Option<Spans>, StartError> {
    let Some(telemetry) = &config.observe.telemetry else { return Ok(None) };
    let (spans, exporter) = Exporter::new(telemetry, executor.metrics())?;
    drop(runtime.spawn(exporter.run(stopped.clone())));
    Ok(Some(spans))
}

fn gateway_config(config: &ServerConfig) -> GatewayConfig {
    GatewayConfig {
        container_id: config.container_id.clone(),
        max_message_bytes: config.core.max_message_bytes,
        max_frame_bytes: config.max_frame_bytes,
        max_links: u32::try_from(config.core.max_links_per_client).unwrap_or(u32::MAX),
        idle_time_out: config.idle_time_out,
        link_idle_time_out: config.link_idle_time_out,
        open_time_out: config.handshake_time_out,
        auto_create: config.auto_create,
        traces: config.observe.telemetry.is_some(),
        refusals: Arc::new(RefusalLog::new(config.observe.refusals_per_minute)),
        faults: config.testing.then(Arc::default),
        ..GatewayConfig::default()
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StartError::Randomness(error.to_string()))?;
    Ok(bytes)
}

/// Every connection needs a file descriptor, and the usual limit of 1,024 is soon reached.
fn raise_file_limit(connections: usize) {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(FILES_BESIDE_CONNECTIONS);
    match rlimit::increase_nofile_limit(wanted) {
        Ok(limit) if limit >= wanted => {}
        Ok(limit) => warn!(limit, wanted, "the limit of open files allows fewer connections than configured"),
        Err(error) => warn!(%error, "the limit of open files cannot be raised"),
    }
}

/// Journal segments, listeners, standard streams and the runtime's own.
const FILES_BESIDE_CONNECTIONS: u64 = 256;

#[cfg(test)]
pub(crate) mod tests;
