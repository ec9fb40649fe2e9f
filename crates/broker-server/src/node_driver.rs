//! Driver of the node: one step handles the submitted items, passes durable effects to the effect queues, and hands out
//! disk work.
//!
//! Invariant: a connection's batches are handled in the order it submitted them; a delivery that no connection took
//! is given back to its queue.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use broker_core::{Batch, ClientId, Command, Effect, Timestamp};
use broker_log::JournalStats;
use broker_node::{NamespaceId, NamespaceView, Node, Released};
use tokio::sync::{oneshot, watch};
use tracing::error;

use crate::{
    clock::{self, Clock},
    credit_due::CreditDue,
    disk_state::DiskState,
    disk_thread::DiskThread,
    effect_queue::EffectQueue,
    entity_key_watch,
    executor::ExecutorItem,
    namespace_observer::NamespaceObserver,
    slow_log::{OperationTarget, SlowLog},
    work_pace::WorkPace,
};

/// The node at work: the single writer of the shard.
#[derive(Debug)]
pub(crate) struct NodeDriver {
    node: Node,
    clock: Arc<Clock>,
    /// `None` for a journal in memory.
    disk: Option<DiskThread>,
    clients: BTreeMap<ClientId, (NamespaceId, Arc<EffectQueue>)>,
    credit_due: CreditDue,
    /// Time that work takes here: alone, and where namespaces take turns.
    pace: WorkPace,
    shared_pace: WorkPace,
    /// End of the last round.
    round_ended: Instant,
    /// There is more to do at once.
    more: bool,
    stopping: bool,
    /// Number of the shard, for the log.
    shard: u16,
    /// The operator was told that space is not reclaimed.
    warned: bool,
    /// Senders that have advanced the clock and wait until everything due by then is done.
    advanced: Vec<oneshot::Sender<Option<Timestamp>>>,
    /// Watches for what takes long.
    slow: Option<SlowLog>,
    /// The namespaces of the shard, for connections.
    namespaces: Option<Arc<dyn NamespaceObserver>>,
    /// The state of the disk, for the log.
    space: Option<watch::Sender<DiskState>>,
}

/// Figures of one namespace of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceFigures {
    pub(crate) id: NamespaceId,
    /// Bytes of its records that are alive.
    pub(crate) live_bytes: u64,
    /// Bytes of records that it has appended since the start.
    pub(crate) appended_bytes: u64,
    /// Bytes of memory for its records in the journal's write cache.
    pub(crate) cached_bytes: u64,
    /// Records that were read for it and not found there since the start.
    pub(crate) disk_reads: u64,
    /// Queues, topics and subscriptions.
    pub(crate) entities: u64,
    /// Bytes of records that wait for the disk.
    pub(crate) unwritten_bytes: u64,
    /// Units of work since the start.
    pub(crate) work: u64,
    /// Those among them that no client asked for.
    pub(crate) background_work: u64,
}

impl NamespaceFigures {
    fn of(namespace: NamespaceView<'_>) -> Self {
        Self {
            id: namespace.id,
            live_bytes: namespace.live_bytes,
            appended_bytes: namespace.appended_bytes,
            cached_bytes: namespace.cached_bytes,
            disk_reads: namespace.disk_reads,
            entities: namespace.core.entity_count(),
            unwritten_bytes: namespace.unwritten_bytes,
            work: namespace.work.0,
            background_work: namespace.background_work.0,
        }
    }
}

/// Status of the node.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) namespaces: Vec<NamespaceFigures>,
    /// Figures of its journal.
    pub(crate) journal: JournalStats,
    /// Sends are refused until there is space again.
    pub(crate) storage_full: bool,
    /// Sends and new entities are refused until there is memory again.
    pub(crate) memory_full: bool,
    /// Space is not reclaimed any more.
    pub(crate) compaction_stopped: bool,
}

/// Reason why the node ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// It was asked to, and everything is durable.
    Stopped,
    /// The journal failed; nothing more may be acknowledged.
    Poisoned,
    Panicked,
}

