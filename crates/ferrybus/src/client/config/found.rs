//! What a broker has, as its administration API shows it.
//!
//! Invariant: names are found without regard to their case.

use std::collections::BTreeMap;

use broker_admin::client::Described;
use broker_core::{EntityKind, Rule};

use super::limits::Limits;
use crate::client::management::Place;

/// What the broker has.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) limits: Limits,
    /// By name in lower case.
    entities: BTreeMap<String, (Place, Described)>,
    rules: BTreeMap<String, Vec<Rule>>,
}

impl Found {
    /// Nothing yet, of a broker with these limits.
    pub(super) const fn of(limits: Limits) -> Self {
        Self { limits, entities: BTreeMap::new(), rules: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, place: Place, entity: Described) {
        self.entities.insert(place.path.to_ascii_lowercase(), (place, entity));
    }

    pub(super) fn add_rules(&mut self, subscription: &Place, rules: Vec<Rule>) {
        self.rules.insert(subscription.path.to_ascii_lowercase(), rules);
    }

    pub(super) fn has(&self, place: &Place) -> bool {
        self.get(place).is_some()
    }

    pub(super) fn get(&self, place: &Place) -> Option<&(Place, Described)> {
        self.entities.get(&place.path.to_ascii_lowercase())
    }

    pub(super) fn rules(&self, subscription: &Place) -> &[Rule] {
        self.rules.get(&subscription.path.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Place> {
        self.entities.values().map(|(place, _)| place)
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.all().filter(|place| place.kind == EntityKind::Topic).map(|place| place.path.as_str())
    }
}
