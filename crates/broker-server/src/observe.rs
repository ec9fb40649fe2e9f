//! How the broker lets itself be watched: what the operator may choose.
//!
//! Invariant: plain data.

/// What is shown to whom.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObserveConfig {
    /// `/metrics` is shown to everybody who asks.
    pub anonymous_metrics: bool,
    /// Entities shown in one scrape.
    pub max_entities: usize,
}

impl Default for ObserveConfig {
    fn default() -> Self {
        Self { anonymous_metrics: false, max_entities: 10_000 }
    }
}
