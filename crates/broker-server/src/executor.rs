//! Executor of the node (flat combining, decision 11): a thread that submits an item runs the node if it is free; else
//! the thread that runs it takes the item along. A housekeeper thread runs the node at its deadlines.
//!
//! ```text
//!   Idle ──submit──▶ Running ──nothing waits──▶ Idle
//!                       └──stopped, failed or panicked──▶ Ended
//! ```
//!
//! Locks are taken in one order: the node, then the state; a submitter holds only the state's lock. The housekeeper is
//! woken when work was left over, a deadline came nearer, or an item came after an idle time.
//!
//! Invariant: every submitted item is handled without another submission; at most one thread runs the node.

use std::{
    cell::Cell,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use broker_core::{Batch, ClientId, Timestamp};
use broker_log::IoDone;
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest};
use tokio::sync::oneshot;
use tracing::error;

use crate::{
    clock::{self, Clock},
    effect_queue::EffectQueue,
    metrics::ShardMetrics,
    node_driver::{Ended, NamespaceFigures, NodeDriver, NodeView},
};

/// One thing for the node to do.
#[derive(Debug)]
pub(crate) enum ExecutorItem {
    /// A client of this namespace begins; its effects go to this effect queue.
    Register(ClientId, NamespaceId, Arc<EffectQueue>),
    /// Commands of a connection, and what they weigh in its in-flight account (bytes).
    Batch(Batch, usize),
    /// A connection has ended: no more batches, and its effect queue is not read any more.
    Forget(ClientId),
    /// Create, change or delete a namespace. The answer is an effect for the client of the request.
    ChangeNamespace(NamespaceRequest, Box<NamespaceCommand>),
    /// A piece of disk work is done.
    Io(IoDone),
    /// The process uses as much memory as it may, or no longer.
    MemoryFull(bool),
    /// Nothing has happened for a while.
    Idle,
    /// Move the broker's time forward, and answer with it once what has become due is done; `None` is too far.
    Advance(Duration, oneshot::Sender<Option<Timestamp>>),
    /// Say how things are.
    View(oneshot::Sender<NodeView>),
    /// Say what these namespaces use; those that are gone are left out.
    Figures(Vec<NamespaceId>, oneshot::Sender<Vec<NamespaceFigures>>),
    /// Make everything durable and stop.
    Shutdown,
}

/// State of the executor.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum RunState {
    /// No thread runs the node: the next submitter does.
    #[default]
    Idle,
    /// A thread runs it, and takes new items along before it leaves.
    Running,
    Ended(Ended),
}

#[derive(Debug, Default)]
struct ExecutorState {
    items: Vec<ExecutorItem>,
    /// Effect queues of clients that begin in this turn of the node, or that wait for it when it panics.
    beginning: Vec<Arc<EffectQueue>>,
    /// Since when the first of them waits; `None`: it does not.
    waiting_since: Option<Instant>,
    run_state: RunState,
    /// Work is pending that no thread is about to do.
    work_pending: bool,
    /// Next deadline of the node.
    deadline: Option<Timestamp>,
    /// Time of the next idle check; `None`: the node is idle, and knows it.
    idle_check_at: Option<Timestamp>,
    /// An item came since the last idle check.
    active: bool,
    /// Time until which the housekeeper sleeps, if it does.
    asleep_until: Option<Timestamp>,
}

impl ExecutorState {
    /// Tells the node that it is idle, when no item has come since the last check.
    fn update_idle(&mut self, now: Timestamp) {
        if self.idle_check_at.is_some_and(|at| now < at) {
            return;
        }
        if self.active {
            self.active = false;
            self.idle_check_at = Some(now.after(IDLE_AFTER));
        } else if self.idle_check_at.take().is_some() {
            self.items.push(ExecutorItem::Idle);
            self.work_pending = true;
        }
    }

    /// Whether the housekeeper has something to do.
    fn is_due(&self, now: Timestamp) -> bool {
        self.run_state == RunState::Idle
            && (self.work_pending || self.deadline.is_some_and(|deadline| deadline <= now))
    }

    /// Time at which the housekeeper wakes by itself. While the node runs, its deadline is about to change.
    fn wake_at(&self) -> Option<Timestamp> {
        let deadline = self.deadline.filter(|_| self.run_state == RunState::Idle);
        deadline.into_iter().chain(self.idle_check_at).min()
    }

    /// Whether the housekeeper sleeps too long, now that a thread has left the node.
    fn needs_wakeup(&self) -> bool {
        let quiet_is_over = self.idle_check_at.is_none() && self.active;
        self.asleep_until.is_some_and(|until| {
            self.work_pending || quiet_is_over || self.deadline.is_some_and(|deadline| deadline < until)
        })
    }
}

