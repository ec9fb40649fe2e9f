//! Handshakes of one namespace, and the time for which they have computed.
//!
//! Invariant: nothing is decided by it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::turn_queue::Step;

/// Counts TLS handshakes.
#[derive(Debug, Default)]
pub(crate) struct HandshakeMeter {
    begun: AtomicU64,
    nanoseconds: AtomicU64,
}

impl HandshakeMeter {
    /// A step of a handshake has computed for this time.
    pub(crate) fn add(&self, step: Step, time: Duration) {
        if step == Step::Begin {
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Handshakes whose hello was answered.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Time for which they have computed.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}
