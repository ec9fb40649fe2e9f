//! The namespaces of a run, each with its clients, its model, and its life: all but the first one are deleted with clients
//! connected, and created again under the same name.
//!
//! Invariant: a deletion, a creation or a setup whose answer was lost is asked for again until the broker confirms it.

use std::sync::Arc;

use amqp_gateway::{
    CloseReason, GatewayConfig, GatewayNamespace, Now, Placement, PlacementRefusal, PlacementRequest,
};
use broker_auth::{Anonymous, Authority, Credentials};
use broker_core::{Batch, ClientId, DEFAULT_NAMESPACE, Effect, NamespaceDefinition, NamespaceState, Ticket};
use broker_node::{NamespaceCommand, NamespaceId};
use bytes::BytesMut;

use super::{
    Connection, World,
    deletions::{Deletions, EntityDeletions},
};
use crate::{
    client::Purpose,
    model::Model,
    plan::{Plan, SETUP},
    process::NamespaceSetup,
};

/// One step in this many deletes a namespace.
const DELETE_EVERY: u64 = 400;
/// One step in this many creates it again, or asks again for what was lost.
const CREATE_EVERY: u64 = 40;
/// Messages of two lives of a namespace, and of two namespaces, have numbers so far apart.
const LIFE_IDS: u64 = 1 << 32;

/// State of a namespace, as the world knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Life {
    /// Its entities are there, and clients may connect.
    Active,
    /// It is to be deleted.
    Deleting,
    /// It is deleted.
    Gone,
    /// It is to be created.
    Creating,
    /// It is created, and so many answers about its entities are missing.
    Filling(usize),
}

/// One namespace of the run.
pub(super) struct Tenant {
    number: u64,
    gateway: GatewayNamespace,
    life: Life,
    /// Number of its life, from 1 on; the default namespace has one, with the number 0.
    lives: u64,
    /// Its creation was answered, and its deletion not asked for.
    is_created: bool,
    pub(super) id: Option<NamespaceId>,
    pub(super) next_client: u64,
    pub(super) model: Model,
    pub(super) deletions: Deletions,
    /// Clients that connect when it is there again.
    waiting: Vec<Purpose>,
}

impl Tenant {
    pub(super) fn new(number: u64, plan: &Plan, config: Arc<GatewayConfig>) -> Self {
        let name = if number == 0 { DEFAULT_NAMESPACE.into() } else { format!("team-{number}").into() };
        let authority = Arc::new(Authority::new(Credentials::development(Anonymous::Deny)));
        let mut tenant = Self {
            number,
            gateway: GatewayNamespace { name, authority, config },
            life: Life::Active,
            lives: number.min(1),
            is_created: number == 0,
            id: None,
            next_client: 1,
            model: Model::default(),
            deletions: Deletions::default(),
            waiting: Vec::new(),
        };
        tenant.forget(plan);
        tenant
    }

    /// Another life begins: nothing of the one before may be seen in it.
    fn forget(&mut self, plan: &Plan) -> Model {
        let first = (self.lives * 8 + self.number) * LIFE_IDS;
        let model = Model::new(plan.topology.dead_letter_targets(), plan.topology.partitioned());
        self.deletions = Deletions::default();
        std::mem::replace(&mut self.model, model.with_ids_above(first))
    }

    /// The broker was killed.
    pub(super) fn restarted(&mut self, now: u64) {
        self.model.restarted(now);
        self.deletions = Deletions::default();
    }

    pub(super) fn gateway(&self) -> &GatewayNamespace {
        &self.gateway
    }

    fn name(&self) -> &str {
        &self.gateway.name
    }

    /// Host name with which its clients open: the default namespace needs none.
    pub(super) fn hostname(&self) -> Option<String> {
        (self.number > 0).then(|| format!("{}.example", self.name()))
    }

    pub(super) fn is_active(&self) -> bool {
        self.life == Life::Active
    }

    /// Clients may use it, or do until they are told otherwise.
    fn takes_clients(&self) -> bool {
        matches!(self.life, Life::Active | Life::Deleting)
    }

