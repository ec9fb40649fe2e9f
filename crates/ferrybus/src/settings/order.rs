//! Order in which entities are created.
//!
//! Invariant: an entity comes behind those that it forwards to, and a subscription behind its topic, as long as they do
//! not forward to each other; the given order stays otherwise.

use std::collections::BTreeSet;

use broker_core::EntityKind;
use broker_server::EntityPlan;

/// Puts entities behind those that they need. A circle stays as it is: the broker names the first target that is missing.
pub(crate) fn targets_first(mut waiting: Vec<EntityPlan>) -> Vec<EntityPlan> {
    let mut ordered = Vec::with_capacity(waiting.len());
    loop {
        let names: BTreeSet<String> = waiting.iter().map(|plan| plan.name.to_ascii_lowercase()).collect();
        let before = waiting.len();
        let (later, now): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|plan| needs(plan).any(|name| names.contains(&name)));
        ordered.extend(now);
        if later.is_empty() || later.len() == before {
            ordered.extend(later);
            return ordered;
        }
        waiting = later;
    }
}

/// The entities without which this one cannot be made.
fn needs(plan: &EntityPlan) -> impl Iterator<Item = String> {
    let topic = (plan.kind == EntityKind::Subscription)
        .then(|| plan.name.split_once("/Subscriptions/").map(|(topic, _)| topic))
        .flatten();
    let targets = [plan.settings.forward_to.as_deref(), plan.settings.forward_dead_lettered_to.as_deref()];
    // A queue may forward to itself.
    let needed =
        targets.into_iter().chain([topic]).flatten().filter(|name| !name.eq_ignore_ascii_case(&plan.name));
    needed.map(str::to_ascii_lowercase).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests;
