//! Transactions on the wire, as Service Bus SDKs and plain clients speak them.

use std::{sync::Arc, time::Duration};

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{
        Attach, DeliveryState, Discharge, Error, Flow, Modified, Performative, Source, Target, Transfer,
        TxnId,
    },
    raw::{AnnotationValue, RawMap, RawValue},
    sections::Sections,
    types::{ReceiverSettleMode, Role, Symbol},
    value::Value,
};
use amqp_gateway::{Fault, FaultKind, Faults, GatewayConfig};
use broker_auth::{Anonymous, Scope};
use broker_core::{EntityKind, EntitySettings, EntityStatus, LockLifetime};
use bytes::{Bytes, BytesMut};
use testkit::Script;

use crate::{
    harness::*,
    management::{binary, due, ids, longs, map, nested},
};

pub(crate) const CONTROL: u32 = 40;
pub(crate) const SENDER: u32 = 41;

/// A client that counts its deliveries itself, on one session or several.
pub(crate) struct Peer {
    pub(crate) client: usize,
    pub(crate) next: u32,
    /// Deliveries to it that the broker has settled while it waited for the answer to a message, with their states.
    pub(crate) settled: Vec<(u32, DeliveryState)>,
}

/// What came back for one delivery.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    State(DeliveryState),
    /// The same, with `settled=false`.
    Unsettled(DeliveryState),
    Detached(String),
    Nothing,
}

impl Peer {
    pub(crate) fn new(client: usize) -> Self {
        Self { client, next: 1_000, settled: Vec::new() }
    }

    pub(crate) fn coordinate(&mut self, world: &mut World, channel: u16) {
        world.script(self.client).attach(channel, coordinator("txn-ctrl", CONTROL));
        world.run();
        world.received(self.client);
    }

    /// Sends a message, and says how it was answered.
    pub(crate) fn transfer(
        &mut self,
        world: &mut World,
        channel: u16,
        change: impl FnOnce(&mut Transfer),
        payload: &[u8],
    ) -> Answer {
        self.next += 1;
        let mut frame = Script::transfer_frame(CONTROL, self.next, false);
        change(&mut frame);
        world.script(self.client).transfer_with(channel, frame, payload);
        world.run();
        let (answer, settled) = answers(world, self.client, Role::Receiver);
        self.settled.extend(settled);
        answer
    }

    fn control(&mut self, world: &mut World, body: &[u8]) -> Answer {
        self.transfer(world, 0, |_| {}, body)
    }

    pub(crate) fn declare(&mut self, world: &mut World) -> TxnId {
        match self.control(world, &declare()) {
            Answer::State(DeliveryState::Declared { txn_id }) => txn_id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn discharge(&mut self, world: &mut World, txn_id: &TxnId, fail: bool) -> Answer {
        self.control(world, &discharge(txn_id, fail))
    }

    pub(crate) fn send(&mut self, world: &mut World, handle: u32, txn_id: &TxnId, text: &str) -> Answer {
        let state = Some(posting(txn_id));
        self.transfer(world, 0, |frame| (frame.handle, frame.state) = (handle, state), &message(text))
    }

    pub(crate) fn settle(
        &mut self,
        world: &mut World,
        id: u32,
        settled: bool,
        state: DeliveryState,
    ) -> Answer {
        world.script(self.client).disposition(0, id, id, settled, Some(state));
        world.run();
        answer(world, self.client)
    }
}

/// What the client is told of a delivery that it was sent.
pub(crate) fn answer(world: &mut World, client: usize) -> Answer {
    answers(world, client, Role::Sender).0
}

/// What the client is told by the end of the broker that has this role, and which deliveries the other end settles.
fn answers(world: &mut World, client: usize, of: Role) -> (Answer, Vec<(u32, DeliveryState)>) {
    let mut answer = Answer::Nothing;
    let mut others = Vec::new();
    for frame in world.frames(client) {
        let told = match frame.performative {
            Performative::Disposition(disposition) => {
                let state = disposition.state.expect("an answer has a state");
                if disposition.role != of {
                    assert!(disposition.settled, "nobody asked for this");
                    let ids = disposition.first..=disposition.last.unwrap_or(disposition.first);
                    others.extend(ids.map(|id| (id, state.clone())));
                    continue;
                }
                if disposition.settled { Answer::State(state) } else { Answer::Unsettled(state) }
            }
            Performative::Detach(detach) => match detach.error {
                Some(error) => Answer::Detached(error.condition.to_string()),
                None => continue,
            },
            _ => continue,
        };
        assert_eq!(answer, Answer::Nothing, "answered once; now {told:?}");
        answer = told;
    }
    (answer, others)
}

impl Answer {
    /// The condition of a `rejected`.
    pub(crate) fn condition(&self) -> &str {
        match self {
            Self::Detached(condition) => condition,
            other => &other.error().condition,
        }
    }

    /// The error of a `rejected`, in a transaction or outside of one.
    pub(crate) fn error(&self) -> &Error {
        let (Self::State(state) | Self::Unsettled(state)) = self else { panic!("{self:?}") };
        let state = match state {
            DeliveryState::Transactional { outcome: Some(outcome), .. } => outcome,
            state => state,
        };
        let DeliveryState::Rejected(Some(error)) = state else { panic!("{state:?}") };
        error
    }
}

pub(crate) fn coordinator(name: &str, handle: u32) -> Attach {
    let mut attach = Attach::new(name, handle, Role::Sender);
    attach.source = Some(Source::new("here"));
    let capabilities = vec![Symbol::from("amqp:local-transactions")];
    attach.target = Some(Target::Coordinator { capabilities });
    attach.initial_delivery_count = Some(0);
    attach
}

fn value(body: &[u8]) -> Bytes {
    MessageBuilder::new().body_raw(RawValue::first(body).unwrap()).build()
}

pub(crate) fn declare() -> Bytes {
    let mut body = BytesMut::new();
    amqp_codec::performative::Declare::default().encode(&mut body);
    value(&body)
}

pub(crate) fn discharge(txn_id: &TxnId, fail: bool) -> Bytes {
    let mut body = BytesMut::new();
    Discharge { txn_id: txn_id.clone(), fail }.encode(&mut body);
    value(&body)
}

pub(crate) fn message(text: &str) -> Bytes {
    MessageBuilder::new().message_id(text).data(text.as_bytes()).build()
}

pub(crate) fn posting(txn_id: &TxnId) -> DeliveryState {
    DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: None }
}

pub(crate) fn within(txn_id: &TxnId, outcome: DeliveryState) -> DeliveryState {
    DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: Some(Box::new(outcome)) }
}

