//! Suggestion of the entity that was probably meant by a name that the broker does not know.
//!
//! Invariant: what the broker has said stays as it is; a hint comes behind it, or nothing.

use broker_core::EntityKind;

use super::{BrokerEndpoint, management::EntityRef};
use crate::{failure::Failure, suggest::suggest};

/// The failure of a command about the entities of these names, with the names that were probably meant instead of the first
/// that is missing. A client that may not list entities gets the failure as it is.
pub(super) async fn explain(target: &BrokerEndpoint, names: &[&str], failure: Failure) -> Failure {
    for name in names {
        match hint(target, name).await {
            Hint::Meant(text) => return failure.hint(text),
            Hint::There => {}
            Hint::Unknown => return failure,
        }
    }
    failure
}

enum Hint {
    /// It is missing, and this helps.
    Meant(String),
    There,
    /// The broker does not tell.
    Unknown,
}

async fn hint(target: &BrokerEndpoint, name: &str) -> Hint {
    // A sub-queue is there whenever its entity is.
    let name = name.trim_matches('/').split("/$").next().unwrap_or_default();
    let mut management = target.management();
    if let Some((topic, own)) = split(name) {
        let entity_ref = EntityRef::subscription(topic, own);
        return match management.find(&entity_ref).await {
            Ok(Some(_)) => Hint::There,
            Ok(None) => management.missing(&entity_ref).await.into_hint().map_or(Hint::Unknown, Hint::Meant),
            Err(_) => Hint::Unknown,
        };
    }
    let mut names = Vec::new();
    for kind in [EntityKind::Queue, EntityKind::Topic] {
        let Ok(all) = management.list(&EntityRef::new(kind, "")).await else { return Hint::Unknown };
        names.extend(all.into_iter().map(|entity| entity.name));
    }
    if names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Hint::There;
    }
    Hint::Meant(match suggest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`ferrybus queue list` and `ferrybus topic list` show those that there are".to_owned(),
    })
}

/// Topic and own name of a subscription.
fn split(name: &str) -> Option<(&str, &str)> {
    const BETWEEN: &str = "/subscriptions/";
    let at = name.to_ascii_lowercase().find(BETWEEN)?;
    Some((name.get(..at)?, name.get(at + BETWEEN.len()..)?))
}
