//! From the first byte to the open, and the ways a connection ends.
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

use super::{Connection, Phase, RefusedHandshake};
use crate::command::OpenReply;
use crate::condition::{self, error};
use crate::config::{Config, MAX_SASL_FRAME, MIN_PEER_IDLE_TIME_OUT};
use crate::delivery::DelayedOutcomes;
use crate::event::{Event, Origin};
use crate::output::{shorten, write_bounded};
use crate::sasl::{self, Sasl, Step};

impl Connection {
    /// Looks at the next header or frame of the handshake, or of the time after our close. False
    /// when it has not arrived.
    pub(super) fn advance_handshake(&mut self) -> bool {
        match self.phase {
            Phase::Header | Phase::AmqpHeader => match self.reader.next_header() {
                Some(header) => self.on_header(header),
                None => return false,
            },
            Phase::Sasl(_) => match self.reader.next_frame(MAX_SASL_FRAME) {
                Some(Ok((header, body))) if header.kind == FrameKind::Sasl => self.on_sasl(&body),
                Some(_) => self.drop_transport(),
                None => return false,
            },
            Phase::AwaitOpen => match self.reader.next_frame(self.config.max_frame_size) {
                Some(Ok((header, body))) if header.kind == FrameKind::Amqp => {
                    self.on_first_frame(header.channel, &body);
                }
                Some(Ok(_)) => self.fail_framing("SASL frame after the AMQP header"),
                Some(Err(problem)) => self.fail_framing(problem.to_string()),
                None => return false,
            },
            Phase::Closing => match self.reader.next_frame(self.config.max_frame_size) {
                // Between our close and the peer's everything is ignored (2.4.6).
                Some(Ok((_, body))) => {
                    if matches!(performative::decode(&body), Ok((Performative::Close(_), _))) {
                        self.phase = Phase::Closed;
                    }
                }
                Some(Err(_)) => self.phase = Phase::Closed,
                None => return false,
            },
            Phase::Opening | Phase::Open | Phase::Closed => return false,
        }
        true
    }

    fn on_header(&mut self, header: [u8; 8]) {
        let after_sasl = matches!(self.phase, Phase::AmqpHeader);
        match ProtocolHeader::parse(header) {
            Ok(ProtocolHeader::Sasl) if !after_sasl => {
                self.write_header(ProtocolHeader::Sasl);
                sasl::write(&mut self.output.setup, &sasl::mechanisms(&self.config.sasl_mechanisms));
                self.phase = Phase::Sasl(Sasl::AwaitInit);
            }
            Ok(ProtocolHeader::Amqp) if after_sasl || !self.config.require_sasl => {
                self.write_header(ProtocolHeader::Amqp);
                self.phase = Phase::AwaitOpen;
            }
            _ => {
                // The header of what we would accept, and the end (2.2).
                let sasl_first = self.config.require_sasl && !after_sasl;
                let ours = if sasl_first { ProtocolHeader::Sasl } else { ProtocolHeader::Amqp };
                self.peer.refused = Some(RefusedHandshake::Header(header));
                self.write_header(ours);
                self.drop_transport();
            }
        }
    }

    fn write_header(&mut self, header: ProtocolHeader) {
        self.output.setup.extend_from_slice(&header.to_bytes());
    }

    fn on_sasl(&mut self, body: &Bytes) {
        let Phase::Sasl(sasl) = &mut self.phase else { return };
        let Ok(frame) = decode_sasl(body) else { return self.drop_transport() };
        let chosen = if let SaslFrame::Init(init) = &frame { Some(init.mechanism.clone()) } else { None };
        match sasl.on_frame(&self.config.sasl_mechanisms, frame) {
            Step::Ask(event) => {
                if let Event::SaslInit { mechanism, .. } = &event {
                    self.peer.sasl_mechanism = Some(mechanism.clone());
                }
                self.events.push_back(event);
            }
            Step::Fail => {
                self.peer.refused = chosen.map(RefusedHandshake::Mechanism);
                sasl::write(&mut self.output.setup, &sasl::outcome(SaslCode::Auth));
                self.drop_transport();
            }
            Step::Drop => self.drop_transport(),
        }
    }