pub(crate) fn accepted_within(txn_id: &TxnId) -> Answer {
    Answer::State(within(txn_id, DeliveryState::Accepted))
}

/// The answer to an outcome that its transaction has, and its receiver has not settled.
pub(crate) fn joined(txn_id: &TxnId) -> Answer {
    Answer::Unsettled(within(txn_id, DeliveryState::Accepted))
}

pub(crate) fn done() -> Answer {
    Answer::State(DeliveryState::Accepted)
}

/// A broker with `texts` in `q`, and a client of either dialect with a coordinator and a sender to `q`.
pub(crate) fn world(service_bus: bool, texts: &[&str]) -> (World, Peer) {
    within_world(World::new(), service_bus, texts)
}

pub(crate) fn within_world(mut world: World, service_bus: bool, texts: &[&str]) -> (World, Peer) {
    world.create("other", EntitySettings::default());
    let publisher = world.plain();
    world.send(publisher, "q", texts);
    let client = if service_bus { world.service_bus() } else { world.plain() };
    let mut peer = Peer::new(client);
    peer.coordinate(&mut world, 0);
    world.script(client).attach_sender(0, SENDER, "sender", Some("q"));
    world.run();
    world.received(client);
    (world, peer)
}

/// Texts of all messages of a queue, taken.
pub(crate) fn left(world: &mut World, source: &str) -> Vec<String> {
    let reader = world.plain();
    world.script(reader).attach_receiver(0, 9, "all", source, None);
    world.run();
    world.received(reader);
    world.credit(reader, 0, 9, 0, 1_000, false);
    world.run();
    let got = texts(&world.transfers(reader));
    world.script(reader).detach(0, 9, true);
    world.run();
    got
}

/// Receives up to two messages; their delivery-ids.
fn received(world: &mut World, client: usize) -> Vec<u32> {
    let got = world.receive(client, "q", 2);
    got.iter().map(|(transfer, _)| transfer.delivery_id.unwrap()).collect()
}

#[test]
fn a_coordinator_says_what_it_can_do_and_grants_credit() {
    let mut world = World::new();
    // Rust attaches before any token, .NET names the source by a guid; plain clients want capabilities.
    let stranger = world.accept();
    world.script(stranger).sasl("ANONYMOUS", None).open("test").begin(0);
    world.run();
    let plain = world.plain();
    for client in [stranger, plain] {
        world.received(client);
        world.script(client).attach(0, coordinator("c", 7));
        world.run();
        let mut credit = None;
        let mut target = None;
        for frame in world.frames(client) {
            match frame.performative {
                Performative::Attach(attach) => {
                    assert_eq!(attach.role, Role::Receiver);
                    assert_eq!(attach.source, Some(Source::new("here")), "echoed");
                    target = attach.target;
                }
                Performative::Flow(flow) => credit = flow.link_credit,
                other => panic!("{other:?}"),
            }
        }
        let Some(Target::Coordinator { capabilities }) = target else { panic!("{target:?}") };
        assert_eq!(
            capabilities,
            ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"]
        );
        assert!(credit.is_some_and(|credit| credit > 0));
    }
}

#[test]
fn a_transaction_commits_and_rolls_back() {
    for service_bus in [false, true] {
        for fail in [false, true] {
            let (mut world, mut peer) = world(service_bus, &["a", "b"]);
            let ids = received(&mut world, peer.client);
            let txn = peer.declare(&mut world);
            assert_eq!(txn.as_bytes().len(), 16);
            assert_eq!(peer.send(&mut world, SENDER, &txn, "c"), accepted_within(&txn));
            let accepted = within(&txn, DeliveryState::Accepted);
            assert_eq!(peer.settle(&mut world, ids[0], false, accepted), joined(&txn));
            assert_eq!(left(&mut world, "q"), [""; 0], "two are locked, one is not there yet");
            assert_eq!(peer.discharge(&mut world, &txn, fail), done());
            world.script(peer.client).detach(0, 2, true);
            world.run();
            let expected: &[&str] = match (fail, service_bus) {
                (false, false) => &["b", "c"],
                (false, true) => &["c"],
                // Plain: its receiver still holds what was rolled back, and both return with the link.
                (true, false) => &["a", "b"],
                // Service Bus: both stay locked until their locks end.
                (true, true) => &[],
            };
            assert_eq!(left(&mut world, "q"), expected, "service bus: {service_bus}, fail: {fail}");
            world.pass(Duration::from_secs(61));
            let later: &[&str] = match (fail, service_bus) {
                (false, true) => &["b"],
                (true, true) => &["a", "b"],
                _ => &[],
            };
            assert_eq!(left(&mut world, "q"), later, "service bus: {service_bus}, fail: {fail}");
        }
    }
}

