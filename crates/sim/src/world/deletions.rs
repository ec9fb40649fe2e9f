//! Deletion and recreation of entities that clients are using.
//!
//! Invariant: a deletion whose answer was lost is requested again until the broker confirms it.

use std::collections::BTreeMap;

use broker_core::{Batch, Command, Effect, EntityError, Ticket};

use super::{DEFAULT, World};
use crate::{
    client::{Mode, Purpose},
    model::EntityIndex,
    plan::{PlantedFault, SETUP, SendTarget},
};

/// One step in this many deletes an existing entity.
const DELETE_EVERY: u64 = 500;
/// The same while a transaction works with it.
const DISTURB_EVERY: u64 = 4;
/// One step in this many creates a deleted entity again, or repeats a deletion without an answer.
const CREATE_EVERY: u64 = 60;
/// Both, for an entity to which dead letters are forwarded.
const DEAD_LETTER_TARGET_EVERY: u64 = 200;

/// Kind of a pending request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EntityRequest {
    Delete,
    Create,
}

/// Pending requests by ticket.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    waiting: BTreeMap<Ticket, (EntityRequest, EntityIndex)>,
    next: u64,
}

/// Deletes entities of a world and creates them again.
pub(super) struct EntityDeletions<'a, 'w> {
    world: &'a mut World<'w>,
}

impl<'a, 'w> EntityDeletions<'a, 'w> {
    pub(super) fn of(world: &'a mut World<'w>) -> Self {
        Self { world }
    }
}

impl EntityDeletions<'_, '_> {
    /// Connects clients that use the entities which may be deleted.
    pub(super) fn populate_recreated(&mut self) {
        for entity in self.world.plan.topology.recreated() {
            self.world.connect(DEFAULT, Purpose::Consume(entity, false, Mode::Second));
            self.world.connect(DEFAULT, Purpose::TransactWith(entity));
            let target = SendTarget::Queue(entity);
            if self.world.plan.topology.targets().contains(&target) {
                self.world.connect(DEFAULT, Purpose::Publish(target));
                self.world.connect(DEFAULT, Purpose::Manage(target));
            }
        }
        for (forwarder, _) in self.world.plan.topology.dead_lettering_forwarders() {
            self.world.connect(DEFAULT, Purpose::Publish(SendTarget::Forwarder(forwarder)));
        }
    }

    /// Deletes or recreates an entity, by chance.
    pub(super) fn delete_or_create(&mut self) {
        for (number, entity) in self.recreated() {
            // A forwarding target is deleted more often and for longer, so that messages arrive while it is missing.
            let is_dead_letter_target = self
                .world
                .plan
                .topology
                .dead_letter_targets()
                .values()
                .any(|dead_letter_target| *dead_letter_target == entity);
            let (entity_request, every) = if self.world.tenant(number).model.lifetimes.is_deleting(entity) {
                (EntityRequest::Delete, CREATE_EVERY)
            } else if self.world.tenant(number).model.lifetimes.is_missing(entity) {
                (
                    EntityRequest::Create,
                    if is_dead_letter_target { DEAD_LETTER_TARGET_EVERY } else { CREATE_EVERY },
                )
            } else if self.world.tenant(number).model.messages.is_enlisted(entity) {
                (EntityRequest::Delete, DISTURB_EVERY)
            } else {
                (
                    EntityRequest::Delete,
                    if is_dead_letter_target { DEAD_LETTER_TARGET_EVERY } else { DELETE_EVERY },
                )
            };
            if self.world.rng.below(every) == 0 {
                self.request_entity(number, entity_request, entity);
            }
        }
    }

    /// The entities that may be deleted, in all namespaces that are there.
    fn recreated(&self) -> Vec<(usize, EntityIndex)> {
        let active = self.world.tenants.iter().enumerate().filter(|(_, tenant)| tenant.is_active());
        let entities = self.world.plan.topology.recreated();
        active.flat_map(|(number, _)| entities.iter().map(move |entity| (number, *entity))).collect()
    }

    /// Requests all outstanding deletions and creations at once.
    pub(super) fn finish_deletions(&mut self) {
        for (number, entity) in self.recreated() {
            let entity_request = if self.world.tenant(number).model.lifetimes.is_deleting(entity) {
                EntityRequest::Delete
            } else {
                EntityRequest::Create
            };
            if self.world.tenant(number).model.lifetimes.is_missing(entity) {
                self.request_entity(number, entity_request, entity);
            }
        }
    }

    /// Requests a change of an entity, unless one is pending.
    fn request_entity(&mut self, number: usize, entity_request: EntityRequest, entity: EntityIndex) {
        if self.world.tenant(number).deletions.waiting.values().any(|(_, other)| *other == entity) {
            return;
        }
        let mut commands = vec![Command::Connect];
        if entity_request == EntityRequest::Delete {
            self.world.tenant(number).model.lifetimes.deleting(entity);
            if self.world.plan.topology.is_free_of(PlantedFault::NoDeletion) {
                let (name, ticket) = (
                    self.world.plan.topology.address(entity).into(),
                    self.ticket(number, entity_request, entity),
                );
                commands.push(Command::DeleteEntity { name, expected: None, ticket });
            } else {
                // The planted fault: the entity stays, and the model believes that it was deleted.
                self.world.tenant(number).model.count("entities deleted");
                self.world.tenant(number).model.lifetimes.deleted(entity);
            }
        }
        // In some cases it is created again in the same batch.
        if entity_request == EntityRequest::Create || self.world.rng.chance(30) {
            let ticket = self.ticket(number, EntityRequest::Create, entity);
            commands.extend(self.world.plan.topology.create(entity, ticket));
        }
        commands.push(Command::Disconnect);
        if let Some(residence) = self.world.tenant(number).residence {
            self.world.process.submit(residence, Batch { client: SETUP, commands });
        }
    }

    fn ticket(&mut self, number: usize, entity_request: EntityRequest, entity: EntityIndex) -> Ticket {
        let deletions = &mut self.world.tenant(number).deletions;
        deletions.next += 1;
        let ticket = Ticket(deletions.next);
        deletions.waiting.insert(ticket, (entity_request, entity));
        ticket
    }

    /// The answers.
    pub(super) fn deletions_done(&mut self, number: usize, effects: Vec<Effect>) {
        for effect in effects {
            let (ticket, done) = match effect {
                Effect::EntityDone { ticket } => (ticket, Ok(())),
                Effect::RequestRefused { ticket, error } => (ticket, Err(error)),
                _ => continue,
            };
            match (self.world.tenant(number).deletions.waiting.remove(&ticket), done) {
                (Some((EntityRequest::Delete, entity)), Ok(()) | Err(EntityError::NotFound(_))) => {
                    self.world.tenant(number).model.count("entities deleted");
                    self.world.tenant(number).model.lifetimes.deleted(entity);
                }
                (Some((EntityRequest::Create, entity)), Ok(()) | Err(EntityError::AlreadyExists(_))) => {
                    self.world.tenant(number).model.lifetimes.created(entity);
                }
                // It is asked for again.
                _ => {}
            }
        }
    }
}