/// The node's only input, and the right to run it.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    /// Number of its shard.
    shard: u16,
    clock: Arc<Clock>,
    metrics: Arc<ShardMetrics>,
    state: Mutex<ExecutorState>,
    /// Wakes the housekeeper.
    wakeup: Condvar,
    /// Batches that AMQP connections have submitted.
    traffic: AtomicU64,
    /// Locked by the thread that runs it; `None` before it begins and after it has ended.
    node: Mutex<Option<NodeDriver>>,
}

impl Executor {
    /// Nothing waits yet; the node's time is that of `clock`.
    pub(crate) fn new(shard: u16, clock: Arc<Clock>, metrics: Arc<ShardMetrics>) -> Self {
        Self { shard, clock, metrics, ..Self::default() }
    }

    /// Number of the shard.
    pub(crate) const fn shard(&self) -> u16 {
        self.shard
    }

    /// Counts a batch of an AMQP connection.
    pub(crate) fn note_traffic(&self) {
        self.traffic.fetch_add(1, Ordering::Relaxed);
    }

    /// Batches that AMQP connections have submitted so far.
    pub(crate) fn traffic(&self) -> u64 {
        self.traffic.load(Ordering::Relaxed)
    }

    /// Puts the node in its place. What was brought before waits for [`Self::run_housekeeper`].
    pub(crate) fn begin(&self, node_driver: NodeDriver) {
        let before = self.node().replace(node_driver);
        // Its threads may wait for the lock.
        drop(before);
        let mut state = self.state();
        state.run_state = RunState::Idle;
        // Recovery may have left work.
        state.work_pending = true;
    }

    /// Submits one item: runs the node, unless another thread does, which takes the item along.
    /// False: the node has ended, and the item is dropped. A client that would have begun is abandoned if the node has panicked.
    pub(crate) fn push(&self, item: ExecutorItem) -> bool {
        self.submit([item], STEPS_MAX)
    }

    /// The same for several items, which the node handles in one step.
    pub(crate) fn push_all(&self, items: Vec<ExecutorItem>) -> bool {
        self.submit(items, STEPS_MAX)
    }

    /// Brings what a disk thread has done. It takes one turn, in which it may be given its next request: what others
    /// bring meanwhile is not handled while that request waits for its only thread.
    pub(crate) fn complete_io(&self, done: IoDone) {
        self.submit([ExecutorItem::Io(done)], 1);
    }

    fn submit(&self, items: impl IntoIterator<Item = ExecutorItem>, steps: u32) -> bool {
        let mut state = self.state();
        if let RunState::Ended(ended) = state.run_state {
            drop(state);
            for item in items {
                if let (Ended::Panicked, ExecutorItem::Register(.., effect_queue)) = (ended, item) {
                    effect_queue.abandon();
                }
            }
            return false;
        }
        if state.run_state == RunState::Running && state.items.is_empty() {
            state.waiting_since = Some(clock::instant());
        }
        for item in items {
            if matches!(item, ExecutorItem::Advance(..)) {
                // The housekeeper's sleep was computed with the clock before the advance.
                state.asleep_until = state.asleep_until.map(|_| FOR_EVER);
            }
            state.items.push(item);
        }
        state.active = true;
        if state.run_state == RunState::Idle {
            self.run(state, steps);
        }
        true
    }

    /// Runs the node when no submitter does: at its deadlines, and for work that was left. Runs on a thread of its own,
    /// and returns when the node has ended and its files are closed. Where the shard `recovers`, its clients are told that the node has
    /// abandoned them; else everybody is told of the end.
    pub(crate) fn run_housekeeper(&self, recovers: impl FnOnce(Ended) -> bool) -> Ended {
        let ended = catch_unwind(AssertUnwindSafe(|| self.housekeep())).unwrap_or_else(|_| {
            self.fail();
            Ended::Panicked
        });
        let node_driver = self.node().take();
        if recovers(ended) {
            // Also those of which the node has not heard: the one that follows will not, either.
            let beginning = mem::take(&mut self.state().beginning);
            for effect_queue in beginning {
                effect_queue.abandon();
            }
            if let Some(mut node_driver) = node_driver {
                node_driver.abandon_clients();
            }
        }
        ended
    }

    /// Waits and runs the node in turn, to its end.
    fn housekeep(&self) -> Ended {
        let mut state = self.state();
        loop {
            let now = self.clock.utc();
            state.update_idle(now);
            if let RunState::Ended(ended) = state.run_state {
                return ended;
            }
            if state.is_due(now) {
                self.run(state, STEPS_MAX);
                state = self.state();
            } else {
                state = self.sleep(state, now);
            }
        }
    }