#[test]
fn each_outcome_is_answered_inside_its_transaction_and_done_at_its_end() {
    let modified = |delivery_failed, undeliverable_here| {
        let modified = Modified { delivery_failed, undeliverable_here, message_annotations: None };
        DeliveryState::Modified(Box::new(modified))
    };
    let dead_letter = || {
        let error = Error { condition: "com.microsoft:dead-letter".into(), description: None, info: None };
        DeliveryState::Rejected(Some(Box::new(error)))
    };
    let cases = [
        // said, echoed, in the queue afterwards, among the dead letters; for Service Bus, then plain
        (DeliveryState::Accepted, DeliveryState::Accepted, [(0, 0), (0, 0)]),
        (dead_letter(), DeliveryState::Rejected(None), [(0, 1), (0, 1)]),
        (DeliveryState::Released, DeliveryState::Released, [(1, 0), (1, 0)]),
        (modified(None, None), modified(None, None), [(1, 0), (1, 0)]),
        (modified(Some(true), None), modified(Some(true), None), [(1, 0), (1, 0)]),
        // Set aside for the one, dead-lettered for the other.
        (modified(None, Some(true)), modified(None, Some(true)), [(0, 0), (0, 1)]),
    ];
    for (said, echo, expected) in cases {
        for (service_bus, (main, dead)) in [true, false].into_iter().zip(expected) {
            let (mut world, mut peer) = world(service_bus, &["m"]);
            let ids = received(&mut world, peer.client);
            world.credit(peer.client, 0, 2, 1, 0, false);
            let txn = peer.declare(&mut world);
            let told = peer.settle(&mut world, ids[0], false, within(&txn, said.clone()));
            assert_eq!(told, Answer::Unsettled(within(&txn, echo.clone())), "{said:?}");
            assert_eq!(left(&mut world, "q").len() + left(&mut world, "q/$DeadLetterQueue").len(), 0);
            assert_eq!(peer.discharge(&mut world, &txn, false), done(), "{said:?}");
            assert_eq!(peer.settled, [(ids[0], within(&txn, echo.clone()))], "{said:?}");
            assert_eq!(left(&mut world, "q").len(), main, "{said:?}, service bus: {service_bus}");
            assert_eq!(left(&mut world, "q/$DeadLetterQueue").len(), dead, "{said:?}");
        }
    }
}

#[test]
fn what_is_settled_already_is_part_of_the_transaction_and_not_answered() {
    for fail in [false, true] {
        let (mut world, mut peer) = world(false, &["a"]);
        let ids = received(&mut world, peer.client);
        let txn = peer.declare(&mut world);
        let accepted = within(&txn, DeliveryState::Accepted);
        assert_eq!(peer.settle(&mut world, ids[0], true, accepted), Answer::Nothing);
        let (state, settled) = (Some(posting(&txn)), Some(true));
        let send = |frame: &mut Transfer| {
            (frame.handle, frame.state, frame.settled) = (SENDER, state, settled);
        };
        assert_eq!(peer.transfer(&mut world, 0, send, &message("b")), Answer::Nothing);
        world.script(peer.client).detach(0, 2, true);
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
        assert_eq!(left(&mut world, "q"), if fail { ["a"] } else { ["b"] });
    }
}

#[test]
fn one_disposition_settles_a_range_in_a_transaction() {
    let (mut world, mut peer) = world(true, &["a", "b"]);
    let ids = received(&mut world, peer.client);
    let txn = peer.declare(&mut world);
    let state = within(&txn, DeliveryState::Accepted);
    world.script(peer.client).disposition(0, ids[0], ids[1], false, Some(state.clone()));
    world.run();
    let answers = world.dispositions(peer.client);
    let told: Vec<_> = answers.iter().map(|d| (d.first, d.last, d.settled, d.state.clone())).collect();
    assert_eq!(told, [(ids[0], Some(ids[1]), false, Some(state.clone()))]);
    assert_eq!(peer.discharge(&mut world, &txn, false), done());
    assert_eq!(peer.settled, [(ids[0], state.clone()), (ids[1], state)]);
    world.pass(Duration::from_secs(61));
    assert_eq!(left(&mut world, "q"), [""; 0]);
}

#[test]
fn transactions_of_one_session_do_not_mix_and_span_sessions() {
    let (mut world, mut peer) = world(false, &[]);
    world.script(peer.client).begin(1).attach_sender(1, SENDER, "second", Some("other"));
    world.run();
    world.received(peer.client);
    let (kept, dropped) = (peer.declare(&mut world), peer.declare(&mut world));
    assert_ne!(kept, dropped);
    for (txn, text) in [(&kept, "kept"), (&dropped, "dropped")] {
        peer.send(&mut world, SENDER, txn, text);
        let state = Some(posting(txn));
        let send = |frame: &mut Transfer| (frame.handle, frame.state) = (SENDER, state);
        assert_eq!(peer.transfer(&mut world, 1, send, &message(text)), accepted_within(txn));
    }
    assert_eq!(peer.discharge(&mut world, &dropped, true), done());
    assert_eq!(peer.discharge(&mut world, &kept, false), done());
    assert_eq!(
        (left(&mut world, "q"), left(&mut world, "other")),
        (vec!["kept".into()], vec!["kept".into()])
    );
}

#[test]
fn a_batch_and_the_anonymous_terminus_take_part() {
    let (mut world, mut peer) = world(false, &[]);
    world.script(peer.client).attach_sender(0, 42, "relay", None);
    world.run();
    world.received(peer.client);
    let txn = peer.declare(&mut world);
    let batch = MessageBuilder::new().data(&message("a")).data(&message("b")).build();
    let state = Some(posting(&txn));
    let send = |frame: &mut Transfer| {
        (frame.handle, frame.state, frame.message_format) = (SENDER, state, Some(BATCH_FORMAT));
    };
    assert_eq!(peer.transfer(&mut world, 0, send, &batch), accepted_within(&txn));
    let relayed = MessageBuilder::new().message_id("c").to("/queues/q").data(b"c").build();
    let state = Some(posting(&txn));
    let send = |frame: &mut Transfer| (frame.handle, frame.state) = (42, state);
    assert_eq!(peer.transfer(&mut world, 0, send, &relayed), accepted_within(&txn));
    assert_eq!(peer.discharge(&mut world, &txn, false), done());
    assert_eq!(left(&mut world, "q"), ["a", "b", "c"]);
}