    fn setup(&self, plan: &Plan) -> NamespaceSetup {
        let (name, uid) = (self.gateway.name.as_ref().into(), self.uid());
        NamespaceSetup { name, uid, was_created: self.is_created, batch: plan.topology.setup() }
    }

    /// Random id of its current life: the default namespace has none.
    fn uid(&self) -> u128 {
        if self.number == 0 { 0 } else { u128::from(self.lives << 8 | self.number) }
    }
}

/// The namespace that a gateway has to be told of.
fn placement(tenants: &[Tenant], request: &PlacementRequest) -> (Placement, Option<usize>) {
    let default = tenants.first().map(Tenant::gateway).cloned();
    match (request, default) {
        (PlacementRequest::Login { .. }, Some(default)) if tenants.len() == 1 => {
            (Placement::To(default), None)
        }
        (PlacementRequest::Login { .. }, Some(default)) => (Placement::Uncertain(default), None),
        (PlacementRequest::Open { hostname, .. }, _) => {
            let meant = |tenant: &Tenant| tenant.hostname().as_deref() == hostname.as_deref();
            match tenants.iter().position(|tenant| meant(tenant) && tenant.takes_clients()) {
                Some(number) => {
                    let gateway = tenants.get(number).map(|tenant| tenant.gateway.clone());
                    (gateway.map_or_else(unknown, Placement::To), Some(number))
                }
                None => (unknown(), None),
            }
        }
        (PlacementRequest::Login { .. }, None) => (unknown(), None),
    }
}

fn unknown() -> Placement {
    Placement::Refused(PlacementRefusal::Unknown { hostname: Box::default() })
}

