//! The layer above, in the small: answers every event by a rule, and checks what is written.

use std::time::{Duration, Instant};

use amqp_codec::performative::{DeliveryState, Error, SaslCode};
use amqp_codec::types::DeliveryTag;
use amqp_engine::{
    AttachReply, Config, Connection, DeliveryId, Event, LinkKey, OpenReply, OutgoingDelivery, SessionId,
};
use bytes::{Bytes, BytesMut};

use crate::wire::Wire;

/// A time to begin with: nothing depends on which.
#[expect(clippy::disallowed_methods, reason = "there is no other way to an `Instant`")]
pub(crate) fn some_instant() -> Instant {
    Instant::now()
}

/// An engine with limits that are easy to run into, and what has been seen of it.
pub(crate) struct Driver {
    pub(crate) engine: Connection,
    pub(crate) now: Instant,
    pub(crate) events: Vec<Event>,
    pub(crate) written: BytesMut,
    pub(crate) links: Vec<LinkKey>,
    pub(crate) sessions: Vec<SessionId>,
    wire: Option<Wire>,
    closed: bool,
}

pub(crate) fn config(require_sasl: bool) -> Config {
    Config {
        require_sasl,
        max_frame_size: 4_096,
        channel_max: 7,
        handle_max: 20,
        max_links: 30,
        session_incoming_window: 12,
        max_unsettled: 20,
        max_partial_bytes: 2_000,
        max_message_size: 1_000,
        max_held_input: 8_192,
        max_control_backlog: 100_000,
        initial_outgoing_id: 0u32.wrapping_sub(3),
        ..Config::default()
    }
}

impl Driver {
    pub(crate) fn new(config: Config, now: Instant) -> Self {
        Self {
            engine: Connection::new(config, now),
            now,
            events: Vec::new(),
            written: BytesMut::new(),
            links: Vec::new(),
            sessions: Vec::new(),
            wire: None,
            closed: false,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.engine.handle_input(self.now, Bytes::copy_from_slice(bytes));
        self.poll();
    }

    pub(crate) fn poll(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            assert!(!self.closed, "{event:?} behind the last event");
            self.react(&event);
            self.events.push(event);
        }
    }

    fn react(&mut self, event: &Event) {
        let engine = &mut self.engine;
        match event {
            Event::SaslInit { initial_response: Some(more), .. } if !more.is_empty() => {
                engine.sasl_challenge(more.clone());
            }
            Event::SaslResponse(response) if response.is_empty() => engine.sasl_challenge(Bytes::new()),
            Event::SaslInit { .. } | Event::SaslResponse(_) => engine.sasl_outcome(SaslCode::Ok),
            Event::Opened(open) if open.container_id.is_empty() => {
                engine.refuse_open(Error::new("amqp:not-found", "no"));
            }
            Event::Opened(_) => engine.accept_open(OpenReply::default()),
            Event::SessionBegun { session } => self.sessions.push(*session),
            Event::LinkAttached { link, attach } => {
                if attach.handle % 7 == 5 {
                    engine.refuse_link(*link, Error::new("amqp:not-found", "no"));
                } else if attach.handle % 7 != 6 {
                    let mut reply = AttachReply::echo(attach);
                    reply.incomplete_unsettled = attach.incomplete_unsettled;
                    engine.accept_link(*link, reply);
                    engine.grant_credit(*link, 3);
                }
                self.links.push(*link);
            }
            Event::LinkFlow { link, limit, credit, drain, .. } => {
                for n in 0..(*credit).min(3) {
                    engine.send(*link, delivery(n, 300 * n as usize));
                }
                if *drain {
                    engine.drained(*link, *limit);
                }
            }
            Event::Transfer(delivery) if delivery.delivery_id.0 % 3 == 0 => {
                let (session, id) = (delivery.session(), delivery.delivery_id);
                engine.propose_incoming(session, id, DeliveryState::Accepted);
            }
            Event::Transfer(delivery) if delivery.delivery_id.0 % 5 == 0 => {}
            Event::Transfer(delivery) => {
                engine.settle_incoming(delivery.session(), delivery.delivery_id, DeliveryState::Accepted);
            }
            Event::TooLarge { link, delivery_id, .. } => {
                let rejected = DeliveryState::Rejected(None);
                engine.settle_incoming(link.session(), *delivery_id, rejected);
            }
            Event::Disposition { session, first, last, settled: false, state } => {
                engine.settle_outgoing_range(*session, *first, *last, state.clone());
            }
            Event::Closed { .. } => self.closed = true,
            _ => {}
        }
    }

    /// Takes output as the socket would, and has a strict peer read it.
    pub(crate) fn write(&mut self, soft_limit: usize) {
        let mut out = BytesMut::new();
        self.engine.poll_output(self.now, &mut out, soft_limit);
        self.engine.compact_queued();
        self.written.extend_from_slice(&out);
        let max_frame = self.engine.peer().max_frame_size.max(512);
        self.wire.get_or_insert_with(|| Wire::new(u32::MAX)).limit(max_frame);
        if let Some(wire) = &mut self.wire {
            wire.read(out.freeze());
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        if self.engine.deadline().is_some_and(|at| at <= self.now) {
            self.engine.handle_deadline(self.now);
            self.poll();
        }
    }

    /// The socket closes: everything has to come to an end.
    pub(crate) fn finish(mut self) -> (Vec<Event>, BytesMut) {
        let mut rounds = 0;
        while self.engine.has_output() {
            let before = self.written.len();
            self.write(100_000);
            assert!(self.written.len() > before, "has output, but writes nothing");
            rounds += 1;
            assert!(rounds < 1_000);
        }
        self.engine.handle_eof();
        self.poll();
        assert!(self.engine.is_closed() && self.engine.deadline().is_none());
        (self.events, self.written)
    }
}

pub(crate) fn delivery(n: u32, len: usize) -> OutgoingDelivery {
    let tag = DeliveryTag::try_from(&n.to_be_bytes()[..]).expect("four bytes");
    let bytes = Bytes::from(vec![7; len]);
    OutgoingDelivery::new(tag, bytes.slice(..len / 2), bytes.slice(len / 2..))
}

#[allow(dead_code, reason = "one of the two targets has scripts")]
pub(crate) fn id(n: u32) -> DeliveryId {
    DeliveryId(n)
}
