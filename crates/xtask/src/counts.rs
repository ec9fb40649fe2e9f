//! How many tests a suite says it ran, read from the suite's own report.
//!
//! Invariant: a suite that failed never counts as no failure, even when its report is missing.

use std::ops::AddAssign;

/// Passed, failed and not run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Counts {
    pub(crate) fn failure() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    pub(crate) fn success() -> Self {
        Self { passed: 1, ..Self::default() }
    }
}

/// Reads what `cargo test` printed: one row for each test binary and each crate's doc tests.
pub(crate) fn cargo_test(text: &str) -> Vec<(String, Counts)> {
    let mut rows: Vec<(String, Counts)> = Vec::new();
    let mut current = "cargo test".to_owned();
    for line in text.lines() {
        if let Some(name) = heading(line) {
            current = name;
        } else if let Some(counts) = result_line(line) {
            rows.push((current.clone(), counts));
        }
    }
    rows
}

/// `Running unittests src/lib.rs (target/debug/deps/amqp_codec-0123)` names `amqp_codec`.
fn heading(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} (doc)"));
    }
    let binary = line.strip_prefix("Running ")?.rsplit_once('(')?.1.strip_suffix(')')?;
    let file = binary.rsplit(['/', '\\']).next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _hash)| name).to_owned())
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn result_line(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?;
    let (_verdict, rest) = rest.split_once(". ")?;
    let count = |word: &str| {
        rest.split(';')
            .find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    Some(Counts { passed: count("passed"), failed: count("failed"), skipped: count("ignored") })
}

#[cfg(test)]
mod tests;
