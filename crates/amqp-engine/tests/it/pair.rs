//! A scripted client and the engine, joined by bytes and a virtual clock.

use std::time::{Duration, Instant};

use amqp_codec::frame::{FrameHeader, FrameKind, ProtocolHeader, write_frame};
use amqp_codec::performative::{
    Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Error, Flow, Open, Performative,
    SaslFrame, SaslInit, Source, Target, Transfer, decode, decode_sasl,
};
use amqp_codec::types::{DeliveryTag, Role};
use amqp_engine::{
    AttachReply, Config, Connection, DeliveryId, Event, LinkKey, OpenReply, OutgoingDelivery, SessionId,
};
use bytes::{Buf, Bytes, BytesMut};

/// Frames that the client has read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Got {
    Header(ProtocolHeader),
    Sasl(SaslFrame),
    Frame(u16, Performative, Bytes),
    Heartbeat,
}

/// The engine, its clock, and what it has told and written.
pub(crate) struct Pair {
    pub(crate) engine: Connection,
    pub(crate) now: Instant,
    pub(crate) events: Vec<Event>,
    /// Unread bytes of the engine.
    wire: BytesMut,
    /// Whether opens and attaches are accepted as they come.
    pub(crate) answer: bool,
}

/// The configuration of most tests: no SASL.
/// The first id is not the default of 0, so that ids and counts are told apart.
pub(crate) fn plain() -> Config {
    Config { require_sasl: false, initial_outgoing_id: 1, ..Config::default() }
}

pub(crate) fn amqp(channel: u16, performative: impl Into<Body>) -> Vec<u8> {
    amqp_with(channel, performative, b"")
}

pub(crate) fn amqp_with(channel: u16, performative: impl Into<Body>, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    write_frame(&mut out, FrameKind::Amqp, channel, |out| {
        performative.into().0.encode(out);
        out.extend_from_slice(payload);
    });
    out.to_vec()
}

/// A frame with the given body.
pub(crate) fn raw(channel: u16, body: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    write_frame(&mut out, FrameKind::Amqp, channel, |out| out.extend_from_slice(body));
    out.to_vec()
}

pub(crate) fn sasl(frame: &SaslFrame) -> Vec<u8> {
    let mut out = BytesMut::new();
    write_frame(&mut out, FrameKind::Sasl, 0, |out| frame.encode(out));
    out.to_vec()
}

pub(crate) fn init(mechanism: &'static str) -> SaslFrame {
    SaslFrame::Init(SaslInit { mechanism: mechanism.into(), initial_response: None, hostname: None })
}

/// A performative, to be made from each of the nine.
#[derive(Clone, Debug)]
pub(crate) struct Body(pub(crate) Performative);

macro_rules! body_from {
    ($($name:ident $($boxed:ident)?),*) => { $(
        impl From<$name> for Body {
            fn from(value: $name) -> Self {
                Self(Performative::$name($($boxed::new)?(value)))
            }
        }
    )* };
}
body_from!(Open Box, Begin Box, Attach Box, Flow, Transfer, Disposition, Detach Box, End Box, Close Box);

pub(crate) fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 100,
        outgoing_window: 100,
        handle_max: u32::MAX,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    }
}

pub(crate) fn attach(name: &str, handle: u32, role: Role) -> Attach {
    Attach {
        source: Some(Source::new("from")),
        target: Some(Target::new("to")),
        initial_delivery_count: (role == Role::Sender).then_some(0),
        ..Attach::new(name, handle, role)
    }
}

pub(crate) fn transfer(handle: u32, id: u32) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(id),
        delivery_tag: Some(DeliveryTag::try_from(&id.to_be_bytes()[..]).unwrap()),
        message_format: Some(0),
        ..Transfer::default()
    }
}

/// A flow of a session, as a peer would send it that has sent and received nothing.
pub(crate) fn flow() -> Flow {
    Flow {
        next_incoming_id: Some(1),
        incoming_window: 100,
        next_outgoing_id: 0,
        outgoing_window: 100,
        ..Flow::default()
    }
}

pub(crate) fn credit(handle: u32, count: u32, credit: u32) -> Flow {
    Flow { handle: Some(handle), delivery_count: Some(count), link_credit: Some(credit), ..flow() }
}

pub(crate) fn disposition(role: Role, first: u32, last: u32, settled: bool) -> Disposition {
    Disposition {
        role,
        first,
        last: Some(last),
        settled,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    }
}

pub(crate) fn message(tag: u8, len: usize) -> OutgoingDelivery {
    let bytes: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let split = len / 3;
    OutgoingDelivery::new(
        DeliveryTag::from([tag; 16]),
        Bytes::copy_from_slice(&bytes[..split]),
        Bytes::copy_from_slice(&bytes[split..]),
    )
}

