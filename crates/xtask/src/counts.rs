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

/// What one test binary, or one crate's doc tests, reported.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Binary {
    pub(crate) name: String,
    pub(crate) counts: Counts,
    /// The name of each test that failed, and what it printed.
    pub(crate) failures: Vec<(String, String)>,
}

/// Reads what `cargo test` printed.
pub(crate) fn cargo_test(text: &str) -> Vec<Binary> {
    let mut binaries = Vec::new();
    let mut current = Binary { name: "cargo test".to_owned(), ..Binary::default() };
    let mut telling = false;
    for line in text.lines() {
        if let Some(name) = heading(line) {
            current = Binary { name, ..Binary::default() };
            telling = false;
        } else if let Some(counts) = result_line(line) {
            let next = Binary { name: current.name.clone(), ..Binary::default() };
            binaries.push(Binary { counts, ..std::mem::replace(&mut current, next) });
        } else if let Some(test) = told_of(line) {
            current.failures.push((test.to_owned(), String::new()));
            telling = true;
        } else if line == "failures:" {
            telling = false;
        } else if let Some((_, printed)) = current.failures.last_mut().filter(|_| telling) {
            printed.push_str(line);
            printed.push('\n');
        }
    }
    binaries
}

/// `---- settlement::a_test stdout ----` begins what that test printed.
fn told_of(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
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
