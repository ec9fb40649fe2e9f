//! One connection: what it is made of, and in which order it is used.
//!
//! Invariant: after our close nothing goes out, and after the peer's nothing is told.

mod commands;
mod frames;
mod handshake;
mod links;
mod sessions;
mod timers;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use amqp_codec::performative::{Error, Open};
use amqp_codec::text::cut;
use amqp_codec::types::Symbol;
use bytes::BytesMut;

use crate::condition;
use crate::config::{CONTROL_BACKLOG_HIGH, Config, SHORT_DESCRIPTION};
use crate::delivery::DelayedOutcomes;
use crate::event::{Event, Origin};
use crate::framing::FrameReader;
use crate::ids::Generations;
use crate::output::Output;
use crate::sasl::Sasl;
use sessions::Sessions;
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
/// after each input, even after the connection has closed.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    phase: Phase,
    reader: FrameReader,
    events: VecDeque<Event>,
    sessions: Sessions,
    output: Output,
    timers: Timers,
    delayed: DelayedOutcomes,
    generations: Generations,
    /// Bytes of unfinished deliveries.
    partial_bytes: usize,
    /// Links of all sessions.
    link_count: usize,
    /// Fields of the peer's open that are needed later.
    peer: Peer,
}

/// State of the connection.
#[derive(Debug)]
enum Phase {
    /// The peer's first header is awaited.
    Header,
    /// SASL is negotiated.
    Sasl(Sasl),
    /// SASL is done; the AMQP header is awaited.
    AmqpHeader,
    /// Headers are exchanged; the peer's open is awaited.
    AwaitOpen,
    /// The peer's open is here; ours is awaited from the layer above.
    Opening,
    /// Both are open.
    Open,
    /// Our close is out, the peer's is awaited.
    Closing,
    /// Both are closed, or the transport is of no more use.
    Closed,
}

/// Properties of the peer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    pub container_id: String,
    /// The host it wants to reach.
    pub hostname: Option<String>,
    /// The largest frame it accepts, in bytes.
    pub max_frame_size: u32,
    /// The highest channel it accepts.
    pub channel_max: u16,
    /// The SASL mechanism it has authenticated with.
    pub sasl_mechanism: Option<Symbol>,
    /// The reason for which the handshake was given up, if it was.
    pub refused: Option<RefusedHandshake>,
    /// It was silent, or did not open, for too long, which has ended the connection.
    pub has_timed_out: bool,
}

/// Something that a peer says in the handshake and that ends it without an error of AMQP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RefusedHandshake {
    /// A protocol header of another protocol, or one that is not accepted at that point.
    Header([u8; 8]),
    /// A SASL mechanism that is not offered.
    Mechanism(Symbol),
}

impl Connection {
    /// A connection on which nothing has been read yet.
    pub fn new(config: impl Into<Arc<Config>>, now: Instant) -> Self {
        let config = config.into();
        Self {
            timers: Timers::new(now),
            config,
            phase: Phase::Header,
            reader: FrameReader::default(),
            events: VecDeque::new(),
            sessions: Sessions::default(),
            output: Output::new(),
            delayed: DelayedOutcomes::default(),
            generations: Generations::default(),
            partial_bytes: 0,
            link_count: 0,
            peer: Peer::default(),
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

    fn take_input(&mut self, now: Instant, input: BytesMut) {
        self.timers.heard(now);
        if matches!(self.phase, Phase::Closed) || input.is_empty() {
            return;
        }
        self.reader.push(input);
        let limit = self.config.max_held_input.max(self.config.max_frame_size as usize);
        if self.waits_for_answer() && self.reader.len() > limit {
            let text = format!("more than {limit} bytes sent before the open was answered");
            self.fail(condition::RESOURCE_LIMIT_EXCEEDED, text);
            self.phase = Phase::Closed;
        }
    }

    /// The peer has closed the socket, or it has failed.
    pub fn handle_eof(&mut self) {
        if !matches!(self.phase, Phase::Closed | Phase::Closing) {
            self.return_all_unsent();
            self.events.push_back(Event::Closed { error: None, by: Origin::Transport });
        }
        self.phase = Phase::Closed;
        self.output = Output::new();
        self.delayed = DelayedOutcomes::default();
        self.reader.clear();
    }

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
            match self.phase {
                Phase::Open => {
                    let frame = self.reader.next_whole_frame(self.config.max_frame_size)?;
                    if let Some(event) = self.on_frame(frame) {
                        return Some(event);
                    }
                }
                Phase::Closed => return None,
                _ => {
                    if self.waits_for_answer() || !self.advance_handshake() {
                        return None;
                    }
                }
            }
        }
    }

    /// Whether the socket should be read. Not while an answer of the layer above is awaited, nor
    /// while the peer does not take what it is told.
    pub fn wants_input(&self) -> bool {
        !matches!(self.phase, Phase::Closed)
            && !self.waits_for_answer()
            && self.output.backlog() + self.disposition_bytes() < CONTROL_BACKLOG_HIGH
    }

    /// Whether there is something to write.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether the socket can be closed: nothing is left to be written, and nothing that could be
    /// read matters.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed) && self.output.is_empty()
    }

    /// Whether our close is out or to be written, so that commands no longer have effect.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Closing)
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called, whatever else happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.next_deadline()
    }

    /// Properties of the peer: all of them after its open, the mechanism before.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Deliveries that were handed over on a session and are not sent whole.
    pub fn unsent_deliveries(&self, session: crate::SessionId) -> usize {
        self.sessions.get(session).map_or(0, |session| session.queue.len())
    }

    /// The control bytes that wait to be written: all but transfers, flows and dispositions.
    pub fn pending_output_bytes(&self) -> usize {
        self.output.backlog()
    }

    /// About the bytes of the dispositions that wait to be written.
    fn disposition_bytes(&self) -> usize {
        let sessions = self.output.disposing.iter().filter_map(|&channel| self.sessions.at(channel));
        sessions.map(|session| session.dispositions.bytes()).sum()
    }

    /// Whether the layer above has to speak before input is looked at.
    const fn waits_for_answer(&self) -> bool {
        match &self.phase {
            Phase::Opening => true,
            Phase::Sasl(sasl) => sasl.is_deciding(),
            _ => false,
        }
    }

    /// An error that the engine raises itself, with what the configuration adds to those. The text gives way to the
    /// note, which small frames must not cost.
    #[cold]
    fn noted(&self, error: Error) -> Error {
        let note = &self.config.error_note;
        let text = error.description.unwrap_or_default();
        let description = cut(&text, SHORT_DESCRIPTION.saturating_sub(note.len())).to_owned() + note;
        Error { description: Some(description), ..error }
    }

    /// Queues an event of an open connection; behind the close nothing is told.
    fn push_event(&mut self, event: Event) {
        if matches!(self.phase, Phase::Open) {
            self.events.push_back(event);
        }
    }

    /// Remembers what the peer's open said.
    fn note_peer(&mut self, open: &Open) {
        self.peer.container_id.clone_from(&open.container_id);
        self.peer.hostname.clone_from(&open.hostname);
        self.peer.max_frame_size = open.max_frame_size;
        self.peer.channel_max = open.channel_max;
        self.output.max_frame = open.max_frame_size;
    }
}
