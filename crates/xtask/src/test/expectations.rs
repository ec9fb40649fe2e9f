//! Which cases of which client may fail or be missing, and why.
//!
//! A reason alone is for a case that is skipped. A case that fails names the failure too: the last line of what the suite says
//! of it.
//!
//! Invariant: an unlisted failure, an unlisted skip, a listed case that passes, a listed case that ends in another way than
//! its line says, and a listed case that no longer exists are each a failure of the run.

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

/// The whole file: one table for each suite, in it `"case" = "reason"` for what is skipped and
/// `"case" = { reason = "…", failure = "…" }` for what fails.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    suites: BTreeMap<String, BTreeMap<String, Expected>>,
}

/// Expected end of a listed case.
#[derive(Debug, Eq, PartialEq)]
enum Expected {
    Skipped,
    /// With this last line.
    Failed(String),
}

impl Expected {
    fn read(line: &toml::Value) -> Option<Self> {
        let text = |value: &toml::Value| {
            value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        match line {
            toml::Value::Table(line) if line.len() == 2 => {
                text(line.get("reason")?)?;
                text(line.get("failure")?).map(Self::Failed)
            }
            reason => text(reason).map(|_| Self::Skipped),
        }
    }
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
            let mut listed = BTreeMap::new();
            for (case, line) in cases {
                let Some(expected) = Expected::read(line) else {
                    return Err(format!(
                        "`{suite}` / `{case}` has no reason, or not both a reason and a failure"
                    )
                    .into());
                };
                listed.insert(case.clone(), expected);
            }
            suites.insert(suite, listed);
        }
        Ok(Self { suites })
    }

    pub(super) fn judge(&self, suite: &str, cases: &[Case]) -> Judged {
        let none = BTreeMap::new();
        let listed = self.suites.get(suite).unwrap_or(&none);
        let mut judged = Judged { counts: Counts::default(), problems: Vec::new(), expected_failures: false };
        for case in cases {
            judged.add(case, listed.get(&case.name));
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
    fn add(&mut self, case: &Case, listed: Option<&Expected>) {
        let name = &case.name;
        let last = last_line(&case.detail);
        match (case.status, listed) {
            (Status::Passed, None) => self.counts.passed += 1,
            (Status::Passed, Some(_)) => {
                self.problem(format!("`{name}` passes: take it out of expectations.toml"), "");
            }
            (Status::Skipped, Some(Expected::Skipped)) => self.counts.skipped += 1,
            (Status::Failed, Some(Expected::Failed(failure))) if failure == last => {
                self.counts.skipped += 1;
                self.expected_failures = true;
            }
            (Status::Failed, Some(Expected::Failed(failure))) => {
                self.problem(
                    format!("`{name}` failed: {last}; expectations.toml says: {failure}"),
                    &case.detail,
                );
            }
            (Status::Failed, _) => self.problem(format!("`{name}` failed: {last}"), &case.detail),
            (Status::Skipped, _) => {
                self.problem(format!("`{name}` was skipped, which expectations.toml does not say"), "");
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
