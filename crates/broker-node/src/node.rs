//! The node: rounds of work, each a batch of commands, the deliveries that follow, and one journal position that
//! both wait for.
//!
//! Invariant: no effect leaves before all awaited records that were appended before it are durable; unawaited ones
//! (completions without an answer) are on their way to the disk within twice [`NodeLimits::flush_after`].
//! Invariant: the same inputs in the same order give the same outputs; the journal's completions are inputs too. What a
//! round brings is bounded, with one command more, which the core bounds: the rest of a batch waits for another round.

use std::collections::VecDeque;

use broker_core::{
    Batch, ClientId, Core, CoreConfig, NamespaceDefinition, NamespaceSlot, ReadId, ReplayError, Timestamp,
    Work, WorkBudget,
};
use broker_log::{CompactionStep, IoDone, IoRequest, Journal, PoisonReason, Position, ReadError};

use crate::{
    Agreement, Alone, CommandWait, NamespaceCommand, NamespaceId, NamespaceRequest, NamespaceView,
    NodeLimits, Released,
    core_output::{NodeOutput, RoundLimit},
    durability_queue::DurabilityQueue,
    namespace::{change::NamespaceAdmin, registry::Namespaces, round_bounds::RoundBounds},
};

/// Fatal error of a node: the process has to stop and recover from disk.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NodeFault {
    /// A write or sync failed.
    #[error("{0}")]
    Journal(PoisonReason),
    /// A record that was to be moved makes no sense.
    #[error(transparent)]
    Record(#[from] ReplayError),
}

/// Namespaces, journal and held-back effects of one shard.
#[derive(Debug)]
pub struct Node {
    namespaces: Namespaces,
    output: NodeOutput,
    durability_queue: DurabilityQueue,
    released: VecDeque<Released>,
    agreement: Box<dyn Agreement>,
    /// Everything before it is durable or on its way to the disk.
    sync_requested: Position,
    /// A round goes on: it ends with [`Node::work`].
    in_round: bool,
    limits: NodeLimits,
    work_budget: Work,
    /// Work of the last round.
    round_work: Work,
    fault: Option<NodeFault>,
    /// Records up to this position must be on their way to the disk by this time, whether an effect waits for them or
    /// not.
    flush: Option<(Position, Timestamp)>,
    closing: bool,
}

impl Node {
    /// A node on what was replayed: tells the journal what lives, and lets the cores settle in.
    pub(crate) fn start(mut namespaces: Namespaces, mut journal: Journal) -> Self {
        journal.set_live(namespaces.live_records());
        // Recovered records are durable.
        let sync_requested = journal.durable();
        let mut output = NodeOutput::new(journal);
        namespaces.recovered(&mut output);
        Self {
            namespaces,
            output,
            durability_queue: DurabilityQueue::default(),
            released: VecDeque::new(),
            agreement: Box::new(Alone),
            sync_requested,
            in_round: false,
            limits: NodeLimits::default(),
            work_budget: WorkBudget::UNBOUNDED.left(),
            round_work: Work(0),
            fault: None,
            flush: None,
            closing: false,
        }
    }

    /// A node whose journal lives in memory, with the default namespace alone (durability `none`).
    pub(crate) fn in_memory(journal: Journal, core: CoreConfig) -> Self {
        Self::start(Namespaces::new(core), journal)
    }

    /// The same node under other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: NodeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same node, whose effects leave when `agreement` says so.
    #[must_use]
    pub fn with_agreement(mut self, agreement: Box<dyn Agreement>) -> Self {
        self.agreement = agreement;
        self
    }

    /// Handles one client's commands for a namespace, in one atomic unit of the journal or in several. Deliveries follow in
    /// [`Self::work`], and so do commands for which this round, or the memory for what the disk has to write, has no
    /// room, and those that need messages which are read from the disk first. Commands for a namespace that is gone are dropped: its clients are told otherwise. After [`Self::close`]
    /// nothing is handled any more.
    pub fn handle_batch(&mut self, now: Timestamp, id: NamespaceId, batch: Batch) {
        if self.closing {
            return;
        }
        self.begin_round(now);
        let round = self.bounds(now);
        self.namespaces.handle_batch(id, batch, round, &mut self.output);
    }

    /// Each later round ends when so much work is done, as far as it can be divided: a namespace does one step at least. Like
    /// the time, it is an input: the same inputs with the same budgets give the same outputs.
    pub fn set_work_budget(&mut self, budget: WorkBudget) {
        self.work_budget = budget.left();
    }

    /// Work that the last round did.
    pub fn round_work(&self) -> Work {
        self.round_work
    }

    /// A batch for this namespace follows in this round. Told of all of them before the first, the node leaves each of
    /// these namespaces its share of the round.
    pub fn expect_batch(&mut self, id: NamespaceId) {
        self.namespaces.expect(id);
    }

    /// Whether it has more than one namespace.
    pub fn has_several_namespaces(&self) -> bool {
        self.namespaces.count() > 1
    }

