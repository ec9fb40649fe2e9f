//! What clients of plain AMQP have in common, in the words of each: a [`PlainSdk`] says how one of them opens,
//! attaches and counts, a [`Peer`] is one that is connected.

use std::collections::BTreeMap;

use amqp_codec::{
    performative::{
        Attach, Begin, DeliveryState, Disposition, Error, Flow, Open, Performative, Source, Target, Transfer,
    },
    sections::Sections,
    types::{DeliveryTag, Role, Symbol},
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use bytes::Bytes;
use testkit::{Script, Wire};

use crate::{
    broker::{Broker, QUEUE},
    dialect::modified,
};

/// Handles of the links that the scenarios attach.
pub(crate) const OUT: u32 = 0;
pub(crate) const IN: u32 = 1;

/// How a client speaks.
pub(crate) struct PlainSdk {
    pub(crate) open: fn() -> Open,
    /// The windows and the first transfer-id of its sessions.
    pub(crate) begin: fn() -> Begin,
    /// The delivery-tag of its n-th message.
    pub(crate) tag: fn(u32) -> Vec<u8>,
    /// A link to send on: name, address.
    pub(crate) sender: fn(&str, &str) -> Attach,
    /// A link to receive on with locks: name, address.
    pub(crate) receiver: fn(&str, &str) -> Attach,
    /// A message of this text.
    pub(crate) message: fn(&str) -> Bytes,
    /// Credit that it grants at first, here smaller than its default.
    pub(crate) prefetch: u32,
    /// It fills the credit up when no more than this is left.
    pub(crate) refill_at: u32,
}

/// A connected client with a session on channel 0.
pub(crate) struct Peer<'d> {
    pub(crate) wire: Wire,
    sdk: &'d PlainSdk,
    /// What the broker says it can do.
    pub(crate) offered: Vec<Symbol>,
    begin: Begin,
    /// The broker's first transfer-id.
    first_incoming: u32,
    /// Transfer frames sent and received.
    frames: (u32, u32),
    /// Messages sent, which is the next delivery-id: all of them start at 0, whatever the first transfer-id is.
    sent: u32,
    /// By handle: deliveries received, and the credit that is left.
    received: BTreeMap<u32, (u32, u32)>,
    /// The client's handles by the broker's.
    handles: BTreeMap<u32, u32>,
}

impl<'d> Peer<'d> {
    /// Logs in and begins a session.
    pub(crate) fn connect(broker: &Broker, sdk: &'d PlainSdk) -> Self {
        let mut wire = Wire::connect(broker.address).unwrap();
        let begin = (sdk.begin)();
        wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open_with((sdk.open)());
        wire.script.send(0, &Performative::Begin(Box::new(begin.clone())), b"");
        let opened = wire.until(|performative| matches!(performative, Performative::Open(_))).unwrap();
        let Performative::Open(opened) = opened.performative else { panic!() };
        let offered = opened.offered_capabilities;
        assert!(offered.contains(&"ANONYMOUS-RELAY".into()));
        let answer = wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
        let Performative::Begin(answer) = answer.performative else { panic!() };
        let first_incoming = answer.next_outgoing_id;
        Self {
            wire,
            sdk,
            offered,
            begin,
            first_incoming,
            frames: (0, 0),
            sent: 0,
            received: BTreeMap::new(),
            handles: BTreeMap::new(),
        }
    }

    /// Attaches, and demands an answer in kind: the same name, modes and addresses.
    pub(crate) fn attach(&mut self, handle: u32, mut attach: Attach) -> Attach {
        attach.handle = handle;
        let asked = attach.clone();
        self.wire.script.attach(0, attach);
        let answer = self.wire.attached().unwrap();
        self.handles.insert(answer.handle, handle);
        assert_eq!(answer.name, asked.name);
        assert_ne!(answer.role, asked.role);
        let modes = |attach: &Attach| {
            (attach.snd_settle_mode.map(|m| m as u8), attach.rcv_settle_mode.map(|m| m as u8))
        };
        let (asked_for, got) = (modes(&asked), modes(&answer));
        assert!(asked_for.0.is_none() || asked_for.0 == got.0, "{asked_for:?} {got:?}");
        assert!(asked_for.1.is_none() || asked_for.1 == got.1, "{asked_for:?} {got:?}");
        let source = |attach: &Attach| attach.source.as_ref().map(|source| source.address.clone());
        let target = |attach: &Attach| attach.target.as_ref().map(|target| target.address().cloned());
        assert_eq!((source(&answer), target(&answer)), (source(&asked), target(&asked)));
        if asked.role == Role::Receiver {
            assert_eq!(answer.initial_delivery_count, Some(0));
            self.received.entry(handle).or_default();
        } else {
            assert!(self.wire.flowed().unwrap().link_credit > Some(0));
        }
        answer
    }

