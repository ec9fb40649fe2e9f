//! The configuration file, and those of its keys that only a start takes in.
//!
//! Invariant: nothing of a value is shown: values may be secrets.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use broker_core::DEFAULT_NAMESPACE;
use toml::{Table, Value};

/// A configuration file that was read.
#[derive(Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// The keys that a reload does not take in, with their values.
    fixed: BTreeMap<String, Value>,
    /// Names of the namespaces that it declares, in lower case.
    namespaces: BTreeSet<String>,
}

/// Keys and tables that a reload takes in.
const RELOADED: [&str; 11] = [
    "admin",
    "anonymous",
    "certificate",
    "hostnames",
    "issuer",
    "key",
    "log.level",
    "namespace",
    "plain_without_tls",
    "tls",
    "user",
];

impl ConfigFile {
    /// The file with this text, which is a configuration. A table's keys count one by one, a list of tables as one key.
    pub(super) fn new(path: &Path, text: &str) -> Self {
        let table: Table = text.parse().unwrap_or_default();
        let has_tls = table.contains_key("tls");
        let namespaces: BTreeSet<String> =
            tables(table.get("namespace")).filter_map(|it| word(it, "name")).collect();
        let mut keys = BTreeMap::new();
        for (name, value) in table {
            match value {
                Value::Table(inner) => {
                    keys.extend(inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
                }
                value if ENTITIES.contains(&name.as_str()) => keys.extend(by_namespace(&name, &value)),
                value => {
                    keys.insert(name, value);
                }
            }
        }
        keys.retain(|key, _| {
            !RELOADED.iter().any(|taken| key == taken || key.starts_with(&format!("{taken}.")))
        });
        if has_tls {
            // The files of TLS may change, but only a start opens ports for it.
            keys.insert("tls".to_owned(), Value::Boolean(true));
        }
        Self { path: path.to_owned(), fixed: keys, namespaces }
    }

    /// The names of keys that differ and that only a start takes in, in the order of the alphabet. Entities of a namespace that
    /// only one of the two declares are not among them.
    pub(crate) fn differing<'k>(&'k self, other: &'k Self) -> Vec<&'k str> {
        let is_of_both = |key: &str| {
            key.split_once(OF_NAMESPACE).is_none_or(|(_, namespace)| {
                self.namespaces.contains(namespace) == other.namespaces.contains(namespace)
            })
        };
        let names =
            self.fixed.keys().chain(other.fixed.keys().filter(|name| !self.fixed.contains_key(*name)));
        let mut names: Vec<&str> = names
            .filter(|name| is_of_both(name) && self.fixed.get(*name) != other.fixed.get(*name))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names
    }
}

/// The tables of a list.
fn tables(list: Option<&Value>) -> impl Iterator<Item = &Table> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn word(table: &Table, key: &str) -> Option<String> {
    table.get(key)?.as_str().map(str::to_ascii_lowercase)
}

/// The list of these entities, as one list for each namespace.
fn by_namespace(name: &str, list: &Value) -> BTreeMap<String, Value> {
    let mut lists: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for table in tables(Some(list)) {
        let namespace = word(table, "namespace").filter(|namespace| namespace != DEFAULT_NAMESPACE);
        let key = namespace.map_or_else(|| name.to_owned(), |of| format!("{name}{OF_NAMESPACE}{of}"));
        lists.entry(key).or_default().push(Value::Table(table.clone()));
    }
    lists.into_iter().map(|(key, list)| (key, Value::Array(list))).collect()
}

/// Lists of entities, which are compared for each namespace.
const ENTITIES: [&str; 2] = ["queue", "topic"];
/// Between the key of a list of entities and the name of their namespace.
const OF_NAMESPACE: &str = " of namespace ";

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
