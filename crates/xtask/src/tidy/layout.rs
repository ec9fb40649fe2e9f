//! Files and folders of the top level.
//!
//! Invariant: a newcomer sees the same few names whatever is added below them, and finds each of them.

use std::collections::BTreeSet;
use std::path::{Component, PathBuf};

use super::findings::Findings;

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
/// Other entries: the toolchain and the CI script.
const BESIDES: [&str; 2] = ["rust-toolchain.toml", ".ci"];

pub(super) fn check(files: &[PathBuf], findings: &mut Findings) {
    let top: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| match file.components().next() {
            Some(Component::Normal(name)) => name.to_str(),
            _ => None,
        })
        .collect();
    let known = || TOP.iter().chain(&BESIDES);
    let strangers = top.iter().filter(|name| !name.starts_with('.') && !known().any(|known| known == *name));
    findings
        .broken
        .extend(strangers.map(|name| format!("{name}: the top level gains no file and no folder")));
    let missing = known().filter(|name| !top.contains(*name));
    findings.broken.extend(missing.map(|name| format!("{name}: the top level has lost it, put it back")));
}

#[cfg(test)]
mod tests;
