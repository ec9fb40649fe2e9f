//! End of a run: without further faults every remaining message is received.
//!
//! Invariant: no fault strikes here, so a message that is missing now is lost.

use std::sync::atomic::Ordering;

use super::{
    World, deletions::EntityDeletions, departures::Departures, settings::SettingsChanges, tenant::Tenant,
    tenants::TenantLife,
};
use crate::{
    client::{ClientContext, Purpose},
    model::Location,
    plan::SendTarget,
};

impl World<'_> {
    /// Switches the faults off and receives everything.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.check_links()?;
        Departures::of(self).crash();
        self.boot()?;
        self.process.disk_faults.calm.store(true, Ordering::Relaxed);
        self.connections.clear();
        TenantLife::of(self).finish_namespaces()?;
        SettingsChanges::of(self).finish_settings()?;
        self.connections.clear();
        // A full disk may take no new entity before it is drained.
        for _ in 0..4 {
            EntityDeletions::of(self).finish_deletions();
            self.work()?;
        }
        // All schedules are due.
        self.now += 20_000;
        for number in 0..self.tenants.len() {
            self.connect_drains(number);
        }
        let mut idle_rounds = 0;
        while idle_rounds < 4 {
            let before = self.report.wire;
            EntityDeletions::of(self).finish_deletions();
            self.round()?;
            idle_rounds = if self.report.wire == before { idle_rounds + 1 } else { 0 };
            // Locks of the time before run out.
            self.now += 10;
        }
        self.peek_forwarded()?;
        for tenant in &self.tenants {
            tenant.model.check_drained(self.now).map_err(|broken| broken.to_string())?;
        }
        self.process.check_shards()?;
        self.process.check_accounts()
    }

    /// Connects clients that receive all that is left in a namespace.
    fn connect_drains(&mut self, number: usize) {
        for entity in 0..self.plan.topology.count() {
            self.connect(number, Purpose::Drain(entity, false));
            if self.plan.topology.dead_letter_target(entity).is_some() {
                self.connect(number, Purpose::Collect(Location::Transfer, entity));
            } else {
                self.connect(number, Purpose::Drain(entity, true));
            }
        }
        for (forwarder, entity) in self.plan.topology.dead_lettering_forwarders() {
            self.connect(number, Purpose::Collect(Location::FailedForward(forwarder), entity));
        }
    }

    /// Checks that forwarded messages have left the entities that forward.
    fn peek_forwarded(&mut self) -> Result<(), String> {
        self.connections.clear();
        for number in 0..self.tenants.len() {
            for forwarder in 0..self.plan.topology.forwarders.len() {
                self.connect(number, Purpose::PeekForwarder(SendTarget::Forwarder(forwarder)));
            }
            for entity in self.plan.topology.dead_letter_targets().into_keys() {
                self.connect(number, Purpose::PeekDeadLetters(entity));
            }
        }
        (0..4).try_for_each(|_| self.round())
    }

    /// Checks that no link of a deleted entity is left once all frames have arrived.
    fn check_links(&mut self) -> Result<(), String> {
        if self.plan.topology.recreated().is_empty() {
            return Ok(());
        }
        self.process.disk_faults.calm.store(true, Ordering::Relaxed);
        let mut before = None;
        while before != Some(self.report.wire) {
            before = Some(self.report.wire);
            for connection in 0..self.connections.len() {
                self.bytes_to_broker(connection, true);
            }
            self.deliver()?;
        }
        let Self { connections, rng, tenants, plan, now, .. } = self;
        let (topology, body_max, ttl_percent, now) = (&plan.topology, plan.body_max, plan.ttl_percent, *now);
        connections.iter().try_for_each(|connection| {
            let Some(Tenant { model, .. }) = tenants.get_mut(connection.tenant) else { return Ok(()) };
            connection.client.check_links(&ClientContext { rng, model, topology, body_max, ttl_percent, now })
        })
    }

    /// Runs the broker until it is idle.
    pub(super) fn work(&mut self) -> Result<(), String> {
        while self.process.is_busy() {
            self.all_nodes_step()?;
            self.process.all_disks_step(&mut self.rng);
            TenantLife::of(self).release()?;
        }
        self.all_nodes_step()
    }

    fn all_nodes_step(&mut self) -> Result<(), String> {
        self.process.all_nodes_step(self.now, &mut self.rng)?;
        TenantLife::of(self).release()
    }

    /// One turn of every client.
    fn round(&mut self) -> Result<(), String> {
        for connection in 0..self.connections.len() {
            self.client_acts(connection)?;
            self.bytes_to_broker(connection, true);
        }
        self.deliver()
    }

    fn deliver(&mut self) -> Result<(), String> {
        self.work()?;
        for connection in 0..self.connections.len() {
            self.effects_arrive(connection);
            self.bytes_to_client(connection, true)?;
        }
        Ok(())
    }
}
