//! Rate of messages that the clients of a namespace send.
//!
//! A connection that has sent while the namespace owes for messages is not read for so long: its client is slowed down by the
//! flow of the transport, and no message is refused.
//!
//! Invariant: all that was sent is paid for at the rate, and one second more may come at once.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The rate of one namespace.
#[derive(Debug, Default)]
pub(crate) struct SendRate {
    /// Looked at without the lock.
    is_limited: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Messages in a second; `None`: no limit.
    per_second: Option<u64>,
    /// When all that was sent so far would have been sent at exactly this rate.
    paid_until: Option<Instant>,
    /// Times at which a connection had to wait.
    waits: u64,
}

/// Messages of this time may come at once.
const BURST: Duration = Duration::from_secs(1);

impl SendRate {
    /// From now on so many messages may be sent in a second.
    pub(crate) fn set(&self, per_second: Option<u64>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_limited.store(per_second.is_some(), Ordering::Relaxed);
        if state.per_second != per_second {
            state.per_second = per_second;
            state.paid_until = None;
        }
    }

    /// Whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// So many messages were sent.
    pub(crate) fn sent(&self, messages: u64, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(per_second) = state.per_second.map(|limit| limit.max(1)) else { return };
        let paid = state.paid_until.unwrap_or(now).max(now);
        let seconds = messages / per_second;
        let nanos = (messages % per_second).saturating_mul(1_000_000_000) / per_second;
        let cost = Duration::from_secs(seconds.min(COST_MAX)) + Duration::from_nanos(nanos);
        state.paid_until = Some(paid + cost);
    }

    /// The time until which the namespace owes for messages, beyond those that may come at once; `None`: it does not.
    pub(crate) fn owes_until(&self, now: Instant) -> Option<Instant> {
        if !self.is_limited() {
            return None;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let over = state.paid_until?.saturating_duration_since(now).checked_sub(BURST)?;
        (!over.is_zero()).then(|| now + over)
    }

    /// A connection begins to wait.
    pub(crate) fn note_wait(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waits += 1;
    }

    /// Times at which a connection had to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waits
    }
}

/// Longest cost of one batch, in seconds.
const COST_MAX: u64 = 3_600;

#[cfg(test)]
mod tests;
