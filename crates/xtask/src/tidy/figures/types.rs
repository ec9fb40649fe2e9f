//! Methods and fields of each type of a crate, and the files that hold the methods.
//!
//! Invariant: a method of a trait counts as the trait's, so a type is as large as what it declares itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::source::Source;

/// Size of one type.
#[derive(Debug, Default)]
pub(super) struct Type {
    /// Name of each method and the file that defines it.
    pub(super) methods: Vec<(String, PathBuf)>,
    pub(super) files: BTreeSet<PathBuf>,
    pub(super) fields: usize,
}

/// Reads the layout of rustfmt: an item begins at the left margin, its members four columns further.
pub(super) fn measure(sources: &[Source]) -> BTreeMap<String, Type> {
    let mut types: BTreeMap<String, Type> = BTreeMap::new();
    for source in sources {
        let mut inside = Inside::Nothing;
        for line in source.text.lines() {
            if !line.starts_with([' ', '}', ')', '/']) && !line.is_empty() {
                inside = item(line);
            }
            let Some(member) = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')) else {
                continue;
            };
            match &inside {
                Inside::Impl(name) => {
                    if let Some(method) = method(member) {
                        let size = types.entry(name.clone()).or_default();
                        size.methods.push((method.to_owned(), source.path.clone()));
                        size.files.insert(source.path.clone());
                    }
                }
                Inside::Struct(name) if is_field(member) => {
                    types.entry(name.clone()).or_default().fields += 1;
                }
                Inside::Struct(_) | Inside::Nothing => {}
            }
        }
    }
    types
}

enum Inside {
    Nothing,
    Impl(String),
    Struct(String),
}

fn item(line: &str) -> Inside {
    if let Some(rest) = line.strip_prefix("impl") {
        let rest = without_parameters(rest).trim_start();
        let head = rest.split(['{', '(']).next().unwrap_or(rest);
        return if head.contains(" for ") { Inside::Nothing } else { Inside::Impl(first_name(rest)) };
    }
    match line.split_once("struct ") {
        Some((before, rest)) if before.is_empty() || before.starts_with("pub") => {
            Inside::Struct(first_name(rest))
        }
        _ => Inside::Nothing,
    }
}

/// The text after `<…>`, where it begins with that.
fn without_parameters(text: &str) -> &str {
    if !text.starts_with('<') {
        return text;
    }
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return text.get(at + 1..).unwrap_or("");
        }
    }
    ""
}

/// The last segment of the path at the start of `text`.
fn first_name(text: &str) -> String {
    let path = text.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter)).next();
    path.and_then(|path| path.rsplit("::").next()).unwrap_or("").to_owned()
}

fn method(member: &str) -> Option<&str> {
    let (before, rest) = member.split_once("fn ")?;
    let declares = before.split_whitespace().all(|word| {
        word.starts_with("pub") || ["const", "async", "in"].contains(&word) || word.ends_with(')')
    });
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    declares.then_some(name)
}

fn is_field(member: &str) -> bool {
    let name = member.split_once(':').map(|(name, _)| name.rsplit(' ').next().unwrap_or(name));
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        && !member.starts_with(['/', '#'])
}
