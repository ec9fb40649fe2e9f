//! One shard of the process: a node, its disk, the commands that wait for it, and its disk threads.
//!
//! Invariant: what the end of a shard leaves is what its disk kept; the shard itself remembers nothing.

use std::collections::VecDeque;

use broker_core::{Batch, NamespaceDefinition, NamespaceSlot, Ticket, Timestamp};
use broker_log::{DiskWorker, IoDone, IoRequest};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest, NamespaceView, Node, Released};

use super::{
    crossing::CrossedNamespaces,
    premature_ack::PrematureAck,
    round::{Deferring, Round, RoundPlan},
    settings::GivenSettings,
};
use crate::{
    disk::DiskFaults,
    plan::{PlantedFault, SETUP, Topology},
    rng::Rng,
    traced_disk::TracedDisk,
};

/// Something that waits for the node.
#[derive(Clone, Debug)]
pub(super) enum Input {
    Batch(NamespaceId, Batch),
    Change(NamespaceCommand),
}

impl Input {
    /// The namespace for which it brings commands.
    fn namespace(&self) -> Option<&NamespaceId> {
        match self {
            Self::Batch(id, _) => Some(id),
            Self::Change(_) => None,
        }
    }
}

/// A shard that can be killed and started again on what its disk kept.
pub(super) struct Shard {
    pub(super) number: usize,
    pub(super) disk: TracedDisk,
    pub(super) node: Option<Node>,
    pub(super) inbox: VecDeque<Input>,
    pub(super) given: GivenSettings,
    crossed: CrossedNamespaces,
    premature_ack: PrematureAck,
    round_plan: RoundPlan,
    deferring: Deferring,
    /// The last round has left work that needs no input.
    has_more: bool,
    /// Writes of records, and other disk work: two threads, each in its order.
    writes: VecDeque<IoRequest>,
    others: VecDeque<IoRequest>,
    /// Reads: they are done in any order.
    reads: Vec<IoRequest>,
    /// The planted fault: the node is not told of them.
    keeps_reads: bool,
    events: DiskEvents,
}

/// Disk work that was done late, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DiskEvents {
    /// Reads for which deliveries or peeks waited.
    pub(super) reads: u64,
    /// Those that were done before one that was asked for earlier.
    pub(super) overtaking: u64,
    /// Those that failed.
    pub(super) failed: u64,
    /// Those that a crash ended.
    pub(super) lost: u64,
}

impl Shard {
    /// On this disk, which is empty.
    pub(super) fn new(number: usize, disk: TracedDisk) -> Self {
        Self {
            number,
            disk,
            node: None,
            inbox: VecDeque::new(),
            given: GivenSettings::default(),
            crossed: CrossedNamespaces::default(),
            premature_ack: PrematureAck::default(),
            round_plan: RoundPlan::default(),
            deferring: Deferring::default(),
            has_more: false,
            writes: VecDeque::new(),
            others: VecDeque::new(),
            reads: Vec::new(),
            keeps_reads: false,
            events: DiskEvents::default(),
        }
    }

    /// Plants the fault of the plan.
    pub(super) fn plant(&mut self, topology: &Topology, round_plan: RoundPlan) {
        self.premature_ack.plant(topology);
        self.crossed.plant(topology);
        self.given.plant(topology);
        self.round_plan = round_plan;
        self.keeps_reads = !topology.is_free_of(PlantedFault::ReadsUntold);
    }

    /// A node that was recovered from the disk.
    pub(super) fn begin(&mut self, node: Node) {
        self.given.recovered(&node);
        self.node = Some(node);
    }

    /// Whether anything waits for the node or the disk.
    pub(super) fn is_busy(&self) -> bool {
        let waits = self.node.as_ref().is_some_and(|node| node.has_deferred() && node.fault().is_none());
        let disk_works = !self.writes.is_empty() || !self.others.is_empty() || !self.reads.is_empty();
        waits || self.has_more || !self.inbox.is_empty() || disk_works
    }

