//! The real clock.
//!
//! Invariant: the only place of the broker that asks the machine for the time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use amqp_gateway::Now;
use broker_core::Timestamp;

/// Both clocks, read together.
pub(crate) fn now() -> Now {
    Now { instant: Instant::now(), utc: utc() }
}

/// Milliseconds since the epoch; a clock before 1970 counts as 1970.
pub(crate) fn utc() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
