//! Lifetimes of entities that are deleted and created again under one name.
//!
//! Invariant: nothing that was in an entity when its deletion was asked for comes out of one that was found after the
//! broker had confirmed it.

use super::{
    Broken, EntityIndex, Id, Location, Message, Model, ObservedDelivery, Removal, SendGroupId, broken,
};

/// Number of deletions of an entity before this incarnation of it was created.
pub(crate) type Incarnation = u32;

/// Requested and confirmed deletions of one entity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeletionState {
    /// Requested deletions: an upper bound.
    requested: Incarnation,
    /// Confirmed deletions: a lower bound.
    done: Incarnation,
    /// It is unknown whether the entity exists.
    missing: bool,
}

/// Range of incarnations of one entity. It is a range because a client does not see when a requested deletion happens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Incarnations {
    /// Oldest possible incarnation.
    pub(crate) first: Incarnation,
    /// Newest possible incarnation; `None`: unbounded.
    pub(crate) last: Option<Incarnation>,
}

impl Incarnations {
    /// Incarnations that both ranges hold; `None` where there is none.
    fn intersection(self, other: Self) -> Option<Self> {
        let first = self.first.max(other.first);
        let last = self.last.into_iter().chain(other.last).min();
        last.is_none_or(|last| first <= last).then_some(Self { first, last })
    }

    /// The incarnation, where the range holds one only.
    fn single(self) -> Option<Incarnation> {
        self.last.filter(|last| *last == self.first)
    }
}

/// Properties of the path of a message that decide which incarnation it can reach.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendPath {
    /// Incarnations that a message can reach that is sent on a link.
    pub(crate) link: Option<Incarnations>,
    /// The message may arrive after the broker has accepted it.
    pub(crate) late: bool,
    /// Copies are made for the subscriptions that exist at the time.
    pub(crate) copies: bool,
}

impl Message {
    /// `deletion_state` is that of its entity, `onward` that of the target of its dead letters.
    pub(super) fn sent_on(
        mut self,
        send_path: SendPath,
        deletion_state: DeletionState,
        onward: DeletionState,
    ) -> Self {
        self.incarnations =
            Incarnations { first: deletion_state.done, last: send_path.link.and_then(|link| link.last) };
        self.onward = Incarnations { first: onward.done, last: None };
        self.late = send_path.late;
        // In a transaction what is sent on a link that was of a deleted entity is overlooked, and the rest may be committed.
        let may_be_late = send_path.link.is_some_and(|link| link.first < deletion_state.done);
        self.sure = !(may_be_late || send_path.copies && deletion_state.missing);
        self
    }

    /// Incarnation of its entity, where that is known.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        match self.location {
            Location::Home | Location::Transfer => self.incarnations.single(),
            Location::DeadLetterTarget(_) => self.onward.single(),
            Location::FailedForward(_) => Some(0),
        }
    }
}

impl Model {
    pub(super) fn deletion_state(&self, entity: EntityIndex) -> DeletionState {
        self.deletion_states.get(&entity).copied().unwrap_or_default()
    }

    /// The deletion of an entity is requested, once more if the first answer was lost.
    pub(crate) fn deleting(&mut self, entity: EntityIndex) {
        let deletion_state = self.deletion_states.entry(entity).or_default();
        (deletion_state.requested, deletion_state.missing) = (deletion_state.done + 1, true);
    }

    /// The broker confirmed it.
    pub(crate) fn deleted(&mut self, entity: EntityIndex) {
        self.count("entities deleted");
        let deletion_state = self.deletion_states.entry(entity).or_default();
        deletion_state.done = deletion_state.requested;
    }

    /// The broker has created it, or says that it exists.
    pub(crate) fn created(&mut self, entity: EntityIndex) {
        let deletion_state = self.deletion_states.entry(entity).or_default();
        deletion_state.missing &= deletion_state.requested != deletion_state.done;
    }

    /// Whether a deletion is under way.
    pub(crate) fn is_deleting(&self, entity: EntityIndex) -> bool {
        let deletion_state = self.deletion_state(entity);
        deletion_state.requested != deletion_state.done
    }

    /// Whether it is to be made anew.
    pub(crate) fn is_missing(&self, entity: EntityIndex) -> bool {
        self.deletion_state(entity).missing
    }

    /// Whether an open transaction is to complete something of an entity.
    pub(crate) fn is_enlisted(&self, entity: EntityIndex) -> bool {
        self.messages.iter().any(|((_, other), message)| {
            message.received_at(*other) == entity
                && message.lock.is_some()
                && matches!(message.removal, Removal::Completing(Some(_)))
        })
    }

