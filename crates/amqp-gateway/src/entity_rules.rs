//! Authorization rules of entities, in the terms in which tokens are verified.
//!
//! Invariant: a rule keeps its name, its keys and its rights.

use broker_auth::{EntityRule, Right, Rights, Secret};
use broker_core::{AccessRight, AuthorizationRule};

/// The authorization rules of an entity, as whoever judges tokens wants them.
pub fn entity_rules(rules: &[AuthorizationRule]) -> Vec<EntityRule> {
    let rule = |rule: &AuthorizationRule| EntityRule {
        name: rule.name.clone(),
        primary: Secret::new(rule.primary.reveal()),
        secondary: rule.secondary.as_ref().map(|key| Secret::new(key.reveal())),
        rights: rights(&rule.rights),
    };
    rules.iter().map(rule).collect()
}

fn rights(rights: &[AccessRight]) -> Rights {
    let right = |right: &AccessRight| match right {
        AccessRight::Manage => Right::Manage,
        AccessRight::Send => Right::Send,
        AccessRight::Listen => Right::Listen,
    };
    rights.iter().map(right).collect()
}