#[test]
fn a_name_of_no_transaction_is_told_so() {
    let unknown = "amqp:transaction:unknown-id";
    for name in [&b"t"[..], &[7; 16], &[]] {
        let name = TxnId::from(name);
        for service_bus in [false, true] {
            let (mut world, mut peer) = world(service_bus, &["m"]);
            assert_eq!(peer.discharge(&mut world, &name, false).condition(), unknown);
            assert_eq!(peer.discharge(&mut world, &name, true).condition(), unknown);
            assert_eq!(peer.send(&mut world, SENDER, &name, "x").condition(), unknown);
            let ids = received(&mut world, peer.client);
            let refused = peer.settle(&mut world, ids[0], false, within(&name, DeliveryState::Accepted));
            assert_eq!(refused.condition(), unknown);
            // Nobody waits for an answer to these, so their links say it.
            let (state, settled) = (Some(posting(&name)), Some(true));
            let send = |frame: &mut Transfer| {
                (frame.handle, frame.state, frame.settled) = (SENDER, state, settled);
            };
            let refused = peer.transfer(&mut world, 0, send, &message("x"));
            assert_eq!(refused, Answer::Detached(unknown.to_owned()));
            let discharge = discharge(&name, false);
            let refused = peer.transfer(&mut world, 0, |frame| frame.settled = Some(true), &discharge);
            assert_eq!(refused, Answer::Detached(unknown.to_owned()));
            world.script(peer.client).detach(0, 2, true);
            world.run();
            world.pass(Duration::from_secs(61));
            assert_eq!(left(&mut world, "q"), ["m"], "nothing was lost, and nothing came in");
        }
    }
}

#[test]
fn a_transaction_is_over_with_its_discharge() {
    let (mut world, mut peer) = world(false, &[]);
    for fail in [false, true] {
        let txn = peer.declare(&mut world);
        peer.send(&mut world, SENDER, &txn, "m");
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
        assert_eq!(peer.discharge(&mut world, &txn, false).condition(), "amqp:transaction:unknown-id");
        let late = peer.send(&mut world, SENDER, &txn, "late");
        assert_eq!(late.condition(), "amqp:transaction:unknown-id");
    }
    assert_eq!(left(&mut world, "q"), ["m"]);
}

#[test]
fn a_coordinator_refuses_what_it_does_not_know() {
    let mut global = BytesMut::new();
    let id = Bytes::from_static(&[0xa0, 1, b'g']);
    amqp_codec::performative::Declare { global_id: Some(id) }.encode(&mut global);
    let cases = [
        (value(&global), false, "amqp:not-implemented"),
        (declare(), true, "amqp:invalid-field"),
        (message("neither declare nor discharge"), false, "amqp:decode-error"),
        (value(b"\x40"), false, "amqp:decode-error"),
        (Bytes::from_static(b"\x00\x53\x77"), false, "amqp:decode-error"),
        (Bytes::from_static(b"no message"), false, "amqp:decode-error"),
        (Bytes::new(), false, "amqp:decode-error"),
    ];
    for (body, settled, condition) in cases {
        let (mut world, mut peer) = world(false, &[]);
        let refused = peer.transfer(&mut world, 0, |frame| frame.settled = Some(settled), &body);
        assert_eq!(refused.condition(), condition, "{body:?}");
        assert_eq!(matches!(refused, Answer::Detached(_)), settled, "{body:?}");
    }
}

#[test]
fn a_coordinator_whose_source_does_not_know_rejected_is_detached_instead() {
    let mut world = World::new();
    let mut peer = Peer::new(world.plain());
    let mut attach = coordinator("c", CONTROL);
    let outcomes = vec![Symbol::from("amqp:accepted:list")];
    attach.source = Some(Source { outcomes, ..Source::new("here") });
    world.script(peer.client).attach(0, attach);
    world.run();
    world.received(peer.client);
    let unknown = TxnId::from(&[7; 16][..]);
    let refused = peer.discharge(&mut world, &unknown, false);
    assert_eq!(refused, Answer::Detached("amqp:transaction:unknown-id".to_owned()));
}

#[test]
fn a_refused_operation_leaves_only_the_rollback() {
    let too_large = "x".repeat(2_000);
    let cases: [(&str, &[u8], &str); 3] = [
        ("small", &message(&too_large), "amqp:link:message-size-exceeded"),
        ("nowhere", &message("m"), "amqp:not-found"),
        ("q/$DeadLetterQueue", &message("m"), "amqp:not-allowed"),
    ];
    for (to, payload, condition) in cases {
        for (fail, settled) in [(false, false), (true, false), (false, true)] {
            let (mut world, mut peer) = world(false, &[]);
            let small = EntitySettings { max_message_bytes: Some(1_000), ..EntitySettings::default() };
            world.create("small", small);
            world.script(peer.client).attach_sender(0, 42, "relay", None);
            world.run();
            world.received(peer.client);
            let txn = peer.declare(&mut world);
            assert_eq!(peer.send(&mut world, SENDER, &txn, "before"), accepted_within(&txn));
            let body = MessageBuilder::new().to(to).data(payload).build();
            let state = Some(posting(&txn));
            let send = |frame: &mut Transfer| {
                (frame.handle, frame.state, frame.settled) = (42, state, Some(settled));
            };
            let refused = peer.transfer(&mut world, 0, send, &body);
            if !settled {
                assert_eq!(refused.condition(), condition, "{to}");
                let after = peer.send(&mut world, SENDER, &txn, "after");
                assert_eq!(after.condition(), "amqp:transaction:rollback", "{to}");
            }
            let end = peer.discharge(&mut world, &txn, fail);
            if fail {
                assert_eq!(end, done());
            } else {
                assert_eq!(end.condition(), "amqp:transaction:rollback", "{to}");
            }
            assert_eq!(left(&mut world, "q"), [""; 0], "{to}");
        }
    }
}

#[test]
fn a_lost_lock_fails_the_settlement_and_the_commit() {
    for service_bus in [false, true] {
        let (mut world, mut peer) = world(service_bus, &["a", "b"]);
        world.update("q", EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() });
        let ids = received(&mut world, peer.client);
        let txn = peer.declare(&mut world);
        let accepted = || within(&txn, DeliveryState::Accepted);
        assert_eq!(peer.settle(&mut world, ids[0], false, accepted()), joined(&txn));
        peer.send(&mut world, SENDER, &txn, "never");
        world.pass(Duration::from_secs(61));
        let end = peer.discharge(&mut world, &txn, false);
        assert_eq!(end.condition(), "amqp:transaction:rollback");
        let txn = peer.declare(&mut world);
        let late = peer.settle(&mut world, ids[1], false, within(&txn, DeliveryState::Accepted));
        assert_eq!(late.condition(), "com.microsoft:message-lock-lost");
    }
}

