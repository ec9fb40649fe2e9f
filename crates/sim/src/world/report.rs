//! Outcome of one run.
//!
//! Invariant: two runs of one plan have equal outcomes.

use std::collections::BTreeMap;

use crate::{digest::Digest, model::Model};

/// Failed run: the step, and the promise that the broker broke.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("at step {step}: {what}")]
pub struct Failure {
    pub step: u32,
    pub what: String,
}

/// Counters and digests of one run. Two runs of one plan give equal reports.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Messages the broker accepted.
    pub accepted: u64,
    /// Messages the broker refused, because its disk was full.
    pub refused: u64,
    /// Deliveries clients saw.
    pub delivered: u64,
    /// Times the broker was killed.
    pub crashes: u64,
    /// Disk calls that failed.
    pub disk_failures: u64,
    /// Other events, with the number of times each happened.
    pub events: BTreeMap<&'static str, u64>,
    /// Digest of all bytes that crossed the network, in order.
    pub wire: Digest,
    /// Digest of all bytes that the journal wrote, in order.
    pub journal: Digest,
}

impl Report {
    pub(super) fn count(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// Adds what was counted in a namespace.
    pub(super) fn add(&mut self, model: Model) {
        self.accepted += model.accepted;
        self.refused += model.refused;
        self.delivered += model.delivered;
        for (event, count) in model.events {
            *self.events.entry(event).or_default() += count;
        }
    }
}
