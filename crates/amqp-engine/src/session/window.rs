//! The windows of a session (transport 2.5.6): transfer frames, both ways.
//!
//! Invariant: no more frames are taken in than were allowed, and none goes out beyond what the
//! peer's last flow allows.

use amqp_codec::performative::{Begin, Flow};

use crate::config::Config;
use crate::ids::serial_distance;

/// Counts of frames in both directions.
#[derive(Debug)]
pub(crate) struct Windows {
    /// The transfer-id of the next frame to come in.
    next_incoming_id: u32,
    /// The lowest transfer-id the peer may say is its next. It lags behind `next_incoming_id` by
    /// the frames that continue a delivery: the Python SDK counts deliveries, not frames.
    incoming_floor: u32,
    /// Frames the peer may still send.
    incoming_left: u32,
    /// Size to which the window is renewed.
    incoming_max: u32,
    /// The transfer-id of the next frame to go out.
    next_outgoing_id: u32,
    /// The transfer-id of the first frame that went out.
    initial_outgoing_id: u32,
    /// Frames we may still send.
    outgoing_left: u32,
}

/// Window violation of the peer; each ends the session with `amqp:session:window-violation`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WindowError {
    /// It sent a frame that it was not allowed to send.
    Exhausted,
    /// It says it has received frames that were never sent.
    IncomingIdAhead {
        /// The next id that the peer expects.
        said: u32,
        /// The next id that we send.
        next: u32,
    },
    /// It says its next frame is one it has already sent.
    OutgoingIdRewound {
        /// The next id that the peer states it sends.
        said: u32,
        /// The next id that we expect.
        next: u32,
    },
}

impl std::fmt::Display for WindowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exhausted => f.write_str("transfer sent with an incoming-window of 0"),
            Self::IncomingIdAhead { said, next } => {
                write!(f, "next-incoming-id is {said}, the next transfer-id to be sent is {next}")
            }
            Self::OutgoingIdRewound { said, next } => {
                write!(f, "next-outgoing-id is {said}, transfers before {next} were received")
            }
        }
    }
}

impl Windows {
    pub(crate) const fn new(begin: &Begin, config: &Config) -> Self {
        Self {
            next_incoming_id: begin.next_outgoing_id,
            incoming_floor: begin.next_outgoing_id,
            incoming_left: config.session_incoming_window,
            incoming_max: config.session_incoming_window,
            next_outgoing_id: config.initial_outgoing_id,
            initial_outgoing_id: config.initial_outgoing_id,
            outgoing_left: begin.incoming_window,
        }
    }

    /// A transfer frame has come in.
    #[inline]
    pub(crate) fn on_transfer(&mut self) -> Result<(), WindowError> {
        self.incoming_left = self.incoming_left.checked_sub(1).ok_or(WindowError::Exhausted)?;
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        Ok(())
    }

    /// The last frame of a delivery has come in.
    #[inline]
    pub(crate) const fn on_delivery_end(&mut self) {
        self.incoming_floor = self.incoming_floor.wrapping_add(1);
    }

    /// Whether the peer may run out of window soon.
    #[inline]
    pub(crate) const fn incoming_is_low(&self) -> bool {
        self.incoming_left <= self.incoming_max / 2
    }

    /// Allows the peer a full window again.
    pub(crate) const fn renew_incoming(&mut self) {
        self.incoming_left = self.incoming_max;
    }

    /// The peer tells its state. A next-outgoing-id behind what it has sent is refused when `strict`; else what was
    /// received counts.
    pub(crate) fn on_flow(&mut self, flow: &Flow, strict: bool) -> Result<(), WindowError> {
        let seen = flow.next_incoming_id.unwrap_or(self.initial_outgoing_id);
        if serial_distance(self.next_outgoing_id, seen) > 0 {
            return Err(WindowError::IncomingIdAhead { said: seen, next: self.next_outgoing_id });
        }
        let said = flow.next_outgoing_id;
        if strict && serial_distance(self.incoming_floor, said) < 0 {
            return Err(WindowError::OutgoingIdRewound { said, next: self.next_incoming_id });
        }
        if serial_distance(self.next_incoming_id, said) > 0 {
            // It has skipped ids: from now on they count from there (2.5.6).
            let skipped = said.wrapping_sub(self.next_incoming_id);
            self.next_incoming_id = said;
            self.incoming_floor = self.incoming_floor.wrapping_add(skipped);
        }
        let on_the_way = self.next_outgoing_id.wrapping_sub(seen);
        self.outgoing_left = flow.incoming_window.saturating_sub(on_the_way);
        Ok(())
    }

    /// A transfer frame goes out.
    #[inline]
    pub(crate) const fn take_outgoing(&mut self) {
        self.outgoing_left = self.outgoing_left.saturating_sub(1);
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
    }

    #[inline]
    pub(crate) const fn outgoing_left(&self) -> u32 {
        self.outgoing_left
    }

    pub(crate) const fn incoming_left(&self) -> u32 {
        self.incoming_left
    }

    pub(crate) const fn next_incoming_id(&self) -> u32 {
        self.next_incoming_id
    }

    pub(crate) const fn next_outgoing_id(&self) -> u32 {
        self.next_outgoing_id
    }
}

#[cfg(test)]
mod tests;