    /// Attaches, and demands what these clients wait for: no terminus, then the error in a closing detach.
    pub(crate) fn refused(&mut self, handle: u32, mut attach: Attach) -> Error {
        attach.handle = handle;
        self.wire.script.attach(0, attach);
        let answer = self.wire.attached().unwrap();
        assert!(answer.source.is_none() && answer.target.is_none(), "{answer:?}");
        let detach = self.wire.detached().unwrap();
        assert!(detach.closed);
        // The client answers, as each end of a link detaches once.
        self.wire.script.detach(0, handle, true);
        detach.error.expect("a reason")
    }

    /// Attaches the sender of the scenarios.
    pub(crate) fn sender(&mut self, address: &str) {
        self.attach(OUT, (self.sdk.sender)("out", address));
    }

    /// Attaches the receiver of the scenarios.
    pub(crate) fn receiver(&mut self, address: &str) {
        self.received.remove(&IN);
        self.attach(IN, (self.sdk.receiver)("in", address));
    }

    /// The first frame of the next message on a handle.
    pub(crate) fn transfer(&self, handle: u32, settled: bool) -> Transfer {
        Transfer {
            delivery_tag: DeliveryTag::try_from(&*(self.sdk.tag)(self.sent)).ok(),
            ..Script::transfer_frame(handle, self.sent, settled)
        }
    }

    /// Sends one frame.
    pub(crate) fn send_frame(&mut self, transfer: Transfer, payload: &[u8]) {
        if !transfer.more {
            self.sent += 1;
        }
        self.frames.0 = self.frames.0.wrapping_add(1);
        self.wire.script.transfer_with(0, transfer, payload);
    }

    /// Sends a message in one frame, and says its delivery-id.
    pub(crate) fn send_on(&mut self, handle: u32, settled: bool, payload: &[u8]) -> u32 {
        let transfer = self.transfer(handle, settled);
        let id = transfer.delivery_id.unwrap();
        self.send_frame(transfer, payload);
        id
    }

    /// Sends a message and waits for its outcome, which is settled.
    pub(crate) fn outcome_of(&mut self, id: u32) -> DeliveryState {
        let answer = self.wire.disposed().unwrap();
        assert_eq!((answer.role, answer.settled), (Role::Receiver, true));
        assert!(answer.first <= id && id <= answer.last.unwrap_or(answer.first), "{answer:?} for {id}");
        answer.state.unwrap()
    }

    /// Sends messages of these texts, each when the one before is accepted.
    pub(crate) fn send(&mut self, texts: &[&str]) {
        for text in texts {
            let id = self.send_on(OUT, false, &(self.sdk.message)(text));
            assert_eq!(self.outcome_of(id), DeliveryState::Accepted);
        }
    }

    /// Sends messages of these texts, all of them before the first answer is read, until all are accepted.
    pub(crate) fn send_all(&mut self, texts: &[String]) {
        for text in texts {
            self.send_on(OUT, false, &(self.sdk.message)(text));
        }
        let mut open = texts.len();
        while open > 0 {
            let answer = self.wire.disposed().unwrap();
            assert_eq!((answer.role, answer.settled), (Role::Receiver, true));
            assert_eq!(answer.state, Some(DeliveryState::Accepted));
            open -= (answer.last.unwrap_or(answer.first) - answer.first) as usize + 1;
        }
    }

    /// Receives messages of these texts on the receiver of the scenarios and accepts them, filling the credit up.
    pub(crate) fn take_all(&mut self, texts: &[String]) {
        self.flow(IN, self.sdk.prefetch, false);
        for text in texts {
            let (transfer, payload) = self.delivery();
            assert_eq!(transfer.settled, Some(false));
            assert_eq!(bare(&payload), bare(&(self.sdk.message)(text)));
            self.settle(transfer.delivery_id.unwrap(), Some(DeliveryState::Accepted));
            if self.received[&IN].1 <= self.sdk.refill_at {
                self.flow(IN, self.sdk.prefetch, false);
            }
        }
        assert!(self.drain(IN, 1).is_empty());
    }

