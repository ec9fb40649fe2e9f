//! The configuration file, and those of its keys that only a start takes in.
//!
//! Invariant: nothing of a value is shown: values may be secrets.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

/// A configuration file that was read.
#[derive(Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// The keys that a reload does not take in, with their values.
    fixed: BTreeMap<String, Value>,
}

/// Keys and tables that a reload takes in.
const RELOADED: [&str; 9] = [
    "anonymous",
    "certificate",
    "hostnames",
    "issuer",
    "key",
    "log.level",
    "plain_without_tls",
    "tls",
    "user",
];

impl ConfigFile {
    /// The file with this text, which is a configuration. A table's keys count one by one, a list of tables as one key.
    pub(super) fn new(path: &Path, text: &str) -> Self {
        let table: Table = text.parse().unwrap_or_default();
        let has_tls = table.contains_key("tls");
        let mut keys = BTreeMap::new();
        for (name, value) in table {
            match value {
                Value::Table(inner) => {
                    keys.extend(inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
                }
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
        Self { path: path.to_owned(), fixed: keys }
    }

    /// The names of keys that differ and that only a start takes in, in the order of the alphabet.
    pub(crate) fn differing<'k>(&'k self, other: &'k Self) -> Vec<&'k str> {
        let names =
            self.fixed.keys().chain(other.fixed.keys().filter(|name| !self.fixed.contains_key(*name)));
        let mut names: Vec<&str> = names
            .filter(|name| self.fixed.get(*name) != other.fixed.get(*name))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names
    }
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
