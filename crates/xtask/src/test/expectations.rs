//! Which cases of which client may fail or be missing, and why.
//!
//! Invariant: an unlisted failure, an unlisted skip, a listed case that passes and a listed case that
//! no longer exists are each a failure of the run.

use std::collections::BTreeMap;

use super::report::Failure;
use crate::Fallible;
use crate::counts::Counts;

/// Result of one case.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) status: Status,
    pub(super) detail: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Status {
    Passed,
    Failed,
    Skipped,
}

impl Status {
    pub(super) fn read(word: &str) -> Option<Self> {
        match word {
            "passed" => Some(Self::Passed),
            "failed" => Some(Self::Failed),
            "skipped" => Some(Self::Skipped),
            _ => None,
        }
    }
}

/// The whole file: one table for each suite, in it `"case" = "reason"`.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    suites: BTreeMap<String, BTreeMap<String, String>>,
}

/// The cases of one suite against what was expected of them.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Judged {
    pub(super) counts: Counts,
    pub(super) problems: Vec<Failure>,
    /// Whether a listed case failed: then the suite's own exit code says nothing.
    pub(super) expected_failures: bool,
}

impl Expectations {
    pub(super) fn read(text: &str) -> Fallible<Self> {
        let table: toml::Table = toml::from_str(text)?;
        let mut suites = BTreeMap::new();
        for (suite, cases) in table {
            let cases = cases.as_table().ok_or_else(|| format!("`{suite}` is not a table"))?;
            let mut reasons = BTreeMap::new();
            for (case, reason) in cases {
                let reason = reason.as_str().unwrap_or_default().trim();
                if reason.is_empty() {
                    return Err(format!("`{suite}` / `{case}` has no reason").into());
                }
                reasons.insert(case.clone(), reason.to_owned());
            }
            suites.insert(suite, reasons);
        }
        Ok(Self { suites })
    }

    pub(super) fn judge(&self, suite: &str, cases: &[Case]) -> Judged {
        let none = BTreeMap::new();
        let listed = self.suites.get(suite).unwrap_or(&none);
        let mut judged = Judged { counts: Counts::default(), problems: Vec::new(), expected_failures: false };
        for case in cases {
            judged.add(case, listed.contains_key(&case.name));
        }
        for name in listed.keys().filter(|name| !cases.iter().any(|case| case.name == **name)) {
            judged.problem(format!("`{name}` is in expectations.toml and was not reported"), "");
        }
        if cases.is_empty() {
            judged.problem("the suite reported no case".to_owned(), "");
        }
        judged
    }
}

impl Judged {
    fn add(&mut self, case: &Case, listed: bool) {
        let name = &case.name;
        match (case.status, listed) {
            (Status::Passed, false) => self.counts.passed += 1,
            (Status::Passed, true) => {
                self.problem(format!("`{name}` passes: take it out of expectations.toml"), "");
            }
            (Status::Failed | Status::Skipped, true) => {
                self.counts.skipped += 1;
                self.expected_failures |= case.status == Status::Failed;
            }
            (Status::Failed, false) => {
                self.problem(format!("`{name}` failed: {}", last_line(&case.detail)), &case.detail);
            }
            (Status::Skipped, false) => {
                self.problem(format!("`{name}` was skipped and is not in expectations.toml"), "");
            }
        }
    }

    fn problem(&mut self, title: String, detail: &str) {
        self.add_problems(vec![Failure { title, detail: detail.to_owned() }]);
    }

    /// Other problems of the suite; each counts as a failure.
    pub(super) fn add_problems(&mut self, problems: Vec<Failure>) {
        for problem in problems {
            self.counts.failed += 1;
            self.problems.push(problem);
        }
    }
}

/// A traceback ends with what went wrong.
fn last_line(detail: &str) -> &str {
    detail.trim_end().lines().last().unwrap_or("no detail").trim()
}

#[cfg(test)]
mod tests;