    /// Ends the SASL exchange that [`Event::SaslInit`] or [`Event::SaslResponse`] asked about.
    /// Anything but [`SaslCode::Ok`] ends the connection too.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        if !matches!(&self.phase, Phase::Sasl(sasl) if sasl.is_deciding()) {
            return;
        }
        sasl::write(&mut self.output.setup, &sasl::outcome(code));
        if code == SaslCode::Ok {
            self.phase = Phase::AmqpHeader;
        } else {
            self.drop_transport();
        }
    }

    /// Answers [`Event::SaslInit`] or [`Event::SaslResponse`] with a challenge.
    pub fn sasl_challenge(&mut self, challenge: Bytes) {
        let Phase::Sasl(sasl) = &mut self.phase else { return };
        if sasl.challenge() {
            let frame = SaslFrame::Challenge(SaslChallenge { challenge });
            sasl::write(&mut self.output.setup, &frame);
        } else if sasl.is_deciding() {
            sasl::write(&mut self.output.setup, &sasl::outcome(SaslCode::Auth));
            self.drop_transport();
        }
    }

    /// The first frame behind the AMQP header has to be an open on channel 0.
    fn on_first_frame(&mut self, channel: u16, body: &Bytes) {
        if body.is_empty() {
            return;
        }
        let open = match performative::decode(body) {
            Ok((Performative::Open(open), rest)) if rest.is_empty() => open,
            Ok((Performative::Open(_), _)) => return self.fail_framing("open with a payload"),
            Ok((other, _)) => {
                let text = format!("{} before the open", other.kind());
                return self.fail(condition::ILLEGAL_STATE, text);
            }
            Err(problem) => return self.fail(condition::DECODE_ERROR, problem.to_string()),
        };
        if channel != 0 {
            return self.fail_framing(format!("open on channel {channel}"));
        }
        if open.max_frame_size < MIN_MAX_FRAME_SIZE {
            let text = format!("max-frame-size is {}, at least 512 is needed", open.max_frame_size);
            return self.fail(condition::INVALID_FIELD, text);
        }
        let idle = open.idle_time_out.filter(|&ms| ms > 0).map(|ms| Duration::from_millis(ms.into()));
        if let Some(idle) = idle.filter(|&idle| idle < MIN_PEER_IDLE_TIME_OUT) {
            let least = MIN_PEER_IDLE_TIME_OUT.as_millis();
            let text = format!("idle-time-out is {} ms, at least {least} are needed", idle.as_millis());
            return self.fail(condition::NOT_ALLOWED, text);
        }
        self.note_peer(&open);
        self.timers.promise(self.config.heartbeat_interval, idle);
        self.phase = Phase::Opening;
        self.events.push_back(Event::Opened(open));
    }

    /// Answers [`Event::Opened`] with our own open.
    pub fn accept_open(&mut self, reply: OpenReply) {
        if matches!(self.phase, Phase::Opening) {
            let open = our_open(&self.config, reply);
            if self.write_open(&open) {
                self.phase = Phase::Open;
            }
        }
    }

    /// Answers [`Event::Opened`] with our own open and a close with `error`.
    pub fn refuse_open(&mut self, error: Error) {
        if matches!(self.phase, Phase::Opening) {
            self.open_and_close(error);
        }
    }

    /// Closes the connection, after what is already queued except transfers: for those there are
    /// [`Event::Unsent`]. No other event follows.
    pub fn close(&mut self, error: Option<Error>) {
        match self.phase {
            Phase::Closed | Phase::Closing => {}
            Phase::Open => {
                self.events.clear();
                self.return_all_unsent();
                self.write_close(error);
            }
            Phase::Opening | Phase::AwaitOpen => {
                self.events.clear();
                let error = error.unwrap_or_else(|| condition::error(condition::CONNECTION_FORCED, "closed"));
                self.open_and_close(error);
            }
            _ => {
                self.events.clear();
                self.phase = Phase::Closed;
            }
        }
    }

    /// The connection ends because of the peer's mistake; it is told so.
    #[cold]
    pub(super) fn fail(&mut self, condition: Symbol, description: impl Into<String>) {
        self.return_all_unsent();
        let error = self.noted(error(condition, description));
        match self.phase {
            Phase::Closed | Phase::Closing => return,
            Phase::Open => self.write_close(Some(error.clone())),
            Phase::AwaitOpen | Phase::Opening => self.open_and_close(error.clone()),
            _ => self.phase = Phase::Closed,
        }
        self.events.push_back(Event::Closed { error: Some(error), by: Origin::Engine });
    }

    /// Like [`Self::fail`], when the bytes that follow cannot be told apart any more.
    #[cold]
    pub(super) fn fail_framing(&mut self, description: impl Into<String>) {
        self.fail(condition::FRAMING_ERROR, description);
        self.phase = Phase::Closed;
        self.reader.clear();
    }

    /// The peer does not take what it is told, and goes on asking.
    #[cold]
    pub(super) fn fail_backlog(&mut self) {
        self.output.setup.clear();
        self.output.teardown.clear();
        self.fail(condition::RESOURCE_LIMIT_EXCEEDED, "too many answers are not taken by the peer");
        self.phase = Phase::Closed;
    }

    /// The connection ends without a word beyond what is already queued.
    #[cold]
    pub(super) fn drop_transport(&mut self) {
        self.phase = Phase::Closed;
        self.reader.clear();
        self.events.push_back(Event::Closed { error: None, by: Origin::Engine });
    }

    /// Writes an open of ours, marked for clients that would take it for success, and a close.
    fn open_and_close(&mut self, error: Error) {
        let properties = [("amqp:connection-establishment-failed", AnnotationValue::Bool(true))];
        let reply =
            OpenReply { properties: Some(RawMap::with_symbol_keys(&properties)), ..OpenReply::default() };
        let open = our_open(&self.config, reply);
        if self.write_open(&open) {
            self.write_close(Some(error));
        }
    }

    /// Queues our open; false, with the connection closed, when the peer's frames are too small.
    fn write_open(&mut self, open: &Open) -> bool {
        let bare = Open { properties: None, offered_capabilities: Vec::new(), ..open.clone() };
        let written = write_bounded(
            &mut self.output.setup,
            self.output.max_frame,
            0,
            |out| open.encode(out),
            |out| bare.encode(out),
        );
        if !written {
            self.drop_transport();
        }
        written
    }

    /// Queues our close, behind everything else that may still go out.
    pub(super) fn write_close(&mut self, error: Option<Error>) {
        self.flush();
        let short = Close { error: error.as_ref().map(shorten) };
        let close = Close { error };
        write_bounded(
            &mut self.output.setup,
            self.output.max_frame,
            0,
            |out| close.encode(out),
            |out| short.encode(out),
        );
        self.output.keep_only_setup();
        self.sessions.clear();
        self.delayed = DelayedOutcomes::default();
        self.partial_bytes = 0;
        self.link_count = 0;
        self.phase = Phase::Closing;
    }
}

/// Our open: what the layer above says, else what the configuration says.
fn our_open(config: &Config, reply: OpenReply) -> Open {
    let idle = config.idle_time_out.filter(|idle| !idle.is_zero());
    Open {
        max_frame_size: config.max_frame_size,
        channel_max: config.channel_max,
        idle_time_out: idle.map(|idle| u32::try_from(idle.as_millis()).unwrap_or(u32::MAX)),
        offered_capabilities: reply
            .offered_capabilities
            .unwrap_or_else(|| config.offered_capabilities.clone()),
        properties: reply.properties.or_else(|| config.open_properties.clone()),
        ..Open::new(reply.container_id.unwrap_or_else(|| config.container_id.clone()))
    }
}
