//! Plan of the changes that make a broker match a file.
//!
//! Invariant: steps stand in the order in which they can be done: entities behind those that they need, deletions last.

use std::fmt;

use broker_admin::client::Described;
use broker_core::{EntityKind, Rule};
use broker_filter::Filter;
use broker_server::EntityPlan;
use serde_json::{Map, Value, json};

use super::broker_state::BrokerState;
use crate::{
    client::{
        management::{EntityRef, word},
        rules,
    },
    difference::{Change, Named, RuleChange, changes, rule_changes, rules_of, wanted},
    failure::Failure,
    output,
    property::PropertyText as _,
};

/// Planned action for an entity or rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PlannedAction {
    Create,
    Update,
    Delete,
    Unchanged,
    /// It differs in what is fixed at creation.
    Refused,
}

impl PlannedAction {
    const ALL: [Self; 5] = [Self::Create, Self::Update, Self::Delete, Self::Refused, Self::Unchanged];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
        }
    }

    const fn sign(self) -> char {
        match self {
            Self::Create => '+',
            Self::Update => '~',
            Self::Delete => '-',
            Self::Unchanged => ' ',
            Self::Refused => '!',
        }
    }
}

/// One entity or rule.
#[derive(Debug)]
pub(super) struct PlanStep {
    pub(super) planned: PlannedAction,
    /// The entity; of a rule, its subscription.
    pub(super) entity_ref: EntityRef,
    /// The rule, where it is about one.
    pub(super) rule: Option<Rule>,
    /// That rule as it was, where it is changed or deleted.
    pub(super) rule_before: Option<Rule>,
    /// Description to send; of a deleted entity, the last one.
    pub(super) entity: Option<Described>,
    changes: Vec<Change>,
}

impl PlanStep {
    fn of(planned: PlannedAction, entity_ref: &EntityRef) -> Self {
        Self {
            planned,
            entity_ref: entity_ref.clone(),
            rule: None,
            rule_before: None,
            entity: None,
            changes: Vec::new(),
        }
    }

    fn of_rule(planned: PlannedAction, entity_ref: &EntityRef, rule: &Rule) -> Self {
        Self { rule: Some(rule.clone()), ..Self::of(planned, entity_ref) }
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("action", self.planned.word().into());
        if let Some(rule) = &self.rule {
            put("kind", "rule".into());
            put("name", (*rule.name).into());
            put("subscription", self.entity_ref.path.as_str().into());
            put("rule", rules::json(rule));
        } else {
            put("kind", word(self.entity_ref.kind).into());
            put("name", self.entity_ref.path.as_str().into());
            put("changes", self.changes.iter().map(change_json).collect::<Vec<_>>().into());
        }
        Value::Object(object)
    }
}

fn change_json(change: &Change) -> Value {
    let value =
        |text: &Option<String>| text.as_deref().map_or(Value::Null, |text| change.property.form().json(text));
    json!({ "property": change.property.key, "old": value(&change.before), "new": value(&change.after), "fixed": change.property.is_fixed })
}

/// All steps.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<PlanStep>,
    /// Entities that are not in the file and stay.
    others: usize,
}

impl Plan {
    /// `named` says of which properties of such an entity the file speaks.
    pub(super) fn new(
        file: &[EntityPlan],
        found: &BrokerState,
        prune: bool,
        named: fn(EntityKind) -> Named,
    ) -> Self {
        let mut steps = Vec::new();
        for plan in file {
            let entity_ref = EntityRef::new(plan.kind, &plan.name);
            steps.extend(entity(plan, &entity_ref, found, &named(plan.kind)));
        }
        let is_named =
            |entity_ref: &EntityRef| file.iter().any(|plan| plan.name.eq_ignore_ascii_case(&entity_ref.path));
        // A topic takes its subscriptions along: they go first, each with its own line.
        let others: Vec<&EntityRef> = found.all().rev().filter(|entity_ref| !is_named(entity_ref)).collect();
        if prune {
            steps.extend(others.iter().map(|entity_ref| PlanStep {
                entity: found.get(entity_ref).map(|(_, entity)| entity.clone()),
                ..PlanStep::of(PlannedAction::Delete, entity_ref)
            }));
        }
        Self { steps, others: if prune { 0 } else { others.len() } }
    }

    pub(super) fn steps(&self) -> &[PlanStep] {
        &self.steps
    }

    pub(super) fn has(&self, planned: PlannedAction) -> bool {
        self.steps.iter().any(|step| step.planned == planned)
    }

