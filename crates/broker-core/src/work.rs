//! Work: the cost of what clients ask for, in units that do not depend on the machine.
//!
//! Invariant: the cost of a step depends on its input and on the state alone. So the same inputs with the same budgets do
//! the same work in the same turns, on any machine.
//!
//! One unit is about a tenth of a microsecond on a processor of 2025. The owner of the clock measures how long units
//! take on its machine, and gives budgets that last for the time it wants.

use std::ops::{Add, AddAssign};

/// An amount of work, in units.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Work(pub u64);

impl Work {
    /// One small command: a send, a settlement, credit.
    pub const COMMAND: Self = Self(2);
    /// One message that is looked at, for a peek or a selection.
    pub const MESSAGE: Self = Self(3);
    /// One message whose place in memory alone is looked at: a lock that is to end.
    pub const SLOT: Self = Self(1);
    /// One entity, session or rule of a list.
    pub const LIST_ENTRY: Self = Self(10);
    /// One rule of a subscription that a message is compared with.
    pub const RULE: Self = Self(3);
    /// One read of records that are not in memory: the thread waits for the disk.
    pub const DISK_READ: Self = Self(1_000);
    /// One check of an HMAC: a SAS token.
    pub const HMAC_CHECK: Self = Self(15);
    /// One check of a signature with a public key: a JWT.
    pub const SIGNATURE_CHECK: Self = Self(600);

    /// Work of copying so many bytes and of computing their checksum.
    pub const fn of_bytes(bytes: u64) -> Self {
        Self(bytes / 512)
    }

    /// Work of so many comparisons of a letter with a pattern of `LIKE`.
    pub const fn of_steps(steps: u64) -> Self {
        Self(steps / 64)
    }

    /// Work of compiling a filter or an action whose text has so many bytes.
    pub const fn of_sql(bytes: usize) -> Self {
        Self(20 + bytes as u64)
    }

    /// So many times this.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

/// Work that may still be done before the turn of somebody else. It only falls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WorkBudget(Work);

impl WorkBudget {
    /// No bound.
    pub const UNBOUNDED: Self = Self(Work(u64::MAX));

    /// A budget of so much.
    pub const fn new(work: Work) -> Self {
        Self(work)
    }

    /// So much was done.
    #[inline]
    pub const fn spend(&mut self, work: Work) {
        self.0.0 = self.0.0.saturating_sub(work.0);
    }

    /// Whether nothing is left of it.
    #[inline]
    pub const fn is_spent(&self) -> bool {
        self.0.0 == 0
    }

    /// Rest of it.
    pub const fn left(&self) -> Work {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_falls_to_nothing_and_no_further() {
        let mut budget = WorkBudget::new(Work::COMMAND.times(2));
        budget.spend(Work::COMMAND);
        assert!(!budget.is_spent());
        assert_eq!(budget.left(), Work::COMMAND);
        budget.spend(Work::DISK_READ);
        assert!(budget.is_spent());
        assert_eq!(budget.left(), Work(0));
    }

    #[test]
    fn sums_and_products_stay_at_the_largest_number() {
        assert_eq!(Work(u64::MAX) + Work(1), Work(u64::MAX));
        assert_eq!(Work(u64::MAX).times(2), Work(u64::MAX));
    }
}
