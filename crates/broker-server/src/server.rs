//! Starts everything, accepts connections, stops everything.
//!
//! Invariant: at a graceful stop connections say goodbye first, then the node makes all it holds durable, then the
//! process may end.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use amqp_gateway::{DynamicNodePool, GatewayConfig, RefusalLog};
use broker_log::Durability;
use tokio::{
    runtime::{Builder, EnterGuard, Runtime},
    sync::{oneshot, watch},
};
use tracing::{info, warn};

use crate::{
    accept::PortKind,
    administrators::Administrators,
    clock::Clock,
    config::{NamespacePlan, ServerConfig},
    connection_limit::ConnectionLimit,
    connections::Connections,
    disk_state::{DiskState, Volume, log_full_disk},
    executor::{Executor, ExecutorItem},
    in_flight_limit::InFlightLimit,
    io_threads::Threads,
    jwks_refresh::{Fetcher, KeyRefreshers},
    metrics::{Metrics, ShardMetrics},
    namespaces::{
        NamespaceDirectory,
        change::{ShardNamespaces, tell_of_lost_keys, tell_to_leave},
        directory::DirectoryConfig,
        keys::NamespaceKeys,
        setup::NamespaceSetup,
    },
    node_driver::Ended,
    node_thread::{NodeThreads, ShardParts},
    otlp::{Exporter, Spans},
    prepared::{Ports, Prepared},
    randomness::random,
    reload::Reloader,
    shards::{self, Shards},
    shared::SharedParts,
    shutdown::{self, Shutdown},
    signals::{Action, Signals},
    start_error::StartError,
    tls::{self, TlsEndpoint},
};

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
    stop: watch::Sender<Shutdown>,
    connection_limit: Arc<ConnectionLimit>,
    node: NodeThreads,
    reloader: Reloader,
    shutdown_time_out: Duration,
}

impl Server {
    /// Recovers the journal, starts the threads, creates the configured namespaces and entities that do not exist, and
    /// listens.
    pub fn start(config: &ServerConfig) -> Result<Self, StartError> {
        let mut prepared = Self::prepare(config)?;
        prepared.create(&config.entities)?;
        for plan in &config.namespaces {
            prepared.select_namespace(&plan.name)?;
            prepared.create(&plan.entities)?;
        }
        prepared.listen()
    }

