//! Events that one pass of the loop of a connection handles.

use std::io;

use broker_core::Effect;
use bytes::BytesMut;

use crate::{effect_queue::ControlMessage, shutdown::Shutdown};

/// Everything that was ready when the loop woke, so that one pass handles it all.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says that one independent thing is ready")]
pub(super) struct ReadyEvents {
    pub(super) effects: Vec<Effect>,
    pub(super) control_messages: Vec<ControlMessage>,
    pub(super) input: Option<BytesMut>,
    /// Input that was read before is left.
    pub(super) more_input: bool,
    pub(super) end_of_stream: bool,
    pub(super) deadline: bool,
    pub(super) stop: Option<Shutdown>,
    pub(super) faults: bool,
    pub(super) flushed: bool,
    /// Output is left to be built.
    pub(super) more_output: bool,
    /// The shard has failed, and recovers.
    pub(super) abandoned: bool,
    /// The socket is broken. What else is ready is still done.
    pub(super) failure: Option<io::Error>,
}

impl ReadyEvents {
    /// Whether the loop has nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.effects.is_empty()
            && self.control_messages.is_empty()
            && self.input.is_none()
            && !self.more_input
            && !self.more_output
            && self.stop.is_none()
            && self.failure.is_none()
            && !(self.end_of_stream || self.deadline || self.faults || self.flushed || self.abandoned)
    }
}
