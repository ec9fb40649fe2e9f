//! Counts of the tests that a suite has run.
//!
//! Invariant: a suite that failed never counts as no failure.

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