    /// Creates, changes or deletes a namespace. The answer is an effect for the client of the request, in the default
    /// namespace.
    pub fn change_namespace(&mut self, now: Timestamp, request: NamespaceRequest, command: NamespaceCommand) {
        if self.closing {
            return;
        }
        self.begin_round(now);
        let Self { namespaces, output, .. } = self;
        NamespaceAdmin { namespaces, out: output, now }.change(request, command);
    }

    fn begin_round(&mut self, now: Timestamp) {
        if !self.in_round {
            self.in_round = true;
            self.output.journal.set_time(now.as_millis());
            self.namespaces.begin_round();
        }
    }

    fn bounds(&self, now: Timestamp) -> RoundBounds {
        // One more byte, and the node is behind.
        let full_at = self.agreed().0.saturating_add(self.limits.unwritten_bytes_max).saturating_add(1);
        let durable = self.output.journal.durable();
        RoundBounds { now, limits: self.limits, work: self.work_budget, full_at, durable }
    }

    /// Runs deferred batches, deadlines, deliveries and one step of compaction; the effects then wait for the journal.
    /// True when there is more to do at once. While the node is behind, deadlines wait like the commands of clients: it
    /// may copy every message of a queue.
    pub fn work(&mut self, now: Timestamp) -> bool {
        if self.closing {
            return false;
        }
        self.begin_round(now);
        let has_time = !self.is_behind();
        let round = self.bounds(now);
        let mut more = self.namespaces.work_all(round, has_time, &mut self.output);
        more |= has_time && self.compact();
        let until = self.close_round(now);
        // A journal in memory has no write that would bring back a namespace that had its share of what may wait for one.
        let is_written = self.output.journal.durable() >= until;
        more || (is_written && self.namespaces.has_ready() && !self.has_reading())
    }

    /// Ties the round's effects to the position they depend on, which is returned.
    fn close_round(&mut self, now: Timestamp) -> Position {
        let until = self.output.journal.commit();
        self.in_round = false;
        self.round_work = self.namespaces.end_round(until);
        if self.is_behind() || self.has_deferred() || self.namespaces.has_changes() {
            self.request_sync(until);
        }
        if !self.output.outbox.is_empty() {
            let effects = self.output.outbox.take();
            let awaited = self.output.awaited;
            if self.durability_queue.is_empty() && self.agreement.may_answer() && self.agreed() >= awaited {
                self.released.extend(effects);
            } else {
                self.durability_queue.push(awaited, effects);
                self.request_sync(awaited);
            }
        }
        self.flush_in_time(now, until);
        until
    }

    /// Position before which all records are kept for good.
    fn agreed(&self) -> Position {
        self.agreement.agreed(self.output.journal.durable())
    }

    fn request_sync(&mut self, until: Position) {
        self.output.journal.request_sync(until);
        self.sync_requested = self.sync_requested.max(until);
    }

    /// Records that no effect waits for (settled dispositions, sends without an answer) wait for a group commit, for a
    /// limited time. A sync for other records includes them, and the time begins anew for later ones.
    fn flush_in_time(&mut self, now: Timestamp, until: Position) {
        let on_its_way = self.output.journal.durable().max(self.sync_requested);
        if on_its_way >= until {
            self.flush = None;
            return;
        }
        let pending = self.flush.filter(|(first, _)| *first > on_its_way);
        let (first, at) = pending.unwrap_or_else(|| (until, now.after(self.limits.flush_after)));
        self.flush = Some((first, at)).filter(|_| at > now);
        if at <= now {
            self.request_sync(until);
        }
    }

    /// One bounded step of cleaning the oldest segment: what lives in it is appended anew. It waits for what deleted
    /// entities held, which is neither dead nor moved, and for the disk, unless space runs short.
    fn compact(&mut self) -> bool {
        if self.namespaces.has_unreleased_records() {
            return true;
        }
        let journal = &mut self.output.journal;
        let waits = journal.unwritten_bytes() > self.limits.compaction_unwritten_max;
        if waits && !journal.is_compaction_urgent() {
            return false;
        }
        let Some(step) = journal.poll_compaction(self.limits.clean_bytes) else { return false };
        let round = RoundLimit {
            share: u64::MAX,
            work: WorkBudget::UNBOUNDED.left(),
            unwritten: u64::MAX,
            full_at: u64::MAX,
        };
        match step {
            CompactionStep::Records(records) => {
                for (at, record) in records {
                    if let Err(error) = self.namespaces.relocate(at, &record, &mut self.output, round) {
                        self.fault = Some(NodeFault::Record(error));
                        return false;
                    }
                }
            }
            CompactionStep::SegmentDone { .. } => self.output.journal.segment_compacted(),
        }
        true
    }

    /// Effects that may be shown now. Call until it returns `None`.
    pub fn poll_effects(&mut self) -> Option<Released> {
        loop {
            // Asked before each effect: a node that has lost its right to answer keeps what was released before.
            if !self.agreement.may_answer() {
                return None;
            }
            if let Some(released) = self.released.pop_front() {
                return Some(released);
            }
            if self.failed() {
                return None;
            }
            let round = self.durability_queue.pop(self.agreed())?;
            self.released.extend(round);
        }
    }

