//! The broker's process: the node, its two disk threads, and how both end.
//!
//! Invariant: what a crash leaves is what the disk kept; the process itself remembers nothing.

use std::collections::{BTreeMap, VecDeque};

use broker_core::{Batch, NamespaceDefinition, Profile, Ticket, Timestamp};
use broker_log::{DiskWorker, IoRequest};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest, Node, Released};

use crate::{digest::Digest, disk::DiskFaults, plan::SETUP, rng::Rng, traced_disk::TracedDisk};

mod crossing;
mod namespaces;
mod premature_ack;
mod start;

use crossing::CrossedNamespaces;
pub(crate) use namespaces::NamespaceSetup;
use premature_ack::PrematureAck;

/// Something that waits for the node.
#[derive(Clone, Debug)]
enum Input {
    Batch(NamespaceId, Batch),
    Change(NamespaceCommand),
}

/// A broker that can be killed and started again on what its disk kept.
pub(crate) struct Process {
    pub(crate) disk_faults: DiskFaults,
    pub(crate) profile: Profile,
    /// Faults during starts, with the number of times each happened.
    pub(crate) events: BTreeMap<&'static str, u64>,
    /// A sequence of its own: a run whose starts are left alone is what its seed always gave.
    starts: Rng,
    disk: TracedDisk,
    node: Option<Node>,
    inbox: VecDeque<Input>,
    premature_ack: PrematureAck,
    crossed: CrossedNamespaces,
    /// Writes of records, and other disk work: two threads, each in its order.
    writes: VecDeque<IoRequest>,
    others: VecDeque<IoRequest>,
}

impl Process {
    /// On an empty disk. `seed`: of what happens to its starts.
    pub(crate) fn new(disk_faults: DiskFaults, seed: u64) -> Self {
        Self {
            disk: TracedDisk::new(disk_faults.clone()),
            disk_faults,
            profile: Profile::STANDARD,
            events: BTreeMap::new(),
            starts: Rng::new(seed ^ 0x057A_2700),
            node: None,
            inbox: VecDeque::new(),
            premature_ack: PrematureAck::default(),
            crossed: CrossedNamespaces::default(),
            writes: VecDeque::new(),
            others: VecDeque::new(),
        }
    }

    /// Hands commands for a namespace over.
    pub(crate) fn submit(&mut self, id: NamespaceId, batch: Batch) {
        if !batch.commands.is_empty() {
            self.inbox.push_back(Input::Batch(id, batch));
        }
    }

    /// Hands a change of the namespaces over.
    pub(crate) fn change(&mut self, command: NamespaceCommand) {
        self.inbox.push_back(Input::Change(command));
    }

    /// The digest of all that its journals wrote.
    pub(crate) fn journal(&self) -> Digest {
        self.disk.digest()
    }

    /// Whether anything waits for the node or the disk.
    pub(crate) fn is_busy(&self) -> bool {
        let waits = self.node.as_ref().is_some_and(|node| node.has_deferred() && node.fault().is_none());
        waits || !self.inbox.is_empty() || !self.writes.is_empty() || !self.others.is_empty()
    }

    /// Whether the process is about to end by itself.
    pub(crate) fn is_broken(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.fault().is_some())
    }

    /// Time of the node's next wake-up, in milliseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.node.as_ref().and_then(Node::deadline).map(Timestamp::as_millis)
    }

    /// The node does one round.
    pub(crate) fn node_step(&mut self, now: u64, rng: &mut Rng) {
        let Some(node) = &mut self.node else { return };
        let now = Timestamp::from_millis(now);
        match self.inbox.pop_front() {
            Some(Input::Batch(id, mut batch)) => {
                self.crossed.divert(node, now, id, &mut batch);
                self.premature_ack.handle_batch(node, now, id, batch);
            }
            Some(Input::Change(command)) if !self.crossed.keeps(node, &command) => {
                node.change_namespace(now, NamespaceRequest { client: SETUP, ticket: Ticket(0) }, command);
            }
            Some(Input::Change(_)) | None => {}
        }
        node.work(now);
        if rng.chance(5) {
            node.notice_idle();
        }
        self.collect_io();
    }

    fn collect_io(&mut self) {
        while let Some(request) = self.node.as_mut().and_then(Node::poll_io) {
            if request.is_write() {
                self.writes.push_back(request);
            } else {
                self.others.push_back(request);
            }
        }
    }

    /// One of the two disk threads finishes something.
    pub(crate) fn disk_step(&mut self, rng: &mut Rng) {
        let Some(request) = self.next_io(rng) else { return };
        let done = DiskWorker::new(self.disk.clone()).perform(request);
        if let Some(node) = &mut self.node {
            node.handle_io(done);
            self.collect_io();
        }
    }

    fn next_io(&mut self, rng: &mut Rng) -> Option<IoRequest> {
        if rng.chance(50) {
            self.writes.pop_front().or_else(|| self.others.pop_front())
        } else {
            self.others.pop_front().or_else(|| self.writes.pop_front())
        }
    }

    /// Definitions that have changed for good. To be asked for before [`Process::released`].
    pub(crate) fn namespace_changes(&mut self) -> Vec<NamespaceDefinition> {
        let told = self.crossed.take_changes().into_iter();
        let node = self.node.iter_mut().flat_map(|node| std::iter::from_fn(|| node.poll_namespace_change()));
        told.chain(node).collect()
    }

    /// Effects that clients may see, because the records that they depend on are durable.
    pub(crate) fn released(&mut self) -> Vec<Released> {
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

    /// Kills the process, and in some cases the machine.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.node = None;
        self.premature_ack.forget();
        self.crossed.forget();
        if rng.chance(50)
            && let Some(request) = self.next_io(rng)
        {
            // The disk may have finished what it was asked, and nobody was told.
            drop(DiskWorker::new(self.disk.clone()).perform(request));
        }
        if rng.chance(70) {
            self.disk.crash();
        }
        self.writes.clear();
        self.others.clear();
        self.inbox.clear();
    }
}
