//! One connection: what it is made of, and in which order it is used.
//!
//! Invariant: after our close nothing goes out, and after the peer's no event follows.

mod commands;
mod handshake;
mod timers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use amqp_codec::frame::{FrameError, FrameHeader, FrameKind, write_heartbeat};
use amqp_codec::performative::{Close, Error, Performative, decode_prefix};
use bytes::BytesMut;

use crate::condition;
use crate::config::{CONTROL_BACKLOG_HIGH, Config};
use crate::context::Context;
use crate::delivery::Payload;
use crate::endpoints::Endpoints;
use crate::event::{Event, Origin};
use crate::fault::Failure;
use crate::framing::FrameReader;
use crate::gather::GatherBuffer;
use crate::ids::{LinkKey, SessionId};
use crate::output::Output;
use crate::view::{LinkView, SessionView};
use handshake::{Handshake, Phase, push_failed_open};
pub use handshake::{Peer, RefusedHandshake};
use timers::Timers;

/// The server side of one AMQP 1.0 connection, without a socket.
///
/// Methods come in four kinds, to be called in this order by a loop:
///
/// 1. *Inputs* tell what happened: [`handle_input`](Self::handle_input),
///    [`handle_eof`](Self::handle_eof), [`handle_deadline`](Self::handle_deadline).
/// 2. [`poll_event`](Self::poll_event), until it returns `None`, tells what that means. It is here
///    that input is understood: an event is told, and answered by a command, before the next frame
///    is looked at.
/// 3. *Commands* are named for what they do: [`accept_link`](Self::accept_link),
///    [`send`](Self::send), [`settle_incoming`](Self::settle_incoming) … They may be called at any
///    time; with the id of something that is gone they do nothing.
/// 4. [`poll_output`](Self::poll_output) gives the bytes to write. When no more can be written,
///    [`compact_queued`](Self::compact_queued) makes the rest ready to wait. Afterwards
///    [`deadline`](Self::deadline) says when to call `handle_deadline`.
///
/// The socket is to be read while [`wants_input`](Self::wants_input), and to be closed when
/// [`is_closed`](Self::is_closed) and everything is written. Events are to be polled once more
/// after each input, even after the connection has closed. A loop that has no time for all that was read stops with
/// [`poll_queued_event`](Self::poll_queued_event) and goes on later, while [`has_unread_input`](Self::has_unread_input).
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    handshake: Handshake,
    reader: FrameReader,
    endpoints: Endpoints,
    events: VecDeque<Event>,
    output: Output,
    timers: Timers,
}

/// Inputs.
impl Connection {
    /// A connection on which nothing has been read yet.
    pub fn new(config: impl Into<Arc<Config>>, now: Instant) -> Self {
        Self {
            config: config.into(),
            handshake: Handshake::new(),
            reader: FrameReader::default(),
            endpoints: Endpoints::default(),
            events: VecDeque::new(),
            output: Output::new(),
            timers: Timers::new(now),
        }
    }

    /// Takes in what was read from the socket. Understanding it is left to
    /// [`poll_event`](Self::poll_event).
    ///
    /// Payloads of transfers that lie whole in `input` will be slices of it. What is not whole keeps it only while a
    /// large front of it waits for the rest, which is not copied either if it comes to lie behind it.
    pub fn handle_input(&mut self, now: Instant, input: impl Into<BytesMut>) {
        self.take_input(now, input.into());
    }

    /// The socket is not read, for a reason of ours. Until `now` the peer counts as heard: see [`Config::idle_time_out`].
    pub const fn input_withheld(&mut self, now: Instant) {
        self.timers.heard(now);
    }

    fn take_input(&mut self, now: Instant, input: BytesMut) {
        self.timers.heard(now);
        if self.handshake.is_closed() || input.is_empty() {
            return;
        }
        self.reader.push(input);
        let limit = self.config.max_held_input.max(self.config.max_frame_size as usize);
        if self.handshake.awaits_reply() && self.reader.len() > limit {
            let text = format!("more than {limit} bytes sent before the open was answered");
            self.fail(Failure::close(condition::RESOURCE_LIMIT_EXCEEDED, text));
            self.handshake.set_closed();
        }
    }

    /// The peer has closed the socket, or it has failed.
    pub fn handle_eof(&mut self) {
        if !self.handshake.is_closing() {
            self.endpoints.return_all_unsent(&mut self.events);
            self.events.push_back(Event::Closed { error: None, by: Origin::Transport });
        }
        self.handshake.set_closed();
        self.endpoints.clear();
        self.output = Output::new();
        self.reader.clear();
    }

