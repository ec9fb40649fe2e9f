//! Protocol headers, SASL and the exchange of opens and closes.
//!
//! Invariant: our open goes out before our close, whoever is at fault.

use std::time::Duration;

use amqp_codec::frame::{FrameKind, MIN_MAX_FRAME_SIZE, ProtocolHeader};
use amqp_codec::performative::{
    self, Close, Error, Open, Performative, SaslChallenge, SaslCode, SaslFrame, decode_sasl,
};
use amqp_codec::raw::{AnnotationValue, RawMap};
use amqp_codec::types::Symbol;
use bytes::Bytes;

use super::timers::Timers;
use crate::command::OpenReply;
use crate::condition;
use crate::config::{Config, MAX_SASL_FRAME, MIN_PEER_IDLE_TIME_OUT};
use crate::context::Context;
use crate::event::Event;
use crate::fault::Failure;
use crate::framing::FrameReader;
use crate::output::{Output, shorten};
use crate::sasl::{self, Reaction, Sasl};

/// State of a connection between its first byte and its last.
///
/// ```text
///            SASL header        outcome ok          AMQP header
///   Header ─────────────▶ Sasl ───────────▶ AmqpHeader ────────▶ AwaitOpen
///     │                                                           ▲     │
///     └───────── AMQP header, where SASL is not required ─────────┘     │ the peer's open
///                                                                       ▼
///            the peer's close, or too late        our close     ours
///   Closed ◀────────────────────────────── Closing ◀────── Open ◀── Opening
/// ```
///
/// A connection closes from every phase: with our open and close from `AwaitOpen` on, without a word before.
#[derive(Debug)]
pub(super) enum Phase {
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

/// Phase of a connection, and the properties that its peer has stated.
#[derive(Debug)]
pub(super) struct Handshake {
    phase: Phase,
    peer: Peer,
}

impl Handshake {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Header, peer: Peer::default() }
    }

    #[inline]
    pub(super) const fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) const fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether our close is out or to be written.
    pub(super) const fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Closing)
    }

    /// Whether the layer above has to speak before input is looked at.
    pub(super) const fn awaits_reply(&self) -> bool {
        match &self.phase {
            Phase::Opening => true,
            Phase::Sasl(sasl) => sasl.is_deciding(),
            _ => false,
        }
    }

    /// The transport is of no more use.
    pub(super) const fn set_closed(&mut self) {
        self.phase = Phase::Closed;
    }

    pub(super) const fn note_time_out(&mut self) {
        self.peer.has_timed_out = true;
    }

    /// Looks at the next header or frame of the handshake, or of the time after our close. False
    /// when it has not arrived.
    pub(super) fn advance(
        &mut self,
        context: &mut Context<'_>,
        reader: &mut FrameReader,
        timers: &mut Timers,
    ) -> Result<bool, Failure> {
        let max_frame_size = context.config.max_frame_size;
        match self.phase {
            Phase::Header | Phase::AmqpHeader => match reader.next_header() {
                Some(header) => self.on_header(context, header)?,
                None => return Ok(false),
            },
            Phase::Sasl(_) => match reader.next_frame(MAX_SASL_FRAME) {
                Some(Ok((header, body))) if header.kind == FrameKind::Sasl => self.on_sasl(context, &body)?,
                Some(_) => return Err(Failure::Drop),
                None => return Ok(false),
            },
            Phase::AwaitOpen => match reader.next_frame(max_frame_size) {
                Some(Ok((header, body))) if header.kind == FrameKind::Amqp => {
                    self.on_first_frame(context, timers, header.channel, &body)?;
                }
                Some(Ok(_)) => return Err(Failure::framing("SASL frame after the AMQP header")),
                Some(Err(problem)) => return Err(Failure::framing(problem.to_string())),
                None => return Ok(false),
            },
            Phase::Closing => match reader.next_frame(max_frame_size) {
                // Between our close and the peer's everything is ignored (2.4.6).
                Some(Ok((_, body))) => {
                    if matches!(performative::decode(&body), Ok((Performative::Close(_), _))) {
                        self.phase = Phase::Closed;
                    }
                }
                Some(Err(_)) => self.phase = Phase::Closed,
                None => return Ok(false),
            },
            Phase::Opening | Phase::Open | Phase::Closed => return Ok(false),
        }
        Ok(true)
    }

    fn on_header(&mut self, context: &mut Context<'_>, header: [u8; 8]) -> Result<(), Failure> {
        let after_sasl = matches!(self.phase, Phase::AmqpHeader);
        let requires_sasl = context.config.require_sasl && !after_sasl;
        match ProtocolHeader::parse(header) {
            Ok(ProtocolHeader::Sasl) if !after_sasl => {
                context.output.push_header(ProtocolHeader::Sasl);
                context.output.push_sasl(&sasl::mechanisms(&context.config.sasl_mechanisms));
                self.phase = Phase::Sasl(Sasl::AwaitInit);
                Ok(())
            }
            Ok(ProtocolHeader::Amqp) if !requires_sasl => {
                context.output.push_header(ProtocolHeader::Amqp);
                self.phase = Phase::AwaitOpen;
                Ok(())
            }
            _ => {
                // The header of what we would accept, and the end (2.2).
                let ours = if requires_sasl { ProtocolHeader::Sasl } else { ProtocolHeader::Amqp };
                self.peer.refused = Some(RefusedHandshake::Header(header));
                context.output.push_header(ours);
                Err(Failure::Drop)
            }
        }
    }

    fn on_sasl(&mut self, context: &mut Context<'_>, body: &Bytes) -> Result<(), Failure> {
        let Phase::Sasl(sasl) = &mut self.phase else { return Ok(()) };
        let Ok(frame) = decode_sasl(body) else { return Err(Failure::Drop) };
        let chosen = if let SaslFrame::Init(init) = &frame { Some(init.mechanism.clone()) } else { None };
        match sasl.on_frame(&context.config.sasl_mechanisms, frame) {
            Reaction::Ask(event) => {
                if let Event::SaslInit { mechanism, .. } = &event {
                    self.peer.sasl_mechanism = Some(mechanism.clone());
                }
                context.events.push_back(event);
                Ok(())
            }
            Reaction::Fail => {
                self.peer.refused = chosen.map(RefusedHandshake::Mechanism);
                context.output.push_sasl(&sasl::outcome(SaslCode::Auth));
                Err(Failure::Drop)
            }
            Reaction::Drop => Err(Failure::Drop),
        }
    }

    /// Ends the SASL exchange. Anything but [`SaslCode::Ok`] ends the connection too.
    pub(super) fn sasl_outcome(&mut self, output: &mut Output, code: SaslCode) -> Result<(), Failure> {
        if !matches!(&self.phase, Phase::Sasl(sasl) if sasl.is_deciding()) {
            return Ok(());
        }
        output.push_sasl(&sasl::outcome(code));
        if code != SaslCode::Ok {
            return Err(Failure::Drop);
        }
        self.phase = Phase::AmqpHeader;
        Ok(())
    }

    /// Challenges the peer, unless it was challenged too often.
    pub(super) fn sasl_challenge(&mut self, output: &mut Output, challenge: Bytes) -> Result<(), Failure> {
        let Phase::Sasl(sasl) = &mut self.phase else { return Ok(()) };
        if sasl.challenge() {
            output.push_sasl(&SaslFrame::Challenge(SaslChallenge { challenge }));
        } else if sasl.is_deciding() {
            output.push_sasl(&sasl::outcome(SaslCode::Auth));
            return Err(Failure::Drop);
        }
        Ok(())
    }

    /// The first frame behind the AMQP header has to be an open on channel 0.
    fn on_first_frame(
        &mut self,
        context: &mut Context<'_>,
        timers: &mut Timers,
        channel: u16,
        body: &Bytes,
    ) -> Result<(), Failure> {
        if body.is_empty() {
            return Ok(());
        }
        let open = match performative::decode(body) {
            Ok((Performative::Open(open), rest)) if rest.is_empty() => open,
            Ok((Performative::Open(_), _)) => return Err(Failure::framing("open with a payload")),
            Ok((other, _)) => {
                let text = format!("{} before the open", other.kind());
                return Err(Failure::close(condition::ILLEGAL_STATE, text));
            }
            Err(problem) => return Err(Failure::close(condition::DECODE_ERROR, problem.to_string())),
        };
        if channel != 0 {
            return Err(Failure::framing(format!("open on channel {channel}")));
        }
        if open.max_frame_size < MIN_MAX_FRAME_SIZE {
            let text = format!("max-frame-size is {}, at least 512 is needed", open.max_frame_size);
            return Err(Failure::framing(text));
        }
        let idle = open.idle_time_out.filter(|&ms| ms > 0).map(|ms| Duration::from_millis(ms.into()));
        if let Some(idle) = idle.filter(|&idle| idle < MIN_PEER_IDLE_TIME_OUT) {
            let least = MIN_PEER_IDLE_TIME_OUT.as_millis();
            let text = format!("idle-time-out is {} ms, at least {least} are needed", idle.as_millis());
            return Err(Failure::close(condition::NOT_ALLOWED, text));
        }
        self.peer.container_id.clone_from(&open.container_id);
        self.peer.hostname.clone_from(&open.hostname);
        self.peer.max_frame_size = open.max_frame_size;
        self.peer.channel_max = open.channel_max;
        context.output.set_max_frame(open.max_frame_size);
        timers.promise(context.config.heartbeat_interval, idle);
        self.phase = Phase::Opening;
        context.events.push_back(Event::Opened(open));
        Ok(())
    }

    /// Answers the peer's open with ours.
    pub(super) fn accept_open(
        &mut self,
        config: &Config,
        output: &mut Output,
        reply: OpenReply,
    ) -> Result<(), Failure> {
        if matches!(self.phase, Phase::Opening) {
            push_open(config, output, reply)?;
            self.phase = Phase::Open;
        }
        Ok(())
    }

    /// Queues our close, behind all that is queued; nothing comes behind it.
    pub(super) fn push_close(&mut self, output: &mut Output, error: Option<Error>) {
        let short = Close { error: error.as_ref().map(shorten) };
        let close = Close { error };
        output.push_bounded(|out| close.encode(out), |out| short.encode(out));
        output.keep_only_setup();
        self.phase = Phase::Closing;
    }
}

