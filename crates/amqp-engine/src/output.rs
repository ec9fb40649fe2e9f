//! Output queue, written in phases: set-up, flow, transfers, dispositions, teardown.
//!
//! Invariant: on the wire, a begin comes before everything else of its session and an end after
//! it, an attach before everything else of its link and a detach after it; a channel or handle is
//! taken again only behind the frame that freed it.

use std::collections::VecDeque;

use amqp_codec::frame::{FrameKind, ProtocolHeader, write_frame};
use amqp_codec::performative::{Error, SaslFrame};
use amqp_codec::text::cut;
use bytes::BytesMut;

use crate::condition;
use crate::config::SHORT_DESCRIPTION;
use crate::fault::Failure;

/// The waiting output of a connection. Frames of set-up and teardown wait in encoded form; of flows, transfers and
/// dispositions it is only known which session owes them, because what they say is read when they go out.
#[derive(Debug)]
pub(crate) struct Output {
    setup: BytesMut,
    teardown: BytesMut,
    flows: Vec<FlowDue>,
    /// Sessions, by our channel, with dispositions.
    disposing: Vec<u16>,
    /// Sessions, by our channel, with transfers that can go out, in turn.
    sending: VecDeque<u16>,
    /// Sessions, by our channel, that were handed deliveries since the last compaction.
    uncompacted: Vec<u16>,
    /// Whether the peer must hear something from us.
    heartbeat_due: bool,
    /// Largest frame the peer accepts, in bytes.
    max_frame: u32,
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

    #[inline]
    pub(crate) const fn max_frame(&self) -> u32 {
        self.max_frame
    }

    /// Notes the max-frame-size of the peer's open.
    pub(crate) const fn set_max_frame(&mut self, bytes: u32) {
        self.max_frame = bytes;
    }

    /// Bytes of set-up and teardown that wait.
    pub(crate) fn backlog(&self) -> usize {
        self.setup.len() + self.teardown.len()
    }

    pub(crate) fn has_teardown(&self) -> bool {
        !self.teardown.is_empty()
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

    /// Drops the set-up and teardown frames that the peer does not read.
    pub(crate) fn drop_backlog(&mut self) {
        self.setup.clear();
        self.teardown.clear();
    }

    /// Queues a protocol header.
    pub(crate) fn push_header(&mut self, header: ProtocolHeader) {
        self.setup.extend_from_slice(&header.to_bytes());
    }

    /// Queues a SASL frame.
    pub(crate) fn push_sasl(&mut self, frame: &SaslFrame) {
        write_frame(&mut self.setup, FrameKind::Sasl, 0, |out| frame.encode(out));
    }

    /// Queues an open or a close. False, with nothing queued, when the short form does not fit into a frame either.
    pub(crate) fn push_bounded(
        &mut self,
        write: impl FnOnce(&mut BytesMut),
        write_short: impl FnOnce(&mut BytesMut),
    ) -> bool {
        write_bounded(&mut self.setup, self.max_frame, 0, write, write_short)
    }

    /// Queues a begin or an attach. It costs the connection when it does not fit into a frame of the peer's.
    pub(crate) fn push_setup(
        &mut self,
        channel: u16,
        write: impl FnOnce(&mut BytesMut),
    ) -> Result<(), Failure> {
        let start = self.setup.len();
        write_frame(&mut self.setup, FrameKind::Amqp, channel, write);
        let len = self.setup.len() - start;
        if len <= self.max_frame as usize {
            return Ok(());
        }
        self.setup.truncate(start);
        let text = format!("answer of {len} bytes, max-frame-size is {}", self.max_frame);
        Err(Failure::close(condition::FRAME_SIZE_TOO_SMALL, text))
    }

    /// Queues a detach or an end.
    pub(crate) fn push_teardown(
        &mut self,
        channel: u16,
        write: impl FnOnce(&mut BytesMut),
        write_short: impl FnOnce(&mut BytesMut),
    ) {
        write_bounded(&mut self.teardown, self.max_frame, channel, write, write_short);
    }

    /// Takes the set-up frames out, so that others can be put behind them.
    pub(crate) fn take_setup(&mut self) -> BytesMut {
        std::mem::take(&mut self.setup)
    }

    /// Puts back the set-up frames and what has come behind them, and moves the teardown frames behind both.
    pub(crate) fn restore_setup(&mut self, setup: BytesMut) {
        self.setup = setup;
        self.setup.extend_from_slice(&std::mem::take(&mut self.teardown));
    }

    /// Moves the set-up frames to `out`.
    #[inline]
    pub(crate) fn write_setup(&mut self, out: &mut BytesMut) {
        if !self.setup.is_empty() {
            out.extend_from_slice(&std::mem::take(&mut self.setup));
        }
    }

    /// Moves the teardown frames to `out`.
    #[inline]
    pub(crate) fn write_teardown(&mut self, out: &mut BytesMut) {
        if !self.teardown.is_empty() {
            out.extend_from_slice(&std::mem::take(&mut self.teardown));
        }
    }

    pub(crate) fn push_flow(&mut self, flow: FlowDue) {
        self.flows.push(flow);
    }

    pub(crate) fn drain_flows(&mut self) -> impl Iterator<Item = FlowDue> {
        self.flows.drain(..)
    }

    /// Notes that a session has its first disposition to send.
    #[inline]
    pub(crate) fn push_disposing(&mut self, channel: u16) {
        self.disposing.push(channel);
    }

    pub(crate) fn disposing(&self) -> &[u16] {
        &self.disposing
    }

    #[inline]
    pub(crate) fn drain_disposing(&mut self) -> impl Iterator<Item = u16> {
        self.disposing.drain(..)
    }

    /// Queues a session for its turn to send.
    #[inline]
    pub(crate) fn push_sending(&mut self, channel: u16) {
        self.sending.push_back(channel);
    }

    #[inline]
    pub(crate) fn next_sending(&mut self) -> Option<u16> {
        self.sending.pop_front()
    }

    /// Sessions that wait for their turn to send.
    #[inline]
    pub(crate) fn sending_count(&self) -> usize {
        self.sending.len()
    }

    /// Notes that a session has its first delivery since the last compaction.
    #[inline]
    pub(crate) fn push_uncompacted(&mut self, channel: u16) {
        self.uncompacted.push(channel);
    }

    pub(crate) fn drain_uncompacted(&mut self) -> impl Iterator<Item = u16> {
        self.uncompacted.drain(..)
    }

    /// Makes an empty frame due, unless others go out first.
    pub(crate) const fn request_heartbeat(&mut self) {
        self.heartbeat_due = true;
    }

    pub(crate) const fn is_heartbeat_due(&self) -> bool {
        self.heartbeat_due
    }

    /// Whether a heartbeat was due; it no longer is.
    #[inline]
    pub(crate) const fn take_heartbeat(&mut self) -> bool {
        std::mem::replace(&mut self.heartbeat_due, false)
    }
}

/// Appends a frame that cannot be split. When `write` makes it longer than the peer accepts,
/// `write_short` gets a try; false when that is too long as well, and nothing is appended.
fn write_bounded(
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
