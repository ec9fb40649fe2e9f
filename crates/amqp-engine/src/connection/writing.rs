//! Puts what waits onto the wire, phase by phase.
//!
//! Invariant: see [`crate::output`].

use std::time::Instant;

use amqp_codec::frame::{FrameKind, write_frame, write_heartbeat};
use bytes::BytesMut;

use super::{Connection, Phase};
use crate::condition;
use crate::gather::GatherBuffer;
use crate::ids::LinkKey;
use crate::link::{Link, LinkState};
use crate::output::{FlowDue, write_bounded};

impl Connection {
    /// Appends what waits to `out`: set-up, flow, transfers, dispositions, teardown. Transfers are
    /// added only while `out` is shorter than `soft_limit` bytes; sessions take turns.
    pub fn poll_output(&mut self, now: Instant, out: &mut BytesMut, soft_limit: usize) {
        let mut gathered = GatherBuffer::new(std::mem::take(out), usize::MAX);
        self.poll_gathered(now, &mut gathered, soft_limit);
        *out = gathered.into_encoded();
    }

    /// The same, with the payloads of large transfers left where they lie.
    #[inline]
    pub fn poll_gathered(&mut self, now: Instant, gathered: &mut GatherBuffer, soft_limit: usize) {
        let start = gathered.len();
        let out = gathered.encoded_mut();
        if !self.output.setup.is_empty() {
            out.extend_from_slice(&std::mem::take(&mut self.output.setup));
        }
        self.write_flows(out);
        self.write_transfers(gathered, soft_limit);
        let out = gathered.encoded_mut();
        self.write_dispositions(out);
        if !self.output.teardown.is_empty() {
            out.extend_from_slice(&std::mem::take(&mut self.output.teardown));
        }
        if std::mem::take(&mut self.output.heartbeat_due) && gathered.len() == start {
            write_heartbeat(gathered.encoded_mut());
        }
        if gathered.len() > start {
            self.timers.spoke(now);
        }
        self.start_closing(now);
    }

    /// Prepares deliveries that are not sent for waiting, because of the peer's window or because the socket takes
    /// nothing. Where a delivery would keep much memory that it shares with what is not here, it gets its own.
    pub fn compact_queued(&mut self) {
        for channel in self.output.uncompacted.drain(..) {
            if let Some(session) = self.sessions.at_mut(channel) {
                session.compact_queued();
            }
        }
    }

    /// Moves flows, dispositions and teardown that wait behind the set-up frames, so that a frame
    /// of set-up that is queued next comes behind them.
    pub(super) fn flush(&mut self) {
        let mut setup = std::mem::take(&mut self.output.setup);
        self.write_flows(&mut setup);
        self.write_dispositions(&mut setup);
        setup.extend_from_slice(&std::mem::take(&mut self.output.teardown));
        self.output.setup = setup;
    }

    fn write_flows(&mut self, out: &mut BytesMut) {
        for i in 0..self.output.flows.len() {
            let Some(&due) = self.output.flows.get(i) else { break };
            if self.flow_is_due(due) {
                self.write_flow(due.channel, due.handle, out);
            }
        }
        self.output.flows.clear();
    }

    /// A flow may have gone out for another reason, and the link may be gone.
    fn flow_is_due(&self, due: FlowDue) -> bool {
        let Some(session) = self.sessions.at(due.channel).filter(|session| !session.ended) else {
            return false;
        };
        match due.handle {
            None => session.flow_due,
            Some(handle) => session.links.get(handle).is_some_and(|l| l.flow_due && l.is_live()),
        }
    }

    fn write_flow(&mut self, channel: u16, handle: Option<u32>, out: &mut BytesMut) {
        let Some(session) = self.sessions.at_mut(channel) else { return };
        let flow = session.flow(&self.config, handle);
        write_frame(out, FrameKind::Amqp, channel, |out| flow.encode(out));
    }