/// Queues an open of ours for a connection that closes at once, marked for clients that would take it for success.
pub(super) fn push_failed_open(config: &Config, output: &mut Output) -> Result<(), Failure> {
    let properties = [("amqp:connection-establishment-failed", AnnotationValue::Bool(true))];
    let properties = Some(RawMap::with_symbol_keys(&properties));
    push_open(config, output, OpenReply { properties, ..OpenReply::default() })
}

/// Queues our open: what the layer above says, else what the configuration says. It costs the connection when the peer's
/// frames are too small.
fn push_open(config: &Config, output: &mut Output, reply: OpenReply) -> Result<(), Failure> {
    let idle = config.idle_time_out.filter(|idle| !idle.is_zero());
    let open = Open {
        max_frame_size: config.max_frame_size,
        channel_max: config.channel_max,
        idle_time_out: idle.map(|idle| u32::try_from(idle.as_millis()).unwrap_or(u32::MAX)),
        offered_capabilities: reply
            .offered_capabilities
            .unwrap_or_else(|| config.offered_capabilities.clone()),
        properties: reply.properties.or_else(|| config.open_properties.clone()),
        ..Open::new(reply.container_id.unwrap_or_else(|| config.container_id.clone()))
    };
    let bare = Open { properties: None, offered_capabilities: Vec::new(), ..open.clone() };
    let fits = output.push_bounded(|out| open.encode(out), |out| bare.encode(out));
    if fits { Ok(()) } else { Err(Failure::Drop) }
}
