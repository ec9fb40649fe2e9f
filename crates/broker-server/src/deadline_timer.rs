//! Deadline timer of a connection.
//!
//! Invariant: it fires no later than the earliest deadline set since it fired last; it may fire too early.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::time::Sleep;

/// A timer that is moved only when it must ring earlier; ringing too early is harmless.
pub(crate) struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl DeadlineTimer {
    /// One that never rings.
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    /// Rings at `deadline` if not earlier.
    pub(crate) fn set(&mut self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if self.at.is_none_or(|at| deadline < at) {
            self.at = Some(deadline);
            self.sleep.as_mut().reset(deadline.into());
        }
    }

    /// Ready once for each time that it rings.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.at.is_some() && self.sleep.as_mut().poll(cx).is_ready() {
            self.at = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
