//! The pure crates ban clocks, chance and hash order in a `clippy.toml` of their own.
//!
//! Invariant: a crate's own `clippy.toml` replaces the root's, so it repeats every rule of it.

use std::path::Path;

use super::{arrows, findings::Findings};
use crate::Fallible;
use crate::workspace::Workspace;

/// Methods and types that each pure crate must disallow.
const BANNED: [&str; 8] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    // They look at the clock by themselves.
    "std::time::Instant::elapsed",
    "std::time::SystemTime::elapsed",
    "std::thread::sleep",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::hash::RandomState",
];

/// `broker-admin` serves HTTP on the server's clock; the rest below the server is pure.
const IMPURE: [&str; 1] = ["broker-admin"];

pub(super) fn check(workspace: &Workspace, findings: &mut Findings) -> Fallible<()> {
    let root = workspace.read(".clippy.toml")?;
    let pure = arrows::below_server().filter(|name| !IMPURE.contains(name) && workspace.has(name));
    for name in pure {
        let file = Path::new("crates").join(name).join("clippy.toml");
        let Ok(text) = workspace.read(&file) else {
            findings.broken.push(format!(
                "{}: missing; a pure crate bans clocks, chance and hash order",
                file.display()
            ));
            continue;
        };
        let lacking = lacking(&root, &text);
        findings.broken.extend(lacking.map(|what| format!("{}: {what}", file.display())));
    }
    Ok(())
}

/// Rules that a pure crate's file lacks.
fn lacking<'a>(root: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let lines =
        root.lines().filter(move |line| is_rule(line) && !text.lines().any(|own| own.trim() == line.trim()));
    let free = BANNED.iter().filter(move |path| !text.contains(&format!("\"{path}\"")));
    let lines = lines.map(|line| format!("lacks the root's line `{line}`"));
    lines.chain(free.map(|path| format!("does not ban `{path}`")))
}

/// Names that documentation may write without backticks are no rule: each crate has its own.
fn is_rule(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with("doc-valid-idents")
}

#[cfg(test)]
mod tests;
