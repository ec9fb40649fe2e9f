//! Times of a step that was done several times.
//!
//! Invariant: a percentile is one of the times that were measured.

use std::time::Duration;

/// Two percentiles, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Times {
    pub(super) fn of(all: &[Duration]) -> Self {
        let mut all = all.to_vec();
        all.sort_unstable();
        let at = |share: usize| all.get(all.len() * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

/// One step of a client.
#[derive(Debug, PartialEq)]
pub(super) struct StepTimes {
    pub(super) name: String,
    pub(super) times: Times,
}