    #[inline]
    fn write_transfers(&mut self, out: &mut GatherBuffer, soft_limit: usize) {
        let mut drained = Vec::new();
        for _ in 0..self.output.sending.len() {
            if out.len() >= soft_limit {
                break;
            }
            let Some(channel) = self.output.sending.pop_front() else { break };
            let Some(session) = self.sessions.at_mut(channel) else { continue };
            session.in_send_turn = false;
            session.write_transfers(self.output.max_frame, soft_limit, out, &mut drained);
            self.take_send_turn(channel);
            for handle in drained.drain(..) {
                self.write_drain_answer(channel, handle, out.encoded_mut());
            }
        }
    }

    #[cold]
    fn write_drain_answer(&mut self, channel: u16, handle: u32, out: &mut BytesMut) {
        let sender = self
            .sessions
            .at_mut(channel)
            .and_then(|session| session.links.get_mut(handle))
            .and_then(Link::sender_mut);
        if let Some(sender) = sender {
            sender.drain_answer_due = false;
            self.write_flow(channel, Some(handle), out);
        }
    }

    #[inline]
    fn write_dispositions(&mut self, out: &mut BytesMut) {
        for i in 0..self.output.disposing.len() {
            let Some(&channel) = self.output.disposing.get(i) else { break };
            if let Some(session) = self.sessions.at_mut(channel) {
                session.dispositions.write(channel, self.output.max_frame, out);
            }
        }
        self.output.disposing.clear();
    }

    /// Queues a begin or an attach. False, with the connection closed, when it does not fit into a
    /// frame of the peer's.
    pub(super) fn write_setup(&mut self, channel: u16, write: impl FnOnce(&mut BytesMut)) -> bool {
        if !self.output.teardown.is_empty() {
            self.flush();
        }
        let start = self.output.setup.len();
        write_frame(&mut self.output.setup, FrameKind::Amqp, channel, write);
        let len = self.output.setup.len() - start;
        if len <= self.output.max_frame as usize {
            return true;
        }
        self.output.setup.truncate(start);
        let text = format!("answer of {len} bytes, max-frame-size is {}", self.output.max_frame);
        self.fail(condition::FRAME_SIZE_TOO_SMALL, text);
        false
    }

    /// Queues a detach or an end.
    pub(super) fn write_teardown(
        &mut self,
        channel: u16,
        write: impl FnOnce(&mut BytesMut),
        write_short: impl FnOnce(&mut BytesMut),
    ) {
        if matches!(self.phase, Phase::Open) {
            let (out, max_frame) = (&mut self.output.teardown, self.output.max_frame);
            write_bounded(out, max_frame, channel, write, write_short);
        }
    }

    /// A flow of the session is due.
    #[inline]
    pub(super) fn session_flow_due(&mut self, channel: u16) {
        let Some(session) = self.sessions.at_mut(channel) else { return };
        if !std::mem::replace(&mut session.flow_due, true) {
            self.output.flows.push(FlowDue { channel, handle: None });
        }
    }

    /// A flow of a link is due: now, or once its attach is answered.
    pub(super) fn link_flow_due(&mut self, key: LinkKey) {
        let Some(link) = self.sessions.link_mut(key) else { return };
        let was_due = std::mem::replace(&mut link.flow_due, true);
        if !was_due && matches!(link.state, LinkState::Attached) {
            self.output.flows.push(FlowDue { channel: key.session.channel, handle: Some(key.handle) });
        }
    }

    /// The session's window may have become renewable.
    pub(super) fn renew_window(&mut self, channel: u16) {
        let Some(session) = self.sessions.at(channel) else { return };
        if session.window_waits(&self.config) {
            self.session_flow_due(channel);
        }
    }

    /// A session that can send waits for its turn.
    #[inline]
    pub(super) fn take_send_turn(&mut self, channel: u16) {
        let Some(session) = self.sessions.at_mut(channel) else { return };
        if !session.in_send_turn && session.can_send() {
            session.in_send_turn = true;
            self.output.sending.push_back(channel);
        }
    }
}
