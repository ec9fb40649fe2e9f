//! When a connection has to do something on its own.
//!
//! Invariant: a deadline that is announced is in the future of every deadline that was handled.

use std::time::{Duration, Instant};

use super::{Connection, Phase};
use crate::condition;
use crate::session::Session;

/// The moments that deadlines are counted from.
#[derive(Debug)]
pub(super) struct Timers {
    /// When the connection came to be.
    started: Instant,
    /// When the peer was last heard.
    heard: Instant,
    spoke: Instant,
    /// When our close was written.
    closing: Option<Instant>,
    /// The longest we may be silent.
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
}

impl Connection {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let timers = &self.timers;
        match self.phase {
            Phase::Closed => None,
            // Until the close is written, there is output to be polled and nothing to wait for.
            Phase::Closing => Some(timers.closing? + self.config.close_timeout),
            Phase::Open => {
                let own = [self.idle_deadline(), self.heartbeat_deadline(), self.delayed.deadline()];
                own.into_iter().flatten().min()
            }
            _ => Some(timers.started + self.config.open_timeout),
        }
    }

    /// When the peer has been silent for too long: twice what it was told, as the allowance for
    /// delays on the way.
    fn idle_deadline(&self) -> Option<Instant> {
        let limit = self.config.idle_time_out.filter(|limit| !limit.is_zero())?;
        Some(self.timers.heard + limit * 2)
    }

    fn heartbeat_deadline(&self) -> Option<Instant> {
        if self.output.heartbeat_due {
            return None;
        }
        Some(self.timers.spoke + self.timers.silence?)
    }

    /// Does what is due at `now`: delayed outcomes, a heartbeat, or the end of a peer that is too slow.
    pub fn handle_deadline(&mut self, now: Instant) {
        match self.phase {
            Phase::Closed => {}
            Phase::Closing => {
                if self.next_deadline().is_some_and(|at| now >= at) {
                    self.phase = Phase::Closed;
                }
            }
            Phase::Open => {
                while let Some(outcome) = self.delayed.take_due(now) {
                    self.settle_delayed(outcome);
                }
                if self.idle_deadline().is_some_and(|at| now >= at) {
                    self.fail_idle();
                } else if self.heartbeat_deadline().is_some_and(|at| now >= at) {
                    self.output.heartbeat_due = true;
                    self.shrink();
                }
            }
            _ => {
                if now >= self.timers.started + self.config.open_timeout {
                    self.fail_handshake();
                }
            }
        }
    }

    /// Counts the wait for the peer's close from now.
    pub(super) fn start_closing(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Closing) && self.timers.closing.is_none() {
            self.timers.closing = Some(now);
        }
    }

    #[cold]
    fn fail_idle(&mut self) {
        self.peer.has_timed_out = true;
        let limit = self.config.idle_time_out.unwrap_or_default() * 2;
        self.fail(
            condition::RESOURCE_LIMIT_EXCEEDED,
            format!("nothing received for {} ms", limit.as_millis()),
        );
    }

    /// The peer has not come to its open in time.
    #[cold]
    fn fail_handshake(&mut self) {
        self.peer.has_timed_out = true;
        let limit = self.config.open_timeout.as_millis();
        match self.phase {
            Phase::AwaitOpen | Phase::Opening => self.fail(
                condition::RESOURCE_LIMIT_EXCEEDED,
                format!("connection was not opened within {limit} ms"),
            ),
            // Before the AMQP header nothing could carry an error.
            _ => self.drop_transport(),
        }
    }

    /// Gives back the room that a busy time has left behind. Called when a heartbeat is due, so
    /// when nothing has been sent for some time.
    fn shrink(&mut self) {
        self.events.shrink_to_fit();
        self.output.shrink();
        self.sessions.iter_mut().for_each(Session::shrink);
    }
}
