//! Lifetimes of entities that are deleted and created again under one name.
//!
//! Invariant: nothing that was in an entity when its deletion was asked for comes out of one that was found after the
//! broker had confirmed it.

use std::collections::BTreeMap;

use super::incarnation::{DeletionState, Incarnation, Incarnations};
use super::messages::Message;
use super::observed::{Broken, EntityIndex, Location, broken};

/// Deletions of all entities.
#[derive(Debug, Default)]
pub(crate) struct EntityLifetimes(BTreeMap<EntityIndex, DeletionState>);

impl EntityLifetimes {
    pub(super) fn state(&self, entity: EntityIndex) -> DeletionState {
        self.0.get(&entity).copied().unwrap_or_default()
    }

    /// The deletion of an entity is requested, once more if the first answer was lost.
    pub(crate) fn deleting(&mut self, entity: EntityIndex) {
        let state = self.0.entry(entity).or_default();
        (state.requested, state.missing) = (state.done + 1, true);
    }

    /// The broker confirmed it.
    pub(crate) fn deleted(&mut self, entity: EntityIndex) {
        let state = self.0.entry(entity).or_default();
        state.done = state.requested;
    }

    /// The broker has created it, or says that it exists.
    pub(crate) fn created(&mut self, entity: EntityIndex) {
        let state = self.0.entry(entity).or_default();
        state.missing &= state.requested != state.done;
    }

    /// Whether a deletion is under way.
    pub(crate) fn is_deleting(&self, entity: EntityIndex) -> bool {
        let state = self.state(entity);
        state.requested != state.done
    }

    /// Whether it is to be made anew.
    pub(crate) fn is_missing(&self, entity: EntityIndex) -> bool {
        self.state(entity).missing
    }

    /// Oldest incarnation that a link can find from now on.
    pub(crate) fn first_incarnation(&self, entity: EntityIndex) -> Incarnation {
        self.state(entity).done
    }

    /// Incarnations that a client can have found that asked when `first` was the oldest, and has the reply now.
    pub(crate) fn incarnations_since(&self, entity: EntityIndex, first: Incarnation) -> Incarnations {
        Incarnations { first, last: Some(self.state(entity).requested) }
    }

    /// The broker detaches a link because its entity is gone.
    pub(crate) fn check_left(&self, entity: EntityIndex, incarnations: Incarnations) -> Result<(), Broken> {
        let state = self.state(entity);
        if state.requested <= incarnations.first {
            return broken(entity as u64, "a link lasts as long as its entity", &(incarnations, state));
        }
        Ok(())
    }

    /// Whether a link is still there whose entity was deleted.
    pub(crate) fn check_link(&self, entity: EntityIndex, incarnations: Incarnations) -> Result<(), Broken> {
        let state = self.state(entity);
        if incarnations.last.is_some_and(|last| last < state.done) {
            return broken(entity as u64, "a link goes with its entity", &(incarnations, state));
        }
        Ok(())
    }

    /// Whether a message may be gone with its entity, or come when there was none. `target` is the target of the
    /// entity's dead letters.
    pub(super) fn may_have_deleted(
        &self,
        entity: EntityIndex,
        message: &Message,
        target: Option<EntityIndex>,
    ) -> bool {
        let may_be_deleted = |entity, incarnations: Incarnations| {
            let requested = self.state(entity).requested;
            incarnations.first < requested
                || incarnations.intersection(Incarnations { first: requested, last: None }).is_none()
        };
        match message.location {
            Location::Home => {
                let target_may_be_deleted =
                    target.is_some_and(|target| may_be_deleted(target, message.target_incarnations));
                target_may_be_deleted || !message.sure || may_be_deleted(entity, message.incarnations)
            }
            Location::Transfer => may_be_deleted(entity, message.incarnations),
            Location::DeadLetterTarget(target) => may_be_deleted(target, message.target_incarnations),
            Location::FailedForward(_) => false,
        }
    }
}
