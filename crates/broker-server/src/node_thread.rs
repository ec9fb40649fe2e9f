//! Recovery of the node, and its housekeeper thread.
//!
//! Invariant: a node is never left behind: dropped, it makes all it holds durable and ends, and its files are free.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use broker_core::CoreConfig;
use broker_log::{Durability, JournalConfig, RealDisk};
use tokio::sync::watch;
use tracing::{error, warn};

use crate::{
    clock::{self, Clock},
    config::ServerConfig,
    disk_state::DiskState,
    disk_thread::DiskThread,
    executor::{Executor, ExecutorItem},
    namespace_observer::NamespaceObserver,
    node_driver::{Ended, NodeDriver},
    node_identity, permissions,
    randomness::random,
    recovery_gate::RecoveryGate,
    shards,
    shutdown::{self, Shutdown},
    start_error::StartError,
};

/// The housekeeper's thread of one shard.
#[derive(Debug)]
struct NodeThread {
    executor: Arc<Executor>,
    /// The server stops: a node that fails is not recovered.
    is_stopping: Arc<StopFlag>,
    thread: Option<JoinHandle<Ended>>,
}

/// Parts that the node of a shard works with.
pub(crate) struct ShardParts {
    pub(crate) executor: Arc<Executor>,
    pub(crate) namespaces: Arc<dyn NamespaceObserver>,
    /// Is told whether the disk is full.
    pub(crate) space: watch::Sender<DiskState>,
}

impl NodeThread {
    /// Recovers the node and has it run. Should it end by itself, everybody is told through `stop`.
    fn start(
        config: ShardConfig,
        clock: &Arc<Clock>,
        parts: ShardParts,
        stop: watch::Sender<Shutdown>,
        tell: watch::Sender<bool>,
    ) -> Result<Self, StartError> {
        let executor = Arc::clone(&parts.executor);
        let recovery = ShardRecovery { config, clock: Arc::clone(clock), parts };
        executor.begin(recovery.node_driver()?);
        let is_stopping = Arc::<StopFlag>::default();
        let stopping = Arc::clone(&is_stopping);
        let thread = thread::Builder::new().name(format!("node-{}", executor.shard())).spawn(move || {
            let ended = recovery.run(&stopping);
            if ended != Ended::Stopped {
                shutdown::order(&stop, Shutdown::Failed);
            }
            tell.send_replace(true);
            ended
        })?;
        Ok(Self { executor, is_stopping, thread: Some(thread) })
    }

    fn join(&mut self) -> Ended {
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(Ended::Panicked)
    }
}

/// The housekeepers of all shards.
#[derive(Debug)]
pub(crate) struct NodeThreads {
    threads: Vec<NodeThread>,
    /// True once one of them has ended.
    ended: watch::Receiver<bool>,
}

impl NodeThreads {
    /// Recovers the nodes of all shards and has them run.
    pub(crate) fn start(
        config: &ServerConfig,
        clock: &Arc<Clock>,
        shards: Vec<ShardParts>,
        stop: &watch::Sender<Shutdown>,
    ) -> Result<Self, StartError> {
        let (tell, ended) = watch::channel(false);
        let mut all = Self { threads: Vec::with_capacity(shards.len()), ended };
        let count = shards.len();
        for parts in shards {
            let config = ShardConfig::of(config, count);
            // Those that have begun are stopped should this one fail.
            all.threads.push(NodeThread::start(config, clock, parts, stop.clone(), tell.clone())?);
        }
        Ok(all)
    }

    /// Resolves when a node has ended by itself.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = self.ended.clone();
        async move {
            // An error says that all of them have ended.
            drop(ended.wait_for(|ended| *ended).await);
        }
    }

    /// Has them make all they hold durable, and waits until they have ended. The worst of their ends.
    pub(crate) fn stop(&mut self) -> Ended {
        for thread in &self.threads {
            thread.is_stopping.set();
            thread.executor.push(ExecutorItem::Shutdown);
        }
        let ends = self.threads.iter_mut().filter(|thread| thread.thread.is_some()).map(NodeThread::join);
        // Each one is waited for.
        let ends: Vec<Ended> = ends.collect();
        let is = |wanted: Ended| ends.contains(&wanted);
        if is(Ended::Poisoned) {
            Ended::Poisoned
        } else if is(Ended::Panicked) || ends.is_empty() {
            Ended::Panicked
        } else {
            Ended::Stopped
        }
    }
}

#[cfg(test)]
impl NodeThreads {
    /// Executor of the first shard.
    pub(crate) fn executor(&self) -> &Arc<Executor> {
        &self.threads[0].executor
    }
}

impl Drop for NodeThreads {
    fn drop(&mut self) {
        if self.threads.iter().any(|thread| thread.thread.is_some()) {
            self.stop();
        }
    }
}