    /// Grants credit with a flow that tells of the session what this client tells.
    pub(crate) fn flow(&mut self, handle: u32, credit: u32, drain: bool) {
        let (count, left) = self.received.entry(handle).or_default();
        *left = credit;
        let flow = Flow {
            next_incoming_id: Some(self.first_incoming.wrapping_add(self.frames.1)),
            incoming_window: self.begin.incoming_window,
            next_outgoing_id: self.begin.next_outgoing_id.wrapping_add(self.frames.0),
            outgoing_window: self.begin.outgoing_window,
            handle: Some(handle),
            delivery_count: Some(*count),
            link_credit: Some(credit),
            drain,
            ..Flow::default()
        };
        self.wire.script.flow(0, flow);
    }

    /// The next message.
    pub(crate) fn delivery(&mut self) -> (Transfer, Bytes) {
        let frame = self.wire.transferred().unwrap();
        let Performative::Transfer(transfer) = frame.performative else { panic!() };
        self.count(&transfer);
        (transfer, frame.payload)
    }

    fn count(&mut self, transfer: &Transfer) {
        assert!(!transfer.more, "a small message");
        self.frames.1 = self.frames.1.wrapping_add(1);
        let handle = self.handles[&transfer.handle];
        let (count, left) = self.received.entry(handle).or_default();
        *count = count.wrapping_add(1);
        *left = left.checked_sub(1).expect("no more than was granted");
    }

    /// Says an outcome and settles with it: nothing is answered.
    pub(crate) fn settle(&mut self, id: u32, state: Option<DeliveryState>) {
        let disposition = Disposition {
            role: Role::Receiver,
            first: id,
            last: Some(id),
            settled: true,
            state,
            batchable: false,
        };
        self.wire.script.send(0, &Performative::Disposition(disposition), b"");
    }

    /// Drains a link with the credit that is left or given: what came before the answer.
    pub(crate) fn drain(&mut self, handle: u32, credit: u32) -> Vec<(Transfer, Bytes)> {
        self.flow(handle, credit, true);
        let end = self.received[&handle].0.wrapping_add(credit);
        let mut deliveries = Vec::new();
        loop {
            let frame = self.wire.next_frame().unwrap();
            match frame.performative {
                Performative::Transfer(transfer) => {
                    self.count(&transfer);
                    deliveries.push((transfer, frame.payload));
                }
                Performative::Flow(flow) if self.is_of(&flow, handle) => {
                    assert_eq!(
                        (flow.drain, flow.link_credit, flow.delivery_count),
                        (true, Some(0), Some(end))
                    );
                    self.received.insert(handle, (end, 0));
                    return deliveries;
                }
                _ => {}
            }
        }
    }

    fn is_of(&self, flow: &Flow, handle: u32) -> bool {
        flow.handle.and_then(|theirs| self.handles.get(&theirs)) == Some(&handle)
    }

    /// Looks a subscription up: an attach without source, answered with one.
    pub(crate) fn attach_lookup(&mut self, handle: u32, mut attach: Attach) -> Attach {
        attach.handle = handle;
        self.wire.script.attach(0, attach);
        let answer = self.wire.attached().unwrap();
        self.handles.insert(answer.handle, handle);
        answer
    }

    /// Leaves a link without closing it, as durable subscribers do.
    pub(crate) fn detach_link(&mut self, handle: u32) {
        self.wire.script.detach(0, handle, false);
        let detach = self.wire.detached().unwrap();
        assert_eq!((detach.closed, detach.error), (false, None));
    }

    /// Closes a link and waits until it is.
    pub(crate) fn close_link(&mut self, handle: u32) {
        self.wire.script.detach(0, handle, true);
        let detach = self.wire.detached().unwrap();
        assert_eq!((detach.closed, detach.error), (true, None));
    }

    /// Closes, and demands that it is answered and nothing follows.
    pub(crate) fn close(mut self) {
        self.wire.script.close(None);
        assert_eq!(self.wire.closed().unwrap().error, None);
        assert!(self.wire.rest().unwrap().is_empty());
    }
}

