//! The lives of the namespaces of a run: all but the first one are deleted with clients connected, and created again under
//! the same name.
//!
//! Invariant: a deletion, a creation or a setup whose answer was lost is asked for again until the broker confirms it.

use amqp_gateway::CloseReason;
use broker_core::{ClientId, Effect, NamespaceDefinition, NamespaceState, Ticket};
use broker_node::{NamespaceCommand, NamespaceId};

use super::{
    Connection, World,
    deletions::EntityDeletions,
    departures::Departures,
    tenant::{Life, Tenant},
};
use crate::{
    client::Purpose,
    plan::SETUP,
    process::{NamespaceSetup, Residence},
};

/// One step in this many deletes a namespace.
const DELETE_EVERY: u64 = 400;
/// One step in this many creates it again, or asks again for what was lost.
const CREATE_EVERY: u64 = 40;

/// Creates, deletes and restarts the namespaces of a world.
pub(super) struct TenantLife<'a, 'w> {
    world: &'a mut World<'w>,
}

impl<'a, 'w> TenantLife<'a, 'w> {
    pub(super) fn of(world: &'a mut World<'w>) -> Self {
        Self { world }
    }
}

impl TenantLife<'_, '_> {
    /// The namespaces that a start finds or creates.
    pub(super) fn setups(&self) -> Vec<NamespaceSetup> {
        let expected =
            self.world.tenants.iter().filter(|tenant| !matches!(tenant.life, Life::Deleting | Life::Gone));
        expected.map(|tenant| tenant.setup(self.world.plan)).collect()
    }

    /// After a start each namespace is there with its entities, except those that are to be deleted.
    pub(super) fn after_boot(&mut self) -> Result<(), String> {
        for number in 0..self.world.tenants.len() {
            self.recovered(number)?;
            let Some(tenant) = self.world.tenants.get_mut(number) else { continue };
            if !matches!(tenant.life, Life::Deleting | Life::Gone) {
                self.enter_life(number);
            }
        }
        self.world.process.check_accounts()
    }

    /// After the start of one shard its namespaces are there, and what was asked of them without an answer is asked again.
    pub(super) fn after_restart(&mut self, shard: usize) -> Result<(), String> {
        for number in 0..self.world.tenants.len() {
            if self.world.tenant(number).shard != shard {
                continue;
            }
            self.recovered(number)?;
            let Some(tenant) = self.world.tenants.get(number) else { continue };
            match (tenant.life, self.world.process.namespace(tenant.name()).cloned()) {
                (Life::Creating, Some(definition)) => self.namespace_created(number, shard, &definition),
                (Life::Creating, None) => self.world.tenant(number).gone(),
                (Life::Filling(_), _) => self.fill(number),
                (Life::Active, _) => self.let_in(number),
                (Life::Deleting | Life::Gone, _) => {}
            }
        }
        self.world.process.check_accounts()
    }

    /// Takes in what a journal has kept of a namespace.
    fn recovered(&mut self, number: usize) -> Result<(), String> {
        let Some(tenant) = self.world.tenants.get_mut(number) else { return Ok(()) };
        let found = self.world.process.namespace(tenant.name());
        tenant.shard = self.world.process.shard_of(tenant.name()).unwrap_or(tenant.shard);
        if let Some(found) = found.filter(|found| found.state == NamespaceState::Active) {
            tenant.settings.recovered(&found.settings)?;
        }
        let is_found = found.is_some();
        if tenant.settings.is_held() {
            // Nothing of those who were about to connect has arrived.
            let here = self.world.connections.extract_if(.., |connection| connection.tenant == number);
            tenant.waiting.extend(here.map(|connection| connection.client.purpose()));
        }
        match tenant.life {
            Life::Deleting if !is_found => tenant.gone(),
            Life::Deleting => self.request_deletion(number),
            Life::Gone => {}
            _ => tenant.residence = self.world.process.residence(tenant.name()),
        }
        Ok(())
    }