    pub(super) fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.planned == PlannedAction::Unchanged)
    }

    pub(super) fn print(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return self.steps.iter().try_for_each(|step| output::line(step.json()));
        }
        output::line(self)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.steps.iter().filter(|step| step.planned != PlannedAction::Unchanged) {
            let sign = step.planned.sign();
            match &step.rule {
                None => writeln!(f, "{sign} {}", step.entity_ref.label())?,
                Some(rule) => {
                    writeln!(f, "{sign} rule `{}` of {}", rule.name, step.entity_ref.label())?;
                    if step.planned != PlannedAction::Delete {
                        writeln!(f, "    {}", output::printable(&rules::filter_text(&rule.filter)))?;
                    }
                }
            }
            for change in &step.changes {
                writeln!(f, "    {}", output::printable(&change.to_string()))?;
            }
        }
        let count = |planned| self.steps.iter().filter(|step| step.planned == planned).count();
        let counts = PlannedAction::ALL.map(|planned| format!("{} {}", count(planned), planned.word()));
        write!(f, "plan: {}", counts.join(", "))?;
        match self.others {
            0 => Ok(()),
            others => write!(f, "; {others} not in the file (`--prune` deletes)"),
        }
    }
}

fn entity(plan: &EntityPlan, entity_ref: &EntityRef, found: &BrokerState, named: &Named) -> Vec<PlanStep> {
    let Some((entity_ref, before)) = found.get(entity_ref) else { return create(plan, entity_ref) };
    if before.kind != plan.kind {
        return vec![PlanStep {
            planned: PlannedAction::Refused,
            ..PlanStep::of(PlannedAction::Refused, &EntityRef::new(plan.kind, &plan.name))
        }];
    }
    let changes = changes(Some(before), plan.kind, &found.limits.settled(plan).settings, named);
    let planned = match changes.as_slice() {
        [] => PlannedAction::Unchanged,
        changes if changes.iter().any(|change| change.property.is_fixed) => PlannedAction::Refused,
        _ => PlannedAction::Update,
    };
    let mut after = before.clone();
    for change in &changes {
        after.set(change.property.element, change.after.as_deref());
    }
    let mut steps = vec![PlanStep { entity: Some(after), changes, ..PlanStep::of(planned, entity_ref) }];
    if plan.kind == EntityKind::Subscription {
        steps.extend(rule_steps(&rules_of(plan), found.rules(entity_ref), entity_ref));
    }
    steps
}

const DEFAULT_RULE: &str = "$Default";

/// A subscription begins with its first rule, so that nothing gets in that none of its rules lets in.
fn create(plan: &EntityPlan, entity_ref: &EntityRef) -> Vec<PlanStep> {
    let mut entity = Described::new(entity_ref.kind, entity_ref.own_name());
    for (property, value) in wanted(plan.kind, &plan.settings, &Named::All) {
        entity.set(property.element, value.as_deref());
    }
    let changes = changes(None, plan.kind, &plan.settings, &Named::All)
        .into_iter()
        .filter(|change| change.after.is_some());
    let changes = changes.collect();
    if plan.kind != EntityKind::Subscription {
        return vec![PlanStep {
            entity: Some(entity),
            changes,
            ..PlanStep::of(PlannedAction::Create, entity_ref)
        }];
    }
    let nothing = Rule { name: DEFAULT_RULE.into(), filter: Filter::False, action: None };
    let rules = rules_of(plan);
    let first = rules.first().unwrap_or(&nothing);
    entity.set_first_rule(first.clone());
    let mut steps =
        vec![PlanStep { entity: Some(entity), changes, ..PlanStep::of(PlannedAction::Create, entity_ref) }];
    steps.extend(rule_steps(&rules, std::slice::from_ref(first), entity_ref));
    steps
}

fn rule_steps(wanted: &[Rule], found: &[Rule], entity_ref: &EntityRef) -> Vec<PlanStep> {
    let step = |change| match change {
        RuleChange::Add(rule) => PlanStep::of_rule(PlannedAction::Create, entity_ref, &rule),
        RuleChange::Same(rule) => PlanStep::of_rule(PlannedAction::Unchanged, entity_ref, &rule),
        RuleChange::Replace { before, after } => PlanStep {
            rule_before: Some(before),
            ..PlanStep::of_rule(PlannedAction::Update, entity_ref, &after)
        },
        RuleChange::Remove(rule) => PlanStep {
            rule_before: Some(rule.clone()),
            ..PlanStep::of_rule(PlannedAction::Delete, entity_ref, &rule)
        },
    };
    rule_changes(wanted, found).into_iter().map(step).collect()
}

#[cfg(test)]
mod tests;