/// Answers a gateway that asks where its client means to be.
pub(super) fn answer_placements(connection: &mut Connection, tenants: &[Tenant], now: Now) {
    while let Some(request) = connection.gateway.take_placement_request() {
        let (placement, number) = placement(tenants, &request);
        if let Some(tenant) = number.and_then(|number| tenants.get(number)) {
            connection.namespace = tenant.id;
        }
        connection.gateway.handle_placement(now, placement);
    }
}

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
    pub(super) fn after_boot(&mut self) {
        for number in 0..self.world.tenants.len() {
            let Some(tenant) = self.world.tenants.get_mut(number) else { continue };
            let id = self.world.process.namespace_id(tenant.name());
            let is_found = self.world.process.namespace(tenant.name()).is_some();
            match tenant.life {
                Life::Deleting if !is_found => (tenant.life, tenant.id) = (Life::Gone, None),
                Life::Deleting => self.request_deletion(number),
                Life::Gone => {}
                _ => {
                    tenant.id = id;
                    self.enter_life(number);
                }
            }
        }
    }

    /// The namespace has its entities, and its clients come.
    fn enter_life(&mut self, number: usize) {
        let recreated = self.world.plan.topology.recreated();
        let tenant = self.world.tenant(number);
        (tenant.life, tenant.is_created) = (Life::Active, true);
        for entity in recreated {
            tenant.model.lifetimes.created(entity);
        }
        for purpose in std::mem::take(&mut tenant.waiting) {
            self.world.connect(number, purpose);
        }
    }

    /// A client that lost its connection connects again, at once or when its namespace is there.
    pub(super) fn reconnect(&mut self, number: usize, purpose: Purpose) {
        if self.world.tenant(number).is_active() {
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
        let tenant = self.world.tenant(number);
        match tenant.life {
            Life::Active => self.request_deletion(number),
            Life::Gone => {
                (tenant.life, tenant.lives) = (Life::Creating, tenant.lives + 1);
                // The numbers of its messages belong to this life.
                tenant.forget(plan);
                let put = tenant.setup(plan).put();
                self.world.process.change(put);
            }
            Life::Filling(_) => self.fill(number),
            Life::Deleting | Life::Creating => {}
        }
    }

    fn request_deletion(&mut self, number: usize) {
        let tenant = self.world.tenant(number);
        (tenant.life, tenant.is_created) = (Life::Deleting, false);
        let name = tenant.name().into();
        self.world.process.change(NamespaceCommand::Delete { name });
    }

    /// Asks for the entities of a new namespace.
    fn fill(&mut self, number: usize) {
        let batch = self.world.plan.topology.setup();
        // All but the first and the last one, which connect and disconnect, are answered.
        let tenant = self.world.tenant(number);
        tenant.life = Life::Filling(batch.commands.len().saturating_sub(2));
        if let Some(id) = tenant.id {
            self.world.process.submit(id, batch);
        }
    }

    /// An answer about an entity of a new namespace.
    pub(super) fn filled(&mut self, number: usize, effects: &[Effect]) {
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
    pub(super) fn follow_namespaces(&mut self) -> Result<(), String> {
        for definition in self.world.process.namespace_changes() {
            let named = |tenant: &Tenant| *tenant.name() == *definition.name;
            let Some(number) = self.world.tenants.iter().position(named) else { continue };
            match definition.state {
                NamespaceState::Deleting => self.close_connections(number)?,
                NamespaceState::Deleted => {
                    let tenant = self.world.tenant(number);
                    (tenant.life, tenant.id) = (Life::Gone, None);
                    self.world.report.count("namespaces deleted");
                }
                NamespaceState::Active => self.namespace_created(number, &definition),
            }
        }
        Ok(())
    }

    fn namespace_created(&mut self, number: usize, definition: &NamespaceDefinition) {
        let tenant = self.world.tenant(number);
        if tenant.life == Life::Creating {
            (tenant.id, tenant.is_created) = (Some(NamespaceId::of(definition)), true);
            self.world.report.count("namespaces created");
            self.fill(number);
        }
    }

    /// The namespace is being deleted: its connections are closed, and what they had is void.
    fn close_connections(&mut self, number: usize) -> Result<(), String> {
        let (leaving, staying) = std::mem::take(&mut self.world.connections)
            .into_iter()
            .partition(|connection| connection.tenant == number);
        self.world.connections = staying;
        let leaving: Vec<Connection> = leaving;
        for connection in leaving {
            let purpose = connection.client.purpose();
            self.close_connection(number, connection)?;
            self.world.tenant(number).waiting.push(purpose);
        }
        let plan = self.world.plan;
        let before = self.world.tenant(number).forget(plan);
        self.world.report.add(before);
        Ok(())
    }

    fn close_connection(&mut self, number: usize, mut connection: Connection) -> Result<(), String> {
        let now = self.world.now();
        connection.gateway.close(now, CloseReason::NamespaceDeleted);
        connection.client.expect_close();
        loop {
            let mut out = BytesMut::new();
            connection.gateway.poll_output(now, &mut out, 4096);
            connection.gateway.output_written(out.len());
            if out.is_empty() && connection.to_client.is_empty() {
                break;
            }
            connection.to_client.extend_from_slice(&out);
            let bytes = connection.to_client.split().freeze();
            self.world.report.wire.add(&bytes);
            connection.client.read(&bytes, &mut self.world.cx(number))?;
        }
        if connection.client.was_closed() {
            self.world.report.count("connections closed by a deletion");
        }
        let commands = connection.gateway.disconnected();
        if let Some(id) = connection.namespace {
            self.world.process.submit(id, Batch { client: connection.id, commands });
        }
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

    /// Place of the namespace with this id.
    pub(super) fn tenant_of(&self, id: NamespaceId) -> Option<usize> {
        self.world.tenants.iter().position(|tenant| tenant.id == Some(id))
    }

    /// Shows what was released to its clients.
    pub(super) fn release(&mut self) -> Result<(), String> {
        self.follow_namespaces()?;
        for released in self.world.process.released() {
            let (id, client) = (released.namespace, released.client);
            if client == SETUP {
                let Some(number) = self.tenant_of(id) else { continue };
                self.filled(number, &released.effects);
                EntityDeletions::of(self.world).deletions_done(number, released.effects);
            } else if let Some(connection) = self.connection_of(id, client) {
                connection.effects.extend(released.effects);
            }
        }
        Ok(())
    }

    fn connection_of(&mut self, id: NamespaceId, client: ClientId) -> Option<&mut Connection> {
        let mut all = self.world.connections.iter_mut();
        all.find(|connection| (connection.namespace, connection.id) == (Some(id), client))
    }
}
