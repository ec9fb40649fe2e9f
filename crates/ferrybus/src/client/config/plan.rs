//! What has to happen so that a broker is as a file says.
//!
//! Invariant: steps stand in the order in which they can be done: entities behind those that they need, deletions last.

use std::fmt;

use broker_admin::client::Described;
use broker_core::{EntityKind, Rule};
use broker_filter::Filter;
use broker_server::EntityPlan;
use serde_json::{Map, Value, json};

use super::difference::{Change, Found, changes, wanted};
use crate::{
    client::{
        management::{Place, word},
        rules,
    },
    failure::Failure,
    output, property,
};

/// What becomes of an entity or rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Create,
    Update,
    Delete,
    Unchanged,
    /// It differs in what is fixed at creation.
    Refused,
}

impl Verdict {
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
pub(super) struct Step {
    pub(super) verdict: Verdict,
    /// The entity; of a rule, its subscription.
    pub(super) place: Place,
    /// The rule, where it is about one.
    pub(super) rule: Option<Rule>,
    /// That rule as it was, where it is changed or deleted.
    pub(super) rule_before: Option<Rule>,
    /// What to send; where it is deleted, what it was like.
    pub(super) entity: Option<Described>,
    changes: Vec<Change>,
}

impl Step {
    fn of(verdict: Verdict, place: &Place) -> Self {
        Self {
            verdict,
            place: place.clone(),
            rule: None,
            rule_before: None,
            entity: None,
            changes: Vec::new(),
        }
    }

    fn of_rule(verdict: Verdict, place: &Place, rule: &Rule) -> Self {
        Self { rule: Some(rule.clone()), ..Self::of(verdict, place) }
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("action", self.verdict.word().into());
        if let Some(rule) = &self.rule {
            put("kind", "rule".into());
            put("name", (*rule.name).into());
            put("subscription", self.place.path.as_str().into());
            put("rule", rules::json(rule));
        } else {
            put("kind", word(self.place.kind).into());
            put("name", self.place.path.as_str().into());
            put("changes", self.changes.iter().map(change_json).collect::<Vec<_>>().into());
        }
        Value::Object(object)
    }
}

fn change_json(change: &Change) -> Value {
    let form = property::of_key(change.key).map(|property| property.form);
    let value = |text: &Option<String>| match (form, text) {
        (Some(form), Some(text)) => form.json(text),
        _ => Value::Null,
    };
    json!({ "property": change.key, "old": value(&change.before), "new": value(&change.after), "fixed": change.is_fixed })
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = property::of_key(self.key).map(|property| property.form);
        let told = |text: &Option<String>| match (form, text) {
            (Some(form), Some(text)) => form.told(text),
            _ => "-".to_owned(),
        };
        write!(f, "{}  {} -> {}", self.key, told(&self.before), told(&self.after))?;
        if self.is_fixed && self.before.is_some() { f.write_str("  (fixed at creation)") } else { Ok(()) }
    }
}

/// All steps.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
    /// Entities that are not in the file and stay.
    others: usize,
}

impl Plan {
    pub(super) fn new(file: &[EntityPlan], found: &Found, prune: bool) -> Self {
        let mut steps = Vec::new();
        for plan in file {
            let place = Place::new(plan.kind, &plan.name);
            steps.extend(entity(plan, &place, found));
        }
        let is_named = |place: &Place| file.iter().any(|plan| plan.name.eq_ignore_ascii_case(&place.path));
        // A topic takes its subscriptions along: they go first, each with its own line.
        let others: Vec<&Place> = found.all().rev().filter(|place| !is_named(place)).collect();
        if prune {
            steps.extend(others.iter().map(|place| Step {
                entity: found.get(place).map(|(_, entity)| entity.clone()),
                ..Step::of(Verdict::Delete, place)
            }));
        }
        Self { steps, others: if prune { 0 } else { others.len() } }
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn has(&self, verdict: Verdict) -> bool {
        self.steps.iter().any(|step| step.verdict == verdict)
    }

    pub(super) fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.verdict == Verdict::Unchanged)
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
        for step in self.steps.iter().filter(|step| step.verdict != Verdict::Unchanged) {
            let sign = step.verdict.sign();
            match &step.rule {
                None => writeln!(f, "{sign} {}", step.place.told())?,
                Some(rule) => {
                    writeln!(f, "{sign} rule `{}` of {}", rule.name, step.place.told())?;
                    if step.verdict != Verdict::Delete {
                        writeln!(f, "    {}", output::printable(&rules::told(&rule.filter)))?;
                    }
                }
            }
            for change in &step.changes {
                writeln!(f, "    {}", output::printable(&change.to_string()))?;
            }
        }
        let count = |verdict| self.steps.iter().filter(|step| step.verdict == verdict).count();
        let counts = Verdict::ALL.map(|verdict| format!("{} {}", count(verdict), verdict.word()));
        write!(f, "plan: {}", counts.join(", "))?;
        match self.others {
            0 => Ok(()),
            others => write!(f, "; {others} not in the file (`--prune` deletes)"),
        }
    }
}

