//! Work budgets that last for a given time on this machine.
//!
//! Invariant: one measurement changes the estimate by an eighth at most, so a thread that the kernel has suspended once
//! does not leave small budgets behind; budgets stay between bounds, whatever is measured.

use std::time::Duration;

use broker_core::{Work, WorkBudget};

/// Estimate of the time that a unit of work takes here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WorkPace {
    /// Picoseconds that one budget is to last.
    target: u64,
    /// Moving average of the picoseconds that a unit takes.
    unit: u64,
}

impl WorkPace {
    /// Budgets are to last for `target`. Nothing is measured yet: a unit counts as a tenth of a microsecond.
    pub(crate) const fn new(target: Duration) -> Self {
        Self { target: picoseconds(target), unit: UNIT_ASSUMED }
    }

    /// The next budget: never empty, so that every turn makes progress.
    #[inline]
    pub(crate) const fn budget(&self) -> WorkBudget {
        let units = self.target / self.unit;
        WorkBudget::new(Work(if units == 0 { 1 } else { units }))
    }

    /// A turn has done so much in such a time. A turn that has used little of a budget shows the fixed costs of a turn
    /// more than those of its units, and does not count.
    pub(crate) const fn note(&mut self, done: Work, took: Duration) {
        if done.0 < self.budget().left().0.div_ceil(COUNTS_FROM) {
            return;
        }
        let measured = picoseconds(took) / done.0;
        let step = self.unit / SMOOTHING;
        let unit = if measured > self.unit {
            let more = (measured - self.unit) / SMOOTHING;
            self.unit + if more < step { more } else { step }
        } else {
            self.unit - (self.unit - measured) / SMOOTHING
        };
        self.unit = if unit < UNIT_MIN {
            UNIT_MIN
        } else if unit > UNIT_MAX {
            UNIT_MAX
        } else {
            unit
        };
    }
}

/// Picoseconds of a duration; 2^64 of them, which are seven months, stand for more.
const fn picoseconds(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > (u64::MAX / 1_000) as u128 {
        return u64::MAX;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was compared with the largest")]
    let nanos = nanos as u64;
    nanos * 1_000
}

/// Picoseconds that a unit takes before anything is measured.
const UNIT_ASSUMED: u64 = 100_000;

/// Bounds of the estimate, in picoseconds: ten times faster than assumed, and a hundred times slower, as a build without
/// optimisation on a busy machine is.
const UNIT_MIN: u64 = UNIT_ASSUMED / 10;
const UNIT_MAX: u64 = UNIT_ASSUMED * 100;

/// One measurement has this part of the weight of all.
const SMOOTHING: u64 = 8;

/// A turn counts if it has done at least this part of a budget.
const COUNTS_FROM: u64 = 8;

#[cfg(test)]
mod tests;
