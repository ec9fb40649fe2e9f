//! Start of the process: without faults, killed at any disk call, or on a disk that fails or is full, several times in a
//! row.
//!
//! Invariant: after any number of failed starts, a start without faults succeeds.

use std::sync::atomic::Ordering;

use broker_core::{CoreConfig, DEFAULT_NAMESPACE};
use broker_log::{Durability, JournalConfig};
use broker_node::{Node, NodeLimits, RecoveryError};

use super::{Input, NamespaceSetup, Process};
use crate::{
    disk::{ArmedFault, StartFault},
    plan::{Durable, Plan, PlantedFault},
    rng::Rng,
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
        self.premature_ack.plant(&plan.topology);
        self.crossed.plant(&plan.topology);
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
                self.disk.replace(self.disk_faults.clone());
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
        let Some(node) = self.recovered(plan, rng)? else { return Ok(false) };
        self.disk_faults.opened();
        let limits = NodeLimits {
            round_bytes_max: plan.round_bytes,
            unwritten_bytes_max: plan.unwritten_bytes,
            ..NodeLimits::default()
        };
        self.node = Some(node.with_limits(limits));
        self.check_namespaces(setups)?;
        let created = setups.iter().filter(|setup| &*setup.name != DEFAULT_NAMESPACE);
        self.inbox.extend(created.map(|setup| Input::Change(setup.put())));
        if !self.run_setup(now, rng) {
            return Ok(false);
        }
        for setup in setups {
            if let Some(id) = self.namespace_id(&setup.name) {
                self.inbox.push_back(Input::Batch(id, setup.batch.clone()));
            }
        }
        Ok(self.run_setup(now, rng))
    }

    /// Does what a start asks. Nobody waits for the answers: what a crash takes away the next start creates. False: something
    /// happened before all was done.
    fn run_setup(&mut self, now: u64, rng: &mut Rng) -> bool {
        while self.is_busy() && !self.is_broken() {
            self.node_step(now, rng);
            self.disk_step(rng);
            drop(self.namespace_changes());
            drop(self.released());
            if self.disk_faults.is_killed() {
                return false;
            }
        }
        !self.is_broken()
    }

    /// `None`: it refuses, because the disk failed.
    fn recovered(&mut self, plan: &Plan, rng: &mut Rng) -> Result<Option<Node>, String> {
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
        match broker_node::recover(self.disk.clone(), journal, core) {
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
        self.node.as_ref().and_then(Node::fault).map(|fault| fault.to_string())
    }
}
