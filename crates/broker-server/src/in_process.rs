//! Executors and journals of a process without connections: commands come from threads of the same process. The bench
//! measures with them how far executors and journals carry; a program with a broker inside could be built on it.
//!
//! Invariant: a shard is recovered, run and stopped as a server does it, on the same threads; only connections are missing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use broker_core::{AuthorizationRule, ClientId, Command, Effect, NamespaceDefinition};
use broker_log::JournalStats;
use broker_node::NamespaceId;
use tokio::sync::{oneshot, watch};

use crate::{
    clock::{self, Clock},
    config::ServerConfig,
    disk_state::DiskState,
    effect_queue::EffectQueue,
    executor::{Executor, ExecutorItem},
    metrics::{Metrics, ShardMetrics},
    namespace_observer::NamespaceObserver,
    node_driver::Ended,
    node_thread::{NodeThreads, ShardParts},
    shutdown::Shutdown,
    start_error::StartError,
    submission,
};

/// The shards of one data folder.
#[derive(Debug)]
pub struct InProcessShards {
    executors: Vec<Arc<Executor>>,
    threads: NodeThreads,
    last_client: AtomicU64,
    /// Nobody orders the end but [`Self::stop`]; a node that fails is noticed by its clients.
    _stop: watch::Sender<Shutdown>,
}

/// One client of the default namespace of a shard.
#[derive(Debug)]
pub struct InProcessClient {
    executor: Arc<Executor>,
    id: ClientId,
    effect_queue: Arc<EffectQueue>,
}

/// Definitions and keys of namespaces concern connections alone.
#[derive(Debug)]
struct NoObserver;

impl NamespaceObserver for NoObserver {
    fn apply(&self, _: NamespaceDefinition) -> Option<NamespaceId> {
        None
    }

    fn forget_others(&self, _: &[NamespaceId]) {}

    fn set_entity_keys(&self, _: NamespaceId, _: &str, _: &[AuthorizationRule]) {}
}

impl InProcessShards {
    /// Recovers `config.shards` of them in `config.data_dir`, or makes them there; the other settings are those of the
    /// journal and the core.
    pub fn start(config: &ServerConfig) -> Result<Self, StartError> {
        let (clock, metrics) = (Arc::<Clock>::default(), Metrics::default());
        let executor = |shard| {
            Arc::new(Executor::new(shard, Arc::clone(&clock), Arc::new(ShardMetrics::of(&metrics, shard))))
        };
        let executors: Vec<Arc<Executor>> = (0..config.shards.max(1)).map(executor).collect();
        let parts = executors.iter().map(|executor| ShardParts {
            executor: Arc::clone(executor),
            namespaces: Arc::new(NoObserver),
            space: watch::Sender::new(DiskState::default()),
        });
        let stop = watch::Sender::new(Shutdown::No);
        let threads = NodeThreads::start(config, &clock, parts.collect(), &stop)?;
        Ok(Self { executors, threads, last_client: AtomicU64::new(0), _stop: stop })
    }

    /// A new client of this shard; `None`: there is no such shard. It has submitted nothing yet.
    pub fn client(&self, shard: u16) -> Option<InProcessClient> {
        let executor = Arc::clone(self.executors.get(usize::from(shard))?);
        let id = ClientId(self.last_client.fetch_add(1, Ordering::Relaxed) + 1);
        let effect_queue = Arc::<EffectQueue>::default();
        executor.push(ExecutorItem::Register(id, NamespaceId::DEFAULT, Arc::clone(&effect_queue)));
        Some(InProcessClient { executor, id, effect_queue })
    }

    /// Figures of the journal of this shard; `None`: there is no such shard, or its node has ended. It waits for the node, so it
    /// must not be called by a task of an asynchronous runtime.
    pub fn journal(&self, shard: u16) -> Option<JournalStats> {
        let (answer, view) = oneshot::channel();
        self.executors.get(usize::from(shard))?.push(ExecutorItem::View(answer));
        view.blocking_recv().ok().map(|view| view.journal)
    }

    /// Has them make all they hold durable, and waits until they have ended; whether all has become durable.
    pub fn stop(mut self) -> bool {
        self.threads.stop() == Ended::Stopped
    }
}

impl InProcessClient {
    /// Submits one batch: this thread runs the node, unless another one does, which takes the batch along. A node that has
    /// ended drops it.
    pub fn submit(&self, commands: Vec<Command>) {
        submission::submit(&self.effect_queue, &self.executor, self.id, commands);
    }

    /// Takes the effects that have come. Without any, waits for some, for so long at most.
    pub fn take(&self, patience: Duration) -> Vec<Effect> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let until = clock::instant() + patience;
        loop {
            if let Poll::Ready(effects) = self.effect_queue.poll_take(&Context::from_waker(&waker)) {
                return effects;
            }
            let left = until.saturating_duration_since(clock::instant());
            if left.is_zero() || self.effect_queue.is_abandoned() || self.executor.has_ended() {
                return Vec::new();
            }
            thread::park_timeout(left);
        }
    }
}

impl Drop for InProcessClient {
    fn drop(&mut self) {
        self.executor.push(ExecutorItem::Forget(self.id));
    }
}

/// Wakes a thread that waits for effects.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests;