    /// Whether what a transaction would complete may have been deleted.
    pub(crate) fn may_have_lost_an_entity(&self, group: SendGroupId) -> bool {
        let completes = self.groups.get(&group).map(|group| group.completes.as_slice()).unwrap_or_default();
        completes
            .iter()
            .any(|copy| self.messages.get(copy).is_some_and(|message| self.may_be_deleted(copy.1, message)))
    }

    /// Oldest incarnation that a link can find from now on.
    pub(crate) fn first_incarnation(&self, entity: EntityIndex) -> Incarnation {
        self.deletion_state(entity).done
    }

    /// Incarnations that a client can have found that asked when `first` was the oldest, and has the reply now.
    pub(crate) fn incarnations_since(&self, entity: EntityIndex, first: Incarnation) -> Incarnations {
        Incarnations { first, last: Some(self.deletion_state(entity).requested) }
    }

    /// The broker detaches a link because its entity is gone.
    pub(crate) fn check_left(
        &mut self,
        entity: EntityIndex,
        incarnations: Incarnations,
    ) -> Result<(), Broken> {
        self.count("links detached by deletions");
        if self.deletion_state(entity).requested <= incarnations.first {
            return broken(
                entity as u64,
                "a link lasts as long as its entity",
                &(incarnations, self.deletion_state(entity)),
            );
        }
        Ok(())
    }

    /// The same of a link that receives: what it held in transactions is gone with it.
    pub(crate) fn detached_by_deletion(
        &mut self,
        entity: EntityIndex,
        incarnations: Incarnations,
        holder: u64,
    ) -> Result<(), Broken> {
        self.check_left(entity, incarnations)?;
        let mut lost = Vec::new();
        for ((_, other), message) in &mut self.messages {
            if message.received_at(*other) == entity
                && message.lock.take_if(|lock| lock.holder == holder).is_some()
                && let Removal::Completing(Some(group)) = message.removal
            {
                lost.push(group);
            }
        }
        // A transaction whose commit was requested before may have committed.
        for group in lost.into_iter().filter(|group| !self.is_ending(*group)).collect::<Vec<_>>() {
            self.count("transactions that lost an entity");
            self.undone(group)?;
        }
        Ok(())
    }

    /// Whether a link is still there whose entity was deleted.
    pub(crate) fn check_link(&self, entity: EntityIndex, incarnations: Incarnations) -> Result<(), Broken> {
        let deletion_state = self.deletion_state(entity);
        if incarnations.last.is_some_and(|last| last < deletion_state.done) {
            return broken(entity as u64, "a link goes with its entity", &(incarnations, deletion_state));
        }
        Ok(())
    }

    /// The message exists, and so it has arrived, if it arrives at once: no later than now.
    pub(super) fn arrived(&mut self, (id, entity): (Id, EntityIndex)) {
        let requested = self.deletion_state(entity).requested;
        if let Some(message) = self.messages.get_mut(&(id, entity)).filter(|message| !message.late) {
            let last = message.incarnations.last.map_or(requested, |last| last.min(requested));
            message.incarnations.last = Some(last);
        }
    }

    /// Whether a message is in the entity in which it is seen.
    pub(super) fn check_incarnation(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let Some(message) = self.messages.get_mut(&(observed.id, observed.entity)) else { return Ok(()) };
        let incarnations = match observed.location {
            Location::Home | Location::Transfer => &mut message.incarnations,
            Location::DeadLetterTarget(_) => &mut message.onward,
            Location::FailedForward(_) => return Ok(()),
        };
        let Some(common) = incarnations.intersection(observed.incarnations) else {
            return broken(observed.id, "nothing of a deleted entity comes again", &(observed, message));
        };
        *incarnations = common;
        Ok(())
    }

    /// Whether it may be gone with its entity, or come when there was none.
    pub(super) fn may_be_deleted(&self, entity: EntityIndex, message: &Message) -> bool {
        let goes = |entity, incarnations: Incarnations| {
            let requested = self.deletion_state(entity).requested;
            incarnations.first < requested
                || incarnations.intersection(Incarnations { first: requested, last: None }).is_none()
        };
        let target_goes = |dead_letter_target: &EntityIndex| goes(*dead_letter_target, message.onward);
        match message.location {
            Location::Home => {
                let unseen = self.dead_letter_targets.get(&entity).is_some_and(target_goes);
                unseen || !message.sure || goes(entity, message.incarnations)
            }
            Location::Transfer => goes(entity, message.incarnations),
            Location::DeadLetterTarget(dead_letter_target) => target_goes(&dead_letter_target),
            Location::FailedForward(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