    /// Does what is due at `now`: delayed outcomes, a heartbeat, or the end of a peer that is too slow.
    pub fn handle_deadline(&mut self, now: Instant) {
        match self.handshake.phase() {
            Phase::Closed => {}
            Phase::Closing => {
                if self.timers.close_deadline(&self.config).is_some_and(|at| now >= at) {
                    self.handshake.set_closed();
                }
            }
            Phase::Open => {
                let (endpoints, mut context) = self.parts();
                endpoints.settle_due(&mut context, now);
                if self.timers.idle_deadline(&self.config).is_some_and(|at| now >= at) {
                    self.fail_idle();
                } else if self.heartbeat_deadline().is_some_and(|at| now >= at) {
                    self.output.request_heartbeat();
                    self.shrink();
                }
            }
            _ => {
                if now >= self.timers.open_deadline(&self.config) {
                    self.fail_handshake();
                }
            }
        }
    }
}

/// Events, output and state, to be polled.
impl Connection {
    /// The next thing that happened. `None`: more input is needed, or an answer to an event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.output.backlog() > self.config.max_control_backlog {
                self.fail_backlog();
                continue;
            }
            match self.handshake.phase() {
                Phase::Open => {
                    let frame = self.reader.next_whole_frame(self.config.max_frame_size)?;
                    match self.on_frame(frame) {
                        Ok(None) => {}
                        Ok(event) => return event,
                        Err(failure) => self.fail(failure),
                    }
                }
                Phase::Closed => return None,
                _ => {
                    if self.handshake.awaits_reply() || !self.advance_handshake() {
                        return None;
                    }
                }
            }
        }
    }

    /// The next thing that happened for which no further frame has to be looked at: the rest of what the last frame, a
    /// command or another input means. What was read stays as it is, for [`poll_event`](Self::poll_event) later.
    #[inline]
    pub fn poll_queued_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`poll_event`](Self::poll_event) would look at something that was read before. Not while an answer of the
    /// layer above is awaited.
    #[inline]
    pub fn has_unread_input(&self) -> bool {
        self.reader.has_unread() && !self.handshake.is_closed() && !self.handshake.awaits_reply()
    }

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
        let (endpoints, mut context) = self.parts();
        context.output.write_setup(gathered.encoded_mut());
        endpoints.write(&mut context, gathered, soft_limit);
        context.output.write_teardown(gathered.encoded_mut());
        if context.output.take_heartbeat() && gathered.len() == start {
            write_heartbeat(gathered.encoded_mut());
        }
        if gathered.len() > start {
            self.timers.spoke(now);
        }
        if matches!(self.handshake.phase(), Phase::Closing) {
            self.timers.start_closing(now);
        }
    }

    /// Prepares deliveries that are not sent for waiting, because of the peer's window or because the socket takes
    /// nothing. Where a delivery would keep much memory that it shares with what is not here, it gets its own.
    pub fn compact_queued(&mut self) {
        self.endpoints.compact_queued(self.output.drain_uncompacted());
    }

    /// Whether the socket should be read. Not while an answer of the layer above is awaited, nor
    /// while the peer does not take what it is told.
    pub fn wants_input(&self) -> bool {
        let dispositions = || self.endpoints.disposition_bytes(self.output.disposing());
        !self.handshake.is_closed()
            && !self.handshake.awaits_reply()
            && self.output.backlog() + dispositions() < CONTROL_BACKLOG_HIGH
    }

    /// Whether there is something to write.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether the socket can be closed: nothing is left to be written, and nothing that could be
    /// read matters.
    pub fn is_closed(&self) -> bool {
        self.handshake.is_closed() && self.output.is_empty()
    }

    /// Whether our close is out or to be written, so that commands no longer have effect.
    pub fn is_closing(&self) -> bool {
        self.handshake.is_closing()
    }

    /// Time at which to call [`handle_deadline`](Self::handle_deadline), whatever else happens.
    pub fn deadline(&self) -> Option<Instant> {
        match self.handshake.phase() {
            Phase::Closed => None,
            Phase::Closing => self.timers.close_deadline(&self.config),
            Phase::Open => {
                let idle = self.timers.idle_deadline(&self.config);
                let own = [idle, self.heartbeat_deadline(), self.endpoints.delayed_deadline()];
                own.into_iter().flatten().min()
            }
            _ => Some(self.timers.open_deadline(&self.config)),
        }
    }

    /// Properties of the peer: all of them after its open, the mechanism before.
    pub const fn peer(&self) -> &Peer {
        self.handshake.peer()
    }

    /// The control bytes that wait to be written: all but transfers, flows and dispositions.
    pub fn pending_output_bytes(&self) -> usize {
        self.output.backlog()
    }

    /// State of a link, to be read. All figures of a link that is gone are 0.
    #[inline]
    pub fn link(&self, link: LinkKey) -> LinkView<'_> {
        LinkView::new(self.endpoints.link(link))
    }

    /// State of a session, to be read. A session that is gone has nothing unsent.
    #[inline]
    pub fn session(&self, session: SessionId) -> SessionView<'_> {
        SessionView::new(self.endpoints.session(session))
    }
}

