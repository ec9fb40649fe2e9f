//! Recovery of the node, and its housekeeper thread.
//!
//! Invariant: a node is never left behind: dropped, it makes all it holds durable and ends, and its files are free.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use broker_core::CoreConfig;
use broker_log::{Durability, JournalConfig, RealDisk};
use tokio::sync::watch;

use crate::{
    clock::Clock,
    config::ServerConfig,
    disk_state::DiskState,
    disk_thread::DiskThread,
    executor::{Executor, ExecutorItem},
    namespace_observer::NamespaceObserver,
    node_driver::{Ended, NodeDriver},
    node_identity, permissions,
    randomness::random,
    shards,
    shutdown::{self, Shutdown},
    start_error::StartError,
};

/// The housekeeper's thread of one shard.
#[derive(Debug)]
struct NodeThread {
    executor: Arc<Executor>,
    thread: Option<JoinHandle<Ended>>,
}

/// Surroundings of the node of a shard.
pub(crate) struct ShardParts {
    pub(crate) executor: Arc<Executor>,
    pub(crate) namespaces: Box<dyn NamespaceObserver>,
    /// Is told whether the disk is full.
    pub(crate) space: watch::Sender<DiskState>,
}

impl NodeThread {
    /// Recovers the node and has it run. Should it end by itself, everybody is told through `stop`.
    fn start(
        config: &ServerConfig,
        clock: &Arc<Clock>,
        parts: ShardParts,
        stop: watch::Sender<Shutdown>,
        tell: watch::Sender<bool>,
    ) -> Result<Self, StartError> {
        let ShardParts { executor, namespaces, space } = parts;
        executor.begin(recover(config, clock, &executor)?.with_namespaces(namespaces).with_space(space));
        let housekeeper = Arc::clone(&executor);
        let thread = thread::Builder::new().name(format!("node-{}", executor.shard())).spawn(move || {
            let ended = housekeeper.run_housekeeper();
            if ended != Ended::Stopped {
                shutdown::order(&stop, Shutdown::Failed);
            }
            tell.send_replace(true);
            ended
        })?;
        Ok(Self { executor, thread: Some(thread) })
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
        for parts in shards {
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

fn recover(
    config: &ServerConfig,
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
            let disk = Arc::new(RealDisk::open(shards::folder(&config.data_dir, shard))?);
            permissions::warn_of_open_journal(&disk);
            let node = node_identity::load(&config.data_dir, random)?;
            let journal = JournalConfig { node, shard: shard.into(), ..journal };
            let node = broker_node::recover(Arc::clone(&disk), journal, core)?;
            (node, Some(DiskThread::start(disk, executor)?))
        }
    };
    Ok(NodeDriver::new(node, Arc::clone(clock), disk).watched(config.observe.slow_operation))
}
