//! The real clock, and how far a test has put the broker ahead of it.
//!
//! Invariant: the only place of the broker that asks the machine for the time; the time it tells never goes back, for
//! locks and lifetimes hang on it.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use amqp_gateway::Now;
use broker_core::Timestamp;

/// Largest advance of the clock by tests in total: a hundred years.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The clock of one broker.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Milliseconds that a test has added to the real time. Only the node thread writes it.
    ahead: AtomicU64,
}

impl Clock {
    /// All clocks, read together.
    pub(crate) fn now(&self) -> Now {
        let instant = Instant::now();
        let wall = at(instant);
        Now { instant, utc: wall.after(self.ahead()), wall }
    }

    /// The broker's time: milliseconds since the epoch; a clock before 1970 counts as 1970.
    pub(crate) fn utc(&self) -> Timestamp {
        at(Instant::now()).after(self.ahead())
    }

    /// Advance of the broker's clock over the real time.
    pub(crate) fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead.load(Ordering::Acquire))
    }

    /// Moves the broker's time forward. False if it would then be too far ahead: nothing changes.
    pub(crate) fn advance(&self, by: Duration) -> bool {
        let ahead = self.ahead().saturating_add(by);
        if ahead > AHEAD_MAX {
            return false;
        }
        self.ahead.store(millis(ahead), Ordering::Release);
        true
    }
}

/// The monotonic clock, which no test moves.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

fn at(instant: Instant) -> Timestamp {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    static CLOCK: Steady = Steady(AtomicU64::new(0));
    let running = instant.saturating_duration_since(*FIRST.get_or_init(|| instant));
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(CLOCK.read(millis(running), millis(wall)))
}

/// Milliseconds of a duration; 2^64 of them, which no clock reaches, stand for more.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Follows the wall clock forward. When that is set back, time goes on at the pace of the monotonic clock. Holds how
/// far the wall clock has been ahead of the running time, at most.
#[derive(Debug)]
struct Steady(AtomicU64);

impl Steady {
    /// The time, given how long we run and what the wall clock says, in milliseconds.
    fn read(&self, running: u64, wall: u64) -> u64 {
        let ahead = wall.saturating_sub(running);
        self.0.fetch_max(ahead, Ordering::Relaxed).max(ahead).saturating_add(running)
    }
}

#[cfg(test)]
mod tests;