/// Frames.
impl Connection {
    /// The endpoints, and the parts of the connection that they use.
    #[inline]
    fn parts(&mut self) -> (&mut Endpoints, Context<'_>) {
        let context = Context { config: &self.config, output: &mut self.output, events: &mut self.events };
        (&mut self.endpoints, context)
    }

    fn advance_handshake(&mut self) -> bool {
        let mut context =
            Context { config: &self.config, output: &mut self.output, events: &mut self.events };
        let result = self.handshake.advance(&mut context, &mut self.reader, &mut self.timers);
        result.unwrap_or_else(|failure| {
            self.fail(failure);
            true
        })
    }

    /// A whole frame has come in on an open connection, or bytes that are none. What it tells is returned when it is
    /// one event, and queued otherwise.
    #[inline]
    fn on_frame(
        &mut self,
        frame: Result<(FrameHeader, BytesMut), FrameError>,
    ) -> Result<Option<Event>, Failure> {
        // Not `map_err`: it moves the frame once more.
        let (header, frame) = match frame {
            Ok(frame) => frame,
            Err(problem) => return Err(Failure::framing(problem.to_string())),
        };
        if header.kind != FrameKind::Amqp || header.channel > self.config.channel_max {
            return Err(refused_frame(header, self.config.channel_max));
        }
        let body = frame.get(header.body_offset()..).unwrap_or_default();
        if body.is_empty() {
            return Ok(None);
        }
        let whole = body.len();
        let (endpoints, mut context) = self.parts();
        // The hot three are looked at where they lie: moving them about costs more than they do.
        match &mut decode_prefix(body) {
            Ok((Performative::Transfer(transfer), length)) => {
                let payload = Payload::new(frame, header.body_offset() + *length);
                endpoints.on_transfer(&mut context, header.channel, transfer, payload)
            }
            Ok((Performative::Disposition(disposition), length)) if *length == whole => {
                Ok(endpoints.on_disposition(&mut context, header.channel, disposition))
            }
            Ok((Performative::Flow(flow), length)) if *length == whole => {
                endpoints.on_flow(&mut context, header.channel, flow)
            }
            Ok((other, length)) => {
                let has_payload = *length < whole;
                self.on_cold(header.channel, other, has_payload).map(|()| None)
            }
            Err(problem) => Err(Failure::close(condition::DECODE_ERROR, problem.to_string())),
        }
    }

    #[cold]
    fn on_cold(
        &mut self,
        channel: u16,
        performative: &Performative,
        has_payload: bool,
    ) -> Result<(), Failure> {
        if has_payload {
            let text = format!("{} with a payload", performative.kind());
            return Err(Failure::close(condition::DECODE_ERROR, text));
        }
        let channel_max = self.peer().channel_max;
        let (endpoints, mut context) = self.parts();
        match performative {
            Performative::Begin(begin) => endpoints.on_begin(&mut context, channel, begin, channel_max)?,
            Performative::Attach(attach) => endpoints.on_attach(&mut context, channel, attach)?,
            Performative::Detach(detach) => endpoints.on_detach(&mut context, channel, detach)?,
            Performative::End(end) => endpoints.on_end(&mut context, channel, end),
            Performative::Close(close) => self.on_close(close),
            Performative::Open(_) => return Err(Failure::close(condition::ILLEGAL_STATE, "second open")),
            Performative::Flow(_) | Performative::Transfer(_) | Performative::Disposition(_) => {}
        }
        Ok(())
    }

    fn heartbeat_deadline(&self) -> Option<Instant> {
        if self.output.is_heartbeat_due() { None } else { self.timers.heartbeat_deadline() }
    }

