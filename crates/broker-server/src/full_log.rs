//! The lines that tell of something that is full: when it begins, each minute while it lasts, and when it ends.
//!
//! Invariant: at most one line a minute says that it is full, and one more that it is no longer, however often the state
//! changes.

use std::time::{Duration, Instant};

/// The lines that were written.
#[derive(Debug, Default)]
pub(crate) struct FullLog {
    full_since: Option<Instant>,
    /// The last line says that it is full.
    is_logged: bool,
    logged_at: Option<Instant>,
}

/// A line that is due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FullLogLine {
    Full,
    StillFull { since: Instant, now: Instant },
    Free,
}

impl FullLog {
    /// Takes the state at `now`.
    pub(crate) fn look(&mut self, now: Instant, is_full: bool) -> Option<FullLogLine> {
        if !is_full {
            self.full_since = None;
            return std::mem::take(&mut self.is_logged).then_some(FullLogLine::Free);
        }
        let since = *self.full_since.get_or_insert(now);
        if self.logged_at.is_some_and(|at| now.saturating_duration_since(at) < REMINDER_INTERVAL) {
            return None;
        }
        self.logged_at = Some(now);
        let is_reminder = std::mem::replace(&mut self.is_logged, true);
        Some(if is_reminder { FullLogLine::StillFull { since, now } } else { FullLogLine::Full })
    }
}

/// Time between two lines that say that it is full.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
