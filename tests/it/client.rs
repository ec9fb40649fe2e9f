//! A client that keeps the books of its session, so that a test says only what it is about.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use amqp_codec::{
    performative::{
        Attach, Begin, DeliveryState, Detach, Disposition, Error, Flow, Open, Performative, Source, Transfer,
    },
    types::{DeliveryTag, ReceiverSettleMode, Role},
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use testkit::{Received, Wire};

use crate::message::{Delivery, message};

/// A scripted client with sessions, delivery-ids and counts.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) wire: Wire<S>,
    /// By channel: transfer frames sent, which is also the next delivery-id while each message is one frame.
    sent: BTreeMap<u16, u32>,
    /// By handle: deliveries received.
    count: BTreeMap<u32, u32>,
}

impl Client {
    /// Logged in by PLAIN with the development key, a session on channel 0.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self::on(Wire::session(address, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap())
    }

    /// Through this SASL mechanism and with this open.
    pub(crate) fn connect(
        address: SocketAddr,
        mechanism: &'static str,
        response: Option<&[u8]>,
        open: Open,
    ) -> Self {
        Self::connect_over(Wire::connect(address).unwrap(), mechanism, response, open)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn on(wire: Wire<S>) -> Self {
        Self { wire, sent: BTreeMap::new(), count: BTreeMap::new() }
    }

    /// The same on a stream that is there.
    pub(crate) fn connect_over(
        wire: Wire<S>,
        mechanism: &'static str,
        response: Option<&[u8]>,
        open: Open,
    ) -> Self {
        let mut client = Self::on(wire);
        client.wire.script.sasl(mechanism, response).open_with(open);
        client.wire.until(|performative| matches!(performative, Performative::Open(_))).unwrap();
        client
    }

    /// Begins a session with the windows of .NET and Go.
    pub(crate) fn begin(&mut self, channel: u16) -> Begin {
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 5000,
            outgoing_window: 5000,
            handle_max: 255,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        };
        self.wire.script.send(channel, &Performative::Begin(Box::new(begin)), b"");
        let is_begin = |performative: &Performative| matches!(performative, Performative::Begin(_));
        let Performative::Begin(begin) = self.wire.until(is_begin).unwrap().performative else { panic!() };
        assert_eq!(begin.remote_channel, Some(channel));
        *begin
    }

    /// Attaches, and demands an answer that names the link and takes it.
    pub(crate) fn attach(&mut self, channel: u16, attach: Attach) -> Attach {
        let asked = attach.clone();
        self.wire.script.attach(channel, attach);
        let answer = self.wire.attached().unwrap();
        assert_eq!(answer.name, asked.name);
        assert_ne!(answer.role, asked.role);
        assert!(answer.source.is_some() && answer.target.is_some(), "refused: {answer:?}");
        if asked.role == Role::Receiver {
            // .NET reads it without looking whether it is there.
            assert!(answer.initial_delivery_count.is_some());
            self.count.insert(asked.handle, 0);
        }
        answer
    }

    /// Attaches, and demands a refusal: an attach without terminus, then a closing detach with an error.
    pub(crate) fn refused(&mut self, channel: u16, attach: Attach) -> Error {
        self.wire.script.attach(channel, attach);
        let answer = self.wire.attached().unwrap();
        assert!(answer.source.is_none() && answer.target.is_none(), "{answer:?}");
        let Detach { closed, error, .. } = self.wire.detached().unwrap();
        assert!(closed);
        error.expect("a reason")
    }

    /// A link to send on, with its credit.
    pub(crate) fn sender(&mut self, handle: u32, target: &str) -> Attach {
        self.wire.sender(handle, &format!("sender-{handle}"), target).unwrap()
    }

    /// A link to receive on: `None` to receive and delete, else to lock.
    pub(crate) fn receiver(&mut self, handle: u32, source: &str, mode: Option<ReceiverSettleMode>) -> Attach {
        self.count.insert(handle, 0);
        self.wire.receiver(handle, &format!("receiver-{handle}"), source, mode).unwrap()
    }

    /// A receiver whose source has this default outcome.
    pub(crate) fn receiver_with(&mut self, handle: u32, source: &str, default_outcome: DeliveryState) {
        let mut attach = Attach::new(format!("receiver-{handle}"), handle, Role::Receiver);
        attach.source = Some(Source { default_outcome: Some(default_outcome), ..Source::new(source) });
        attach.target = Some(amqp_codec::performative::Target::new("here"));
        self.attach(0, attach);
    }

    /// Sends a message in one frame on channel 0 and says its delivery-id.
    pub(crate) fn send(&mut self, handle: u32, settled: bool, payload: &[u8]) -> u32 {
        self.send_with(0, |id| testkit::Script::transfer_frame(handle, id, settled), payload)
    }

    /// Sends this transfer, made for the delivery-id.
    pub(crate) fn send_with(
        &mut self,
        channel: u16,
        transfer: impl FnOnce(u32) -> Transfer,
        payload: &[u8],
    ) -> u32 {
        let sent = self.sent.entry(channel).or_default();
        let id = *sent;
        *sent += 1;
        self.wire.script.transfer_with(channel, transfer(id), payload);
        id
    }

    /// Counts frames that a test has sent by itself.
    pub(crate) fn count_sent(&mut self, channel: u16, frames: u32) {
        *self.sent.entry(channel).or_default() += frames;
    }

    /// Sends messages, and waits until all are accepted.
    pub(crate) fn accepted(&mut self, handle: u32, texts: &[&str]) {
        let ids: Vec<u32> = texts.iter().map(|text| self.send(handle, false, &message(text))).collect();
        let mut open = ids.len();
        while open > 0 {
            let answer = self.wire.disposed().unwrap();
            assert_eq!((answer.role, answer.settled), (Role::Receiver, true));
            assert_eq!(answer.state, Some(DeliveryState::Accepted));
            open -= (answer.last.unwrap_or(answer.first) - answer.first) as usize + 1;
        }
    }

    /// Grants credit on a channel.
    pub(crate) fn credit_on(&mut self, channel: u16, handle: u32, credit: u32, drain: bool) {
        let flow = Flow {
            next_incoming_id: None,
            incoming_window: u32::MAX >> 1,
            next_outgoing_id: self.sent.get(&channel).copied().unwrap_or(0),
            outgoing_window: 65_536,
            handle: Some(handle),
            delivery_count: self.count.get(&handle).copied(),
            link_credit: Some(credit),
            drain,
            ..Flow::default()
        };
        self.wire.script.flow(channel, flow);
    }

    /// Waits for a whole delivery.
    pub(crate) fn delivery(&mut self, handle: u32) -> Delivery {
        let mut frames: Vec<Received> = Vec::new();
        loop {
            let frame = self.wire.transferred().unwrap();
            let Performative::Transfer(transfer) = &frame.performative else { panic!() };
            let more = transfer.more;
            frames.push(frame);
            if !more {
                break;
            }
        }
        let payload: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.to_vec()).collect();
        let Performative::Transfer(first) = frames[0].performative.clone() else { panic!() };
        *self.count.entry(handle).or_default() += 1;
        Delivery { transfer: first, frames: frames.len(), payload: payload.into() }
    }

    /// Grants credit for some messages on channel 0, and waits for as many.
    pub(crate) fn receive(&mut self, handle: u32, count: u32) -> Vec<Delivery> {
        self.credit_on(0, handle, count, false);
        (0..count).map(|_| self.delivery(handle)).collect()
    }

    /// Drains a link on channel 0: what comes before the answer.
    pub(crate) fn drain(&mut self, channel: u16, handle: u32, credit: u32) -> Vec<Delivery> {
        let before = self.count.get(&handle).copied().unwrap_or(0);
        self.credit_on(channel, handle, credit, true);
        let mut deliveries = Vec::new();
        loop {
            let frame = self.wire.next_frame().unwrap();
            match frame.performative {
                Performative::Transfer(transfer) => {
                    assert!(!transfer.more, "a small message");
                    deliveries.push(Delivery { transfer, frames: 1, payload: frame.payload });
                }
                Performative::Flow(flow) if flow.handle.is_some() && flow.drain => {
                    assert_eq!((flow.link_credit, flow.drain), (Some(0), true));
                    assert_eq!(flow.delivery_count, Some(before.wrapping_add(credit)));
                    self.count.insert(handle, before.wrapping_add(credit));
                    return deliveries;
                }
                _ => {}
            }
        }
    }

    /// Demands that there is nothing to receive.
    pub(crate) fn nothing_on(&mut self, handle: u32) {
        let deliveries = self.drain(0, handle, 1);
        assert!(deliveries.is_empty(), "{deliveries:?}");
    }

    /// Says an outcome as the SDKs do: not settled, `first` only; and waits for the answer.
    pub(crate) fn outcome(&mut self, channel: u16, id: u32, state: DeliveryState) -> Disposition {
        let answer = self.say_outcome(channel, id, state);
        assert!(answer.settled);
        answer
    }

    /// The same in a transaction, which has the outcome and leaves the delivery open.
    pub(crate) fn outcome_within(&mut self, channel: u16, id: u32, state: DeliveryState) -> Disposition {
        let answer = self.say_outcome(channel, id, state);
        assert!(!answer.settled);
        answer
    }

    fn say_outcome(&mut self, channel: u16, id: u32, state: DeliveryState) -> Disposition {
        let disposition = Disposition {
            role: Role::Receiver,
            first: id,
            last: None,
            settled: false,
            state: Some(state),
            batchable: true,
        };
        self.wire.script.send(channel, &Performative::Disposition(disposition), b"");
        let answer = self.wire.disposed().unwrap();
        assert_eq!(answer.role, Role::Sender);
        assert!(answer.first <= id && id <= answer.last.unwrap_or(answer.first));
        answer
    }

    /// Completes and demands that it is answered so.
    pub(crate) fn complete(&mut self, delivery: &Delivery) {
        let answer = self.outcome(0, delivery.id(), DeliveryState::Accepted);
        assert_eq!(answer.state, Some(DeliveryState::Accepted));
    }

    /// Closes, and demands that everything is answered once.
    pub(crate) fn close(mut self) {
        self.wire.script.close(None);
        assert_eq!(self.wire.closed().unwrap().error, None);
        let rest = self.wire.rest().unwrap();
        assert!(rest.is_empty(), "after the close: {rest:?}");
    }
}

/// A delivery-tag.
pub(crate) fn tag(bytes: &[u8]) -> Option<DeliveryTag> {
    DeliveryTag::try_from(bytes).ok()
}
