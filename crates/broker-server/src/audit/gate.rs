//! How many refused attempts the audit log tells: whoever keeps on trying must not fill a disk.
//!
//! Invariant: in any stretch of time at most a minute's number is told, and one more for each part of a minute that it
//! is worth; what is left out is counted.

use std::time::{Duration, Instant};

/// The time that the number is for.
const MINUTE: Duration = Duration::from_secs(60);

/// What becomes of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// It is told, and that so many before it were not.
    Told {
        /// How many.
        others: u64,
    },
    /// It is not, the first after some that were: this is told.
    LeftOutFirst,
    /// It is not.
    LeftOut,
}

/// Counts attempts of one sort.
#[derive(Debug)]
pub(super) struct Gate {
    per_minute: u32,
    /// When the time is used up that all that were told are worth.
    used_until: Option<Instant>,
    /// Since the last one that was told.
    left_out: u64,
    /// The last one that was told came in the middle of others.
    is_flooded: bool,
}

impl Gate {
    pub(super) const fn new(per_minute: u32) -> Self {
        Self { per_minute, used_until: None, left_out: 0, is_flooded: false }
    }

    /// Decides about an attempt.
    pub(super) fn attempt(&mut self, now: Instant) -> Verdict {
        if !self.has_room(now) {
            self.left_out += 1;
            let first = !std::mem::replace(&mut self.is_flooded, true);
            return if first { Verdict::LeftOutFirst } else { Verdict::LeftOut };
        }
        let others = std::mem::take(&mut self.left_out);
        self.is_flooded = others > 0;
        Verdict::Told { others }
    }

    /// Whether one more may be told; if so, its time is used.
    fn has_room(&mut self, now: Instant) -> bool {
        let Some(worth) = MINUTE.checked_div(self.per_minute) else { return false };
        let until = self.used_until.map_or(now, |until| until.max(now)) + worth;
        let has_room = until.saturating_duration_since(now) <= MINUTE;
        if has_room {
            self.used_until = Some(until);
        }
        has_room
    }
}

#[cfg(test)]
mod tests;
