//! Settings of a namespace, as the JSON interface has them.
//!
//! Invariant: what is written back is what was read but for what was given.

use broker_core::NamespaceLimit;
use serde_json::{Map, Value, json};

use crate::{arguments::NamespaceArguments, property::human_bytes, size_and_duration::Bytes};

/// The body of a request that creates or replaces a namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SettingsBody {
    hostnames: Vec<String>,
    weight: u64,
    held: bool,
    limits: [Option<u64>; NamespaceLimit::ALL.len()],
}

impl Default for SettingsBody {
    fn default() -> Self {
        Self { hostnames: Vec::new(), weight: 1, held: false, limits: Default::default() }
    }
}

impl SettingsBody {
    /// Those that an answer describes.
    pub(super) fn read(answer: &Value) -> Self {
        let hostnames = answer.get("hostnames").and_then(Value::as_array);
        let hostnames = hostnames.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let limit = |limit: NamespaceLimit| answer.get("limits")?.get(limit.key())?.as_u64();
        // A namespace that is being deleted is not held.
        let held = answer.get("state").and_then(Value::as_str) == Some("held");
        Self {
            hostnames: hostnames.collect(),
            weight: answer.get("weight").and_then(Value::as_u64).unwrap_or(1),
            held,
            limits: NamespaceLimit::ALL.map(limit),
        }
    }

    /// Takes in what was given.
    pub(super) fn change(&mut self, given: &NamespaceArguments, held: Option<bool>) {
        if let Some(hostnames) = &given.hostnames {
            self.hostnames = hostnames.iter().map(ToString::to_string).collect();
        }
        self.weight = given.weight.unwrap_or(self.weight);
        self.held = held.unwrap_or(self.held);
        for (limit, number) in &given.limits {
            if let Some(place) = self.limits.get_mut(*limit as usize) {
                *place = *number;
            }
        }
    }

    /// As a request has them.
    pub(super) fn to_json(&self) -> Value {
        let limits = NamespaceLimit::ALL.into_iter().zip(self.limits);
        let limits: Map<_, _> =
            limits.map(|(limit, number)| (limit.key().to_owned(), number.into())).collect();
        json!({ "hostnames": self.hostnames, "weight": self.weight, "held": self.held, "limits": limits })
    }

    /// Names and values as people read them.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        let hostnames = if self.hostnames.is_empty() { "-".to_owned() } else { self.hostnames.join(", ") };
        let held = if self.held { "yes" } else { "no" };
        let first =
            [("hostnames", hostnames), ("weight", self.weight.to_string()), ("held", held.to_owned())];
        let limits = NamespaceLimit::ALL.into_iter().zip(self.limits).map(|(limit, number)| {
            let shown = |number: u64| if limit.is_bytes() { exact_bytes(number) } else { number.to_string() };
            (limit.key(), number.map_or("none".to_owned(), shown))
        });
        first.into_iter().chain(limits).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// `max_entities  none -> 1000` for each setting that is another in `after`.
    pub(super) fn differences(&self, after: &Self) -> Vec<String> {
        let pairs = self.rows().into_iter().zip(after.rows());
        let differing = pairs.filter(|((_, before), (_, after))| before != after);
        differing.map(|((key, before), (_, after))| format!("{key}  {before} -> {after}")).collect()
    }
}

/// With a unit where that leaves nothing out.
fn exact_bytes(bytes: u64) -> String {
    let text = human_bytes(bytes);
    if text.parse() == Ok(Bytes(bytes)) { text } else { format!("{bytes} B") }
}
