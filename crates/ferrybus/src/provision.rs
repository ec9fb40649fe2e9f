//! At start: entities as the configuration and the emulator's `Config.json` declare them.
//!
//! Invariant: all entities are looked at before one is changed, and no entity is deleted.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::{EntityKind, EntityReport, EntitySettings};
use broker_server::{EntityPlan, Prepared, StartError};
use tracing::{info, warn};

use crate::{
    client::{config::limits, management::EntityRef},
    difference::{self, RuleChange},
    failure::Failure,
    settings::{Declarations, Declared, Limits, OnDifference},
};

mod divergence;

use divergence::Divergence;

/// Declared entities, and the policy for entities that differ.
#[derive(Debug)]
pub(crate) struct Provision {
    declared: Declarations,
    on_difference: OnDifference,
    limits: limits::Limits,
}

impl Provision {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            declared: limits.declared.clone(),
            on_difference: limits.on_difference,
            limits: limits::Limits::new(limits.server.core.profile, limits.server.core.max_message_bytes),
        }
    }

    /// Creates what is missing of `plans`, in this order, and does with what differs as the operator wants it.
    pub(crate) fn run(&self, prepared: &mut Prepared, plans: &[EntityPlan]) -> Result<(), Failure> {
        let found = prepared.entities().map_err(Failure::of)?;
        let found: BTreeMap<String, EntityReport> =
            found.into_iter().map(|entity| (entity.name.to_ascii_lowercase(), entity)).collect();
        let divergences = self.divergences(prepared, plans, &found)?;
        match self.on_difference {
            OnDifference::Keep => {
                for difference in divergences.iter().map(Divergence::notice) {
                    warn!("{difference}");
                }
            }
            OnDifference::Refuse => {
                refuse(&divergences.iter().map(Divergence::summary).collect::<Vec<_>>(), REFUSED)?;
            }
            OnDifference::Apply => {
                refuse(&divergences.iter().filter_map(Divergence::obstacle).collect::<Vec<_>>(), FIXED)?;
                self.check(plans, &found)?;
            }
        }
        if self.declared.has_emulator() {
            name_others(plans, &found);
        }
        prepared.create(plans).map_err(unusable)?;
        if self.on_difference == OnDifference::Apply {
            let changes = divergences.iter().flat_map(Divergence::changes).collect();
            prepared.change(changes).map_err(unusable)?;
            for change in divergences.iter().map(Divergence::done) {
                info!("{change}");
            }
        }
        Ok(())
    }

    /// The entities that are there and not as their file says.
    fn divergences<'p>(
        &'p self,
        prepared: &mut Prepared,
        plans: &[EntityPlan],
        found: &BTreeMap<String, EntityReport>,
    ) -> Result<Vec<Divergence<'p>>, Failure> {
        let mut all = Vec::new();
        for plan in plans {
            let declared = self.declared.of(&plan.name);
            let (Some(declared), Some(entity)) = (declared, found.get(&plan.name.to_ascii_lowercase()))
            else {
                continue;
            };
            let rules = match plan.kind {
                EntityKind::Subscription if declared.rules && entity.kind == plan.kind => {
                    let found = prepared.rules(&plan.name).map_err(Failure::of)?;
                    difference::rule_changes(&difference::rules_of(plan), &found)
                }
                _ => Vec::new(),
            };
            all.extend(self.divergence(plan, declared, entity, rules));
        }
        Ok(all)
    }

    fn divergence<'p>(
        &self,
        plan: &EntityPlan,
        declared: &'p Declared,
        entity: &EntityReport,
        mut rules: Vec<RuleChange>,
    ) -> Option<Divergence<'p>> {
        rules.retain(|change| !matches!(change, RuleChange::Same(_)));
        let settled = self.limits.settled(plan).settings;
        let is_other_kind = entity.kind != plan.kind;
        let changes = if is_other_kind {
            Vec::new()
        } else {
            difference::changes(Some(entity), plan.kind, &settled, &declared.named)
        };
        if changes.is_empty() && rules.is_empty() && !is_other_kind {
            return None;
        }
        let mut after = (*entity.settings).clone();
        for change in &changes {
            difference::set(change.property, &mut after, &settled);
        }
        Some(Divergence {
            source: &declared.source,
            entity_ref: EntityRef::new(plan.kind, &entity.name),
            found: entity.kind,
            changes,
            rules,
            after,
        })
    }

    /// Finds what the core would refuse of an entity that exists, before another one is changed.
    fn check(&self, plans: &[EntityPlan], found: &BTreeMap<String, EntityReport>) -> Result<(), Failure> {
        let kinds: BTreeMap<String, EntityKind> = found
            .iter()
            .map(|(name, entity)| (name.clone(), entity.kind))
            .chain(plans.iter().map(|plan| (plan.name.to_ascii_lowercase(), plan.kind)))
            .collect();
        for plan in plans.iter().filter(|plan| found.contains_key(&plan.name.to_ascii_lowercase())) {
            let refused = |why: &dyn std::fmt::Display| {
                Failure::misuse(format_args!("{}: {why}", EntityRef::new(plan.kind, &plan.name).label()))
            };
            self.limits.check(plan).map_err(|error| refused(&error))?;
            for target in targets(&plan.settings) {
                match kinds.get(&target.to_ascii_lowercase()) {
                    None => {
                        return Err(refused(&format_args!("forwards to `{target}`, which does not exist")));
                    }
                    Some(EntityKind::Subscription) => {
                        return Err(refused(&format_args!("cannot forward to the subscription `{target}`")));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}

/// Says which entities the files do not name: they stay.
fn name_others(plans: &[EntityPlan], found: &BTreeMap<String, EntityReport>) {
    let planned: BTreeSet<String> = plans.iter().map(|plan| plan.name.to_ascii_lowercase()).collect();
    let others: Vec<String> = found
        .iter()
        .filter(|(name, _)| !planned.contains(*name))
        .map(|(_, entity)| EntityRef::new(entity.kind, &entity.name).short())
        .collect();
    if !others.is_empty() {
        let kept = others_notice(&others);
        info!("{kept}");
    }
}

/// The count, and the first names.
fn others_notice(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(OTHERS_NAMED_MAX).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > OTHERS_NAMED_MAX { " and others" } else { "" };
    let are = if names.len() == 1 { "entity is" } else { "entities are" };
    format!("{} {are} not in the configuration and kept: {}{more}", names.len(), shown.join(", "))
}

/// Forwarding targets of an entity.
fn targets(settings: &EntitySettings) -> impl Iterator<Item = &str> {
    [settings.forward_to.as_deref(), settings.forward_dead_lettered_to.as_deref()].into_iter().flatten()
}

/// The failure to start because of these, if there are any.
fn refuse(reasons: &[String], hint: &str) -> Result<(), Failure> {
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Failure::misuse(reasons.join("; ")).hint(hint))
}

/// A declaration that the broker cannot apply is a fault of the file.
fn unusable(error: StartError) -> Failure {
    match error {
        StartError::Entity { .. } => Failure::misuse(error),
        error => Failure::of(error),
    }
}

const FIXED: &str = "delete the entity, or start with another `data_dir` (a container: with a new volume), or set \
    `on_difference = \"keep\"`; in the first two cases its messages are gone";
const REFUSED: &str =
    "`on_difference = \"apply\"` changes what can be changed, `\"keep\"` leaves it as it is";
/// Names in one line of the log.
const OTHERS_NAMED_MAX: usize = 10;

#[cfg(test)]
mod tests;
