//! Deadlines of a connection.
//!
//! Invariant: a deadline that is announced is in the future of every deadline that was handled.

use std::time::{Duration, Instant};

use crate::config::Config;

/// The moments that deadlines are counted from.
#[derive(Debug)]
pub(super) struct Timers {
    /// Time of the first call.
    started: Instant,
    /// Time of the peer's last byte.
    heard: Instant,
    /// Time of our last byte.
    spoke: Instant,
    /// Time at which our close was written.
    closing: Option<Instant>,
    /// Longest silence on our side.
    silence: Option<Duration>,
}

impl Timers {
    pub(super) const fn new(now: Instant) -> Self {
        Self { started: now, heard: now, spoke: now, closing: None, silence: None }
    }

    #[inline]
    pub(super) const fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    #[inline]
    pub(super) const fn spoke(&mut self, now: Instant) {
        self.spoke = now;
    }

    /// The peer has told how long it endures silence.
    pub(super) fn promise(&mut self, ours: Duration, peers: Option<Duration>) {
        // Half of what the peer asks for, as 2.4.5 advises, for the network has delays too.
        let silence = peers.map_or(ours, |peers| ours.min(peers / 2));
        self.silence = (!silence.is_zero()).then_some(silence);
    }

    /// Counts the wait for the peer's close from now, unless it is counted already.
    pub(super) const fn start_closing(&mut self, now: Instant) {
        if self.closing.is_none() {
            self.closing = Some(now);
        }
    }

    /// End of the time that the peer has for its open.
    pub(super) fn open_deadline(&self, config: &Config) -> Instant {
        self.started + config.open_timeout
    }

    /// End of the wait for the peer's close; `None` until ours is written, because there is output to be polled before.
    pub(super) fn close_deadline(&self, config: &Config) -> Option<Instant> {
        Some(self.closing? + config.close_timeout)
    }

    /// Time from which the peer has been silent for too long: twice what it was told, as the allowance for
    /// delays on the way.
    pub(super) fn idle_deadline(&self, config: &Config) -> Option<Instant> {
        let limit = config.idle_time_out.filter(|limit| !limit.is_zero())?;
        Some(self.heard + limit * 2)
    }

    /// Time at which the peer must hear something from us.
    pub(super) fn heartbeat_deadline(&self) -> Option<Instant> {
        Some(self.spoke + self.silence?)
    }
}