impl NodeDriver {
    /// Ready to run.
    pub(crate) fn new(node: Node, clock: Arc<Clock>, disk: Option<DiskThread>) -> Self {
        Self {
            node,
            clock,
            disk,
            clients: BTreeMap::new(),
            credit_due: CreditDue::default(),
            pace: WorkPace::new(ROUND_TIME),
            shared_pace: WorkPace::new(SHARED_ROUND_TIME),
            round_ended: clock::instant(),
            more: false,
            stopping: false,
            shard: 0,
            warned: false,
            advanced: Vec::new(),
            slow: None,
            namespaces: None,
            space: None,
        }
    }

    /// Tells `namespaces` of the namespaces that there are, of each change of one, and of the keys of their entities.
    pub(crate) fn with_namespaces(mut self, namespaces: Arc<dyn NamespaceObserver>) -> Self {
        // All that was recovered is durable.
        let mut served = Vec::new();
        for view in self.node.namespaces() {
            namespaces.apply(view.definition.clone());
            for (entity, rules) in view.core.keys() {
                namespaces.set_entity_keys(view.id, entity, rules);
            }
            served.push(view.id);
        }
        namespaces.forget_others(&served);
        for id in served {
            self.node.handle_batch(self.clock.utc(), id, entity_key_watch::request());
        }
        self.namespaces = Some(namespaces);
        self
    }

    /// Tells `space` whether the disk is full: now, and whenever that changes.
    pub(crate) fn with_space(mut self, space: watch::Sender<DiskState>) -> Self {
        self.space = Some(space);
        self.note_space();
        self
    }

    /// Logs what takes longer than this.
    pub(crate) fn watched(mut self, threshold: Option<Duration>) -> Self {
        self.slow = threshold.map(SlowLog::new);
        self
    }

    /// Names its shard in the log.
    pub(crate) const fn in_shard(mut self, shard: u16) -> Self {
        self.shard = shard;
        self
    }

    /// Handles `items`, and does a bounded piece of everything else. `alone` says whether nothing more waits. The end,
    /// if it has come.
    pub(crate) fn step(
        &mut self,
        items: &mut Vec<ExecutorItem>,
        waited: Duration,
        alone: impl Fn() -> bool,
    ) -> Option<Ended> {
        let began = clock::instant();
        let mut now = self.clock.utc();
        self.warn();
        self.begin_round(items);
        let mut disk_is_free = false;
        for item in items.drain(..) {
            disk_is_free |= matches!(item, ExecutorItem::Io(_));
            self.handle(now, item);
            if !self.advanced.is_empty() {
                now = self.clock.utc();
            }
        }
        if disk_is_free && self.node.has_several_namespaces() {
            // The records that effects wait for are written before a namespace that has waited for the disk appends more.
            self.give_to_disk(|| false);
        }
        self.more = self.node.work(now);
        self.note_round(began);
        if let Some(slow) = &mut self.slow {
            slow.on_step(began, waited, self.node.journal().committed());
        }
        self.more |= self.release();
        if self.stopping && !self.more && !self.node.has_deferred() && !self.node.has_reading() {
            self.node.close();
        }
        self.more |= self.give_to_disk(alone);
        // Also after a write at once: no later event may come that would report the fault.
        if let Some(reason) = self.node.fault() {
            error!(%reason, "the journal failed; nothing more is accepted, restart to recover");
            return Some(Ended::Poisoned);
        }
        self.log_slow();
        self.note_space();
        self.release_credit();
        if !self.more {
            self.answer_advanced(now);
        }
        (self.stopping && !self.more && self.node.is_closed()).then_some(Ended::Stopped)
    }

    /// The node ends, and its clients hear nothing more of it.
    pub(crate) fn abandon_clients(&mut self) {
        for (_, effect_queue) in std::mem::take(&mut self.clients).into_values() {
            effect_queue.abandon();
        }
    }

    /// Gives the round its budget of work, and tells the node which namespaces share it.
    fn begin_round(&mut self, items: &[ExecutorItem]) {
        if !self.node.has_several_namespaces() {
            return self.node.set_work_budget(self.pace.budget());
        }
        self.node.set_work_budget(self.shared_pace.budget());
        for item in items {
            if let ExecutorItem::Batch(batch, _) = item
                && let Some((namespace, _)) = self.clients.get(&batch.client)
            {
                self.node.expect_batch(*namespace);
            }
        }
    }

