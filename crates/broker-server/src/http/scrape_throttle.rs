//! Listings and scrapes of thousands of entities yield to message traffic (decision 24).
//!
//! A listing is made in slices. While connections submit commands to the node, there is a pause before each slice, and
//! all listings share these pauses: together they take at most the cost of one slice for each pause, at any number and
//! rate of requests.
//!
//! Invariant: during message traffic at most one slice is begun in each [`PAUSE`]; without traffic none waits.

use std::time::{Duration, Instant};

use tokio::{sync::Mutex, task::yield_now, time::sleep};

use crate::{clock, executor::Executor};

/// Between two slices while others are at work. The timer adds up to as much again.
const PAUSE: Duration = Duration::from_millis(1);
/// Time after a batch for which message traffic counts as active.
const LINGER: Duration = Duration::from_millis(20);

/// The pauses of all listings. One for the whole broker.
#[derive(Debug, Default)]
pub(crate) struct ScrapeThrottle(Mutex<Traffic>);

/// Observed message traffic.
#[derive(Debug, Default)]
struct Traffic {
    /// Number of batches at the last check.
    seen: u64,
    /// Until when they count as at work.
    until: Option<Instant>,
}

impl Traffic {
    /// Whether there is message traffic, given the bytes that connections have submitted so far.
    fn goes_on(&mut self, handed_over: u64, now: Instant) -> bool {
        if handed_over != self.seen {
            (self.seen, self.until) = (handed_over, Some(now + LINGER));
        }
        self.until.is_some_and(|until| now < until)
    }
}

impl ScrapeThrottle {
    /// Waits for the turn of a slice, in the order in which they came.
    pub(super) async fn yield_to_traffic(&self, executor: &Executor) {
        // Held through the pause: those of several follow each other.
        let mut traffic = self.0.lock().await;
        if traffic.goes_on(executor.traffic(), clock::instant()) {
            sleep(PAUSE).await;
        } else {
            drop(traffic);
            // The other connections of this thread have their turn.
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests;
