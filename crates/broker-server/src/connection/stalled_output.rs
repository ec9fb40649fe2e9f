//! The longest time in which the peer of a connection may take none of its output.
//!
//! Nothing else would end such a connection: the peer's heartbeats may come, and the close that it is told never leaves.

use std::{
    io,
    time::{Duration, Instant},
};

/// Time for which output has waited without a byte taken.
#[derive(Debug)]
pub(super) struct StalledOutput {
    /// Longest time of that; `None`: unbounded.
    patience: Option<Duration>,
    /// While output waits: since when, and the bytes that the socket had taken by then.
    since: Option<(Instant, u64)>,
}

impl StalledOutput {
    /// A peer is cut off that takes nothing for `patience`.
    pub(super) const fn new(patience: Option<Duration>) -> Self {
        Self { patience, since: None }
    }

    /// The time at which the peer is cut off unless it takes something before. `waiting` has the bytes that the socket
    /// has taken so far, and is `None` when no output waits.
    ///
    /// Fails with [`io::ErrorKind::TimedOut`] once that time has come.
    pub(super) fn deadline(&mut self, waiting: Option<u64>, now: Instant) -> io::Result<Option<Instant>> {
        let Some((patience, taken)) = self.patience.zip(waiting) else {
            self.since = None;
            return Ok(None);
        };
        let since = match self.since {
            Some((since, before)) if before == taken => since,
            _ => {
                self.since = Some((now, taken));
                now
            }
        };
        let end = since + patience;
        if now >= end {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads nothing"));
        }
        Ok(Some(end))
    }
}
