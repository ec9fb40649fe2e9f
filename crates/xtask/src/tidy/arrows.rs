//! Which crate may use which: the arrows of `docs/ARCHITECTURE.md`.
//!
//! Invariant: a crate that is not in the table is a finding, so no arrow appears by accident.

use super::findings::Findings;
use crate::workspace::{Dependency, DependencyKind, Package};

/// Each crate of the product and the crates it may name. A new row needs a decision record.
pub(super) const ARROWS: [(&str, &[&str]); 11] = [
    ("amqp-codec", &[]),
    ("amqp-engine", &["amqp-codec"]),
    ("broker-filter", &[]),
    ("broker-core", &["broker-filter"]),
    ("broker-log", &[]),
    ("broker-auth", &[]),
    ("broker-node", &["broker-core", "broker-log"]),
    ("amqp-gateway", &["amqp-codec", "amqp-engine", "broker-auth", "broker-core", "broker-filter"]),
    ("broker-admin", &["broker-core", "broker-filter"]),
    (
        "broker-server",
        &[
            "amqp-engine",
            "amqp-gateway",
            "broker-admin",
            "broker-auth",
            "broker-core",
            "broker-log",
            "broker-node",
        ],
    ),
    (
        "ferrybus",
        &["broker-admin", "broker-auth", "broker-core", "broker-filter", "broker-log", "broker-server"],
    ),
];

/// Crates that look in from outside: they may use anything, and the product only in its tests.
const OUTSIDE: [&str; 5] = ["bench", "sim", "system-tests", "testkit", "xtask"];

/// Libraries that only these crates may name, because the others must stay free of what they bring.
const KEPT: [(&str, &[&str]); 11] = [
    ("anyhow", &["ferrybus"]),
    ("hyper", &["broker-server", "ferrybus"]),
    ("hyper-util", &["broker-server", "ferrybus"]),
    ("tokio-tungstenite", &["broker-server"]),
    ("tokio", &["broker-server", "ferrybus"]),
    ("tokio-rustls", &["broker-server", "ferrybus"]),
    ("rustls", &["broker-server", "ferrybus"]),
    ("fe2o3-amqp", &["ferrybus"]),
    ("fe2o3-amqp-types", &["amqp-codec", "ferrybus"]),
    ("serde_amqp", &["amqp-codec", "ferrybus"]),
    ("getrandom", &["broker-server", "ferrybus"]),
];

/// The crates below the server, whose modules state their invariants.
pub(super) fn below_server() -> impl Iterator<Item = &'static str> {
    ARROWS.iter().map(|(name, _)| *name).filter(|name| !["broker-server", "ferrybus"].contains(name))
}

pub(super) fn check(packages: &[Package], findings: &mut Findings) {
    for package in packages {
        let name = package.name.as_str();
        if OUTSIDE.contains(&name) {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.broken.push(format!(
                "crate `{name}` is not in the table of arrows in `crates/xtask/src/tidy/arrows.rs`"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(sentence) = fault(name, allowed, dependency) {
                findings.broken.push(sentence);
            }
        }
    }
}

fn fault(name: &str, allowed: &[&str], dependency: &Dependency) -> Option<String> {
    let other = dependency.name.as_str();
    let in_tests = dependency.kind == DependencyKind::Dev;
    if dependency.local {
        let fine =
            allowed.contains(&other) || in_tests && (OUTSIDE.contains(&other) || reachable(allowed, other));
        return (!fine)
            .then(|| format!("`{name}` must not depend on `{other}`: the architecture has no such arrow"));
    }
    let (_, holders) = KEPT.iter().find(|(library, _)| *library == other)?;
    let fine = in_tests || holders.contains(&name);
    (!fine).then(|| format!("`{name}` must not depend on `{other}`: only {} may", holders.join(", ")))
}

/// Whether an arrow's path leads from one of `from` to `to`.
fn reachable(from: &[&str], to: &str) -> bool {
    let next = |name: &str| ARROWS.iter().find(|(row, _)| *row == name).map(|(_, arrows)| *arrows);
    from.iter().any(|&name| name == to || next(name).is_some_and(|arrows| reachable(arrows, to)))
}

#[cfg(test)]
mod tests;
