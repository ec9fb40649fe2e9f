//! Targets of forwarded dead letters.
//!
//! Invariant: an entity forwards its dead letters to one entity at most.

use std::collections::BTreeMap;

use super::observed::EntityIndex;

/// Entity to which an entity forwards its dead letters.
#[derive(Debug, Default)]
pub(super) struct DeadLetterTargets(BTreeMap<EntityIndex, EntityIndex>);

impl DeadLetterTargets {
    pub(super) fn new(targets: BTreeMap<EntityIndex, EntityIndex>) -> Self {
        Self(targets)
    }

    pub(super) fn of(&self, entity: EntityIndex) -> Option<EntityIndex> {
        self.0.get(&entity).copied()
    }

    /// Entities that forward their dead letters to this one.
    pub(super) fn sources(&self, target: EntityIndex) -> impl Iterator<Item = EntityIndex> {
        self.0.iter().filter(move |(_, known)| **known == target).map(|(entity, _)| *entity)
    }

    /// Entities from which a message can be received that was sent to this one.
    pub(super) fn locations(&self, entity: EntityIndex) -> impl Iterator<Item = EntityIndex> {
        [Some(entity), self.of(entity)].into_iter().flatten()
    }
}