    /// Gives back the room that a busy time has left behind. Called when a heartbeat is due, so
    /// when nothing has been sent for some time.
    fn shrink(&mut self) {
        self.events.shrink_to_fit();
        self.output.shrink();
        self.endpoints.shrink();
    }
}

/// The ways in which a connection ends.
impl Connection {
    /// Closes the connection, after what is already queued except transfers: for those there are
    /// [`Event::Unsent`]. No other event follows.
    pub fn close(&mut self, error: Option<Error>) {
        if self.handshake.is_closing() {
            return;
        }
        self.events.clear();
        match self.handshake.phase() {
            Phase::Open => {
                self.endpoints.return_all_unsent(&mut self.events);
                self.write_close(error);
            }
            Phase::Opening | Phase::AwaitOpen => {
                let forced = || condition::error(condition::CONNECTION_FORCED, "closed");
                self.open_and_close(error.unwrap_or_else(forced));
            }
            _ => self.handshake.set_closed(),
        }
    }

    fn on_close(&mut self, close: &Close) {
        let (endpoints, mut context) = self.parts();
        endpoints.return_all_unsent(context.events);
        endpoints.settle_all_delayed(&mut context);
        self.write_close(None);
        self.handshake.set_closed();
        self.reader.clear();
        self.events.push_back(Event::Closed { error: close.error.clone(), by: Origin::Peer });
    }

    fn fail_on_error(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.fail(failure);
        }
    }

    /// The connection ends because of the peer's mistake; it is told so where that is possible.
    #[cold]
    fn fail(&mut self, failure: Failure) {
        match failure {
            Failure::Close(error) => self.close_failed(*error),
            Failure::Framing(error) => {
                self.close_failed(*error);
                self.handshake.set_closed();
                self.reader.clear();
            }
            Failure::Drop => {
                self.handshake.set_closed();
                self.reader.clear();
                self.events.push_back(Event::Closed { error: None, by: Origin::Engine });
            }
        }
    }

    fn close_failed(&mut self, error: Error) {
        self.endpoints.return_all_unsent(&mut self.events);
        let error = self.config.with_note(error);
        match self.handshake.phase() {
            Phase::Closed | Phase::Closing => return,
            Phase::Open => self.write_close(Some(error.clone())),
            Phase::AwaitOpen | Phase::Opening => self.open_and_close(error.clone()),
            _ => self.handshake.set_closed(),
        }
        self.events.push_back(Event::Closed { error: Some(error), by: Origin::Engine });
    }

    /// The peer does not take what it is told, and goes on asking.
    #[cold]
    fn fail_backlog(&mut self) {
        self.output.drop_backlog();
        let text = "too many answers are not taken by the peer";
        self.fail(Failure::close(condition::RESOURCE_LIMIT_EXCEEDED, text));
        self.handshake.set_closed();
    }

    #[cold]
    fn fail_idle(&mut self) {
        self.handshake.note_time_out();
        let limit = self.config.idle_time_out.unwrap_or_default() * 2;
        let text = format!("nothing received for {} ms", limit.as_millis());
        self.fail(Failure::close(condition::RESOURCE_LIMIT_EXCEEDED, text));
    }

    /// The peer has not come to its open in time.
    #[cold]
    fn fail_handshake(&mut self) {
        self.handshake.note_time_out();
        let limit = self.config.open_timeout.as_millis();
        self.fail(match self.handshake.phase() {
            Phase::AwaitOpen | Phase::Opening => {
                let text = format!("connection was not opened within {limit} ms");
                Failure::close(condition::RESOURCE_LIMIT_EXCEEDED, text)
            }
            _ => Failure::Drop,
        });
    }

    /// Queues an open of ours and a close.
    fn open_and_close(&mut self, error: Error) {
        match push_failed_open(&self.config, &mut self.output) {
            Ok(()) => self.write_close(Some(error)),
            Err(failure) => self.fail(failure),
        }
    }

    /// Queues our close, behind everything else that may still go out.
    fn write_close(&mut self, error: Option<Error>) {
        let (endpoints, mut context) = self.parts();
        endpoints.flush(&mut context);
        endpoints.clear();
        self.handshake.push_close(&mut self.output, error);
    }
}

/// A frame that is none of AMQP, or on a channel above the highest.
#[cold]
fn refused_frame(header: FrameHeader, max: u16) -> Failure {
    let channel = header.channel;
    if header.kind == FrameKind::Amqp {
        Failure::framing(format!("frame on channel {channel}, the highest is {max}"))
    } else {
        Failure::framing("SASL frame after the AMQP header")
    }
}