    /// The namespace has its entities, and its clients come.
    fn enter_life(&mut self, number: usize) {
        let recreated = self.world.plan.topology.recreated();
        let tenant = self.world.tenant(number);
        (tenant.life, tenant.is_created) = (Life::Active, true);
        for entity in recreated {
            tenant.model.lifetimes.created(entity);
        }
        self.let_in(number);
    }

    /// Those who wait for the namespace connect, if it takes them.
    pub(super) fn let_in(&mut self, number: usize) {
        let tenant = self.world.tenant(number);
        if tenant.is_open() {
            for purpose in std::mem::take(&mut tenant.waiting) {
                self.world.connect(number, purpose);
            }
        }
    }

    /// A client that lost its connection connects again, at once or when its namespace takes clients again.
    pub(super) fn reconnect(&mut self, number: usize, purpose: Purpose) {
        if self.world.tenant(number).is_open() {
            self.world.connect(number, purpose);
        } else {
            self.world.tenant(number).waiting.push(purpose);
        }
    }

    /// Deletes namespaces and creates them again, by chance.
    pub(super) fn change_namespaces(&mut self) {
        for number in 1..self.world.tenants.len() {
            let every = if self.world.tenant(number).is_active() { DELETE_EVERY } else { CREATE_EVERY };
            if self.world.rng.below(every) == 0 {
                self.change_namespace(number);
            }
        }
    }

    /// Asks for the next step in the life of a namespace.
    fn change_namespace(&mut self, number: usize) {
        let plan = self.world.plan;
        match self.world.tenant(number).life {
            Life::Active => self.request_deletion(number),
            Life::Gone => {
                let shard = self.world.process.least_loaded(&self.connections_by_shard(), &[]);
                let tenant = self.world.tenant(number);
                tenant.begin_life(plan, shard);
                let put = tenant.setup(plan).put(None);
                self.world.process.change(shard, put);
            }
            Life::Filling(_) => self.fill(number),
            Life::Deleting | Life::Creating => {}
        }
    }

    fn connections_by_shard(&self) -> Vec<usize> {
        let placed = |shard| {
            let all = self.world.connections.iter().filter_map(|connection| connection.namespace);
            all.filter(|residence| residence.shard == shard).count()
        };
        (0..self.world.process.shards()).map(placed).collect()
    }

    fn request_deletion(&mut self, number: usize) {
        let tenant = self.world.tenant(number);
        (tenant.life, tenant.is_created) = (Life::Deleting, false);
        let (name, shard) = (tenant.name().into(), tenant.shard);
        self.world.process.change(shard, NamespaceCommand::Delete { name });
    }

    /// Asks for the entities of a new namespace.
    fn fill(&mut self, number: usize) {
        let batch = self.world.plan.topology.setup();
        // All but the first and the last one, which connect and disconnect, are answered.
        let tenant = self.world.tenant(number);
        tenant.life = Life::Filling(batch.commands.len().saturating_sub(2));
        if let Some(residence) = tenant.residence {
            self.world.process.submit(residence, batch);
        }
    }

    /// An answer about an entity of a new namespace.
    fn filled(&mut self, number: usize, effects: &[Effect]) {
        let answers = |effect: &&Effect| {
            matches!(
                effect,
                Effect::EntityDone { ticket: Ticket(0) }
                    | Effect::RequestRefused {
                        ticket: Ticket(0),
                        error: broker_core::EntityError::AlreadyExists(_)
                    }
            )
        };
        let tenant = self.world.tenant(number);
        if let Life::Filling(left) = &mut tenant.life {
            *left = left.saturating_sub(effects.iter().filter(answers).count());
            if *left == 0 {
                self.enter_life(number);
            }
        }
    }

