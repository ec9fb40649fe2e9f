//! Updates of entities: first a look, for what an update leaves out depends on it, then the change.
//!
//! Invariant: an entity is only changed from the state that was looked at, and that its request allows.

use broker_core::{Command, EntityReport};

use super::{Context, Step, TICKET, Want, describe};
use crate::{Answer, Match, condition, description::Description};

/// How often an update is tried when others change the entity at the same time.
pub(super) const TRIES: u8 = 8;

/// What an entity is to be changed to.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: Box<str>,
    description: Description,
    condition: Match,
    /// How often to try, when somebody else changes it at the same time.
    tries: u8,
}

impl Change {
    pub(super) fn new(name: Box<str>, description: Description, condition: Match) -> Self {
        Self { name, description, condition, tries: TRIES }
    }

    /// Looks at the entity first: what is fixed, and left out, stays.
    pub(super) fn begin(self, context: Context) -> Step {
        context.ask(describe(&self.name), Want::Before(Box::new(self)))
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
        let (name, expected) = (self.name.clone(), Some(before.version));
        let command = Command::UpdateEntity { name: name.clone(), settings, expected, ticket: TICKET };
        context.store(command, name, 200, Some(Box::new(self)))
    }

    /// Tries again, for the entity as somebody else has left it.
    pub(super) fn again(self, context: Context) -> Step {
        match self.tries.checked_sub(1) {
            Some(tries @ 1..) => Self { tries, ..self }.begin(context),
            _ => Step::Answer(Answer::busy(&self.name)),
        }
    }
}
