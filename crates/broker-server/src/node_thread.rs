//! Recovery of the node, and its housekeeper thread.
//!
//! Invariant: a node is never left behind: dropped, it makes all it holds durable and ends, and its files are free.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use broker_core::CoreConfig;
use broker_log::{Durability, JournalConfig, RealDisk};
use tokio::sync::{oneshot, watch};

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
    shutdown::{self, Shutdown},
    start_error::StartError,
};

/// The housekeeper's thread.
#[derive(Debug)]
pub(crate) struct NodeThread {
    pub(crate) executor: Arc<Executor>,
    thread: Option<JoinHandle<Ended>>,
    ended: Option<oneshot::Receiver<()>>,
}

impl NodeThread {
    /// Recovers the node and has it run. Should it end by itself, everybody is told through `stop`.
    pub(crate) fn start(
        config: &ServerConfig,
        clock: &Arc<Clock>,
        executor: &Arc<Executor>,
        namespaces: Box<dyn NamespaceObserver>,
        space: watch::Sender<DiskState>,
        stop: watch::Sender<Shutdown>,
    ) -> Result<Self, StartError> {
        executor.begin(recover(config, clock, executor)?.with_namespaces(namespaces).with_space(space));
        let (tell, ended) = oneshot::channel();
        let housekeeper = Arc::clone(executor);
        let thread = thread::Builder::new().name("node".into()).spawn(move || {
            let ended = housekeeper.run_housekeeper();
            if ended != Ended::Stopped {
                shutdown::order(&stop, Shutdown::Failed);
            }
            // The receiver is dropped when the server already waits for the thread itself.
            tell.send(()).ok();
            ended
        })?;
        Ok(Self { executor: Arc::clone(executor), thread: Some(thread), ended: Some(ended) })
    }

    /// Resolves when the node has ended by itself.
    pub(crate) fn ended(&mut self) -> Option<&mut oneshot::Receiver<()>> {
        self.ended.as_mut()
    }

    /// The same, to keep.
    pub(crate) fn take_ended(&mut self) -> Option<oneshot::Receiver<()>> {
        self.ended.take()
    }

    /// Has it make all it holds durable, and waits until it has ended.
    pub(crate) fn stop(&mut self) -> Ended {
        self.executor.push(ExecutorItem::Shutdown);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(Ended::Panicked)
    }
}

impl Drop for NodeThread {
    fn drop(&mut self) {
        if self.thread.is_some() {
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
            let disk = Arc::new(RealDisk::open(&config.data_dir)?);
            permissions::warn_of_open_journal(&disk);
            let journal = JournalConfig { node: node_identity::load(&config.data_dir, random)?, ..journal };
            let node = broker_node::recover(Arc::clone(&disk), journal, core)?;
            (node, Some(DiskThread::start(disk, executor)?))
        }
    };
    Ok(NodeDriver::new(node, Arc::clone(clock), disk).watched(config.observe.slow_operation))
}
