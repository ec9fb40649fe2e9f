//! Open deliveries of a session that its peer has given up with their links, and those whose settlement was refused because
//! their locks were lost. Nothing is known of them any more; but a settlement of one in a transaction is not done, and the
//! transaction must not succeed without it.
//!
//! Invariant: of the deliveries that were given up since the last 2^30 none is missed; beyond [`RUNS_MAX`] runs of them
//! the deliveries between two runs count, too.

use std::collections::VecDeque;

/// Most runs that are kept.
const RUNS_MAX: usize = 256;
/// A delivery that lies so many numbers back is forgotten, before the order of numbers turns.
const AGE_MAX: u32 = 1 << 30;

/// Runs of delivery-ids, first and last, in the order in which they were given up.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    runs: VecDeque<(u32, u32)>,
}

impl GivenUp {
    /// A delivery is given up.
    pub(crate) fn add(&mut self, id: u32) {
        if let Some((_, last)) = self.runs.back_mut()
            && last.wrapping_add(1) == id
        {
            *last = id;
            return;
        }
        self.runs.retain(|(_, last)| id.wrapping_sub(*last) <= AGE_MAX || precedes(id, *last));
        self.runs.push_back((id, id));
        if self.runs.len() > RUNS_MAX
            && let (Some(one), Some(two)) = (self.runs.pop_front(), self.runs.pop_front())
        {
            let first = if precedes(two.0, one.0) { two.0 } else { one.0 };
            let last = if precedes(one.1, two.1) { two.1 } else { one.1 };
            self.runs.push_front((first, last));
        }
    }

    /// Whether one of `first..=last` was given up.
    pub(crate) fn meets(&self, first: u32, last: u32) -> bool {
        self.runs.iter().any(|run| !precedes(last, run.0) && !precedes(run.1, first))
    }
}

/// Serial numbers have an order while they lie less than 2^31 apart.
const fn precedes(one: u32, other: u32) -> bool {
    other.wrapping_sub(one).cast_signed() > 0
}

#[cfg(test)]
mod tests;