impl Pair {
    pub(crate) fn new(config: Config) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the start of the virtual clock")]
        let now = Instant::now();
        Self {
            engine: Connection::new(config, now),
            now,
            events: Vec::new(),
            wire: BytesMut::new(),
            answer: true,
        }
    }

    /// The engine reads pieces of bytes as one.
    pub(crate) fn feed_all(&mut self, pieces: &[Vec<u8>]) {
        self.feed(&pieces.concat());
    }

    /// A connection with both opens exchanged; the client's limits are the protocol's defaults.
    pub(crate) fn open(config: Config) -> Self {
        Self::open_as(config, Open::new("client"))
    }

    pub(crate) fn open_as(config: Config, open: Open) -> Self {
        let mut pair = Self::new(config);
        pair.feed(&ProtocolHeader::Amqp.to_bytes());
        pair.feed(&amqp(0, open));
        pair.read();
        pair.events.clear();
        pair
    }

    /// An open connection with a session on the client's channel 0.
    pub(crate) fn begun(config: Config) -> Self {
        let mut pair = Self::open(config);
        pair.begin(0);
        pair
    }

    pub(crate) fn begin(&mut self, channel: u16) -> SessionId {
        self.feed(&amqp(channel, begin()));
        self.read();
        match self.take_event() {
            Event::SessionBegun { session } => session,
            other => panic!("expected a session, got {other:?}"),
        }
    }

    /// Attaches a link on the client's channel 0.
    pub(crate) fn attach(&mut self, name: &str, handle: u32, role: Role) -> LinkKey {
        self.attach_as(attach(name, handle, role))
    }

    pub(crate) fn attach_as(&mut self, attach: Attach) -> LinkKey {
        self.feed(&amqp(0, attach));
        self.read();
        self.events
            .drain(..)
            .find_map(|event| match event {
                Event::LinkAttached { link, .. } => Some(link),
                _ => None,
            })
            .expect("a link is attached")
    }

    /// The engine reads bytes of the client.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.engine.handle_input(self.now, Bytes::copy_from_slice(bytes));
        self.poll();
    }

    /// Takes the engine's events.
    pub(crate) fn poll(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            if self.answer {
                match &event {
                    Event::Opened(_) => self.engine.accept_open(OpenReply::default()),
                    Event::LinkAttached { link, attach } => {
                        self.engine.accept_link(*link, AttachReply::echo(attach));
                    }
                    _ => {}
                }
            }
            self.events.push(event);
        }
    }

    /// Output of the engine, as bytes.
    pub(crate) fn read_bytes(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        while self.engine.has_output() {
            let before = out.len();
            self.engine.poll_output(self.now, &mut out, before + 1_000_000);
            assert_ne!(before, out.len(), "has output, but writes nothing");
        }
        out.freeze()
    }

    /// Output of the engine, decoded.
    pub(crate) fn read(&mut self) -> Vec<Got> {
        let bytes = self.read_bytes();
        self.wire.extend_from_slice(&bytes);
        let mut got = Vec::new();
        while self.wire.len() >= 8 {
            let first = *self.wire.first_chunk().unwrap();
            if let Ok(header) = ProtocolHeader::parse(first) {
                got.push(Got::Header(header));
                self.wire.advance(8);
                continue;
            }
            let header = FrameHeader::parse(&first, u32::MAX).unwrap();
            let mut frame = self.wire.split_to(header.size as usize).freeze();
            frame.advance(header.body_offset());
            got.push(match header.kind {
                FrameKind::Sasl => Got::Sasl(decode_sasl(&frame).unwrap()),
                FrameKind::Amqp if frame.is_empty() => Got::Heartbeat,
                FrameKind::Amqp => {
                    let (performative, payload) = decode(&frame).unwrap();
                    Got::Frame(header.channel, performative, payload)
                }
            });
        }
        assert!(self.wire.is_empty(), "half a frame: {:?}", self.wire);
        got
    }

    /// The performatives the engine writes.
    pub(crate) fn frames(&mut self) -> Vec<Performative> {
        let frames = self.read().into_iter().filter_map(|got| match got {
            Got::Frame(_, performative, _) => Some(performative),
            _ => None,
        });
        frames.collect()
    }

    pub(crate) fn transfers(&mut self) -> Vec<(Transfer, Bytes)> {
        let transfers = self.read().into_iter().filter_map(|got| match got {
            Got::Frame(_, Performative::Transfer(transfer), payload) => Some((transfer, payload)),
            _ => None,
        });
        transfers.collect()
    }

    pub(crate) fn flows(&mut self) -> Vec<Flow> {
        let flows = self.frames().into_iter().filter_map(|frame| match frame {
            Performative::Flow(flow) => Some(flow),
            _ => None,
        });
        flows.collect()
    }

    pub(crate) fn dispositions(&mut self) -> Vec<Disposition> {
        let dispositions = self.frames().into_iter().filter_map(|frame| match frame {
            Performative::Disposition(disposition) => Some(disposition),
            _ => None,
        });
        dispositions.collect()
    }

    /// The only event there is.
    pub(crate) fn take_event(&mut self) -> Event {
        assert_eq!(self.events.len(), 1, "{:?}", self.events);
        self.events.remove(0)
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Lets time pass, with all deadlines on the way handled.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut rounds = 0;
        while let Some(at) = self.engine.deadline().filter(|&at| at <= end) {
            rounds += 1;
            assert!(rounds < 100_000, "a deadline stays where it is");
            self.now = self.now.max(at);
            self.engine.handle_deadline(self.now);
            self.poll();
            if self.engine.has_output() {
                let bytes = self.read_bytes();
                self.wire.extend_from_slice(&bytes);
            }
        }
        self.now = end;
    }
}

/// The condition of the close that ends the frames.
pub(crate) fn closed_with(frames: &[Performative]) -> Option<String> {
    match frames.last() {
        Some(Performative::Close(close)) => condition(close.error.as_ref()),
        _ => None,
    }
}

pub(crate) fn ended_with(frames: &[Performative]) -> Option<String> {
    match frames.last() {
        Some(Performative::End(end)) => condition(end.error.as_ref()),
        _ => None,
    }
}

pub(crate) fn detached_with(frames: &[Performative]) -> Option<String> {
    match frames.last() {
        Some(Performative::Detach(detach)) if detach.closed => condition(detach.error.as_ref()),
        _ => None,
    }
}

fn condition(error: Option<&Error>) -> Option<String> {
    error.map(|error| error.condition.to_string())
}

pub(crate) fn ids(ids: impl IntoIterator<Item = u32>) -> Vec<DeliveryId> {
    ids.into_iter().map(DeliveryId).collect()
}

impl From<Body> for Performative {
    fn from(body: Body) -> Self {
        body.0
    }
}
