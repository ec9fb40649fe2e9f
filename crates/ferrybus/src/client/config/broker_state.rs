//! Entities and rules of a broker, as its administration API shows them.
//!
//! Invariant: names are found without regard to their case.

use std::collections::BTreeMap;

use broker_admin::client::Described;
use broker_core::{EntityKind, Rule};

use super::limits::Limits;
use crate::client::management::EntityRef;

/// Entities and rules of the broker.
#[derive(Debug)]
pub(super) struct BrokerState {
    pub(super) limits: Limits,
    /// By name in lower case.
    entities: BTreeMap<String, (EntityRef, Described)>,
    rules: BTreeMap<String, Vec<Rule>>,
}

impl BrokerState {
    /// Nothing yet, of a broker with these limits.
    pub(super) const fn of(limits: Limits) -> Self {
        Self { limits, entities: BTreeMap::new(), rules: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, entity_ref: EntityRef, entity: Described) {
        self.entities.insert(entity_ref.path.to_ascii_lowercase(), (entity_ref, entity));
    }

    pub(super) fn add_rules(&mut self, subscription: &EntityRef, rules: Vec<Rule>) {
        self.rules.insert(subscription.path.to_ascii_lowercase(), rules);
    }

    pub(super) fn has(&self, entity_ref: &EntityRef) -> bool {
        self.get(entity_ref).is_some()
    }

    pub(super) fn get(&self, entity_ref: &EntityRef) -> Option<&(EntityRef, Described)> {
        self.entities.get(&entity_ref.path.to_ascii_lowercase())
    }

    pub(super) fn rules(&self, subscription: &EntityRef) -> &[Rule] {
        self.rules.get(&subscription.path.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &EntityRef> {
        self.entities.values().map(|(entity_ref, _)| entity_ref)
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.all()
            .filter(|entity_ref| entity_ref.kind == EntityKind::Topic)
            .map(|entity_ref| entity_ref.path.as_str())
    }
}
