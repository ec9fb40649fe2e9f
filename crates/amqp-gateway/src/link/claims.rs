//! Claims of links: the rights that they live by, and their end.
//!
//! Invariant: no link to an entity is open without a claim that holds; a claim that ends takes its links along.

use std::time::Instant;

use super::Link;
use crate::{condition::Refusal, config::Now, connection::Client};

/// When the first claim of a link ends, in seconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct ClaimExpiry(Option<u64>);

impl ClaimExpiry {
    /// Notes when the claim of a new link ends. A token that extends a claim later leaves the note as it is: it
    /// is looked at again when its time has come.
    pub(crate) fn note(&mut self, link: &Link, client: &Client) {
        self.0 = self.0.into_iter().chain(client.first_end(link.claims())).min();
    }

    /// When the first claim ends, on the monotonic clock.
    pub(crate) fn deadline(&self, now: Now) -> Option<Instant> {
        now.instant_of(self.0?)
    }

    /// Whether a claim may have ended.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        self.0.is_some_and(|end| now.unix_seconds() >= end)
    }

    /// Finds when the first claim of the open links ends.
    pub(super) fn find<'a>(&mut self, open: impl Iterator<Item = &'a Link>, client: &Client) {
        self.0 = open.filter_map(|link| client.first_end(link.claims())).min();
    }
}

/// Reason why a claim of a link does not hold any more.
pub(super) fn lost(link: &Link, client: &Client, now: Now) -> Option<Refusal> {
    link.claims().find_map(|(scope, right)| client.lost_claim(&scope, right, now.unix_seconds()))
}
