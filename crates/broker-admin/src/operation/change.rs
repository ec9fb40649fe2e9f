//! Updates of entities: first a look, for what an update leaves out depends on it, then the change.
//!
//! Invariant: an entity is only changed from the state that was looked at, and that its request allows.

use broker_core::{Command, EntityReport};

use super::{Awaiting, Step, TICKET, describe};
use crate::{Answer, Match, condition, description::Description, entries::Context};

/// Attempts of an update when others change the entity at the same time.
pub(super) const ATTEMPTS_MAX: u8 = 8;

/// Pending update of an entity.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: Box<str>,
    description: Description,
    condition: Match,
    /// Attempts left, when another client changes it at the same time.
    attempts: u8,
}

impl Change {
    pub(super) fn new(name: Box<str>, description: Description, condition: Match) -> Self {
        Self { name, description, condition, attempts: ATTEMPTS_MAX }
    }

    /// Looks at the entity first: what is fixed, and left out, stays.
    pub(super) fn begin(self, context: Context) -> Step {
        context.ask(describe(&self.name), Awaiting::Before(Box::new(self)))
    }

    /// Changes the entity that was looked at.
    pub(super) fn apply(self, context: Context, before: &EntityReport) -> Step {
        if before.kind != self.description.kind {
            return Step::Answer(Answer::bad("the entity is of another kind than its description"));
        }
        if !self.condition.holds(condition::tag_of_entity(before)) {
            return Step::Answer(Answer::changed(&self.name));
        }
        let settings = match self.description.clone().over(before) {
            Ok(settings) => Box::new(settings),
            Err(reason) => return Step::Answer(Answer::bad(&reason)),
        };
        if let Err(error) = context.check_targets(&settings, Some(&before.settings)) {
            return Step::Answer(Answer::refused(&error));
        }
        let (name, expected) = (self.name.clone(), Some(before.version));
        let command = Command::UpdateEntity { name: name.clone(), settings, expected, ticket: TICKET };
        context.store(command, name, 200, Some(Box::new(self)))
    }

    /// Tries again with the new version of the entity, which another client has changed.
    pub(super) fn again(self, context: Context) -> Step {
        match self.attempts.checked_sub(1) {
            Some(attempts @ 1..) => Self { attempts, ..self }.begin(context),
            _ => Step::Answer(Answer::busy(&self.name)),
        }
    }
}
