//! `[[namespace]]`, key by key.
//!
//! Invariant: plain data as the operator wrote it; a key that is neither a limit of a namespace nor one of the few others is
//! refused.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess},
};

use super::{
    Anonymous, KeyEntry, UserEntry,
    limit::{Amount, AmountSeed, Limit, NAMESPACE_LIMITS},
};

/// A namespace as the operator wrote it.
#[derive(Debug, Default)]
pub(crate) struct NamespaceEntry {
    pub(crate) name: String,
    /// Host names that lead to it, beside those that begin with its name.
    pub(crate) hostnames: Vec<String>,
    pub(crate) weight: Option<u64>,
    /// Access of clients without credentials.
    pub(crate) anonymous: Option<Anonymous>,
    pub(crate) limits: Vec<(&'static Limit, Amount)>,
    /// `[[namespace.key]]`: the same as `[[key]]` with the name of this namespace.
    pub(crate) key: Vec<KeyEntry>,
    /// `[[namespace.user]]`: the same as `[[user]]` with the name of this namespace.
    pub(crate) user: Vec<UserEntry>,
}

/// A key of the table.
enum Key {
    Name,
    Hostnames,
    Weight,
    Anonymous,
    Limit(&'static Limit),
    Keys,
    Users,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        Ok(match key.as_str() {
            "name" => Self::Name,
            "hostnames" => Self::Hostnames,
            "weight" => Self::Weight,
            "anonymous" => Self::Anonymous,
            "key" => Self::Keys,
            "user" => Self::Users,
            other => match NAMESPACE_LIMITS.iter().find(|limit| limit.path().1 == other) {
                Some(limit) => Self::Limit(limit),
                None => return Err(unknown(other)),
            },
        })
    }
}

/// The text of serde for other tables.
fn unknown<E: de::Error>(key: &str) -> E {
    let limits = NAMESPACE_LIMITS.iter().map(|limit| limit.path().1);
    let known = ["name", "hostnames", "weight", "anonymous"].into_iter().chain(limits).chain(["key", "user"]);
    let known: Vec<String> = known.map(|key| format!("`{key}`")).collect();
    E::custom(format_args!("unknown field `{key}`, expected one of {}", known.join(", ")))
}

impl<'de> Deserialize<'de> for NamespaceEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = NamespaceEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table about a namespace")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamespaceEntry, A::Error> {
                let mut entry = NamespaceEntry::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        Key::Name => entry.name = map.next_value()?,
                        Key::Hostnames => entry.hostnames = map.next_value()?,
                        Key::Weight => entry.weight = Some(map.next_value()?),
                        Key::Anonymous => entry.anonymous = Some(map.next_value()?),
                        Key::Limit(limit) => {
                            entry.limits.push((limit, map.next_value_seed(AmountSeed(limit.unit))?));
                        }
                        Key::Keys => entry.key = map.next_value()?,
                        Key::Users => entry.user = map.next_value()?,
                    }
                }
                Ok(entry)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}
