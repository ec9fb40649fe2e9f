//! The real clock.
//!
//! Invariant: the only place of the broker that asks the machine for the time; the time it tells never goes back, for
//! locks and lifetimes hang on it.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use amqp_gateway::Now;
use broker_core::Timestamp;

/// Both clocks, read together.
pub(crate) fn now() -> Now {
    let instant = Instant::now();
    Now { instant, utc: at(instant) }
}

/// Milliseconds since the epoch; a clock before 1970 counts as 1970.
pub(crate) fn utc() -> Timestamp {
    at(Instant::now())
}

fn at(instant: Instant) -> Timestamp {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    static CLOCK: Steady = Steady(AtomicU64::new(0));
    let running = instant.saturating_duration_since(*FIRST.get_or_init(|| instant));
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(CLOCK.read(millis(running), millis(wall)))
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
