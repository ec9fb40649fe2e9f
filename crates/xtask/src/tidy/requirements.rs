//! The tests that `docs/requirements.md` and the engine's checklist name exist.
//!
//! Invariant: a name in the last column is a test of this repository, or the row is open.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::findings::Findings;
use crate::Fallible;
use crate::workspace::Workspace;

const FILE: &str = "docs/requirements.md";
/// The rules of AMQP row by row. Its tests stand behind the file that they are in, as `links::name` or `src/ids: name`.
const CHECKLIST: &str = "docs/features/amqp-engine.md";

/// Families of statements; a row begins with one of them.
const FAMILIES: [&str; 9] = ["SET-", "TXN-", "EXP-", "SEQ-", "RTTL-", "CARD-", "DYN-", "ADDR-", "NS-"];

/// One statement and the names in its last column.
#[derive(Debug, Eq, PartialEq)]
struct Row<'a> {
    id: &'a str,
    tests: Vec<&'a str>,
}

pub(super) fn check(workspace: &Workspace, files: &[PathBuf], findings: &mut Findings) -> Fallible<()> {
    let text = workspace.read(FILE)?;
    let known = known(workspace, files)?;
    let mut open = 0;
    for row in rows(&text) {
        open += usize::from(row.tests.is_empty());
        let unknown = row.tests.iter().filter(|name| !known.contains(**name));
        findings
            .broken
            .extend(unknown.map(|name| format!("{FILE}: {} names `{name}`, which is no test", row.id)));
    }
    let checklist = workspace.read(CHECKLIST)?;
    let unknown =
        placed(&checklist).filter(|(whole, name)| !known.contains(*whole) && !known.contains(*name));
    findings.broken.extend(unknown.map(|(whole, _)| format!("{CHECKLIST}: `{whole}` is no test")));
    if open > 0 {
        findings.notes.push(format!("{FILE}: {open} statements have no test yet"));
    }
    Ok(())
}

fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    text.lines().filter_map(|line| {
        let cells: Vec<&str> =
            line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let id = *cells.first()?;
        let tests = cells.last()?.split('`').skip(1).step_by(2).collect();
        FAMILIES.iter().any(|family| id.starts_with(family)).then_some(Row { id, tests })
    })
}

/// The tests that a page names with their place: all that is between backticks, and the name alone.
fn placed(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter_map(|span| {
        let (_, name) = span.rsplit_once("::").or_else(|| span.rsplit_once(": "))?;
        name.starts_with(|first: char| first.is_ascii_lowercase()).then_some((span, name))
    })
}

/// Names of test functions in Rust, and of cases in the interop suites as `interop: <case>`.
fn known(workspace: &Workspace, files: &[PathBuf]) -> Fallible<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    for file in files {
        let ending = file.extension().and_then(std::ffi::OsStr::to_str);
        if ending == Some("rs") {
            known.extend(tests_in(&workspace.read(file)?).map(str::to_owned));
        }
        if file.starts_with("interop")
            && ending.is_some_and(|ending| ["py", "js", "rs", "cpp"].contains(&ending))
        {
            known.extend(quoted(&workspace.read(file)?).map(|case| format!("interop: {case}")));
        }
    }
    Ok(known)
}

/// The functions behind an attribute that makes them tests.
pub(super) fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    let marked = ["#[test]", "#[tokio::test"].into_iter().flat_map(|mark| text.split(mark).skip(1));
    let declared = marked.filter_map(|rest| rest.split("fn ").nth(1));
    declared.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

/// Texts in double quotes, line by line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('"').skip(1).step_by(2))
}

#[cfg(test)]
mod tests;
