//! Output queue, written in phases: set-up, flow, transfers, dispositions, teardown.
//!
//! Invariant: on the wire, a begin comes before everything else of its session and an end after
//! it, an attach before everything else of its link and a detach after it; a channel or handle is
//! taken again only behind the frame that freed it.

use std::collections::VecDeque;

use amqp_codec::frame::{FrameKind, write_frame};
use amqp_codec::performative::Error;
use amqp_codec::text::cut;
use bytes::BytesMut;

use crate::config::SHORT_DESCRIPTION;

/// The waiting output of a connection. Frames of set-up and teardown wait in encoded form; of
/// flows, transfers and dispositions it is only known whose they are.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) setup: BytesMut,
    pub(crate) teardown: BytesMut,
    pub(crate) flows: Vec<FlowDue>,
    /// Sessions, by our channel, with dispositions.
    pub(crate) disposing: Vec<u16>,
    /// Sessions, by our channel, with transfers that can go out, in turn.
    pub(crate) sending: VecDeque<u16>,
    /// Sessions, by our channel, that were handed deliveries since it was looked at what waits.
    pub(crate) uncompacted: Vec<u16>,
    /// Whether the peer must hear something from us.
    pub(crate) heartbeat_due: bool,
    /// Largest frame the peer accepts, in bytes.
    pub(crate) max_frame: u32,
}

/// A session, and perhaps a link of it, that has a flow to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FlowDue {
    pub(crate) channel: u16,
    pub(crate) handle: Option<u32>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            setup: BytesMut::new(),
            teardown: BytesMut::new(),
            flows: Vec::new(),
            disposing: Vec::new(),
            sending: VecDeque::new(),
            uncompacted: Vec::new(),
            heartbeat_due: false,
            max_frame: u32::MAX,
        }
    }

    /// Bytes of set-up and teardown that wait.
    pub(crate) fn backlog(&self) -> usize {
        self.setup.len() + self.teardown.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.backlog() == 0
            && self.flows.is_empty()
            && self.disposing.is_empty()
            && self.sending.is_empty()
            && !self.heartbeat_due
    }

    /// Gives back room that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.flows.shrink_to_fit();
        self.disposing.shrink_to_fit();
        self.sending.shrink_to_fit();
        self.uncompacted.shrink_to_fit();
    }

    /// Drops everything but set-up frames: nothing else may go out any more.
    pub(crate) fn keep_only_setup(&mut self) {
        let setup = std::mem::take(&mut self.setup);
        *self = Self { setup, max_frame: self.max_frame, ..Self::new() };
    }
}

/// Appends a frame that cannot be split. When `write` makes it longer than the peer accepts,
/// `write_short` gets a try; false when that is too long as well, and nothing is appended.
pub(crate) fn write_bounded(
    out: &mut BytesMut,
    max_frame: u32,
    channel: u16,
    write: impl FnOnce(&mut BytesMut),
    write_short: impl FnOnce(&mut BytesMut),
) -> bool {
    let start = out.len();
    write_frame(out, FrameKind::Amqp, channel, write);
    if out.len() - start <= max_frame as usize {
        return true;
    }
    out.truncate(start);
    write_frame(out, FrameKind::Amqp, channel, write_short);
    if out.len() - start <= max_frame as usize {
        return true;
    }
    out.truncate(start);
    false
}

/// The error with what it can do without left out.
pub(crate) fn shorten(error: &Error) -> Error {
    let description = error.description.as_deref().map(|text| cut(text, SHORT_DESCRIPTION).to_owned());
    Error { condition: error.condition.clone(), description, info: None }
}

#[cfg(test)]
mod tests;
