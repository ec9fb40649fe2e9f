//! The broker's process: its shards, each with a node and two disk threads, and how all of them end.
//!
//! Invariant: what a crash leaves is what the disks kept; the process itself remembers nothing.

use std::collections::BTreeMap;

use broker_core::{Batch, NamespaceDefinition, Profile, Timestamp, is_dynamic_name};
use broker_node::{NamespaceCommand, NamespaceId, Node, Released};

use crate::{digest::Digest, disk::DiskFaults, rng::Rng, traced_disk::TracedDisk};

mod crossing;
mod namespaces;
mod premature_ack;
mod round;
mod settings;
mod shard;
mod start;

pub(crate) use namespaces::NamespaceSetup;
use shard::{DiskEvents, Input, Shard};

/// A namespace of the process: its shard, and its id there.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Residence {
    pub(crate) shard: usize,
    pub(crate) id: NamespaceId,
}

/// A broker that can be killed and started again on what its disks kept.
pub(crate) struct Process {
    pub(crate) disk_faults: DiskFaults,
    pub(crate) profile: Profile,
    /// Faults during starts, with the number of times each happened.
    pub(crate) events: BTreeMap<&'static str, u64>,
    /// A sequence of its own: a run whose starts are left alone is what its seed always gave.
    starts: Rng,
    /// The first one is always there.
    shards: Vec<Shard>,
}

impl Process {
    /// One shard, on an empty disk. `seed`: of what happens to its starts.
    pub(crate) fn new(disk_faults: DiskFaults, seed: u64) -> Self {
        Self {
            shards: vec![Shard::new(0, TracedDisk::new(disk_faults.clone()))],
            disk_faults,
            profile: Profile::STANDARD,
            events: BTreeMap::new(),
            starts: Rng::new(seed ^ 0x057A_2700),
        }
    }

    /// A shard more, with a disk of its own whose writes are in the same digest.
    fn add_shard(&mut self) {
        let number = self.shards.len();
        let disk_faults = self.disk_faults.of_shard(number as u64);
        if let Some(first) = self.shards.first() {
            let disk = first.disk.beside(disk_faults);
            self.shards.push(Shard::new(number, disk));
        }
    }

    /// Number of its shards.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Hands commands for a namespace over.
    pub(crate) fn submit(&mut self, residence: Residence, batch: Batch) {
        if let Some(shard) = self.shards.get_mut(residence.shard).filter(|_| !batch.commands.is_empty()) {
            shard.inbox.push_back(Input::Batch(residence.id, batch));
        }
    }

    /// Hands a change of the namespaces of a shard over.
    pub(crate) fn change(&mut self, shard: usize, command: NamespaceCommand) {
        if let Some(shard) = self.shards.get_mut(shard) {
            shard.inbox.push_back(Input::Change(command));
        }
    }

    /// The digest of all that its journals wrote.
    pub(crate) fn journal(&self) -> Digest {
        self.shards.first().map(|shard| shard.disk.digest()).unwrap_or_default()
    }

    /// Whether anything waits for a node or a disk.
    pub(crate) fn is_busy(&self) -> bool {
        self.shards.iter().any(Shard::is_busy)
    }

    /// Whether the process is about to end by itself.
    pub(crate) fn is_broken(&self) -> bool {
        self.shards.iter().any(Shard::is_broken)
    }

    /// Whether a dynamic node is there, or a subscription of one.
    pub(crate) fn has_dynamic_nodes(&self) -> bool {
        let nodes = self.shards.iter().filter_map(|shard| shard.node.as_ref());
        let mut entities = nodes.flat_map(Node::namespaces).flat_map(|namespace| namespace.core.entities());
        entities.any(|entity| is_dynamic_name(entity.name))
    }

    /// Whether messages of sessions are hidden in a namespace until the next start, because a read of them failed.
    pub(crate) fn hides_messages_of_sessions(&self, residence: Residence) -> bool {
        if !self.events.contains_key(READS_FAILED) {
            return false;
        }
        let node = self.shards.get(residence.shard).and_then(|shard| shard.node.as_ref());
        let core = node.and_then(|node| node.core_of(residence.id));
        core.is_some_and(|core| {
            core.entities().any(|entity| entity.settings.requires_session && entity.damaged > 0)
        })
    }

    /// Time of the next wake-up of a node, in milliseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let nodes = self.shards.iter().filter_map(|shard| shard.node.as_ref());
        nodes.filter_map(Node::deadline).map(Timestamp::as_millis).min()
    }

    /// One of the nodes does a round.
    pub(crate) fn node_step(&mut self, now: u64, rng: &mut Rng) -> Result<(), String> {
        let number = self.any(rng);
        let Some(shard) = self.shards.get_mut(number) else { return Ok(()) };
        shard.step(Timestamp::from_millis(now), rng)
    }

    /// All nodes do a round.
    pub(crate) fn all_nodes_step(&mut self, now: u64, rng: &mut Rng) -> Result<(), String> {
        let now = Timestamp::from_millis(now);
        self.shards.iter_mut().try_for_each(|shard| shard.step(now, rng))
    }

    /// One of the disk threads finishes something.
    pub(crate) fn disk_step(&mut self, rng: &mut Rng) {
        let number = self.any(rng);
        if let Some(shard) = self.shards.get_mut(number) {
            shard.disk_step(&self.disk_faults, rng);
        }
        self.count_disk_events();
    }

    /// A disk thread of each shard finishes something.
    pub(crate) fn all_disks_step(&mut self, rng: &mut Rng) {
        self.shards.iter_mut().for_each(|shard| shard.disk_step(&self.disk_faults, rng));
        self.count_disk_events();
    }

    fn count_disk_events(&mut self) {
        for shard in &mut self.shards {
            let DiskEvents { reads, overtaking, failed, lost } = shard.take_disk_events();
            for (event, count) in [
                ("reads that deliveries have waited for", reads),
                ("reads done before earlier ones", overtaking),
                (READS_FAILED, failed),
                ("reads that a crash ended", lost),
            ] {
                if count > 0 {
                    *self.events.entry(event).or_default() += count;
                }
            }
        }
    }

    /// One of the shards. Where there is one only, nothing is drawn.
    pub(crate) fn any(&self, rng: &mut Rng) -> usize {
        match self.shards.len() {
            0 | 1 => 0,
            count => usize::try_from(rng.below(count as u64)).unwrap_or(0),
        }
    }

    /// Definitions that have changed for good, with their shards. To be asked for before [`Process::released`].
    pub(crate) fn namespace_changes(&mut self) -> Vec<(usize, NamespaceDefinition)> {
        let shards = self.shards.iter_mut();
        let changes = shards.map(|shard| (shard.number, shard.namespace_changes()));
        changes
            .flat_map(|(number, all)| all.into_iter().map(move |definition| (number, definition)))
            .collect()
    }

    /// Effects that clients may see, because the records that they depend on are durable.
    pub(crate) fn released(&mut self) -> Vec<(Residence, Released)> {
        let shards = self.shards.iter_mut();
        let released = shards.map(|shard| (shard.number, shard.released()));
        let of_shard = |(shard, all): (usize, Vec<Released>)| {
            all.into_iter().map(move |released| (Residence { shard, id: released.namespace }, released))
        };
        released.flat_map(of_shard).collect()
    }

    /// Kills the process, and in some cases the machine.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.shards.iter_mut().for_each(|shard| shard.kill(rng));
        if rng.chance(70) {
            self.shards.iter().for_each(|shard| shard.disk.crash());
        }
    }
}

/// Counts reads that failed, each of which may hide a message until the next start.
const READS_FAILED: &str = "reads that failed";
