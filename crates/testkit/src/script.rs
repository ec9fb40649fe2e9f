//! Scripted client without a socket: calls become bytes, bytes become frames.
//!
//! Invariant: input may be cut anywhere; the frames that come out are the same.

use std::collections::VecDeque;

use amqp_codec::{
    frame::{FrameHeader, FrameKind, ProtocolHeader, write_frame, write_heartbeat},
    performative::{
        self, Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Error, Flow, Open, Performative,
        SaslFrame, SaslInit, Source, Target, TargetTerminus, Transfer,
    },
    types::{DeliveryTag, ReceiverSettleMode, Role, SenderSettleMode, Symbol},
};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// One thing the broker sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    Header(ProtocolHeader),
    Sasl(SaslFrame),
    Frame(Received),
    Heartbeat,
}

/// An AMQP frame the broker sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub channel: u16,
    pub performative: Performative,
    /// Behind it.
    pub payload: Bytes,
}

/// A client that does as it is told.
#[derive(Debug, Default)]
pub struct Script {
    out: BytesMut,
    input: BytesMut,
    incoming: VecDeque<Incoming>,
    broken: Option<String>,
}

impl Script {
    /// A client that has said nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what is to be sent.
    pub fn take_output(&mut self) -> Bytes {
        self.out.split().freeze()
    }

