//! Every direct dependency has its reason in `deny.toml`.
//!
//! Invariant: the list and the manifests agree in both directions.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Findings;
use crate::Fallible;
use crate::workspace::Workspace;

/// The comment line after which the list begins; it ends with the first line that is no comment.
const HEADING: &str = "# Direct dependencies";

pub(super) fn check(workspace: &Workspace, findings: &mut Findings) -> Fallible<()> {
    let reasons = read(&workspace.read("deny.toml")?);
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for package in &workspace.packages {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.local) {
            if used.insert(&dependency.name) && !reasons.contains_key(&dependency.name) {
                let (library, name) = (&dependency.name, &package.name);
                findings.broken.push(format!("deny.toml: `{library}` of `{name}` has no reason in the list"));
            }
        }
    }
    let idle = reasons.keys().filter(|name| !used.contains(name.as_str()));
    findings
        .notes
        .extend(idle.map(|name| format!("deny.toml: nothing uses `{name}` any more, take its row out")));
    Ok(())
}

/// Rows are `#   name   reason`.
fn read(text: &str) -> BTreeMap<String, String> {
    let list = text.lines().skip_while(|line| !line.starts_with(HEADING)).skip(1);
    list.take_while(|line| line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("#   ")?.split_once(' '))
        .filter(|(name, reason)| !name.is_empty() && !reason.trim().is_empty())
        .map(|(name, reason)| (name.to_owned(), reason.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests;
