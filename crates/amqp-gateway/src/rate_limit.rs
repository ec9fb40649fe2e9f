//! The rate at which the log takes lines of one sort: a client that keeps on being refused must not fill a disk.
//!
//! Invariant: in any stretch of time at most a minute's number is logged, and one more for each part of a minute that it
//! is worth; lines that are left out are counted.

use std::time::{Duration, Instant};

/// The time that the number is for.
const MINUTE: Duration = Duration::from_secs(60);

/// The fate of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It is logged, and that so many before it were not.
    Logged { others: u64 },
    /// It is not, the first after some that were: this is logged.
    FirstLeftOut,
    /// It is not.
    LeftOut,
}

/// Counts lines of one sort.
#[derive(Debug)]
pub struct RateLimit {
    per_minute: u32,
    /// When the time is used up that all that were told are worth.
    used_until: Option<Instant>,
    /// Since the last one that was told.
    left_out: u64,
    /// The last one that was told came in the middle of others.
    is_flooded: bool,
}

impl RateLimit {
    /// Takes so many lines in a minute.
    pub const fn new(per_minute: u32) -> Self {
        Self { per_minute, used_until: None, left_out: 0, is_flooded: false }
    }

    /// Decides about a line.
    pub fn attempt(&mut self, now: Instant) -> Admission {
        if !self.has_room(now) {
            self.left_out += 1;
            let first = !std::mem::replace(&mut self.is_flooded, true);
            return if first { Admission::FirstLeftOut } else { Admission::LeftOut };
        }
        let others = std::mem::take(&mut self.left_out);
        self.is_flooded = others > 0;
        Admission::Logged { others }
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