    /// The round has ended: it says how long work takes.
    fn note_round(&mut self, began: Instant) {
        self.round_ended = clock::instant();
        let (work, took) = (self.node.round_work(), self.round_ended.saturating_duration_since(began));
        self.pace.note(work, took);
        self.shared_pace.note(work, took);
    }

    /// The time at which the last round ended.
    pub(crate) const fn round_ended(&self) -> Instant {
        self.round_ended
    }

    /// Whether another turn has something to do.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Time at which the node has timed work to do.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.node.deadline()
    }

    fn handle(&mut self, now: Timestamp, item: ExecutorItem) {
        match item {
            ExecutorItem::Batch(batch, weight) => {
                let Some((namespace, effect_queue)) = self.clients.get(&batch.client) else { return };
                let namespace = *namespace;
                self.credit_due.add((namespace, batch.client), effect_queue, weight);
                if let Some(slow) = &mut self.slow {
                    slow.handles(namespace, &batch);
                }
                self.node.handle_batch(now, namespace, batch);
                self.release_credit();
            }
            ExecutorItem::ChangeNamespace(request, command) => {
                self.node.change_namespace(now, request, *command);
            }
            ExecutorItem::Io(done) => self.node.handle_io(done),
            ExecutorItem::Register(client, namespace, effect_queue) => {
                self.clients.insert(client, (namespace, effect_queue));
            }
            ExecutorItem::Forget(client) => {
                if let Some((namespace, effect_queue)) = self.clients.remove(&client) {
                    self.unlock(now, Released { namespace, client, effects: effect_queue.take() });
                }
            }
            ExecutorItem::MemoryFull(is_full) => self.node.set_memory_full(is_full),
            ExecutorItem::Idle => self.node.notice_idle(),
            ExecutorItem::Advance(by, answer) => self.advance(by, answer),
            // The receiver may be gone.
            ExecutorItem::View(answer) => drop(answer.send(self.view())),
            ExecutorItem::Figures(ids, answer) => {
                let found = ids.into_iter().filter_map(|id| self.node.namespace(id));
                drop(answer.send(found.map(NamespaceFigures::of).collect()));
            }
            ExecutorItem::Shutdown => self.stopping = true,
        }
    }

    fn view(&self) -> NodeView {
        let journal = self.node.journal();
        let namespaces = self.node.namespaces().map(NamespaceFigures::of);
        NodeView {
            namespaces: namespaces.collect(),
            journal: journal.stats(),
            storage_full: journal.storage_full(),
            memory_full: self.node.is_memory_full(),
            compaction_stopped: journal.compaction_stopped().is_some(),
        }
    }

    /// Moves the time; the answer waits for what becomes due by that.
    fn advance(&mut self, by: Duration, answer: oneshot::Sender<Option<Timestamp>>) {
        if self.clock.advance(by) {
            self.advanced.push(answer);
        } else {
            // Nothing has changed. The client that asked may have disconnected.
            answer.send(None).ok();
        }
    }

    /// Answers the requests that advanced the clock, unless work is still due or waits for the disk.
    fn answer_advanced(&mut self, now: Timestamp) {
        let is_done = self.node.deadline().is_none_or(|deadline| deadline > now) && !self.node.has_reading();
        if !self.node.is_behind() && is_done {
            for answer in self.advanced.drain(..) {
                answer.send(Some(now)).ok();
            }
        }
    }

    /// Lets clients send on, unless the disk is so far behind that memory must be spared, or what they sent still
    /// waits.
    fn release_credit(&mut self) {
        if self.node.is_behind() {
            return;
        }
        while let Some(client) = self.node.poll_caught_up() {
            let node = &self.node;
            self.credit_due.on_caught_up(client, |(id, client)| node.command_wait(id, client).is_some());
        }
        let node = &self.node;
        self.credit_due.release(|(id, client)| node.command_wait(id, client).is_some());
    }

    /// Tells whether the disk is full, if that has changed; how full it is goes along unasked.
    fn note_space(&self) {
        let Some(space) = &self.space else { return };
        let journal = self.node.journal();
        let is_full = journal.is_full();
        space.send_if_modified(|state| {
            let has_changed = state.is_full != is_full;
            if is_full || has_changed {
                *state = DiskState { is_full, free_bytes: journal.stats().free_bytes };
            }
            has_changed
        });
    }

    /// Tells the operator of a journal that cannot reclaim its space, once until it can.
    fn warn(&mut self) {
        let stopped = self.node.compaction_stopped();
        let warned = std::mem::replace(&mut self.warned, stopped.is_some());
        if let Some(error) = stopped.filter(|_| !warned) {
            error!(shard = self.shard, %error, "the journal cannot reclaim space: a record cannot be read; check the disk");
        }
    }

    /// Tells the operator of what took long.
    fn log_slow(&mut self) {
        let Some(slow) = self.slow.as_mut().filter(|slow| slow.waits()) else { return };
        let Some(turn_taken) = slow.durable(self.node.journal().durable(), clock::instant()) else { return };
        let entity = match &turn_taken.target {
            OperationTarget::Queue(queue) => {
                let core = self.node.core_of(turn_taken.namespace);
                core.and_then(|core| core.name_of(*queue)).unwrap_or_default()
            }
            OperationTarget::Name(name) => name,
            OperationTarget::Nowhere => "",
        };
        turn_taken.write(entity);
    }

    /// Shows what is durable to those it is for; true when that gave the node something to do.
    fn release(&mut self) -> bool {
        let mut has_work = self.tell_of_namespaces();
        while let Some(released) = self.node.poll_effects() {
            match self.clients.get(&released.client) {
                Some((_, effect_queue)) => effect_queue.put(released.effects),
                None if released.client == entity_key_watch::CLIENT => {
                    if let Some(namespaces) = &self.namespaces {
                        namespaces.take_entity_keys(released.namespace, released.effects);
                    }
                }
                None => has_work |= self.unlock(self.clock.utc(), released),
            }
        }
        has_work
    }

    /// Applies changed definitions of namespaces, before anybody is answered for them. True when that gave the node
    /// something to do.
    fn tell_of_namespaces(&mut self) -> bool {
        let mut has_work = false;
        while let Some(definition) = self.node.poll_namespace_change() {
            if let Some(id) = self.namespaces.as_ref().and_then(|namespaces| namespaces.apply(definition)) {
                self.node.handle_batch(self.clock.utc(), id, entity_key_watch::request());
                has_work = true;
            }
        }
        has_work
    }

    /// Unlocks messages that were on their way to a connection that is over: its client never saw them, and they need
    /// not wait for their locks to run out. True when there were some.
    fn unlock(&mut self, now: Timestamp, released: Released) -> bool {
        let Released { namespace, client, effects } = released;
        let commands: Vec<Command> = effects.into_iter().filter_map(release_command).collect();
        let some = !commands.is_empty();
        if some {
            self.node.handle_batch(now, namespace, Batch { client, commands });
        }
        some
    }

    /// Hands out disk work; shows at once what a write done at once has made durable. True when that gave the node
    /// something to do.
    fn give_to_disk(&mut self, alone: impl Fn() -> bool) -> bool {
        let mut has_work = false;
        while let Some(request) = self.node.poll_io() {
            let Some(disk) = &self.disk else { break };
            if let Some(done) = disk.perform(request, &alone) {
                self.node.handle_io(done);
                has_work |= self.release();
            }
        }
        has_work
    }
}

/// Time that a round lasts, about, and the same where several namespaces take turns: one that comes in a round waits for
/// the rest of the one before.
const ROUND_TIME: Duration = Duration::from_millis(1);
const SHARED_ROUND_TIME: Duration = Duration::from_micros(250);

/// The command that undoes a delivery with a lock.
fn release_command(effect: Effect) -> Option<Command> {
    let Effect::Delivery(delivery) = effect else { return None };
    Some(Command::release(delivery.queue, delivery.sequence, delivery.lock?.id))
}

#[cfg(test)]
mod tests;
