//! One namespace of the run, with its clients, its model and its life.
//!
//! Invariant: nothing of one life is known in the next one.

use std::sync::Arc;

use amqp_gateway::{GatewayConfig, GatewayNamespace, Now, Placement, PlacementRefusal, PlacementRequest};
use broker_auth::{Anonymous, Authority, Credentials};
use broker_core::DEFAULT_NAMESPACE;

use super::{Connection, deletions::Deletions, settings::Settings};
use crate::{
    client::Purpose,
    model::Model,
    plan::{Plan, PlantedFault},
    process::{NamespaceSetup, Residence},
};

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
    pub(super) life: Life,
    /// Number of its life, from 1 on; the default namespace has one, with the number 0.
    lives: u64,
    /// Its creation was answered, and its deletion not asked for.
    pub(super) is_created: bool,
    /// The shard in which it is, or is to be created.
    pub(super) shard: usize,
    pub(super) residence: Option<Residence>,
    pub(super) settings: Settings,
    pub(super) next_client: u64,
    pub(super) model: Model,
    pub(super) deletions: Deletions,
    /// Clients that connect when it is there again, and not held.
    pub(super) waiting: Vec<Purpose>,
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
            shard: 0,
            residence: None,
            settings: Settings::default(),
            next_client: 1,
            model: Model::default(),
            deletions: Deletions::default(),
            waiting: Vec::new(),
        };
        tenant.forget(plan);
        tenant
    }

    /// Another life begins: nothing of the one before may be seen in it.
    pub(super) fn forget(&mut self, plan: &Plan) -> Model {
        let first = (self.lives * 8 + self.number) * LIFE_IDS;
        let mut model = Model::new(plan.topology.dead_letter_targets(), plan.topology.partitioned());
        model.may_be_full = plan.max_disk_bytes.is_some() || plan.disk_fails > 0;
        self.deletions = Deletions::default();
        self.settings = Settings::default();
        std::mem::replace(&mut self.model, model.with_ids_above(first))
    }

    /// It is to be created again.
    pub(super) fn begin_life(&mut self, plan: &Plan, shard: usize) {
        (self.life, self.lives, self.shard) = (Life::Creating, self.lives + 1, shard);
        // The numbers of its messages belong to this life.
        self.forget(plan);
    }

    /// It is gone from its shard.
    pub(super) fn gone(&mut self) {
        (self.life, self.residence) = (Life::Gone, None);
    }

    /// The broker was killed, or its shard was.
    pub(super) fn restarted(&mut self, now: u64) {
        self.model.restarted(now);
        self.deletions = Deletions::default();
        self.settings.restarted();
    }

    pub(super) fn gateway(&self) -> &GatewayNamespace {
        &self.gateway
    }

    pub(super) fn name(&self) -> &str {
        &self.gateway.name
    }

    /// Host name with which its clients open: the default namespace needs none.
    pub(super) fn hostname(&self) -> Option<String> {
        (self.number > 0).then(|| format!("{}.example", self.name()))
    }

    pub(super) fn is_active(&self) -> bool {
        self.life == Life::Active
    }

    /// Clients may connect.
    pub(super) fn is_open(&self) -> bool {
        self.is_active() && !self.settings.is_held()
    }

    /// Clients may use it, or do until they are told otherwise.
    fn takes_clients(&self) -> bool {
        matches!(self.life, Life::Active | Life::Deleting)
    }

    pub(super) fn setup(&self, plan: &Plan) -> NamespaceSetup {
        let (name, uid) = (self.gateway.name.as_ref().into(), self.uid());
        NamespaceSetup { name, uid, was_created: self.is_created, batch: plan.topology.setup() }
    }

    /// Random id of its current life: the default namespace has none.
    fn uid(&self) -> u128 {
        if self.number == 0 { 0 } else { u128::from(self.lives << 8 | self.number) }
    }
}

/// The namespace that a gateway has to be told of.
fn placement(tenants: &[Tenant], request: &PlacementRequest, plan: &Plan) -> (Placement, Option<usize>) {
    let default = tenants.first().map(Tenant::gateway).cloned();
    match (request, default) {
        (PlacementRequest::Login { .. }, Some(default)) if tenants.len() == 1 => {
            (Placement::To(default), None)
        }
        (PlacementRequest::Login { .. }, Some(default)) => (Placement::Uncertain(default), None),
        (PlacementRequest::Open { hostname, .. }, _) => {
            let meant = |tenant: &Tenant| tenant.hostname().as_deref() == hostname.as_deref();
            let found = tenants.iter().position(|tenant| meant(tenant) && tenant.takes_clients());
            let Some((number, tenant)) = found.and_then(|number| Some((number, tenants.get(number)?))) else {
                return (unknown(), None);
            };
            if tenant.settings.is_held() && plan.topology.is_free_of(PlantedFault::HoldLetsIn) {
                let namespace = Arc::clone(&tenant.gateway.name);
                return (Placement::Refused(PlacementRefusal::OnHold { namespace }), None);
            }
            (Placement::To(tenant.gateway.clone()), Some(number))
        }
        (PlacementRequest::Login { .. }, None) => (unknown(), None),
    }
}

fn unknown() -> Placement {
    Placement::Refused(PlacementRefusal::Unknown { hostname: Box::default() })
}

/// Answers a gateway that asks where its client means to be.
pub(super) fn answer_placements(connection: &mut Connection, tenants: &[Tenant], plan: &Plan, now: Now) {
    while let Some(request) = connection.gateway.take_placement_request() {
        let (placement, number) = placement(tenants, &request, plan);
        if let Some(tenant) = number.and_then(|number| tenants.get(number)) {
            connection.namespace = tenant.residence;
        }
        connection.gateway.handle_placement(now, placement);
    }
}
