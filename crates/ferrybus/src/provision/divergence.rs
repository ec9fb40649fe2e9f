//! One entity that is not as its file says, and how that is told.
//!
//! Invariant: what cannot be changed is never among the changes.

use broker_core::{EntityKind, EntitySettings};
use broker_server::EntityChange;

use crate::{
    client::management::{EntityRef, word},
    difference::{Change, RuleChange},
    settings::{DeclaredNamespace, Source},
};

/// Differences of an entity.
#[derive(Debug)]
pub(super) struct Divergence<'d> {
    /// The namespace of the entity.
    pub(super) namespace: &'d DeclaredNamespace,
    pub(super) source: &'d Source,
    /// The entity, as the file has it.
    pub(super) entity_ref: EntityRef,
    /// Its kind in the broker.
    pub(super) found: EntityKind,
    pub(super) changes: Vec<Change>,
    pub(super) rules: Vec<RuleChange>,
    /// Its properties with the changes.
    pub(super) after: EntitySettings,
}

impl Divergence<'_> {
    /// Everything that differs.
    pub(super) fn summary(&self) -> String {
        self.differs(&self.all())
    }

    /// Only what cannot be changed, if there is such a thing.
    pub(super) fn obstacle(&self) -> Option<String> {
        let fixed: Vec<String> = match self.other_kind() {
            Some(kind) => vec![kind],
            None => self
                .changes
                .iter()
                .filter(|change| change.property.is_fixed)
                .map(|it| self.change(it))
                .collect(),
        };
        (!fixed.is_empty()).then(|| self.differs(&fixed))
    }

    /// That it differs and stays so, and what can be done.
    pub(super) fn notice(&self) -> String {
        let remedy = match (self.obstacle(), &self.source.path) {
            (Some(_), _) => "what is fixed at creation takes another entity".to_owned(),
            (None, Some(path)) => {
                let option = self.namespace.option();
                format!("`ferrybus config apply {}{option}` changes it", path.display())
            }
            (None, None) => "`on_difference = \"apply\"` changes it".to_owned(),
        };
        format!("{}; {remedy}", self.summary())
    }

    /// That it was changed.
    pub(super) fn done(&self) -> String {
        let changes = self.all().join(", ");
        format!("{} was changed as {} has it: {changes}", self.label(), self.source)
    }

    /// Changes to apply; none to an entity that differs in a fixed property.
    pub(super) fn changes(&self) -> Vec<EntityChange> {
        let entity = || self.entity_ref.path.clone();
        let settings = Box::new(self.after.clone());
        let own = (!self.changes.is_empty()).then(|| EntityChange::Settings { entity: entity(), settings });
        let rules = self.rules.iter().filter_map(|change| match change.clone() {
            RuleChange::Add(rule) => Some(EntityChange::AddRule { entity: entity(), rule }),
            RuleChange::Replace { after, .. } => {
                Some(EntityChange::ReplaceRule { entity: entity(), rule: after })
            }
            RuleChange::Remove(rule) => {
                Some(EntityChange::RemoveRule { entity: entity(), rule: rule.name.into() })
            }
            RuleChange::Same(_) => None,
        });
        own.into_iter().chain(rules).collect()
    }

    fn differs(&self, what: &[String]) -> String {
        format!("{} differs from {}: {}", self.label(), self.source, what.join(", "))
    }

    fn label(&self) -> String {
        self.namespace.label(&self.entity_ref.label())
    }

    fn all(&self) -> Vec<String> {
        let rules = self.rules.iter().filter_map(|change| match change {
            RuleChange::Add(rule) => Some(format!("rule `{}` is missing", rule.name)),
            RuleChange::Replace { after, .. } => Some(format!("rule `{}` is another", after.name)),
            RuleChange::Remove(rule) => Some(format!("rule `{}` is not in the file", rule.name)),
            RuleChange::Same(_) => None,
        });
        let changes = self.changes.iter().map(|change| self.change(change));
        self.other_kind().into_iter().chain(changes).chain(rules).collect()
    }

    fn other_kind(&self) -> Option<String> {
        let differs = self.found != self.entity_ref.kind;
        differs
            .then(|| format!("it is a {}, the file has a {}", word(self.found), word(self.entity_ref.kind)))
    }

    /// In the words of the file: the emulator's are those of the administration API.
    fn change(&self, change: &Change) -> String {
        let name = if self.source.is_emulators { change.property.element } else { change.property.key };
        let fixed = if change.property.is_fixed { " (fixed at creation)" } else { "" };
        format!("{name} is {}, the file has {}{fixed}", change.told_before(), change.told_after())
    }
}
