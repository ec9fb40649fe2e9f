//! Findings of the rules, and notes that fail nothing.
//!
//! Invariant: a finding fails the run, a note does not.

/// Findings of the rules.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) broken: Vec<String>,
    pub(super) notes: Vec<String>,
}
