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
    disk_space::DiskSpace,
    disk_thread::DiskThread,
    entity_key_cache::EntityKeyCache,
    executor::{Executor, Item},
    node_driver::{Ended, NodeDriver},
    permissions,
    server::{StartError, random},
    shutdown::{self, Shutdown},
};

/// The housekeeper's thread.
#[derive(Debug)]
pub(crate) struct NodeThread {
    executor: Arc<Executor>,
    thread: Option<JoinHandle<Ended>>,
    ended: Option<oneshot::Receiver<()>>,
}

impl NodeThread {
    /// Recovers the node and has it run. Should it end by itself, everybody is told through `stop`.
    pub(crate) fn start(
        config: &ServerConfig,
        clock: &Arc<Clock>,
        executor: &Arc<Executor>,
        entity_key_cache: EntityKeyCache,
        space: watch::Sender<DiskSpace>,
        stop: watch::Sender<Shutdown>,
    ) -> Result<Self, StartError> {
        executor.begin(recover(config, clock, executor)?.with_keyring(entity_key_cache).with_space(space));
        let (tell, ended) = oneshot::channel();
        let housekeeper = Arc::clone(executor);
        let thread = thread::Builder::new().name("node".into()).spawn(move || {
            let ended = housekeeper.run_housekeeper();
            if ended != Ended::Stopped {
                shutdown::order(&stop, Shutdown::Failed);
            }
            // Nobody listens when the server already waits for the thread itself.
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
        self.executor.push(Item::Shutdown);
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
    let journal = JournalConfig {
        segment_bytes: config.segment_bytes,
        cache_bytes: config.cache_bytes,
        durability: config.durability,
        reserve_bytes: config.disk_reserve_bytes,
        salt: u64::from_be_bytes(random()?),
        ..JournalConfig::default()
    };
    let core = CoreConfig {
        token_key: random()?,
        max_message_bytes: config.max_message_bytes,
        expiry: config.expiry,
        max_history_ids: config.max_remembered_ids,
        profile: config.quotas.profile,
        max_entities: config.quotas.max_entities,
        max_rules_per_topic: config.quotas.max_rules_per_topic,
        max_consumers_per_entity: config.quotas.max_receivers_per_entity,
        max_subscribers_per_topic: config.quotas.max_subscribers_per_topic,
        max_selectors_per_entity: config.quotas.max_selectors_per_entity,
        max_transaction_messages: config.quotas.max_transaction_messages,
        max_send_bytes: config.quotas.max_send_bytes,
        max_rewritten_bytes: config.quotas.max_rewritten_bytes,
        max_transaction_bytes: config.quotas.max_transaction_bytes,
        max_copies_per_send: config.quotas.max_copies_per_send,
        transaction_time_out: config.quotas.transaction_time_out,
        describe: amqp_gateway::describe,
        ..CoreConfig::default()
    };
    let (node, disk) = match config.durability {
        Durability::None => (broker_node::in_memory(journal, core), None),
        Durability::Fsync | Durability::Os => {
            let disk = Arc::new(RealDisk::open(&config.data_dir)?);
            permissions::warn_of_open_journal(&disk);
            let node = broker_node::recover(Arc::clone(&disk), journal, core)?;
            (node, Some(DiskThread::start(disk, executor)?))
        }
    };
    Ok(NodeDriver::new(node, Arc::clone(clock), disk).watched(config.observe.slow_operation))
}