    /// A definition of a namespace that has changed, or of one that is gone. Asked before [`Self::poll_effects`], it comes
    /// before the answer to the request that changed it.
    pub fn poll_namespace_change(&mut self) -> Option<NamespaceDefinition> {
        if self.failed() || !self.agreement.may_answer() {
            return None;
        }
        self.namespaces.poll_change(self.agreed())
    }

    /// The next work for the disk, if any.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        self.output.journal.poll_io()
    }

    /// A piece of disk work is done, or has failed. Deliveries that waited for it follow in [`Self::work`].
    pub fn handle_io(&mut self, done: IoDone) {
        self.output.journal.handle_io(done);
        while let Some((owner, read)) = self.output.journal.poll_read_done() {
            self.namespaces.handle_read_done(NamespaceSlot(owner.0), ReadId(read.0));
        }
    }

    /// Begins a clean end: everything appended is made durable, and the journal says that nothing follows. Perform
    /// the disk work until [`Self::is_closed`].
    pub fn close(&mut self) {
        self.closing = true;
        self.output.journal.commit();
        self.output.journal.request_close();
    }

    /// True when the end that was begun is complete, or the journal has failed.
    pub fn is_closed(&self) -> bool {
        self.output.journal.is_closed()
    }

    /// Whether the process uses as much memory as it may. While it does, sends, entities, rules and namespaces are refused, and
    /// receives, settlements and deletions go on.
    pub fn set_memory_full(&mut self, is_full: bool) {
        self.output.memory_full = is_full;
    }

    /// Whether they are refused for that.
    pub fn is_memory_full(&self) -> bool {
        self.output.memory_full
    }

    /// Nothing has happened for a while: the journal may prepare for what comes.
    pub fn notice_idle(&mut self) {
        self.output.journal.notice_idle();
    }

    /// Reason why space is not reclaimed any more, if so: a record that compaction has to move cannot be read.
    pub fn compaction_stopped(&self) -> Option<&ReadError> {
        self.output.journal.compaction_stopped()
    }

    /// True while so much waits for the disk that no more commands should be handled.
    pub fn is_behind(&self) -> bool {
        self.output.journal.unwritten_bytes() > self.limits.unwritten_bytes_max
    }

    /// Whether commands wait for another round. While the node is behind, only the disk brings that.
    pub fn has_deferred(&self) -> bool {
        self.namespaces.has_deferred()
    }

    /// Whether commands, or work that is due, wait for reads of the disk: the end of these brings them back.
    pub fn has_reading(&self) -> bool {
        self.namespaces.has_reading()
    }

    /// The reason for which commands of this client wait, if some do.
    pub fn command_wait(&self, id: NamespaceId, client: ClientId) -> Option<CommandWait> {
        self.namespaces.get(id)?.core.command_wait(client)
    }

    /// A client whose deferred commands were all handled, or dropped with their namespace, since it was last told of. Call until it
    /// returns `None`, as [`Self::poll_effects`]. The client may have sent more since: [`Self::command_wait`] says so.
    pub fn poll_caught_up(&mut self) -> Option<(NamespaceId, ClientId)> {
        self.output.caught_up.pop()
    }

    /// Time at which [`Self::work`] has timed work to do; none while the node is behind: due work then waits for the
    /// disk.
    pub fn deadline(&self) -> Option<Timestamp> {
        let due = self.namespaces.schedule.deadline().filter(|_| !self.is_behind());
        match (due, self.flush.map(|(_, at)| at)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Reason why nothing is acknowledged any more, if so.
    pub fn fault(&self) -> Option<NodeFault> {
        self.fault.clone().or_else(|| self.output.journal.poisoned().cloned().map(NodeFault::Journal))
    }

    fn failed(&self) -> bool {
        self.fault.is_some() || self.output.journal.poisoned().is_some()
    }

    /// The core of the default namespace, to look at.
    pub fn core(&self) -> &Core {
        self.namespaces.of_default().core.core()
    }

    /// The core of a namespace, to look at.
    pub fn core_of(&self, id: NamespaceId) -> Option<&Core> {
        self.namespaces.get(id).map(|namespace| namespace.core.core())
    }

    /// All namespaces: definitions, cores and used bytes.
    pub fn namespaces(&self) -> impl Iterator<Item = NamespaceView<'_>> {
        self.namespaces.all().map(|namespace| namespace.view(self.journal()))
    }

    /// One namespace, as [`Self::namespaces`] gives it.
    pub fn namespace(&self, id: NamespaceId) -> Option<NamespaceView<'_>> {
        self.namespaces.get(id).map(|namespace| namespace.view(self.journal()))
    }

    /// The journal, to look at.
    pub fn journal(&self) -> &Journal {
        &self.output.journal
    }
}

#[cfg(test)]
mod tests;
