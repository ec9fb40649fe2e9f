//! Every fuzz target has a stored corpus, and an ordinary test replays it.
//!
//! Invariant: a change is tried on every stored input without a fuzzer, in each test run.

use super::findings::Findings;
use crate::workspace::Workspace;
use crate::{Fallible, fuzz};

/// Files in which the tests of a crate may replay its corpora.
const REPLAYS: [&str; 2] = ["tests/corpus.rs", "tests/it/corpus.rs"];

pub(super) fn check(workspace: &Workspace, findings: &mut Findings) -> Fallible<()> {
    for target in fuzz::targets(workspace)? {
        let (folder, name) = (&target.folder, &target.name);
        let place = folder.strip_prefix(&workspace.root).unwrap_or(folder).display();
        if !folder.join("fuzz/corpus").join(name).is_dir() {
            findings.broken.push(format!("{place}/fuzz/corpus: `{name}` has no stored corpus"));
        }
        let texts = REPLAYS.iter().filter_map(|file| std::fs::read_to_string(folder.join(file)).ok());
        if !texts.into_iter().any(|text| replays(&text, name)) {
            findings
                .broken
                .push(format!("{place}/{}: no test replays the corpus of `{name}`", REPLAYS.join(", ")));
        }
    }
    Ok(())
}

/// Whether a test names the target as a corpus.
fn replays(text: &str, name: &str) -> bool {
    text.contains("#[test]") && text.contains(&format!("\"{name}\""))
}

#[cfg(test)]
mod tests;