#[test]
fn two_minutes_end_a_transaction() {
    let (mut world, mut peer) = world(true, &[]);
    let (used, unused) = (peer.declare(&mut world), peer.declare(&mut world));
    peer.send(&mut world, SENDER, &used, "never");
    world.pass(Duration::from_secs(121));
    world.received(peer.client);
    assert_eq!(peer.send(&mut world, SENDER, &used, "late").condition(), "amqp:transaction:timeout");
    assert_eq!(peer.discharge(&mut world, &used, false).condition(), "amqp:transaction:timeout");
    assert_eq!(peer.send(&mut world, SENDER, &unused, "in time"), accepted_within(&unused));
    assert_eq!(peer.discharge(&mut world, &unused, false), done());
    assert_eq!(left(&mut world, "q"), ["in time"]);
}

#[test]
fn the_hundred_and_first_message_is_refused_in_the_services_words() {
    let (mut world, mut peer) = world(true, &[]);
    let txn = peer.declare(&mut world);
    for _ in 0..100 {
        assert_eq!(peer.send(&mut world, SENDER, &txn, "m"), accepted_within(&txn));
    }
    let refused = peer.send(&mut world, SENDER, &txn, "101");
    assert_eq!(refused.error().condition, "amqp:not-allowed");
    let text = refused.error().description.as_deref().unwrap();
    assert!(text.starts_with("No more than 100 messages can be sent in a single transaction."), "{text}");
}

#[test]
fn without_its_coordinator_a_transaction_is_rolled_back() {
    for way in ["detach", "end", "connection"] {
        let (mut world, mut peer) = world(false, &["a"]);
        world.script(peer.client).begin(1).attach_sender(1, SENDER, "second", Some("q"));
        world.run();
        world.received(peer.client);
        let ids = received(&mut world, peer.client);
        let txn = peer.declare(&mut world);
        let state = Some(posting(&txn));
        let send = |frame: &mut Transfer| (frame.handle, frame.state) = (SENDER, state);
        peer.transfer(&mut world, 1, send, &message("never"));
        peer.settle(&mut world, ids[0], false, within(&txn, DeliveryState::Accepted));
        match way {
            "detach" => drop(world.script(peer.client).detach(0, CONTROL, true)),
            "end" => drop(world.script(peer.client).end(0)),
            _ => world.lose(peer.client),
        }
        world.run();
        if way != "connection" {
            world.received(peer.client);
            let state = Some(posting(&txn));
            let send = |frame: &mut Transfer| (frame.handle, frame.state) = (SENDER, state);
            let late = peer.transfer(&mut world, 1, send, &message("late"));
            assert_eq!(late.condition(), "amqp:transaction:unknown-id", "{way}");
            world.script(peer.client).detach(0, 2, true);
        }
        assert_eq!(left(&mut world, "q"), ["a"], "{way}");
    }
}

#[test]
fn management_requests_take_part_by_their_transfer() {
    for (settled, fail) in [(false, false), (true, false), (false, true)] {
        let (mut world, mut peer) = world(true, &["m"]);
        world.management(peer.client, "q");
        let (_, payload) = world.receive(peer.client, "q", 1).remove(0);
        let tokens = lock_tokens(&payload);
        let txn = peer.declare(&mut world);
        let ask = |world: &mut World, peer: &mut Peer, operation: &str, txn: &TxnId| {
            let body = RawMap::with_string_keys(&[
                ("disposition-status", AnnotationValue::Str("completed")),
                ("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap())),
                ("from-sequence-number", AnnotationValue::Long(1)),
                ("message-count", AnnotationValue::Int(1)),
            ]);
            let request = MessageBuilder::new()
                .message_id("request")
                .application_property("operation", AnnotationValue::Str(operation))
                .body_raw(RawValue::first(body.bytes()).unwrap())
                .build();
            peer.next += 1;
            let mut frame = Script::transfer_frame(3, peer.next, settled);
            frame.state = Some(posting(txn));
            world.script(peer.client).transfer_with(0, frame, &request);
            world.run();
            let mut told = (None, None);
            for frame in world.frames(peer.client) {
                match frame.performative {
                    Performative::Transfer(_) => told.0 = Some(frame.payload),
                    Performative::Disposition(disposition) => told.1 = disposition.state,
                    _ => {}
                }
            }
            (status(&told.0.expect("a reply"), "statusCode"), told.1)
        };
        let answer = (!settled).then(|| within(&txn, DeliveryState::Accepted));
        let looked = ask(&mut world, &mut peer, "com.microsoft:peek-message", &txn);
        assert_eq!(looked, (200, answer.clone()));
        assert_eq!(ask(&mut world, &mut peer, "com.microsoft:update-disposition", &txn), (200, answer));
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
        let unknown = ask(&mut world, &mut peer, "com.microsoft:update-disposition", &txn);
        assert_eq!(unknown.0, 400);
        world.pass(Duration::from_secs(61));
        assert_eq!(left(&mut world, "q").len(), usize::from(fail));
    }
}

/// The lock token of a delivery, as an array of one.
fn lock_tokens(payload: &Bytes) -> Vec<u8> {
    let sections = Sections::scan(payload).unwrap();
    let token = sections.delivery_annotations_view(payload).get("x-opt-lock-token").unwrap();
    let mut array = vec![0xe0, 18, 1];
    array.extend_from_slice(token.bytes());
    array
}

#[test]
fn a_refused_request_spoils_its_transaction() {
    let (mut world, mut peer) = world(true, &[]);
    world.management(peer.client, "q");
    let txn = peer.declare(&mut world);
    peer.send(&mut world, SENDER, &txn, "never");
    let request = MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str("com.microsoft:update-disposition"))
        .body_raw(RawValue::first(RawMap::empty().bytes()).unwrap())
        .build();
    let state = Some(posting(&txn));
    peer.transfer(&mut world, 0, |frame| (frame.handle, frame.state) = (3, state), &request);
    assert_eq!(peer.discharge(&mut world, &txn, false).condition(), "amqp:transaction:rollback");
}

