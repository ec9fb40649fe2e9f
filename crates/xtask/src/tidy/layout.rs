//! What the top level may hold.
//!
//! Invariant: a newcomer sees the same few names whatever is added below them.

use std::collections::BTreeSet;
use std::path::{Component, PathBuf};

use super::Findings;

/// Everything at the top that does not begin with a dot.
const TOP: [&str; 11] = [
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "crates",
    "deny.toml",
    "docs",
    "interop",
    "tests",
];
const TOOLCHAIN: &str = "rust-toolchain.toml";

pub(super) fn check(files: &[PathBuf], findings: &mut Findings) {
    let top: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| match file.components().next() {
            Some(Component::Normal(name)) => name.to_str(),
            _ => None,
        })
        .collect();
    let strangers =
        top.iter().filter(|name| !name.starts_with('.') && !TOP.contains(name) && **name != TOOLCHAIN);
    findings
        .broken
        .extend(strangers.map(|name| format!("{name}: the top level gains no file and no folder")));
}

#[cfg(test)]
mod tests;