/// The part of a message that a broker leaves alone.
pub(crate) fn bare(payload: &[u8]) -> &[u8] {
    Sections::scan(payload).unwrap().bare().of(payload)
}

/// How often a message was delivered in vain.
pub(crate) fn failures(payload: &[u8]) -> u32 {
    Sections::scan(payload).unwrap().read_header(payload).unwrap().delivery_count
}

/// A source of this address with all four outcomes.
pub(crate) fn source(address: &str, default_outcome: Option<DeliveryState>) -> Source {
    let outcomes = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];
    Source {
        expiry_policy: Some("link-detach".into()),
        default_outcome,
        outcomes: outcomes.map(Into::into).to_vec(),
        ..Source::new(address)
    }
}

/// Messages pass unchanged, in order and in any number, while credit is filled up as they are settled.
pub(crate) fn sends_and_receives(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, sdk);
    peer.sender(QUEUE);
    let texts: Vec<String> = (0..sdk.prefetch * 3).map(|number| format!("message {number}")).collect();
    peer.send(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    peer.receiver(QUEUE);
    peer.take_all(&texts);
    peer.close();
}

/// A drain is answered on an empty queue, half-way and again.
pub(crate) fn drains(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, sdk);
    peer.sender(QUEUE);
    peer.receiver(QUEUE);
    assert!(peer.drain(IN, sdk.prefetch).is_empty());
    peer.send(&["a", "b"]);
    assert_eq!(peer.drain(IN, sdk.prefetch).len(), 2);
    assert!(peer.drain(IN, 1).is_empty());
    peer.send(&["c"]);
    peer.flow(IN, 1, false);
    peer.delivery();
    peer.close();
}

/// Each outcome that a client settles with does what it says.
pub(crate) fn settles(sdk: &PlainSdk) {
    let rejected = DeliveryState::Rejected(None);
    let cases = [
        // Said, and how often the message has failed when it comes again; `None`: it does not.
        (DeliveryState::Released, Some(0)),
        (modified(Some(true), Some(false)), Some(1)),
        (modified(Some(false), Some(false)), Some(0)),
        (DeliveryState::Accepted, None),
        (rejected, None),
    ];
    for (state, again) in cases {
        let broker = Broker::start();
        let mut peer = Peer::connect(&broker, sdk);
        peer.sender(QUEUE);
        peer.send(&["m"]);
        peer.receiver(QUEUE);
        peer.flow(IN, 1, false);
        let (transfer, _) = peer.delivery();
        peer.settle(transfer.delivery_id.unwrap(), Some(state.clone()));
        let came = peer.drain(IN, 1);
        assert_eq!(came.first().map(|(_, payload)| failures(payload)), again, "{state:?}");
    }
}

/// Messages that a closed receiver left unsettled come again, in their order, and do not count as failed.
pub(crate) fn gives_back_what_it_leaves(sdk: &PlainSdk) {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, sdk);
    peer.sender(QUEUE);
    peer.send(&["a", "b", "c"]);
    peer.receiver(QUEUE);
    peer.flow(IN, 3, false);
    let first: Vec<_> = (0..3).map(|_| peer.delivery()).collect();
    peer.settle(first[1].0.delivery_id.unwrap(), Some(DeliveryState::Accepted));
    peer.close_link(IN);
    peer.receiver(QUEUE);
    let again = peer.drain(IN, 3);
    assert_eq!(again.len(), 2);
    for ((_, payload), text) in again.iter().zip(["a", "c"]) {
        assert_eq!(bare(payload), bare(&(sdk.message)(text)));
        assert_eq!(failures(payload), 0);
    }
    peer.close();
}

/// A missing queue is told as these clients read it, in both directions, and the session goes on.
pub(crate) fn misses_a_queue(sdk: &PlainSdk) {
    let broker = Broker::with(|config| config.auto_create = false);
    let mut peer = Peer::connect(&broker, sdk);
    assert_eq!(peer.refused(5, (sdk.sender)("lost out", "nowhere")).condition, "amqp:not-found");
    assert_eq!(peer.refused(6, (sdk.receiver)("lost in", "nowhere")).condition, "amqp:not-found");
    peer.sender(QUEUE);
    peer.send(&["m"]);
    peer.close();
}

/// The target of a sender without an address.
pub(crate) fn anonymous_target() -> Target {
    Target::Terminus(amqp_codec::performative::TargetTerminus::default())
}