#[test]
fn service_bus_keeps_a_transaction_to_one_entity_unless_all_of_it_is_on_one_session() {
    let cases = [
        // service bus, channel of the links, may touch both queues
        (true, 0, true),
        (true, 1, false),
        (false, 1, true),
    ];
    for (service_bus, channel, allowed) in cases {
        let (mut world, mut peer) = world(service_bus, &[]);
        if channel == 1 {
            world.script(peer.client).begin(1);
        }
        world.script(peer.client).attach_sender(channel, 50, "one", Some("q"));
        world.script(peer.client).attach_sender(channel, 51, "two", Some("OTHER"));
        world.run();
        world.received(peer.client);
        let txn = peer.declare(&mut world);
        let mut send = |world: &mut World, handle| {
            let state = Some(posting(&txn));
            let change = |frame: &mut Transfer| (frame.handle, frame.state) = (handle, state);
            peer.transfer(world, channel, change, &message("m"))
        };
        assert_eq!(send(&mut world, 50), accepted_within(&txn));
        assert_eq!(send(&mut world, 50), accepted_within(&txn));
        let second = send(&mut world, 51);
        if allowed {
            assert_eq!(second, accepted_within(&txn));
            assert_eq!(peer.discharge(&mut world, &txn, false), done());
        } else {
            assert_eq!(second.condition(), "amqp:not-allowed");
            assert_eq!(peer.discharge(&mut world, &txn, false).condition(), "amqp:transaction:rollback");
        }
        assert_eq!(left(&mut world, "other").len(), usize::from(allowed));
    }
}

/// Condition with which an attach was refused.
fn refused_link(world: &mut World, client: usize) -> Option<String> {
    let (_, detaches) = world.link_frames(client);
    detaches.into_iter().find_map(|detach| detach.error).map(|error| error.condition.to_string())
}

#[test]
fn a_session_with_transactions_receives_from_its_first_entity_alone() {
    let own = "q/$DeadLetterQueue";
    let cases = [
        // service bus, declares, channel of the receiver, what it receives from, may do so
        (true, true, 0, "other", false),
        (true, true, 0, "OTHER/$DeadLetterQueue", false),
        (true, true, 0, "Q", true),
        (true, true, 0, own, true),
        (true, true, 1, "other", true),
        (true, false, 0, "other", true),
        (false, true, 0, "other", true),
    ];
    for case @ (service_bus, declares, channel, source, allowed) in cases {
        let (mut world, mut peer) = world(service_bus, &["m"]);
        if channel == 1 {
            world.script(peer.client).begin(1);
        }
        if declares {
            let txn = peer.declare(&mut world);
            assert_eq!(peer.discharge(&mut world, &txn, false), done());
        }
        world.script(peer.client).attach_receiver(channel, 60, "receiver", source, None);
        world.run();
        let refused = refused_link(&mut world, peer.client);
        assert_eq!(refused.as_deref(), (!allowed).then_some("amqp:not-allowed"), "{case:?}");
        // The refused link costs no other one anything.
        let txn = peer.declare(&mut world);
        assert_eq!(peer.send(&mut world, SENDER, &txn, "n"), accepted_within(&txn), "{case:?}");
        assert_eq!(peer.discharge(&mut world, &txn, false), done(), "{case:?}");
    }
}

#[test]
fn the_first_entity_of_a_session_is_one_that_was_opened() {
    let mut world = World::new();
    world.create("other", EntitySettings::default());
    let mut peer = Peer::new(world.service_bus());
    peer.coordinate(&mut world, 0);
    let script = world.script(peer.client);
    script.attach_sender(0, 50, "missing", Some("missing"));
    script.attach_sender(0, 51, "relay", None);
    world.run();
    world.received(peer.client);
    peer.declare(&mut world);
    // One after the other: the first that opens decides, and its end changes nothing.
    for (handle, source, allowed) in [(60, "other", true), (61, "q", false), (62, "other", true)] {
        world.script(peer.client).attach_receiver(0, handle, source, source, None);
        world.run();
        let refused = refused_link(&mut world, peer.client);
        assert_eq!(refused.as_deref(), (!allowed).then_some("amqp:not-allowed"), "{handle}");
        world.script(peer.client).detach(0, handle, true);
        world.run();
        world.received(peer.client);
    }
}

/// A sender through `via` to `to`, as Java attaches it.
fn sender_via(via: &str, to: &str) -> Attach {
    let mut attach = Attach::new("via", 50, Role::Sender);
    (attach.source, attach.target) = (Some(Source::new("id")), Some(Target::new(via)));
    attach.initial_delivery_count = Some(0);
    let to = AnnotationValue::Str(to);
    attach.properties = Some(RawMap::with_symbol_keys(&[("com.microsoft:transfer-destination-address", to)]));
    attach
}

#[test]
fn what_is_sent_via_an_entity_goes_to_its_destination_alone() {
    for transacted in [false, true] {
        let (mut world, mut peer) = world(true, &["work"]);
        world.script(peer.client).begin(1).attach(1, sender_via("q", "other"));
        world.run();
        let (attaches, detaches) = world.link_frames(peer.client);
        assert_eq!(detaches, vec![]);
        assert_eq!(attaches[0].target, Some(Target::new("q")), "echoed");
        let ids = received(&mut world, peer.client);
        let txn = peer.declare(&mut world);
        let state = transacted.then(|| posting(&txn));
        let change = |frame: &mut Transfer| (frame.handle, frame.state) = (50, state);
        let sent = peer.transfer(&mut world, 1, change, &message("result"));
        assert_eq!(sent, if transacted { accepted_within(&txn) } else { done() });
        let settled = peer.settle(&mut world, ids[0], false, within(&txn, DeliveryState::Accepted));
        assert_eq!(settled, joined(&txn), "both are on the entity that is sent through");
        assert_eq!(peer.discharge(&mut world, &txn, false), done());
        assert_eq!((left(&mut world, "q"), left(&mut world, "other")), (vec![], vec!["result".to_owned()]));
    }
}

