//! Entities are deleted while everybody works with them, and made again.
//!
//! Invariant: a deletion whose answer was lost is asked for again, until the broker says that it has happened.

use std::collections::BTreeMap;

use broker_core::{Batch, Command, Effect, EntityError, Ticket};

use super::{SETUP, World};
use crate::{
    client::{Mode, Purpose},
    model::Place,
    plan::{Fault, Target},
};

/// One step in so many deletes something that is there.
const DELETE_EVERY: u64 = 500;
/// The same while a transaction works with it.
const DISTURB_EVERY: u64 = 4;
/// One step in so many makes something again that is gone, or asks again for a deletion without an answer.
const MAKE_EVERY: u64 = 60;
/// Both, of a place to which dead letters are forwarded.
const GRAVE_EVERY: u64 = 200;

/// What was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Chore {
    Delete,
    Make,
}

/// What waits for an answer, by ticket.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    waiting: BTreeMap<Ticket, (Chore, Place)>,
    next: u64,
}

impl World<'_> {
    /// Everything is there, but for what is being deleted, of which nobody knows.
    pub(super) fn after_boot(&mut self) {
        for place in self.plan.places.fleeting() {
            self.model.made(place);
        }
    }

    /// Somebody has to be busy with what may be deleted.
    pub(super) fn populate_fleeting(&mut self) {
        for place in self.plan.places.fleeting() {
            self.connect(Purpose::Consume(place, false, Mode::Second));
            self.connect(Purpose::TransactWith(place));
            let target = Target::Queue(place);
            if self.plan.places.targets().contains(&target) {
                self.connect(Purpose::Publish(target));
                self.connect(Purpose::Desk(target));
            }
        }
        for (way, _) in self.plan.places.keepers() {
            self.connect(Purpose::Publish(Target::Way(way)));
        }
    }

    /// Perhaps deletes something, or makes it again.
    pub(super) fn delete_or_make(&mut self) {
        for place in self.plan.places.fleeting() {
            // What others forward to goes sooner and is missed for longer, so that something comes meanwhile.
            let is_grave = self.plan.places.graves().values().any(|grave| *grave == place);
            let (chore, every) = if self.model.is_deleting(place) {
                (Chore::Delete, MAKE_EVERY)
            } else if self.model.is_missing(place) {
                (Chore::Make, if is_grave { GRAVE_EVERY } else { MAKE_EVERY })
            } else if self.model.is_enlisted(place) {
                (Chore::Delete, DISTURB_EVERY)
            } else {
                (Chore::Delete, if is_grave { GRAVE_EVERY } else { DELETE_EVERY })
            };
            if self.rng.below(every) == 0 {
                self.ask_chore(chore, place);
            }
        }
    }

    /// Asks at once for what is still to be done.
    pub(super) fn finish_deletions(&mut self) {
        for place in self.plan.places.fleeting() {
            let chore = if self.model.is_deleting(place) { Chore::Delete } else { Chore::Make };
            if self.model.is_missing(place) {
                self.ask_chore(chore, place);
            }
        }
    }

    /// One question about a place at a time.
    fn ask_chore(&mut self, chore: Chore, place: Place) {
        if self.deletions.waiting.values().any(|(_, other)| *other == place) {
            return;
        }
        let mut commands = vec![Command::Connect];
        if chore == Chore::Delete {
            self.model.deleting(place);
            if self.plan.places.does(Fault::Deletes) {
                let (name, ticket) = (self.plan.places.address(place).into(), self.ticket(chore, place));
                commands.push(Command::DeleteEntity { name, expected: None, ticket });
            } else {
                // The planted fault: nothing is deleted, and everybody believes it.
                self.model.deleted(place);
            }
        }
        // Sometimes it is never missed.
        if chore == Chore::Make || self.rng.chance(30) {
            let ticket = self.ticket(Chore::Make, place);
            commands.extend(self.plan.places.create(place, ticket));
        }
        commands.push(Command::Disconnect);
        self.process.submit(Batch { client: SETUP, commands });
    }

    fn ticket(&mut self, chore: Chore, place: Place) -> Ticket {
        self.deletions.next += 1;
        let ticket = Ticket(self.deletions.next);
        self.deletions.waiting.insert(ticket, (chore, place));
        ticket
    }

    /// The answers.
    pub(super) fn deletions_done(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let (ticket, done) = match effect {
                Effect::EntityDone { ticket } => (ticket, Ok(())),
                Effect::RequestRefused { ticket, error } => (ticket, Err(error)),
                _ => continue,
            };
            match (self.deletions.waiting.remove(&ticket), done) {
                (Some((Chore::Delete, place)), Ok(()) | Err(EntityError::NotFound(_))) => {
                    self.model.deleted(place);
                }
                (Some((Chore::Make, place)), Ok(()) | Err(EntityError::AlreadyExists(_))) => {
                    self.model.made(place);
                }
                // It is asked for again.
                _ => {}
            }
        }
    }
}
