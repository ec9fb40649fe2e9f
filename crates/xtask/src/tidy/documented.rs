//! Public types, traits and functions have documentation. Fields and variants need none: a line that repeats their
//! name tells a reader nothing, and rustc's `missing_docs` cannot leave them out.
//!
//! Invariant: the check reads the layout of rustfmt, one item at the start of a line.

use std::path::{Path, PathBuf};

use super::{findings::Findings, sources};
use crate::Fallible;
use crate::workspace::Workspace;

const ITEMS: [&str; 7] = ["struct", "enum", "union", "trait", "type", "fn", "macro"];
/// Words that may stand between `pub` and the word for the item.
const QUALIFIERS: [&str; 3] = ["const", "async", "unsafe"];

pub(super) fn check(workspace: &Workspace, files: &[PathBuf], findings: &mut Findings) -> Fallible<()> {
    let own = files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs"));
    for file in own.filter(|file| file.starts_with("crates") && !sources::is_test(file)) {
        undocumented(file, &workspace.read(file)?, findings);
    }
    Ok(())
}

fn undocumented(file: &Path, text: &str, findings: &mut Findings) {
    let mut documented = false;
    // An attribute may take several lines, up to one that ends in `]`.
    let mut attribute = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if attribute || line.starts_with("#[") {
            attribute = !line.ends_with(']');
            continue;
        }
        if let Some(name) = public_item(line).filter(|_| !documented) {
            findings.broken.push(format!("{}:{}: `{name}` has no documentation", file.display(), index + 1));
        }
        documented = line.starts_with("///");
    }
}

/// The name of the type, trait or function that the line makes public.
fn public_item(line: &str) -> Option<&str> {
    let mut words =
        line.strip_prefix("pub ")?.split_whitespace().skip_while(|word| QUALIFIERS.contains(word));
    words.next().filter(|word| ITEMS.contains(word))?;
    words.next()?.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

#[cfg(test)]
mod tests;