#[test]
fn a_sender_via_an_entity_goes_with_the_right_to_either_end() {
    for (via, to) in [("q", "other"), ("other", "q")] {
        let mut world = World::new();
        world.create("other", EntitySettings::default());
        let client = world.accept();
        world.script(client).sasl("ANONYMOUS", None).open("test").begin(0);
        world.cbs_links(client);
        let key = broker_auth::Secret::new("SAS_KEY_VALUE");
        for (entity, seconds) in [("q", 60), ("other", 6_000)] {
            let audience = format!("amqp://localhost/{entity}");
            let token = broker_auth::sign_token(&audience, KEY_NAME, &key, START / 1000 + seconds);
            world.put_token(client, &audience, &token);
        }
        world.run();
        world.received(client);
        world.script(client).attach(0, sender_via(via, to));
        world.run();
        world.pass(Duration::from_secs(59));
        let (attaches, detaches) = world.link_frames(client);
        assert_eq!((attaches.len(), detaches), (1, vec![]), "{via} {to}");
        world.pass(Duration::from_secs(2));
        let (_, detaches) = world.link_frames(client);
        assert_eq!(detaches.len(), 1, "{via} {to}");
        assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:unauthorized-access");
    }
}

#[test]
fn a_sender_via_an_entity_needs_both_ends() {
    let cases = [
        ("missing", "q", "amqp:not-found"),
        ("q", "missing", "amqp:not-found"),
        ("q", "q/$management", "amqp:invalid-field"),
        ("q/$DeadLetterQueue", "q", "amqp:not-allowed"),
    ];
    for (via, to, condition) in cases {
        let (mut world, peer) = world(true, &[]);
        world.script(peer.client).attach(0, sender_via(via, to));
        world.run();
        let (_, detaches) = world.link_frames(peer.client);
        assert_eq!(detaches[0].error.as_ref().unwrap().condition, condition, "{via} {to}");
    }
}

#[test]
fn nobody_receives_inside_a_transaction() {
    let (mut world, mut peer) = world(false, &["m"]);
    let txn = peer.declare(&mut world);
    world.script(peer.client).attach_receiver(0, 2, "r", "q", Some(ReceiverSettleMode::First));
    world.run();
    world.received(peer.client);
    let flow = Flow {
        incoming_window: 100,
        outgoing_window: 100,
        next_outgoing_id: 1,
        handle: Some(2),
        delivery_count: Some(0),
        link_credit: Some(1),
        properties: Some(RawMap::with_symbol_keys(&[("txn-id", AnnotationValue::Binary(txn.as_bytes()))])),
        ..Flow::default()
    };
    world.script(peer.client).flow(0, flow);
    world.run();
    assert_eq!(answer(&mut world, peer.client), Answer::Detached("amqp:not-implemented".to_owned()));
    assert_eq!(left(&mut world, "q"), ["m"]);
}

#[test]
fn a_schedule_in_a_transaction_is_numbered_at_once_and_what_is_not_scheduled_cannot_be_cancelled() {
    for fail in [false, true] {
        let (mut world, mut peer) = world(true, &[]);
        world.management(peer.client, "q");
        let txn = peer.declare(&mut world);
        let later = due(&world, MessageBuilder::new().data(b"later"), Duration::from_secs(60));
        let list = Value::List(vec![nested(&[("message", binary(&later)), ("message-id", Value::Null)])]);
        let ask = |world: &mut World, peer: &mut Peer, operation: &str, body: &RawMap| {
            let request = MessageBuilder::new()
                .message_id("request")
                .application_property("operation", AnnotationValue::Str(operation))
                .body_raw(RawValue::first(body.bytes()).unwrap())
                .build();
            peer.next += 1;
            let mut frame = Script::transfer_frame(3, peer.next, true);
            frame.state = Some(posting(&txn));
            world.script(peer.client).transfer_with(0, frame, &request);
            world.run();
            let replies = world.frames(peer.client).into_iter();
            let reply =
                replies.filter(|frame| matches!(frame.performative, Performative::Transfer(_))).last();
            reply.expect("a reply").payload
        };
        let reply = ask(&mut world, &mut peer, "com.microsoft:schedule-message", &map(&[("messages", list)]));
        assert_eq!((status(&reply, "statusCode"), ids(&reply)), (200, vec![1]));
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
        world.pass(Duration::from_secs(60));
        assert_eq!(left(&mut world, "q").len(), usize::from(!fail));
    }
    let (mut world, mut peer) = world(true, &[]);
    world.management(peer.client, "q");
    let txn = peer.declare(&mut world);
    let request = MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str("com.microsoft:cancel-scheduled-message"))
        .body_raw(RawValue::first(map(&[("sequence-numbers", longs(&[1]))]).bytes()).unwrap())
        .build();
    let state = Some(posting(&txn));
    peer.transfer(&mut world, 0, |frame| (frame.handle, frame.state) = (3, state), &request);
    assert_eq!(peer.discharge(&mut world, &txn, false).condition(), "amqp:transaction:rollback");
}

#[test]
fn what_is_sent_via_an_entity_to_a_disabled_one_is_kept_among_the_transfer_dead_letters() {
    for transacted in [false, true] {
        let (mut world, mut peer) = world(true, &[]);
        let off = EntitySettings { status: EntityStatus::Disabled, ..EntitySettings::default() };
        world.update("other", off);
        world.script(peer.client).begin(1).attach(1, sender_via("q", "other"));
        world.run();
        let (_, detaches) = world.link_frames(peer.client);
        assert_eq!(detaches, vec![]);
        let txn = peer.declare(&mut world);
        let state = transacted.then(|| posting(&txn));
        let change = |frame: &mut Transfer| (frame.handle, frame.state) = (50, state);
        let sent = peer.transfer(&mut world, 1, change, &message("result"));
        assert_eq!(sent, if transacted { accepted_within(&txn) } else { done() });
        assert_eq!(peer.discharge(&mut world, &txn, false), done());
        assert_eq!(left(&mut world, "q"), Vec::<String>::new());
        assert_eq!(left(&mut world, "q/$Transfer/$DeadLetterQueue"), ["result"], "{transacted}");
    }
}

