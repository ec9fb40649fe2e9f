//! Identifiers that are to be replaced by a term of the field, listed in `words.toml` for each crate.
//!
//! Invariant: an identifier is counted wherever production code of the crate writes it, in no comment and no test.

use std::collections::{BTreeMap, BTreeSet};

use super::{source::Source, text};
use crate::Fallible;
use crate::workspace::Workspace;

const FILE: &str = "crates/xtask/src/tidy/figures/words.toml";

/// Listed identifiers of each crate.
pub(super) struct Lists(BTreeMap<String, BTreeSet<String>>);

impl Lists {
    pub(super) fn read(workspace: &Workspace) -> Fallible<Self> {
        Self::parse(&workspace.read(FILE)?)
    }

    pub(super) fn parse(text: &str) -> Fallible<Self> {
        let table: BTreeMap<String, String> = toml::from_str(text)?;
        let words = |list: String| list.split_whitespace().map(str::to_owned).collect();
        Ok(Self(table.into_iter().map(|(name, list)| (name, words(list))).collect()))
    }

    /// Each listed identifier that is still there, and how often. A file's name counts as one use.
    pub(super) fn left(&self, crate_name: &str, sources: &[Source]) -> impl Iterator<Item = (String, usize)> {
        let mut counts = BTreeMap::new();
        if let Some(list) = self.0.get(crate_name) {
            let stems = sources.iter().filter_map(|source| source.path.file_stem()?.to_str());
            let words = sources.iter().flat_map(|source| text::identifiers(&source.text)).chain(stems);
            for word in words.filter(|word| list.contains(*word)) {
                *counts.entry(word.to_owned()).or_insert(0) += 1;
            }
        }
        counts.into_iter()
    }
}
