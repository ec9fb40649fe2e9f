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
    settings::{Declared, DeclaredNamespace, Limits, OnDifference},
};

mod divergence;

use divergence::Divergence;

/// Declared entities, and the policy for entities that differ.
#[derive(Debug)]
pub(crate) struct Provision {
    /// The default one stands first.
    namespaces: Vec<DeclaredNamespace>,
    on_difference: OnDifference,
    limits: limits::Limits,
}

/// The entities of a namespace, by name in lower case.
type Found = BTreeMap<String, EntityReport>;

impl Provision {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            namespaces: limits.namespaces.clone(),
            on_difference: limits.on_difference,
            limits: limits::Limits::new(limits.server.core.profile, limits.server.core.max_message_bytes),
        }
    }

    /// Creates the declared entities that are missing, namespace by namespace, and does with those that differ as the operator
    /// wants it.
    pub(crate) fn run(&self, prepared: &mut Prepared) -> Result<(), Failure> {
        let mut all: Vec<(&DeclaredNamespace, Found, Vec<Divergence<'_>>)> = Vec::new();
        for namespace in &self.namespaces {
            prepared.select_namespace(&namespace.name).map_err(Failure::of)?;
            let found = prepared.entities().map_err(Failure::of)?;
            let found: Found =
                found.into_iter().map(|entity| (entity.name.to_ascii_lowercase(), entity)).collect();
            let divergences = self.divergences(prepared, namespace, &found)?;
            all.push((namespace, found, divergences));
        }
        let divergences = || all.iter().flat_map(|(.., divergences)| divergences);
        match self.on_difference {
            OnDifference::Keep => {
                for difference in divergences().map(Divergence::notice) {
                    warn!("{difference}");
                }
            }
            OnDifference::Refuse => {
                refuse(&divergences().map(Divergence::summary).collect::<Vec<_>>(), REFUSED)?;
            }
            OnDifference::Apply => {
                refuse(&divergences().filter_map(Divergence::obstacle).collect::<Vec<_>>(), FIXED)?;
                for (namespace, found, _) in &all {
                    self.check(namespace, found)?;
                }
            }
        }
        for (namespace, found, divergences) in &all {
            prepared.select_namespace(&namespace.name).map_err(Failure::of)?;
            self.create_and_change(prepared, (namespace, found), divergences)?;
        }
        Ok(())
    }

    /// Creates what is missing in the selected namespace, and changes what differs if that is the policy.
    fn create_and_change(
        &self,
        prepared: &mut Prepared,
        (namespace, found): (&DeclaredNamespace, &Found),
        divergences: &[Divergence<'_>],
    ) -> Result<(), Failure> {
        if namespace.declared.has_emulator() {
            name_others(namespace, found);
        }
        prepared.create(&namespace.plans).map_err(unusable)?;
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
        namespace: &'p DeclaredNamespace,
        found: &Found,
    ) -> Result<Vec<Divergence<'p>>, Failure> {
        let mut all = Vec::new();
        for plan in &namespace.plans {
            let declared = namespace.declared.of(&plan.name);
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
            all.extend(self.divergence((namespace, plan), declared, entity, rules));
        }
        Ok(all)
    }

    fn divergence<'p>(
        &self,
        (namespace, plan): (&'p DeclaredNamespace, &EntityPlan),
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
            namespace,
            source: &declared.source,
            entity_ref: EntityRef::new(plan.kind, &entity.name),
            found: entity.kind,
            changes,
            rules,
            after,
        })
    }

    /// Finds what the core would refuse of an entity that exists, before another one is changed.
    fn check(&self, namespace: &DeclaredNamespace, found: &Found) -> Result<(), Failure> {
        let plans = &namespace.plans;
        let kinds: BTreeMap<String, EntityKind> = found
            .iter()
            .map(|(name, entity)| (name.clone(), entity.kind))
            .chain(plans.iter().map(|plan| (plan.name.to_ascii_lowercase(), plan.kind)))
            .collect();
        for plan in plans.iter().filter(|plan| found.contains_key(&plan.name.to_ascii_lowercase())) {
            let refused = |why: &dyn std::fmt::Display| {
                let label = EntityRef::new(plan.kind, &plan.name).label();
                Failure::misuse(namespace.label(&format!("{label}: {why}")))
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
fn name_others(namespace: &DeclaredNamespace, found: &Found) {
    let planned: BTreeSet<String> =
        namespace.plans.iter().map(|plan| plan.name.to_ascii_lowercase()).collect();
    let others: Vec<String> = found
        .iter()
        .filter(|(name, _)| !planned.contains(*name))
        .map(|(_, entity)| EntityRef::new(entity.kind, &entity.name).short())
        .collect();
    if !others.is_empty() {
        let kept = namespace.label(&others_notice(&others));
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