#[test]
fn who_received_from_a_subscription_sends_via_its_topic() {
    for (status, arrives) in
        [(EntityStatus::Active, "other"), (EntityStatus::Disabled, "t/$Transfer/$DeadLetterQueue")]
    {
        let (mut world, mut peer) = world(true, &[]);
        let source = "t/Subscriptions/s";
        world.create_kind("t", EntityKind::Topic, EntitySettings::default());
        world.create_kind(source, EntityKind::Subscription, EntitySettings::default());
        world.update("other", EntitySettings { status, ..EntitySettings::default() });
        let publisher = world.plain();
        world.send(publisher, "t", &["work"]);
        let script = world.script(peer.client).begin(1).attach(1, sender_via("t", "other"));
        script.attach_receiver(1, 51, "r", source, Some(ReceiverSettleMode::Second));
        world.run();
        let (_, detaches) = world.link_frames(peer.client);
        assert_eq!(detaches, vec![]);
        world.credit(peer.client, 1, 51, 0, 1, false);
        world.run();
        let id = world.transfers(peer.client)[0].0.delivery_id.unwrap();
        let txn = peer.declare(&mut world);
        let state = Some(posting(&txn));
        let change = |frame: &mut Transfer| (frame.handle, frame.state) = (50, state);
        assert_eq!(peer.transfer(&mut world, 1, change, &message("result")), accepted_within(&txn));
        let completed = within(&txn, DeliveryState::Accepted);
        world.script(peer.client).disposition(1, id, id, false, Some(completed));
        world.run();
        assert_eq!(answer(&mut world, peer.client), joined(&txn), "{status:?}");
        assert_eq!(peer.discharge(&mut world, &txn, false), done(), "{status:?}");
        world.update("other", EntitySettings::default());
        for (place, expected) in [(source, false), ("other", true), ("t/$Transfer/$DeadLetterQueue", true)] {
            let expected = if expected && place == arrives { vec!["result"] } else { vec![] };
            assert_eq!(left(&mut world, place), expected, "{status:?} {place}");
        }
    }
}

#[test]
fn what_a_transaction_sends_via_a_partitioned_entity_has_one_via_partition_key() {
    for (second, expected) in [("a", None), ("b", Some("amqp:not-allowed"))] {
        let (mut world, mut peer) = world(true, &[]);
        world.create("split", EntitySettings { enable_partitioning: true, ..EntitySettings::default() });
        world.script(peer.client).begin(1).attach(1, sender_via("split", "other"));
        world.run();
        world.received(peer.client);
        let txn = peer.declare(&mut world);
        let mut send = |world: &mut World, key: &str| {
            let message = MessageBuilder::new()
                .message_annotations(RawMap::with_symbol_keys(&[(
                    "x-opt-via-partition-key",
                    AnnotationValue::Str(key),
                )]))
                .data(key.as_bytes());
            let state = Some(posting(&txn));
            let change = |frame: &mut Transfer| (frame.handle, frame.state) = (50, state);
            peer.transfer(world, 1, change, &message.build())
        };
        assert_eq!(send(&mut world, "a"), accepted_within(&txn));
        let answer = send(&mut world, second);
        match expected {
            None => assert_eq!(answer, accepted_within(&txn)),
            Some(condition) => assert_eq!(answer.condition(), condition),
        }
        assert_eq!(peer.discharge(&mut world, &txn, false) == done(), expected.is_none());
        assert_eq!(left(&mut world, "other").len(), if expected.is_none() { 2 } else { 0 });
    }
}

#[test]
fn a_transaction_of_which_a_fault_refused_a_message_does_not_commit_the_rest() {
    for service_bus in [false, true] {
        let faults = Arc::new(Faults::default());
        let config = GatewayConfig { faults: Some(Arc::clone(&faults)), ..GatewayConfig::default() };
        let (mut world, mut peer) = within_world(World::with(config, Anonymous::Deny), service_bus, &[]);
        let txn = peer.declare(&mut world);
        assert_eq!(peer.send(&mut world, SENDER, &txn, "first"), accepted_within(&txn));
        let (kind, scope) = (FaultKind::ServerBusy, Scope::of("q"));
        faults.order(Fault { kind, scope, left: Some(1), until: None }, world.now.utc).unwrap();
        let refused = peer.send(&mut world, SENDER, &txn, "second");
        assert_eq!(refused.condition(), "com.microsoft:server-busy");
        let ended = peer.discharge(&mut world, &txn, false);
        assert_eq!(ended.condition(), "amqp:transaction:rollback");
        assert_eq!(left(&mut world, "q"), [""; 0]);
    }
}

#[test]
fn however_a_message_came_that_a_fault_refused_its_transaction_commits_nothing() {
    for (handle, settled, format) in
        [(SENDER, false, 0), (SENDER, true, 0), (SENDER, false, BATCH_FORMAT), (42, false, 0), (42, true, 0)]
    {
        let faults = Arc::new(Faults::default());
        let config = GatewayConfig { faults: Some(Arc::clone(&faults)), ..GatewayConfig::default() };
        let (mut world, mut peer) = within_world(World::with(config, Anonymous::Deny), false, &[]);
        world.script(peer.client).attach_sender(0, 42, "relay", None);
        world.run();
        world.received(peer.client);
        let txn = peer.declare(&mut world);
        assert_eq!(peer.send(&mut world, SENDER, &txn, "first"), accepted_within(&txn));
        let (kind, scope) = (FaultKind::ServerBusy, Scope::of("q"));
        faults.order(Fault { kind, scope, left: Some(1), until: None }, world.now.utc).unwrap();
        let body = MessageBuilder::new().to("q").data(&message("second")).build();
        let state = Some(posting(&txn));
        let send = |frame: &mut Transfer| {
            (frame.handle, frame.state, frame.settled) = (handle, state, Some(settled));
            frame.message_format = Some(format);
        };
        let refused = peer.transfer(&mut world, 0, send, &body);
        let told = format!("{handle} {settled} {format}: {refused:?}");
        if !settled {
            assert_eq!(refused.condition(), "com.microsoft:server-busy", "{told}");
        }
        assert_eq!(faults.list(world.now.utc), [], "{told}");
        let ended = peer.discharge(&mut world, &txn, false);
        assert_eq!(ended.condition(), "amqp:transaction:rollback", "{told}");
        assert_eq!(left(&mut world, "q"), [""; 0], "{told}");
    }
}
