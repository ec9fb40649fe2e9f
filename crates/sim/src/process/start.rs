//! Start of the process: without faults, killed at any disk call, or on a disk that fails or is full, several times in a
//! row.
//!
//! Invariant: after any number of failed starts, a start without faults succeeds.

use std::sync::atomic::Ordering;

use broker_core::{CoreConfig, DEFAULT_NAMESPACE};
use broker_log::{Durability, JournalConfig};
use broker_node::{Node, NodeLimits, RecoveryError};

use super::{NamespaceSetup, Process, round::RoundPlan};
use crate::{
    disk::{ArmedFault, StartFault},
    plan::{Durable, Plan, PlantedFault, Topology},
    rng::Rng,
    traced_disk::TracedDisk,
};

impl Process {
    /// Starts on what is on the disk, and does what `setup` asks. Some starts before may come to nothing.
    pub(crate) fn boot(
        &mut self,
        (plan, now): (&Plan, u64),
        rng: &mut Rng,
        setups: &[NamespaceSetup],
    ) -> Result<(), String> {
        self.disk_faults.calm.store(true, Ordering::Relaxed);
        while self.shards.len() < plan.shards && self.starts.chance(60) {
            self.add_shard();
        }
        let round_plan = RoundPlan::of(plan);
        self.shards.iter_mut().for_each(|shard| shard.plant(&plan.topology, round_plan));
        let mut vain = 0;
        while self.starts.chance(plan.disturb) {
            if self.disturbed_start((plan, now), setups)? {
                self.disk_faults.calm.store(false, Ordering::Relaxed);
                return Ok(());
            }
            vain += 1;
            self.count_start(if vain == 1 { "starts in vain" } else { "starts in vain after another" });
        }
        if !self.start((plan, now), rng, setups)? {
            return Err(format!("nothing failed, and the start did: {:?}", self.fault()));
        }
        self.disk_faults.calm.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// A start to which something happens. True: the broker runs nevertheless.
    fn disturbed_start(
        &mut self,
        (plan, now): (&Plan, u64),
        setups: &[NamespaceSetup],
    ) -> Result<bool, String> {
        let mut rng = self.starts.fork();
        let armed_fault = ArmedFault::draw(&mut rng);
        self.disk_faults.arm(armed_fault);
        let runs = self.start((plan, now), &mut rng, setups)?;
        if self.disk_faults.take_armed_fault() {
            self.count_start(match (armed_fault.mishap, runs) {
                (StartFault::Killed, _) => "starts that were killed",
                (StartFault::Fails, false) => "starts that a disk error ended",
                (StartFault::Fails, true) => "starts in spite of a disk error",
                (StartFault::Full, false) => "starts that a full disk ended",
                (StartFault::Full, true) => "starts in spite of a full disk",
            });
            self.disk_faults
                .failures
                .fetch_add(u64::from(armed_fault.mishap != StartFault::Killed), Ordering::Relaxed);
        }
        if !runs {
            self.crash(&mut rng);
            if !plan.topology.is_free_of(PlantedFault::FailedStartsForget) {
                // The planted fault: what a start in vain has left is taken for nothing.
                for shard in &mut self.shards {
                    shard.disk.replace(self.disk_faults.of_shard(shard.number as u64));
                }
            }
        }
        Ok(runs)
    }

    /// True: the broker runs. False: something happened before it did.
    fn start(
        &mut self,
        (plan, now): (&Plan, u64),
        rng: &mut Rng,
        setups: &[NamespaceSetup],
    ) -> Result<bool, String> {
        for number in 0..self.shards.len() {
            if !self.recover(number, plan, rng)? {
                return Ok(false);
            }
        }
        self.disk_faults.opened();
        self.check_namespaces(setups)?;
        self.put_namespaces(&plan.topology, setups);
        if !self.run_setup(now, rng)? {
            return Ok(false);
        }
        for setup in setups {
            if let Some(residence) = self.residence(&setup.name) {
                self.submit(residence, setup.batch.clone());
            }
        }
        self.run_setup(now, rng)
    }

    /// Asks for each namespace in the shard in which it is, and for those that are missing in the shard with the least to
    /// do.
    fn put_namespaces(&mut self, topology: &Topology, setups: &[NamespaceSetup]) {
        let mut created = Vec::new();
        for setup in setups.iter().filter(|setup| &*setup.name != DEFAULT_NAMESPACE) {
            // The planted fault: nobody looks where a namespace is.
            let home = self.shard_of(&setup.name).filter(|_| topology.is_free_of(PlantedFault::OtherShard));
            let shard = home.unwrap_or_else(|| self.least_loaded(&[], &created));
            if home.is_none() {
                created.push(shard);
            }
            self.change(shard, setup.put(self.namespace(&setup.name)));
        }
    }

    /// A panic ends one of the nodes, and its shard alone is recovered from its journal.
    pub(crate) fn restart_shard(
        &mut self,
        number: usize,
        plan: &Plan,
        rng: &mut Rng,
        setups: &[NamespaceSetup],
    ) -> Result<(), String> {
        if let Some(shard) = self.shards.get_mut(number) {
            shard.kill(rng);
        }
        self.disk_faults.calm.store(true, Ordering::Relaxed);
        if !self.recover(number, plan, rng)? {
            return Err(format!("nothing failed, and the recovery of shard {number} did"));
        }
        self.disk_faults.calm.store(false, Ordering::Relaxed);
        self.check_namespaces(setups)
    }

    /// Does what a start asks. Nobody waits for the answers: what a crash takes away the next start creates. False: something
    /// happened before all was done.
    fn run_setup(&mut self, now: u64, rng: &mut Rng) -> Result<bool, String> {
        while self.is_busy() && !self.is_broken() {
            self.all_nodes_step(now, rng)?;
            self.all_disks_step(rng);
            drop(self.namespace_changes());
            drop(self.released());
            if self.disk_faults.is_killed() {
                return Ok(false);
            }
        }
        Ok(!self.is_broken())
    }

    /// Starts the node of a shard on what its disk kept. False: it refuses, because the disk failed.
    fn recover(&mut self, number: usize, plan: &Plan, rng: &mut Rng) -> Result<bool, String> {
        let Some(shard) = self.shards.get(number) else { return Ok(true) };
        let Some(node) = self.recovered(shard.disk.clone(), plan, rng)? else { return Ok(false) };
        let limits = NodeLimits {
            round_bytes_max: plan.round_bytes,
            unwritten_bytes_max: plan.unwritten_bytes,
            unwritten_bytes_shared: plan.unwritten_shared,
            ..NodeLimits::default()
        };
        if let Some(shard) = self.shards.get_mut(number) {
            shard.begin(node.with_limits(limits));
        }
        Ok(true)
    }

    /// `None`: it refuses, because the disk failed.
    fn recovered(&self, disk: TracedDisk, plan: &Plan, rng: &mut Rng) -> Result<Option<Node>, String> {
        let mut token_key = [0; 16];
        for byte in &mut token_key {
            *byte = rng.next().to_le_bytes()[0];
        }
        let profile = self.profile;
        let core =
            CoreConfig { token_key, describe: amqp_gateway::describe, profile, ..CoreConfig::default() };
        let journal = JournalConfig {
            segment_bytes: plan.segment_bytes,
            cache_bytes: plan.cache_bytes,
            durability: if plan.durable == Durable::Yes { Durability::Fsync } else { Durability::None },
            reserve_bytes: 0,
            max_disk_bytes: plan.max_disk_bytes,
            salt: rng.next(),
            ..JournalConfig::default()
        };
        if plan.durable == Durable::No {
            return Ok(Some(broker_node::in_memory(journal, core)));
        }
        match broker_node::recover(disk, journal, core) {
            Ok(node) => Ok(Some(node)),
            // A failed disk call is never reported as damage.
            Err(RecoveryError::Journal(broker_log::RecoveryError::Disk { .. }))
                if self.disk_faults.has_struck() =>
            {
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn count_start(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    fn fault(&self) -> Option<String> {
        let mut nodes = self.shards.iter().filter_map(|shard| shard.node.as_ref());
        nodes.find_map(Node::fault).map(|fault| fault.to_string())
    }
}