/// Whether the server stops, for threads that wait.
#[derive(Debug, Default)]
struct StopFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl StopFlag {
    fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for so long, or until it is set; whether it is.
    fn wait(&self, time: Duration) -> bool {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_set, time, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The configuration of a shard, for each time that it is recovered.
struct ShardConfig {
    data_dir: PathBuf,
    journal: JournalConfig,
    core: CoreConfig,
    slow_operation: Option<Duration>,
    gate: RecoveryGate,
}

impl ShardConfig {
    fn of(config: &ServerConfig, shards: usize) -> Self {
        Self {
            data_dir: config.data_dir.clone(),
            journal: JournalConfig { reserve_bytes: config.disk_reserve(shards), ..config.journal },
            core: config.core.clone(),
            slow_operation: config.observe.slow_operation,
            gate: config.recovery_gate.clone(),
        }
    }
}

/// Runs a shard, and recovers it when it has panicked. A shard that panics again and again ends the process: its next start may
/// be that of another version.
struct ShardRecovery {
    config: ShardConfig,
    clock: Arc<Clock>,
    parts: ShardParts,
}

impl ShardRecovery {
    /// Runs the shard to its end.
    fn run(&self, stopping: &StopFlag) -> Ended {
        let executor = &self.parts.executor;
        let shard = executor.shard();
        let mut panics = PanicHistory::default();
        loop {
            let mut recovers = false;
            let ended = executor.run_housekeeper(|ended| {
                let is_durable = self.config.journal.durability != Durability::None;
                let has_panicked = ended == Ended::Panicked;
                recovers = has_panicked && is_durable && panics.may_recover(clock::instant());
                if has_panicked && !recovers {
                    error!(shard, "the shard is not recovered any more; the broker ends");
                }
                recovers
            });
            if !recovers || stopping.wait(PAUSE) {
                return ended;
            }
            self.config.gate.pass(shard);
            match self.node_driver() {
                Ok(node_driver) => {
                    executor.metrics().recovered();
                    warn!(shard, "the shard has recovered from its journal; its clients connect again");
                    executor.begin(node_driver);
                }
                Err(error) => {
                    error!(shard, %error, "the shard cannot be recovered");
                    return ended;
                }
            }
            // The order to stop may have come before it began.
            if stopping.wait(Duration::ZERO) {
                executor.push(ExecutorItem::Shutdown);
            }
        }
    }

    /// The node, recovered from its journal.
    fn node_driver(&self) -> Result<NodeDriver, StartError> {
        let Self { config, clock, parts } = self;
        let driver = recover(config, clock, &parts.executor)?;
        Ok(driver.with_namespaces(Arc::clone(&parts.namespaces)).with_space(parts.space.clone()))
    }
}

/// The last panics of a shard.
#[derive(Debug, Default)]
struct PanicHistory(VecDeque<Instant>);

impl PanicHistory {
    /// Notes a panic. False: there have been too many in a short time.
    fn may_recover(&mut self, now: Instant) -> bool {
        self.0.push_back(now);
        while self.0.front().is_some_and(|first| now.saturating_duration_since(*first) > PANIC_TIME) {
            self.0.pop_front();
        }
        self.0.len() < PANICS_MAX
    }
}

/// With so many panics of a shard in [`PANIC_TIME`] the process ends.
const PANICS_MAX: usize = 3;
const PANIC_TIME: Duration = Duration::from_secs(60);
/// Time between a panic and the recovery.
const PAUSE: Duration = Duration::from_secs(1);

fn recover(
    config: &ShardConfig,
    clock: &Arc<Clock>,
    executor: &Arc<Executor>,
) -> Result<NodeDriver, StartError> {
    let opened_at = clock.now().wall.as_millis();
    let journal = JournalConfig { salt: u64::from_be_bytes(random()?), opened_at, ..config.journal };
    let core = CoreConfig { token_key: random()?, describe: amqp_gateway::describe, ..config.core.clone() };
    let (node, disk) = match journal.durability {
        Durability::None => (broker_node::in_memory(journal, core), None),
        Durability::Fsync | Durability::Os => {
            let shard = executor.shard();
            let folder = shards::folder(&config.data_dir, shard);
            let disk = Arc::new(RealDisk::open(folder.clone())?);
            permissions::warn_of_open_journal(&disk);
            let node = node_identity::load(&config.data_dir, random)?;
            let journal = JournalConfig { node, shard: shard.into(), ..journal };
            let node = broker_node::recover(Arc::clone(&disk), journal, core)
                .map_err(|error| StartError::Recovery { folder, error })?;
            (node, Some(DiskThread::start(&disk, executor)?))
        }
    };
    Ok(NodeDriver::new(node, Arc::clone(clock), disk)
        .watched(config.slow_operation)
        .in_shard(executor.shard()))
}

#[cfg(test)]
mod tests;