    /// Feeds what was received.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while self.broken.is_none() && self.parse_one() {}
    }

    /// The next thing received.
    pub fn poll(&mut self) -> Option<Incoming> {
        self.incoming.pop_front()
    }

    /// Received bytes of a frame that is not whole yet.
    pub fn unread(&self) -> &[u8] {
        &self.input
    }

    /// Description of bytes of the broker that are not AMQP, if any.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn parse_one(&mut self) -> bool {
        let Some(first) = self.input.first_chunk::<8>().copied() else { return false };
        if first.starts_with(b"AMQP") {
            match ProtocolHeader::parse(first) {
                Ok(header) => self.incoming.push_back(Incoming::Header(header)),
                Err(error) => self.broken = Some(error.to_string()),
            }
            self.input.advance(8);
            return true;
        }
        let header = match FrameHeader::parse(&first, u32::MAX) {
            Ok(header) => header,
            Err(error) => {
                self.broken = Some(error.to_string());
                return false;
            }
        };
        let size = usize::try_from(header.size).unwrap_or(usize::MAX);
        if self.input.len() < size {
            return false;
        }
        let mut frame = self.input.split_to(size).freeze();
        frame.advance(header.body_offset());
        self.parse_body(header, &frame);
        true
    }

    fn parse_body(&mut self, header: FrameHeader, body: &Bytes) {
        let parsed = match header.kind {
            FrameKind::Sasl => performative::decode_sasl(body).map(Incoming::Sasl),
            FrameKind::Amqp if body.is_empty() => Ok(Incoming::Heartbeat),
            FrameKind::Amqp => performative::decode(body).map(|(performative, payload)| {
                Incoming::Frame(Received { channel: header.channel, performative, payload })
            }),
        };
        match parsed {
            Ok(incoming) => self.incoming.push_back(incoming),
            Err(error) => self.broken = Some(format!("{error:?}")),
        }
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.put_slice(bytes);
        self
    }

    /// Sends a protocol header.
    pub fn header(&mut self, header: ProtocolHeader) -> &mut Self {
        self.raw(&header.to_bytes())
    }

    /// Sends a frame with an already encoded body.
    pub fn frame(&mut self, kind: FrameKind, channel: u16, body: &[u8]) -> &mut Self {
        write_frame(&mut self.out, kind, channel, |out| out.put_slice(body));
        self
    }

    /// Sends a performative and its payload.
    pub fn send(&mut self, channel: u16, performative: &Performative, payload: &[u8]) -> &mut Self {
        write_frame(&mut self.out, FrameKind::Amqp, channel, |out| {
            performative.encode(out);
            out.put_slice(payload);
        });
        self
    }

    /// Sends an empty frame.
    pub fn heartbeat(&mut self) -> &mut Self {
        write_heartbeat(&mut self.out);
        self
    }

    /// SASL header and init, then the AMQP header, all at once as clients that pipeline do.
    pub fn sasl(&mut self, mechanism: &'static str, response: Option<&[u8]>) -> &mut Self {
        self.header(ProtocolHeader::Sasl);
        let init = SaslInit {
            mechanism: Symbol::from(mechanism),
            initial_response: response.map(Bytes::copy_from_slice),
            hostname: None,
        };
        write_frame(&mut self.out, FrameKind::Sasl, 0, |out| SaslFrame::Init(init).encode(out));
        self.header(ProtocolHeader::Amqp)
    }

    /// SASL PLAIN.
    pub fn sasl_plain(&mut self, user: &str, password: &str) -> &mut Self {
        self.sasl("PLAIN", Some(format!("\0{user}\0{password}").as_bytes()))
    }

    /// An open with nothing but a name.
    pub fn open(&mut self, container_id: &str) -> &mut Self {
        self.open_with(Open::new(container_id))
    }

    /// This very open.
    pub fn open_with(&mut self, open: Open) -> &mut Self {
        self.send(0, &Performative::Open(Box::new(open)), b"")
    }

    /// A begin with large windows.
    pub fn begin(&mut self, channel: u16) -> &mut Self {
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 65_536,
            outgoing_window: 65_536,
            handle_max: u32::MAX,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        };
        self.send(channel, &Performative::Begin(Box::new(begin)), b"")
    }

    /// This very attach.
    pub fn attach(&mut self, channel: u16, attach: Attach) -> &mut Self {
        self.send(channel, &Performative::Attach(Box::new(attach)), b"")
    }

    /// A link to send on; `None` is the anonymous terminus.
    pub fn attach_sender(
        &mut self,
        channel: u16,
        handle: u32,
        name: &str,
        target: Option<&str>,
    ) -> &mut Self {
        let mut attach = Attach::new(name, handle, Role::Sender);
        attach.initial_delivery_count = Some(0);
        attach.source = Some(Source::new("here"));
        attach.target = Some(target.map_or_else(|| Target::Terminus(TargetTerminus::default()), Target::new));
        self.attach(channel, attach)
    }

    /// A link to receive on: unsettled with receiver-settle-mode `mode`, or settled with `None`.
    pub fn attach_receiver(
        &mut self,
        channel: u16,
        handle: u32,
        name: &str,
        source: &str,
        mode: Option<ReceiverSettleMode>,
    ) -> &mut Self {
        let mut attach = Attach::new(name, handle, Role::Receiver);
        attach.snd_settle_mode =
            Some(if mode.is_some() { SenderSettleMode::Unsettled } else { SenderSettleMode::Settled });
        attach.rcv_settle_mode = Some(mode.unwrap_or(ReceiverSettleMode::First));
        attach.source = Some(Source::new(source));
        attach.target = Some(Target::new("here"));
        self.attach(channel, attach)
    }

    /// Link credit, counted from `delivery_count`.
    pub fn credit(
        &mut self,
        channel: u16,
        handle: u32,
        delivery_count: u32,
        credit: u32,
        drain: bool,
    ) -> &mut Self {
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: u32::MAX >> 1,
            next_outgoing_id: 0,
            outgoing_window: 65_536,
            handle: Some(handle),
            delivery_count: Some(delivery_count),
            link_credit: Some(credit),
            available: None,
            drain,
            echo: false,
            properties: None,
        };
        self.send(channel, &Performative::Flow(flow), b"")
    }

    /// This very flow.
    pub fn flow(&mut self, channel: u16, flow: Flow) -> &mut Self {
        self.send(channel, &Performative::Flow(flow), b"")
    }

    /// A whole message in one frame.
    pub fn transfer(
        &mut self,
        channel: u16,
        handle: u32,
        id: u32,
        settled: bool,
        payload: &[u8],
    ) -> &mut Self {
        self.transfer_with(channel, Self::transfer_frame(handle, id, settled), payload)
    }

    /// The transfer that [`Self::transfer`] sends, to be changed.
    pub fn transfer_frame(handle: u32, id: u32, settled: bool) -> Transfer {
        Transfer {
            handle,
            delivery_id: Some(id),
            delivery_tag: DeliveryTag::try_from(id.to_be_bytes().as_slice()).ok(),
            message_format: Some(0),
            settled: Some(settled),
            more: false,
            rcv_settle_mode: None,
            state: None,
            resume: false,
            aborted: false,
            batchable: false,
        }
    }

    /// This very transfer.
    pub fn transfer_with(&mut self, channel: u16, transfer: Transfer, payload: &[u8]) -> &mut Self {
        self.send(channel, &Performative::Transfer(transfer), payload)
    }

    /// A disposition over deliveries `first..=last` that the broker sent.
    pub fn disposition(
        &mut self,
        channel: u16,
        first: u32,
        last: u32,
        settled: bool,
        state: Option<DeliveryState>,
    ) -> &mut Self {
        let disposition =
            Disposition { role: Role::Receiver, first, last: Some(last), settled, state, batchable: false };
        self.send(channel, &Performative::Disposition(disposition), b"")
    }

    /// A detach.
    pub fn detach(&mut self, channel: u16, handle: u32, closed: bool) -> &mut Self {
        self.send(channel, &Performative::Detach(Box::new(Detach { handle, closed, error: None })), b"")
    }

    /// An end.
    pub fn end(&mut self, channel: u16) -> &mut Self {
        self.send(channel, &Performative::End(Box::new(End { error: None })), b"")
    }

    /// A close.
    pub fn close(&mut self, error: Option<Error>) -> &mut Self {
        self.send(0, &Performative::Close(Box::new(Close { error })), b"")
    }
}

#[cfg(test)]
mod tests;
