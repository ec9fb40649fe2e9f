//! Settings of a namespace in a request, and the version of those that it has.
//!
//! Invariant: what is refused here is what a configuration file may not have either.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use broker_core::{
    NAMESPACE_WEIGHTS, NamespaceDefinition, NamespaceLimit, NamespaceRecord, NamespaceSettings, Timestamp,
};
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::answer::Refusal;
use crate::namespace_names::HostName;

/// Body of a request for a namespace. What is left out has its default.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SettingsBody {
    pub(super) hostnames: Vec<String>,
    pub(super) weight: Option<u16>,
    pub(super) held: Option<bool>,
    pub(super) limits: Map<String, Value>,
    /// The shard in which it is created.
    pub(super) shard: Option<u16>,
}

/// The settings of a body. Whether the namespace is held stays as it is where the body does not say.
pub(super) fn settings(
    body: SettingsBody,
    before: Option<&NamespaceSettings>,
) -> Result<NamespaceSettings, Refusal> {
    let SettingsBody { hostnames, weight, held, limits, .. } = body;
    let bad = |text: String| Refusal::Bad(text);
    let mut settings = NamespaceSettings {
        held: held.unwrap_or_else(|| before.is_some_and(|before| before.held)),
        ..NamespaceSettings::default()
    };
    settings.weight = weight.unwrap_or(1);
    if !NAMESPACE_WEIGHTS.contains(&settings.weight) {
        let (least, most) = (NAMESPACE_WEIGHTS.start(), NAMESPACE_WEIGHTS.end());
        return Err(bad(format!("`weight` is {}, expected {least} to {most}", settings.weight)));
    }
    for hostname in hostnames {
        let host = HostName::parse(&hostname).map_err(|error| bad(error.to_string()))?;
        settings.hostnames.push(host.as_str().into());
    }
    for (key, value) in limits {
        let limit = NamespaceLimit::of_key(&key).ok_or_else(|| {
            let known = NamespaceLimit::ALL.map(NamespaceLimit::key).join("`, `");
            bad(format!("`{key}` is no limit of a namespace: those are `{known}`"))
        })?;
        let number = match value {
            Value::Null => None,
            value => Some(value.as_u64().ok_or_else(|| bad(format!("`{key}` has to be a number or null")))?),
        };
        let range = limit.range();
        if let Some(number) = number.filter(|number| !range.contains(number)) {
            let (least, most) = (range.start(), range.end());
            return Err(bad(format!("`{key}` is {number}, expected {least} to {most}, or null")));
        }
        settings.limits.set(limit, number);
    }
    Ok(settings)
}

/// The `ETag` of a namespace: another one for other settings, and for another namespace of its name. Its keys do not count.
pub(super) fn version(definition: &NamespaceDefinition) -> HeaderValue {
    let settings =
        NamespaceDefinition { keys: Vec::new(), updated_at: Timestamp::default(), ..definition.clone() };
    let mut hasher = DefaultHasher::new();
    NamespaceRecord::encode(&settings).hash(&mut hasher);
    HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).expect("digits and quotes make a header")
}

/// Refuses a request that is for another state of the namespace.
pub(super) fn check_version(
    name: &str,
    expected: &HeaderValue,
    found: Option<&NamespaceDefinition>,
) -> Result<(), Refusal> {
    let is_met = found.is_some_and(|found| expected == "*" || *expected == version(found));
    if is_met {
        return Ok(());
    }
    Err(Refusal::Precondition(format!(
        "`If-Match` does not name the present state of the namespace `{name}`"
    )))
}

#[cfg(test)]
mod tests;
