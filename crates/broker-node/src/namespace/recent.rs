//! Namespaces that had work lately, with their weights.
//!
//! Invariant: a namespace counts for one to two [`PERIOD`]s after its last work, and the sum of the weights is that of the
//! namespaces that count.
//!
//! The disk is shared among them and not among those that have work at the moment: one that sends a message every millisecond
//! has none most of the time, and would find the disk full of what another one sent meanwhile.

use std::{collections::BTreeMap, time::Duration};

use broker_core::{NamespaceSlot, Timestamp};

/// Time for which a namespace counts at least.
const PERIOD: Duration = Duration::from_secs(10);

/// The namespaces that count.
#[derive(Debug, Default)]
pub(crate) struct RecentNamespaces {
    /// Weight of each, and whether it had work in this period.
    weights: BTreeMap<NamespaceSlot, (u64, bool)>,
    weight: u64,
    period_ends: Timestamp,
}

impl RecentNamespaces {
    /// A namespace of this weight has work.
    pub(crate) fn note(&mut self, slot: NamespaceSlot, weight: u16, now: Timestamp) {
        if now >= self.period_ends {
            self.begin_period(now);
        }
        let weight = u64::from(weight.max(1));
        let (before, _) = self.weights.insert(slot, (weight, true)).unwrap_or_default();
        self.weight = self.weight + weight - before;
    }

    /// It is gone.
    pub(crate) fn forget(&mut self, slot: NamespaceSlot) {
        let (weight, _) = self.weights.remove(&slot).unwrap_or_default();
        self.weight -= weight;
    }

    /// Weights of all of them together.
    pub(crate) const fn weight(&self) -> u64 {
        self.weight
    }

    fn begin_period(&mut self, now: Timestamp) {
        self.period_ends = now.after(PERIOD);
        self.weights.retain(|_, (_, had_work)| std::mem::take(had_work));
        self.weight = self.weights.values().map(|(weight, _)| weight).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NamespaceSlot = NamespaceSlot(1);
    const B: NamespaceSlot = NamespaceSlot(2);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + 1_000 * seconds)
    }

    #[test]
    fn a_namespace_counts_for_one_to_two_periods_after_its_last_work() {
        let mut recent = RecentNamespaces::default();
        recent.note(A, 2, at(0));
        recent.note(B, 3, at(9));
        assert_eq!(recent.weight(), 5);
        recent.note(A, 2, at(10));
        assert_eq!(recent.weight(), 5, "`B` had work one second before");
        recent.note(A, 2, at(20));
        assert_eq!(recent.weight(), 2, "`B` had none for a whole period");
    }

    #[test]
    fn the_weight_is_that_of_the_last_work_and_falls_with_the_namespace() {
        let mut recent = RecentNamespaces::default();
        recent.note(A, 2, at(0));
        recent.note(A, 7, at(1));
        recent.note(B, 0, at(1));
        assert_eq!(recent.weight(), 8, "no weight is below one");
        recent.forget(A);
        recent.forget(A);
        assert_eq!(recent.weight(), 1);
    }
}
