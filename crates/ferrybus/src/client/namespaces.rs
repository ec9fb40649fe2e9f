//! `ferrybus namespace`: namespaces of a running broker, over its JSON interface.
//!
//! Invariant: what is printed as JSON is what the broker answered; the text of a key is printed once, on standard output.

use broker_core::DEFAULT_NAMESPACE;
use serde_json::{Value, json};

use super::BrokerEndpoint;
use crate::{arguments::NamespaceArguments, failure::Failure, output, property::human_bytes, table::Table};

mod interface;
mod settings;

use interface::{Interface, Written, key_path, keys_path, label, path, unreadable};
use settings::SettingsBody;

/// Creates a namespace. One that is there with the same settings is left as it is.
pub(crate) async fn create(
    target: BrokerEndpoint,
    name: &str,
    (given, shard): (&NamespaceArguments, Option<u16>),
    as_json: bool,
) -> Result<(), Failure> {
    let what = format!("cannot create {}", label(name));
    let (mut interface, path) = (Interface::new(&target), path(name)?);
    let mut wanted = SettingsBody::default();
    wanted.change(given, None);
    let mut body = wanted.to_json();
    if let (Some(shard), Some(body)) = (shard, body.as_object_mut()) {
        body.insert("shard".into(), shard.into());
    }
    match interface.put_new(&path, body, &what).await? {
        Written::Done(created) => {
            if as_json {
                return output::line(created);
            }
            output::line(format_args!("created {}", label(name)))
        }
        Written::Exists => {
            let found = interface.get(&path, &what).await?.ok_or_else(|| gone(&what))?;
            let differences = SettingsBody::read(&found).differences(&wanted);
            if !differences.is_empty() {
                return Err(Failure::new(format_args!(
                    "{} is there already, with other settings: {}",
                    label(name),
                    differences.join(", ")
                ))
                .hint(format_args!("`ferrybus namespace set {name}` changes it")));
            }
            if as_json {
                return output::line(found);
            }
            output::line(format_args!("{} is there already, with these settings", label(name)))
        }
    }
}

/// Changes what was given.
pub(crate) async fn set(
    target: BrokerEndpoint,
    name: &str,
    (given, held): (&NamespaceArguments, Option<bool>),
    as_json: bool,
) -> Result<(), Failure> {
    if given.is_empty() && held.is_none() {
        return Err(Failure::misuse("no setting was given to change")
            .hint("`ferrybus namespace set --help` lists them"));
    }
    let what = format!("cannot change {}", label(name));
    let (mut interface, path) = (Interface::new(&target), path(name)?);
    let Some(found) = interface.get(&path, &what).await? else {
        return Err(interface.missing(name).await);
    };
    let before = SettingsBody::read(&found);
    let mut after = before.clone();
    after.change(given, held);
    let changes = before.differences(&after);
    let stored =
        if changes.is_empty() { found } else { interface.put(&path, after.to_json(), &what).await? };
    if as_json {
        return output::line(stored);
    }
    if changes.is_empty() {
        return output::line(format_args!("{} is like that already", label(name)));
    }
    output::line(format_args!("changed {}", label(name)))?;
    changes.iter().try_for_each(|change| output::line(format_args!("  {change}")))
}

/// Shows a namespace.
pub(crate) async fn show(target: BrokerEndpoint, name: &str, as_json: bool) -> Result<(), Failure> {
    let mut interface = Interface::new(&target);
    let what = format!("cannot show {}", label(name));
    let Some(found) = interface.get(&path(name)?, &what).await? else {
        return Err(interface.missing(name).await);
    };
    if as_json {
        return output::line(found);
    }
    let mut table = Table::new(&["PROPERTY", "VALUE"], 2);
    table.row(["namespace".to_owned(), word(&found, "name")]);
    table.row(["state".to_owned(), word(&found, "state")]);
    table.row(["declared by".to_owned(), origin(&found).to_owned()]);
    for (key, value) in SettingsBody::read(&found).rows() {
        table.row([key, value]);
    }
    for (name, key, is_bytes) in USAGE {
        let number = number(usage(&found), key);
        let shown = number.map_or("-".into(), |n| if is_bytes { human_bytes(n) } else { n.to_string() });
        table.row([name.to_owned(), shown]);
    }
    for key in ["shard", "uid", "created_at", "updated_at"] {
        table.row([key.to_owned(), word(&found, key)]);
    }
    table.print()
}

/// Lists all namespaces.
pub(crate) async fn list(target: BrokerEndpoint, as_json: bool) -> Result<(), Failure> {
    let all = Interface::new(&target).list().await?;
    if as_json {
        return all.iter().try_for_each(output::line);
    }
    let mut table = Table::new(&["NAME", "STATE", "DECLARED BY", "ENTITIES", "SIZE", "CONNECTIONS"], 3);
    for namespace in &all {
        let count = |key: &str| number(usage(namespace), key).map_or("-".into(), |count| count.to_string());
        table.row([
            word(namespace, "name"),
            word(namespace, "state"),
            origin(namespace).to_owned(),
            count("entities"),
            number(usage(namespace), "bytes").map_or("-".into(), human_bytes),
            count("connections"),
        ]);
    }
    table.print()
}