    /// Takes the ports, recovers the journal and starts the threads. No client can connect before [`Prepared::listen`].
    pub fn prepare(config: &ServerConfig) -> Result<Prepared, StartError> {
        let tls = Arc::new(TlsEndpoint::new(config.tls.as_ref(), Arc::clone(&config.authority))?);
        let metrics = Arc::<Metrics>::default();
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("listeners").enable_all().build()?;
        // First, so that a wrong address fails at once and not when a large journal has been read.
        let ports = Ports::take(config)?;
        let clock = Arc::new(Clock::default());
        let shards = shards(config, &clock, &metrics)?;
        raise_file_limit(files_wanted(config, shards.all().len()));
        let (stop, stopped) = watch::channel(Shutdown::No);
        let listing = Arc::<Connections>::default();
        let (lost_keys, told) = watch::channel(());
        let gateway = Arc::new(gateway_config(config)?);
        let namespaces = directory(config, (&gateway, &tls), lost_keys.clone(), shards.first());
        let left = namespaces.watch_left();
        let node = start_shards(config, &clock, (&shards, &namespaces), (&runtime, &stop))?;
        let key_refreshers = keep_keys(config, &runtime)?;
        drop(runtime.spawn(tls::watch_files(Arc::clone(&tls), Arc::clone(&clock))));
        let administrators = Administrators::new(Arc::clone(&config.administrators), Arc::clone(&namespaces));
        let next_client = Arc::new(AtomicU64::new(FIRST_CLIENT));
        let reloader = Reloader {
            authority: Arc::clone(&config.authority),
            administrators: administrators.clone(),
            setup: NamespaceSetup {
                directory: Arc::clone(&namespaces),
                shards: shards.clone(),
                next_client: Arc::clone(&next_client),
            },
            tls: Arc::clone(&tls),
            key_refreshers,
            namespace_keys: keep_namespace_keys(config, &runtime)?,
            lost_keys,
            clock: Arc::clone(&clock),
            runtime: runtime.handle().clone(),
        };
        let spans = start_exporter(config, &runtime, &metrics, &stopped)?;
        let connection_limit = Arc::new(ConnectionLimit::new(config.max_connections));
        let threads = Threads::start(config.io_threads)?;
        drop(runtime.spawn(tell_of_lost_keys(told, Arc::clone(&listing), threads.spawner())));
        drop(runtime.spawn(tell_to_leave(left, Arc::clone(&listing), threads.spawner())));
        let common = SharedParts {
            gateway,
            namespaces,
            administrators,
            metrics,
            clock,
            shards,
            tls,
            next_client,
            connection_limit: Arc::clone(&connection_limit),
            listing,
            threads: threads.spawner(),
            spans,
            stop: stopped,
        };
        let shared = Arc::new(common.share(config)?);
        let server = Self {
            addresses: ports.addresses(PortKind::Any),
            tls_addresses: ports.addresses(PortKind::Tls),
            http_addresses: ports.addresses(PortKind::Watched),
            runtime: Some(runtime),
            _threads: threads,
            stop,
            connection_limit,
            node,
            reloader,
            shutdown_time_out: config.shutdown_time_out,
        };
        let mut prepared = Prepared::new(server, shared, ports);
        prepared.put_namespaces(config.default_namespace.as_ref(), &config.namespaces)?;
        Ok(prepared)
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
        let ended = self.node.ended();
        let Some(runtime) = &self.runtime else { return self.stop() };
        runtime.block_on(async {
            tokio::pin!(ended);
            loop {
                let (action, signal) = tokio::select! {
                    came = signals.next() => came,
                    () = &mut ended => return warn!("the node has ended"),
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

    /// Enters the runtime: a socket registers with the runtime that is current when it is made.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }

    /// Waits for this, or fails when the node ends before.
    pub(crate) fn unless_node_ends<T>(&mut self, wanted: impl Future<Output = T>) -> Result<T, StartError> {
        let Some(runtime) = &self.runtime else { return Err(StartError::Journal) };
        let ended = self.node.ended();
        runtime.block_on(async {
            tokio::select! {
                result = wanted => Ok(result),
                () = ended => Err(StartError::Journal),
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

/// The same of the namespaces beside the default one.
fn keep_namespace_keys(config: &ServerConfig, runtime: &Runtime) -> Result<NamespaceKeys, StartError> {
    let mut keys = NamespaceKeys::new(runtime.handle().clone());
    let authorities: BTreeMap<_, _> = config.namespaces.iter().map(NamespacePlan::entry).collect();
    keys.keep(NamespaceKeys::fetchers(&config.namespaces)?, |key| authorities.get(key).map(Arc::clone));
    Ok(keys)
}

/// Has spans brought to the collector, if one is configured.
fn start_exporter(
    config: &ServerConfig,
    runtime: &Runtime,
    metrics: &Arc<Metrics>,
    stopped: &watch::Receiver<Shutdown>,
) -> Result<Option<Spans>, StartError> {
    let Some(telemetry) = &config.observe.telemetry else { return Ok(None) };
    let (spans, exporter) = Exporter::new(telemetry, metrics)?;
    drop(runtime.spawn(exporter.run(stopped.clone())));
    Ok(Some(spans))
}

/// The executors of all shards.
fn shards(config: &ServerConfig, clock: &Arc<Clock>, metrics: &Metrics) -> Result<Shards, StartError> {
    let count = match config.journal.durability {
        Durability::None => config.shards.max(1),
        Durability::Fsync | Durability::Os => shards::count(&config.data_dir, config.shards)?,
    };
    if count > config.shards.max(1) {
        warn!(
            shards = count,
            configured = config.shards,
            "more shards have a journal than are configured: all of them are opened"
        );
    }
    let executor =
        |shard| Arc::new(Executor::new(shard, Arc::clone(clock), Arc::new(ShardMetrics::of(metrics, shard))));
    Ok(Shards::new((0..count).map(executor)))
}

/// Recovers all shards and has them run.
fn start_shards(
    config: &ServerConfig,
    clock: &Arc<Clock>,
    (shards, namespaces): (&Shards, &Arc<NamespaceDirectory>),
    (runtime, stop): (&Runtime, &watch::Sender<Shutdown>),
) -> Result<NodeThreads, StartError> {
    let parts = shards.all().iter().map(|executor| ShardParts {
        executor: Arc::clone(executor),
        namespaces: Arc::new(ShardNamespaces::new(Arc::clone(namespaces), executor)),
        space: watch_disk(config, runtime, (executor, shards.all().len())),
    });
    NodeThreads::start(config, clock, parts.collect(), stop)
}

/// Has the log tell when the disk of a shard is full, and when it is not any more.
fn watch_disk(
    config: &ServerConfig,
    runtime: &Runtime,
    (executor, shards): (&Arc<Executor>, usize),
) -> watch::Sender<DiskState> {
    let (space, news) = watch::channel(DiskState::default());
    let path = shards::folder(&config.data_dir, executor.shard());
    let volume = Volume { path, reserve_bytes: config.disk_reserve(shards) };
    let asked = Arc::clone(executor);
    let measure = move || {
        asked.push(ExecutorItem::View(oneshot::channel().0));
    };
    drop(runtime.spawn(log_full_disk(volume, news, measure)));
    space
}

/// The directory, with the default namespace. It follows the names of the certificate.
fn directory(
    config: &ServerConfig,
    (gateway, tls): (&Arc<GatewayConfig>, &TlsEndpoint),
    lost_keys: watch::Sender<()>,
    executor: &Arc<Executor>,
) -> Arc<NamespaceDirectory> {
    let authorities = config.namespaces.iter().map(NamespacePlan::entry).collect();
    let of_default = DirectoryConfig {
        gateway: Arc::clone(gateway),
        in_flight_limit: Arc::new(InFlightLimit::new(config.max_in_flight_bytes)),
        lost_keys,
        default_authority: Arc::clone(&config.authority),
        authorities,
        created: config.created_namespace.clone(),
        strict: config.strict_hostnames,
    };
    let directory = Arc::new(NamespaceDirectory::new(of_default, Arc::clone(executor)));
    let of_certificate = Arc::clone(&directory);
    tls.on_names(move || of_certificate.share_names());
    directory
}

fn gateway_config(config: &ServerConfig) -> Result<GatewayConfig, StartError> {
    let dynamic_nodes =
        DynamicNodePool::new(random()?, config.max_dynamic_nodes, config.max_dynamic_nodes_per_connection);
    Ok(GatewayConfig {
        container_id: config.container_id.clone(),
        max_message_bytes: config.core.max_message_bytes,
        tier_message_bytes: config.core.tier_message_bytes,
        max_frame_bytes: config.max_frame_bytes,
        max_links: u32::try_from(config.core.max_links_per_client).unwrap_or(u32::MAX),
        idle_time_out: config.idle_time_out,
        link_idle_time_out: config.link_idle_time_out,
        open_time_out: config.handshake_time_out,
        auto_create: config.auto_create,
        address_prefixes: config.address_prefixes.clone(),
        traces: config.observe.telemetry.is_some(),
        refusals: Arc::new(RefusalLog::new(config.observe.refusals_per_minute)),
        faults: config.testing.then(Arc::default),
        dynamic_nodes: Arc::new(dynamic_nodes),
        ..GatewayConfig::default()
    })
}

/// Most files that are open at once: one for each connection, and those of the shards and threads.
fn files_wanted(config: &ServerConfig, shards: usize) -> u64 {
    let beside = FILES_BESIDE + shards * FILES_OF_SHARD + config.io_threads * FILES_OF_THREAD;
    u64::try_from(config.max_connections.saturating_add(beside)).unwrap_or(u64::MAX)
}

/// The usual limit of 1,024 files is soon reached.
fn raise_file_limit(wanted: u64) {
    match rlimit::increase_nofile_limit(wanted) {
        Ok(limit) if limit >= wanted => {}
        Ok(limit) => warn!(limit, wanted, "the limit of open files allows fewer connections than configured"),
        Err(error) => warn!(%error, "the limit of open files cannot be raised"),
    }
}

/// Listeners, standard streams, connections that are told of the limit, and requests of the broker's own.
const FILES_BESIDE: usize = 256;
/// Segments that a journal keeps open for reading and for writing, its folder and its lock.
const FILES_OF_SHARD: usize = 140;
/// Those of a thread's runtime.
const FILES_OF_THREAD: usize = 8;

#[cfg(test)]
pub(crate) mod tests;