    /// Sleeps until called or until the next alarm.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, ExecutorState>,
        now: Timestamp,
    ) -> MutexGuard<'a, ExecutorState> {
        let wake_at = state.wake_at();
        state.asleep_until = Some(wake_at.unwrap_or(FOR_EVER));
        let mut state = if let Some(wake_at) = wake_at {
            let patience = Duration::from_millis(wake_at.as_millis().saturating_sub(now.as_millis()));
            self.wakeup.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0
        } else {
            self.wakeup.wait(state).unwrap_or_else(PoisonError::into_inner)
        };
        state.asleep_until = None;
        state
    }

    /// Takes turns with the node until nothing waits, or for long enough.
    fn run(&self, mut state: MutexGuard<'_, ExecutorState>, steps: u32) {
        state.run_state = RunState::Running;
        state.work_pending = false;
        drop(state);
        // A panic of the node must not unwind into the submitter, which did nothing wrong.
        let work = AssertUnwindSafe(|| {
            if let Some(node_driver) = self.node().as_mut() {
                self.run_steps(node_driver, steps);
            }
        });
        if catch_unwind(work).is_err() {
            self.fail();
        }
    }

    /// Ends the node after a panic in it or in a thread that works for it: its state may be inconsistent, and no task
    /// may wait for it for ever.
    pub(crate) fn fail(&self) {
        error!(
            shard = self.shard,
            "the broker has panicked, see above; nothing more is accepted before it recovers"
        );
        self.end(self.state(), Ended::Panicked);
    }

    fn run_steps(&self, node_driver: &mut NodeDriver, steps: u32) {
        let mut items = Vec::new();
        // One write may be waited for, if no batch was submitted meanwhile; then other submitters have their turn.
        let waited = Cell::new(false);
        let may_wait = || !waited.get() && self.state().items.is_empty() && !waited.replace(true);
        let began = clock::instant();
        for step in 1.. {
            let queued = self.take_items(&mut items);
            let ended = node_driver.step(&mut items, queued, may_wait);
            let mut state = self.state();
            if matches!(state.run_state, RunState::Ended(_)) {
                return;
            }
            if let Some(ended) = ended {
                return self.end(state, ended);
            }
            let waits = node_driver.has_more() || !state.items.is_empty();
            let time_is_over = node_driver.round_ended().saturating_duration_since(began) >= RUN_TIME;
            if !waits || step == steps || time_is_over {
                state.run_state = RunState::Idle;
                state.work_pending = waits;
                state.deadline = node_driver.deadline();
                let call = state.needs_wakeup();
                drop(state);
                if call {
                    self.wakeup.notify_one();
                }
                return;
            }
        }
    }

    /// Takes what waits, and says how long the first of it did.
    fn take_items(&self, items: &mut Vec<ExecutorItem>) -> Duration {
        let mut state = self.state();
        mem::swap(items, &mut state.items);
        state.beginning.clear();
        state.beginning.extend(beginning(items));
        let since = state.waiting_since.take();
        drop(state);
        let waited = since.map_or(Duration::ZERO, |since| clock::instant().saturating_duration_since(since));
        if !items.is_empty() {
            self.metrics.queue_time.observe(waited.as_secs_f64());
        }
        waited
    }

    /// Metrics of the node and its disk workers.
    pub(crate) fn metrics(&self) -> &Arc<ShardMetrics> {
        &self.metrics
    }

    /// Whether the node has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state().run_state, RunState::Ended(_))
    }

    /// Whether a panic has ended the node. Its shard recovers, unless the server ends.
    pub(crate) fn has_panicked(&self) -> bool {
        self.state().run_state == RunState::Ended(Ended::Panicked)
    }

    /// The node has ended.
    fn end(&self, mut state: MutexGuard<'_, ExecutorState>, ended: Ended) {
        state.run_state = RunState::Ended(ended);
        let items = mem::take(&mut state.items);
        state.beginning.extend(beginning(&items));
        drop(state);
        // Those that wait for an answer hear that none comes.
        drop(items);
        self.wakeup.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, ExecutorState> {
        // Nothing that is done under this lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self) -> MutexGuard<'_, Option<NodeDriver>> {
        // After a panic the node does not run any more: see `fail`.
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The effect queues of clients that begin with these items.
fn beginning(items: &[ExecutorItem]) -> impl Iterator<Item = Arc<EffectQueue>> {
    items.iter().filter_map(|item| match item {
        ExecutorItem::Register(.., effect_queue) => Some(Arc::clone(effect_queue)),
        _ => None,
    })
}

/// Turns of a submitter, and the time after which it begins none; the rest is left to the housekeeper.
const STEPS_MAX: u32 = 64;
const RUN_TIME: Duration = Duration::from_millis(1);
/// Time without anything to do after which things are quiet; it passes twice at the most.
const IDLE_AFTER: Duration = Duration::from_millis(50);
/// An alarm that does not ring.
const FOR_EVER: Timestamp = Timestamp::MAX;

#[cfg(test)]
mod tests;