/// Deletes a namespace with everything in it, if `yes` says that this is meant.
pub(crate) async fn delete(
    target: BrokerEndpoint,
    name: &str,
    yes: bool,
    as_json: bool,
) -> Result<(), Failure> {
    let what = format!("cannot delete {}", label(name));
    let (mut interface, path) = (Interface::new(&target), path(name)?);
    let Some(found) = interface.get(&path, &what).await? else {
        return Err(interface.missing(name).await);
    };
    if !yes {
        let count = |key: &str| number(usage(&found), key).unwrap_or_default();
        return Err(Failure::new(format_args!(
            "{} has {}, {} of data and {}, which would be gone",
            label(name),
            counted(count("entities"), "entity", "entities"),
            human_bytes(count("bytes")),
            counted(count("connections"), "connection", "connections")
        ))
        .hint("`--yes` deletes it"));
    }
    if !interface.delete(&path, &what).await? {
        return Err(gone(&what));
    }
    if as_json {
        return output::line(json!({ "deleted": name }));
    }
    output::line(format_args!("deleted {}", label(name)))
}

/// Creates a key and prints the connection string with it.
pub(crate) async fn create_key(
    target: BrokerEndpoint,
    (namespace, key): (&str, &str),
    rights: &[String],
    as_json: bool,
) -> Result<(), Failure> {
    let what = format!("cannot create key `{key}` of {}", label(namespace));
    let mut interface = Interface::new(&target);
    let made = interface.put_new(&key_path(namespace, key)?, json!({ "rights": rights }), &what).await?;
    let Written::Done(made) = made else {
        return Err(Failure::new(format_args!("{} has a key `{key}` already", label(namespace)))
            .hint("its text was shown when it was created; delete it and create it again for another one"));
    };
    if as_json {
        return output::line(made);
    }
    let text = made.get("connection_string").and_then(Value::as_str);
    let text = text.ok_or_else(|| unreadable(&what))?;
    output::note(format_args!("created key `{key}` of {}", label(namespace)));
    output::line(text)
}

/// Lists the keys of a namespace.
pub(crate) async fn list_keys(target: BrokerEndpoint, namespace: &str, as_json: bool) -> Result<(), Failure> {
    let mut interface = Interface::new(&target);
    let what = format!("cannot list the keys of {}", label(namespace));
    let Some(found) = interface.get(&keys_path(namespace)?, &what).await? else {
        return Err(interface.missing(namespace).await);
    };
    let all = found.get("keys").and_then(Value::as_array).ok_or_else(|| unreadable(&what))?;
    if as_json {
        return all.iter().try_for_each(output::line);
    }
    if all.is_empty() {
        output::note(format_args!("{} has no key", label(namespace)));
    }
    let mut table = Table::new(&["NAME", "RIGHTS"], 2);
    for key in all {
        let rights = key.get("rights").and_then(Value::as_array);
        let rights: Vec<&str> = rights.into_iter().flatten().filter_map(Value::as_str).collect();
        table.row([word(key, "name"), rights.join(",")]);
    }
    table.print()
}

/// Deletes a key.
pub(crate) async fn delete_key(
    target: BrokerEndpoint,
    (namespace, key): (&str, &str),
    as_json: bool,
) -> Result<(), Failure> {
    let what = format!("cannot delete key `{key}` of {}", label(namespace));
    let mut interface = Interface::new(&target);
    if !interface.delete(&key_path(namespace, key)?, &what).await? {
        if interface.get(&path(namespace)?, &what).await?.is_none() {
            return Err(interface.missing(namespace).await);
        }
        return Err(Failure::new(format_args!("{} has no key `{key}`", label(namespace)))
            .hint(format_args!("`ferrybus namespace key list {namespace}` shows those that there are")));
    }
    if as_json {
        return output::line(json!({ "deleted": key }));
    }
    output::line(format_args!("deleted key `{key}` of {}", label(namespace)))
}

/// The failure of doing `what` to a namespace that was there a moment ago.
fn gone(what: &str) -> Failure {
    Failure::new(format_args!("{what}: somebody else has deleted it meanwhile"))
}

/// A field of an answer as a person reads it.
fn word(answer: &Value, key: &str) -> String {
    match answer.get(key) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn usage(namespace: &Value) -> &Value {
    namespace.get("usage").unwrap_or(&Value::Null)
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

/// Origin of a namespace: the configuration file, an interface, or the broker itself, which has the default one.
fn origin(namespace: &Value) -> &'static str {
    if namespace.get("from_file").and_then(Value::as_bool) == Some(true) {
        return "file";
    }
    let is_default = namespace.get("name").and_then(Value::as_str) == Some(DEFAULT_NAMESPACE);
    if is_default { "broker" } else { "interface" }
}

/// Title, key, and whether it counts bytes.
const USAGE: [(&str, &str, bool); 4] = [
    ("entities", "entities", false),
    ("size", "bytes", true),
    ("connections", "connections", false),
    ("in_flight", "in_flight_bytes", true),
];

#[cfg(test)]
mod tests;
