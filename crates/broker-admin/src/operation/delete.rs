//! Deletions: at once, or of the very state that the request names. Then there is a look first.
//!
//! Invariant: what has a condition is only deleted in the state that was looked at, and that its condition allows.

use broker_core::{Command, EntityPath, EntityReport, StoredRule};

use super::{Awaiting, Step, TICKET, describe, main_path, show_rule};
use crate::{
    Answer, Match, condition,
    entries::{Context, described_rule},
};

/// Pending delete of an entity or rule, on condition of its state.
#[derive(Debug)]
pub(super) struct PendingDelete {
    /// The entity, or the rule.
    pub(super) name: Box<str>,
    condition: Match,
}

/// Begins the deletion of an entity.
pub(super) fn entity(context: Context, name: Box<str>, condition: Option<Match>) -> Step {
    match condition {
        None | Some(Match::Any) => {
            context.ask(Command::DeleteEntity { name, expected: None, ticket: TICKET }, Awaiting::Gone)
        }
        Some(condition) => {
            context.ask(describe(&name), Awaiting::PendingDelete(PendingDelete { name, condition }))
        }
    }
}

/// Begins the deletion of a rule.
pub(super) fn rule(context: Context, subscription: &str, name: Box<str>, condition: Option<Match>) -> Step {
    let path = main_path(subscription);
    match condition {
        None | Some(Match::Any) => {
            context.ask(Command::RemoveRule { path, name, expected: None, ticket: TICKET }, Awaiting::Gone)
        }
        Some(condition) => context.ask(
            show_rule(&path, &name),
            Awaiting::PendingRuleDelete(path, PendingDelete { name, condition }),
        ),
    }
}

impl PendingDelete {
    /// Deletes the entity that was looked at.
    pub(super) fn entity(self, context: Context, report: &EntityReport) -> Step {
        if !self.condition.holds(condition::tag_of_entity(report)) {
            return Step::Answer(Answer::changed(&self.name));
        }
        let expected = Some(report.version);
        context.ask(Command::DeleteEntity { name: self.name, expected, ticket: TICKET }, Awaiting::Gone)
    }

    /// Deletes the rule that was looked at.
    pub(super) fn rule(self, context: Context, path: EntityPath, stored: &StoredRule) -> Step {
        if !self.condition.holds(condition::tag_of_text(&described_rule(stored))) {
            return Step::Answer(Answer::changed(&self.name));
        }
        let expected = Some(Box::new(stored.clone()));
        context.ask(Command::RemoveRule { path, name: self.name, expected, ticket: TICKET }, Awaiting::Gone)
    }
}