    /// Follows the definitions as the server does.
    fn follow_namespaces(&mut self) -> Result<(), String> {
        for (shard, definition) in self.world.process.namespace_changes() {
            let named = |tenant: &Tenant| *tenant.name() == *definition.name;
            let Some(number) = self.world.tenants.iter().position(named) else { continue };
            match definition.state {
                NamespaceState::Deleting => self.deletion_begins(number)?,
                NamespaceState::Deleted => {
                    self.world.tenant(number).gone();
                    self.world.report.count("namespaces deleted");
                }
                NamespaceState::Active => {
                    self.namespace_created(number, shard, &definition);
                    self.settings_told(number, &definition)?;
                }
            }
        }
        Ok(())
    }

    fn namespace_created(&mut self, number: usize, shard: usize, definition: &NamespaceDefinition) {
        let tenant = self.world.tenant(number);
        if tenant.life == Life::Creating {
            (tenant.residence, tenant.is_created) =
                (Some(Residence { shard, id: NamespaceId::of(definition) }), true);
            self.world.report.count("namespaces created");
            if shard > 0 {
                self.world.report.count("namespaces created behind the first shard");
            }
            self.fill(number);
        }
    }

    /// The settings of a namespace have changed: it is held, or let go, or neither.
    fn settings_told(&mut self, number: usize, definition: &NamespaceDefinition) -> Result<(), String> {
        let tenant = self.world.tenant(number);
        let was_held = tenant.settings.is_held();
        tenant.settings.told(&definition.settings);
        match (was_held, tenant.settings.is_held()) {
            (false, true) => {
                self.world.report.count("namespaces held");
                let leaves = |connection: &Connection| connection.tenant == number;
                Departures::of(self.world).leave(leaves, CloseReason::NamespaceHeld)
            }
            (true, false) => {
                self.world.report.count("namespaces let go");
                self.let_in(number);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The namespace is being deleted: its connections are closed, and what they had is void.
    fn deletion_begins(&mut self, number: usize) -> Result<(), String> {
        let leaves = |connection: &Connection| connection.tenant == number;
        Departures::of(self.world).leave(leaves, CloseReason::NamespaceDeleted)?;
        let plan = self.world.plan;
        let before = self.world.tenant(number).forget(plan);
        self.world.report.add(before);
        Ok(())
    }

    /// Drives all lives on until every namespace is there.
    pub(super) fn finish_namespaces(&mut self) -> Result<(), String> {
        for _ in 0..200 {
            if self.world.tenants.iter().all(Tenant::is_active) {
                return Ok(());
            }
            for number in 1..self.world.tenants.len() {
                if !self.world.tenant(number).is_active() {
                    self.change_namespace(number);
                }
            }
            self.world.work()?;
        }
        let lives: Vec<Life> = self.world.tenants.iter().map(|tenant| tenant.life).collect();
        Err(format!("deletions and creations of namespaces end: {lives:?}"))
    }

    /// The namespace that is there.
    fn tenant_of(&self, residence: Residence) -> Option<usize> {
        self.world.tenants.iter().position(|tenant| tenant.residence == Some(residence))
    }

    /// Shows what was released to its clients.
    pub(super) fn release(&mut self) -> Result<(), String> {
        self.follow_namespaces()?;
        let World { tenants, process, .. } = &mut *self.world;
        for tenant in tenants.iter_mut() {
            if tenant.residence.is_some_and(|residence| process.hides_messages_of_sessions(residence)) {
                tenant.model.sessions.passing_hidden();
            }
        }
        for (residence, released) in self.world.process.released() {
            if released.client == SETUP {
                let Some(number) = self.tenant_of(residence) else { continue };
                self.filled(number, &released.effects);
                self.world.tenant(number).settings.answered(&released.effects)?;
                EntityDeletions::of(self.world).deletions_done(number, released.effects);
            } else if let Some(connection) = self.connection_of(residence, released.client) {
                connection.effects.extend(released.effects);
            }
        }
        Ok(())
    }

    fn connection_of(&mut self, residence: Residence, client: ClientId) -> Option<&mut Connection> {
        let mut all = self.world.connections.iter_mut();
        all.find(|connection| (connection.namespace, connection.id) == (Some(residence), client))
    }
}