    /// Whether the node has met a fault.
    pub(super) fn is_broken(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.fault().is_some())
    }

    /// The namespaces that clients can reach: the default one is that of the first shard.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = NamespaceView<'_>> {
        let is_reached =
            |view: &NamespaceView<'_>| self.number == 0 || view.id.slot != NamespaceSlot::DEFAULT;
        self.node.iter().flat_map(Node::namespaces).filter(is_reached)
    }

    /// The namespace with this name.
    pub(super) fn namespace(&self, name: &str) -> Option<&NamespaceDefinition> {
        let found = self.namespaces().find(|view| &*view.definition.name == name);
        found.map(|view| view.definition).filter(|_| !self.crossed.is_kept(name))
    }

    /// The node does one round. `Err`: a promise about rounds or settings is broken.
    pub(super) fn step(&mut self, now: Timestamp, rng: &mut Rng) -> Result<(), String> {
        let Some(node) = &mut self.node else { return Ok(()) };
        let inputs = usize::try_from(self.round_plan.inputs(rng)).unwrap_or(1);
        let work = self.round_plan.work(rng);
        if let Some(work) = work {
            self.disk.note_budget(work);
        }
        let expected = self.inbox.iter().take(inputs).filter_map(Input::namespace);
        let mut round = Round::begin(node, self.round_plan, work, expected);
        for _ in 0..inputs {
            match self.inbox.pop_front() {
                Some(Input::Batch(id, batch)) if round.leaves(id, &batch) => {
                    self.inbox.push_front(Input::Batch(id, batch));
                    break;
                }
                Some(Input::Batch(id, mut batch)) => {
                    round.brings(node, &self.deferring, id, &batch);
                    let before = self.given.before(node, id, &batch);
                    self.given.starve(node, id, &mut batch);
                    self.crossed.divert(node, now, id, &mut batch);
                    self.premature_ack.handle_batch(node, now, id, batch);
                    before.map_or(Ok(()), |before| before.check(node, id))?;
                }
                Some(Input::Change(command)) if !self.crossed.keeps(node, &command) => {
                    round.changes();
                    let request = NamespaceRequest { client: SETUP, ticket: Ticket(0) };
                    for command in self.given.give(node, now, command) {
                        node.change_namespace(now, request, command);
                    }
                }
                Some(Input::Change(_)) => {}
                None => break,
            }
        }
        self.has_more = node.work(now) && self.round_plan.is_bounded();
        round.end(node, &mut self.deferring)?;
        if rng.chance(5) {
            node.notice_idle();
        }
        self.collect_io();
        Ok(())
    }

    fn collect_io(&mut self) {
        while let Some(request) = self.node.as_mut().and_then(Node::poll_io) {
            if request.is_write() {
                self.writes.push_back(request);
            } else if request.is_read() {
                self.reads.push(request);
            } else {
                self.others.push_back(request);
            }
        }
    }

    /// One of the disk threads finishes something.
    pub(super) fn disk_step(&mut self, disk_faults: &DiskFaults, rng: &mut Rng) {
        if !self.reads.is_empty() && (rng.chance(40) || (self.writes.is_empty() && self.others.is_empty())) {
            return self.read_step(disk_faults, rng);
        }
        let Some(request) = self.next_io(rng) else { return };
        let done = DiskWorker::new(self.disk.clone()).perform(request);
        self.tell(done);
    }

    /// One of the reads is done.
    fn read_step(&mut self, disk_faults: &DiskFaults, rng: &mut Rng) {
        let index = usize::try_from(rng.below(self.reads.len() as u64)).unwrap_or(0);
        let request = self.reads.remove(index);
        self.events.reads += 1;
        self.events.overtaking += u64::from(index > 0);
        self.events.failed += u64::from(disk_faults.arm_read(rng));
        let done = DiskWorker::new(self.disk.clone()).perform(request);
        if !self.keeps_reads {
            self.tell(done);
            // A round follows for the deliveries that have waited.
            self.has_more = self.node.is_some();
        }
    }

    fn tell(&mut self, done: IoDone) {
        if let Some(node) = &mut self.node {
            node.handle_io(done);
            self.collect_io();
        }
    }

    /// Disk work since the last call.
    pub(super) fn take_disk_events(&mut self) -> DiskEvents {
        std::mem::take(&mut self.events)
    }

    fn next_io(&mut self, rng: &mut Rng) -> Option<IoRequest> {
        if rng.chance(50) {
            self.writes.pop_front().or_else(|| self.others.pop_front())
        } else {
            self.others.pop_front().or_else(|| self.writes.pop_front())
        }
    }

    /// Definitions that have changed for good.
    pub(super) fn namespace_changes(&mut self) -> Vec<NamespaceDefinition> {
        let Self { node, given, crossed, number, .. } = self;
        let told = crossed.take_changes().into_iter().chain(given.take_changes());
        let node = node.iter_mut().flat_map(|node| std::iter::from_fn(|| node.poll_namespace_change()));
        let told = told.chain(node.map(|definition| given.retell(definition)));
        told.filter(|definition| *number == 0 || definition.slot != NamespaceSlot::DEFAULT).collect()
    }

    /// Effects that clients may see, because the records that they depend on are durable.
    pub(super) fn released(&mut self) -> Vec<Released> {
        let mut released = self.premature_ack.take();
        if let Some(node) = &mut self.node {
            while let Some(mut more) = node.poll_effects() {
                self.premature_ack.hand_out(node, &mut more);
                self.crossed.redirect(node, &mut more);
                released.push(more);
            }
        }
        released
    }

    /// The node is gone. The disk may have finished what it was asked, and nobody was told.
    pub(super) fn kill(&mut self, rng: &mut Rng) {
        (self.node, self.has_more) = (None, false);
        self.deferring.forget();
        self.premature_ack.forget();
        self.crossed.forget();
        self.given.forget();
        if rng.chance(50)
            && let Some(request) = self.next_io(rng)
        {
            drop(DiskWorker::new(self.disk.clone()).perform(request));
        }
        self.events.lost += self.reads.len() as u64;
        self.reads.clear();
        self.writes.clear();
        self.others.clear();
        self.inbox.clear();
    }
}
