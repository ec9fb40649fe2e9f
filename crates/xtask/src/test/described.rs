//! Cases of each client in `docs/features/interop.md`.
//!
//! A row names its cases, what must hold, and has one mark for each client: `✓` plays it, `–` has no way to,
//! empty is not asked. The marks of a row with several cases are those of its best one.
//!
//! Invariant: a case without a row, and a mark that is not what the suite reports, are each a failure of the
//! run, so the page cannot promise what nobody plays; but for suites that are the tests of others.

use std::collections::BTreeMap;

use super::expectations::{Case, Status};
use super::report::Failure;

const PAGE: &str = "docs/features/interop.md";

/// The heading of a client's column, and the suite that fills it.
const COLUMNS: [(&str, &str); 18] = [
    ("Python SDK", "azure-python"),
    ("JavaScript SDK", "azure-javascript"),
    ("Rust SDK", "azure-rust"),
    ("Go SDK", "azure-go"),
    ("Proton Python", "proton-python"),
    ("Proton C++", "proton-cpp"),
    ("rhea", "rhea"),
    ("go-amqp", "go-amqp"),
    ("Java SDK", "azure-java"),
    ("Java SDK 3", "azure-java-3"),
    ("Qpid JMS", "qpid-jms"),
    ("Qpid JMS 1.16", "qpid-jms-javaee"),
    ("ProtonJ2", "protonj2"),
    ("Vert.x", "vertx"),
    ("Python administration", "azure-python-administration"),
    ("JavaScript administration", "azure-javascript-administration"),
    ("crash", "crash"),
    ("packages", "packages"),
];

/// Suites whose cases are named by others; the page speaks of them as a whole.
const TESTS_OF_OTHERS: [&str; 1] = ["azure-python-live"];

/// Prefixes of a case's name: the mode in which it ran.
const WAYS: [&str; 4] = ["plain/", "tls/", "sync/", "async/"];

/// The rows of the page.
pub(super) struct Described {
    rows: Vec<Row>,
}

struct Row {
    cases: Vec<String>,
    /// By suite; one that the row's table has no column for is not in it.
    marks: BTreeMap<&'static str, Mark>,
}

/// In the order of what counts more in a row with several cases.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Mark {
    NotAsked,
    NoWay,
    Played,
}

impl Described {
    pub(super) fn read(markdown: &str) -> Self {
        let mut suites = Vec::new();
        let mut rows = Vec::new();
        for cells in markdown.lines().filter_map(cells) {
            match cells.as_slice() {
                ["case", _, headings @ ..] => {
                    suites = headings.iter().map(|heading| suite(heading)).collect();
                }
                [cases, _, marks @ ..] if cases.starts_with('`') => {
                    rows.push(Row::read(cases, marks, &suites));
                }
                _ => {}
            }
        }
        Self { rows }
    }

    /// Differences between the page and the report of `suite`.
    pub(super) fn differences(&self, suite: &str, cases: &[Case]) -> Vec<Failure> {
        if TESTS_OF_OTHERS.contains(&suite) {
            return Vec::new();
        }
        let mut reported = BTreeMap::new();
        for case in cases {
            let mark = if case.status == Status::Skipped { Mark::NoWay } else { Mark::Played };
            let best = reported.entry(without_ways(&case.name)).or_insert(mark);
            *best = mark.max(*best);
        }
        let known = |name: &str| self.rows.iter().any(|row| row.cases.iter().any(|case| case == name));
        let unknown = reported
            .keys()
            .filter(|name| !known(name))
            .map(|name| failure(format!("`{name}` of `{suite}` has no row in {PAGE}")));
        let wrong = self.rows.iter().filter_map(|row| row.difference(suite, &reported)).map(failure);
        unknown.chain(wrong).collect()
    }
}

impl Row {
    fn read(cases: &str, marks: &[&str], suites: &[Option<&'static str>]) -> Self {
        // Between backticks is every second piece.
        let cases = cases.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let marks =
            suites.iter().zip(marks).filter_map(|(suite, text)| suite.map(|suite| (suite, mark(text))));
        Self { cases, marks: marks.collect() }
    }

    fn difference(&self, suite: &str, reported: &BTreeMap<&str, Mark>) -> Option<String> {
        let best = self.cases.iter().filter_map(|case| reported.get(case.as_str())).max();
        let said = best.copied().unwrap_or(Mark::NotAsked);
        let shown = self.marks.get(suite).copied().unwrap_or(Mark::NotAsked);
        let cases = self.cases.join("`, `");
        (said != shown)
            .then(|| format!("`{cases}` of `{suite}`: {PAGE} shows {shown:?}, the suite says {said:?}"))
    }
}

/// The cells of a line that is a row of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

fn suite(heading: &str) -> Option<&'static str> {
    COLUMNS.iter().find(|(known, _)| *known == heading).map(|(_, suite)| *suite)
}

/// A remark may stand behind a mark.
fn mark(text: &str) -> Mark {
    match text.chars().next() {
        Some('✓') => Mark::Played,
        Some('–') => Mark::NoWay,
        _ => Mark::NotAsked,
    }
}

fn without_ways(case: &str) -> &str {
    let mut rest = case;
    while let Some(shorter) = WAYS.iter().find_map(|way| rest.strip_prefix(way)) {
        rest = shorter;
    }
    rest
}

fn failure(title: String) -> Failure {
    Failure { title, detail: String::new() }
}

#[cfg(test)]
mod tests;
