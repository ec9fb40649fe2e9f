//! Forwarded dead letters, and messages whose forwarding failed.
//!
//! Invariant: a message is at one location: its entity, the target of its dead letters, or the dead letters of the entity
//! that could not forward it.

use std::collections::BTreeMap;

use super::{EntityIndex, Id, Location, Message, Model, deferral::Deferral};

impl Message {
    /// Whether it can be found there next.
    pub(super) fn may_move_to(&self, next: Location) -> bool {
        let may_die = self.location == Location::Home
            && matches!(next, Location::DeadLetterTarget(_) | Location::Transfer);
        may_die || self.sequence.is_none()
    }

    /// It is found there for the first time; what is forwarded arrives like new.
    pub(super) fn move_to(&mut self, next: Location) {
        if self.location == next {
            return;
        }
        self.location = next;
        self.deferral = Deferral::No;
        if next != Location::Transfer {
            (self.sequence, self.delivery_count) = (None, 0);
        }
        // It has left its order, and its session.
        (self.aside, self.session) = (true, None);
    }

    /// Entity from which it is received.
    pub(super) fn received_at(&self, entity: EntityIndex) -> EntityIndex {
        if let Location::DeadLetterTarget(dead_letter_target) = self.location {
            dead_letter_target
        } else {
            entity
        }
    }
}

impl Model {
    /// A model that knows where dead letters are forwarded to.
    pub(crate) fn with_dead_letter_targets(dead_letter_targets: BTreeMap<EntityIndex, EntityIndex>) -> Self {
        Self { dead_letter_targets, ..Self::default() }
    }

    /// Entity to which a message was sent that is received at this one, and its location then.
    pub(crate) fn home(&self, id: Id, at: EntityIndex) -> (EntityIndex, Location) {
        if self.messages.contains_key(&(id, at)) {
            return (at, Location::Home);
        }
        let sent = |entity: &EntityIndex| self.messages.contains_key(&(id, *entity));
        let homes = self
            .dead_letter_targets
            .iter()
            .filter(|(_, dead_letter_target)| **dead_letter_target == at)
            .map(|(entity, _)| *entity);
        homes
            .filter(sent)
            .map(|entity| (entity, Location::DeadLetterTarget(at)))
            .next()
            .unwrap_or((at, Location::Home))
    }
}