fn entity(plan: &EntityPlan, place: &Place, found: &Found) -> Vec<Step> {
    let Some((place, before)) = found.get(place) else { return create(plan, place) };
    if before.kind != plan.kind {
        return vec![Step {
            verdict: Verdict::Refused,
            ..Step::of(Verdict::Refused, &Place::new(plan.kind, &plan.name))
        }];
    }
    let changes = changes(Some(before), plan.kind, &found.limits.settled(plan).settings);
    let verdict = match changes.as_slice() {
        [] => Verdict::Unchanged,
        changes if changes.iter().any(|change| change.is_fixed) => Verdict::Refused,
        _ => Verdict::Update,
    };
    let mut after = before.clone();
    for change in &changes {
        if let Some(property) = property::of_key(change.key) {
            after.set(property.element, change.after.as_deref());
        }
    }
    let mut steps = vec![Step { entity: Some(after), changes, ..Step::of(verdict, place) }];
    if plan.kind == EntityKind::Subscription {
        steps.extend(rule_steps(&rules_of(plan), found.rules(place), place));
    }
    steps
}

/// Those of the file, or the one that lets everything in.
fn rules_of(plan: &EntityPlan) -> Vec<Rule> {
    let all = || Rule { name: DEFAULT_RULE.into(), filter: Filter::True, action: None };
    plan.rules.clone().unwrap_or_else(|| vec![all()])
}

const DEFAULT_RULE: &str = "$Default";

/// A subscription begins with its first rule, so that nothing gets in that none of its rules lets in.
fn create(plan: &EntityPlan, place: &Place) -> Vec<Step> {
    let mut entity = Described::new(place.kind, place.own_name());
    for (property, value) in wanted(plan.kind, &plan.settings) {
        entity.set(property.element, value.as_deref());
    }
    let changes =
        changes(None, plan.kind, &plan.settings).into_iter().filter(|change| change.after.is_some());
    let changes = changes.collect();
    if plan.kind != EntityKind::Subscription {
        return vec![Step { entity: Some(entity), changes, ..Step::of(Verdict::Create, place) }];
    }
    let nothing = Rule { name: DEFAULT_RULE.into(), filter: Filter::False, action: None };
    let rules = rules_of(plan);
    let first = rules.first().unwrap_or(&nothing);
    entity.set_first_rule(first.clone());
    let mut steps = vec![Step { entity: Some(entity), changes, ..Step::of(Verdict::Create, place) }];
    steps.extend(rule_steps(&rules, std::slice::from_ref(first), place));
    steps
}

/// New and changed rules first, so that at no time fewer messages get in than before and after.
fn rule_steps(wanted: &[Rule], found: &[Rule], place: &Place) -> Vec<Step> {
    let named =
        |rules: &[Rule], name: &str| rules.iter().find(|rule| rule.name.eq_ignore_ascii_case(name)).cloned();
    let mut steps = Vec::new();
    for rule in wanted {
        let step = match named(found, &rule.name) {
            None => Step::of_rule(Verdict::Create, place, rule),
            Some(before) if before.filter == rule.filter && before.action == rule.action => {
                Step::of_rule(Verdict::Unchanged, place, rule)
            }
            before => Step { rule_before: before, ..Step::of_rule(Verdict::Update, place, rule) },
        };
        steps.push(step);
    }
    let surplus = found.iter().filter(|rule| named(wanted, &rule.name).is_none());
    steps.extend(
        surplus.map(|rule| Step {
            rule_before: Some(rule.clone()),
            ..Step::of_rule(Verdict::Delete, place, rule)
        }),
    );
    steps
}

#[cfg(test)]
mod tests;
