//! Delays of plain clients: `x-opt-delivery-time` and `x-opt-delivery-delay`, and the capability that offers them.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Performative, Source, Target},
    raw::{AnnotationValue, RawMap},
    sections::Header,
    types::{Role, Symbol},
};
use broker_core::{EntityKind, EntitySettings};
use bytes::Bytes;

use crate::{
    harness::{KEY_NAME, START, World, texts},
    management::{annotation, peek},
    subscribers::{attach, take, volatile},
    transactions::{Peer, SENDER, accepted_within, done, posting, within_world},
};

const MINUTE: Duration = Duration::from_secs(60);
const CAPABILITY: &str = "DELAYED_DELIVERY";
const DELAY: &str = "x-opt-delivery-delay";
const TIME: &str = "x-opt-delivery-time";

fn delayed(name: &str, value: AnnotationValue<'_>) -> Bytes {
    let annotations = RawMap::with_symbol_keys(&[(name, value)]);
    MessageBuilder::new().message_annotations(annotations).message_id("m").data(b"m").build()
}

/// The broker's time so far from its beginning, on the wire.
fn at(after: Duration) -> i64 {
    i64::try_from(START).unwrap() + i64::try_from(after.as_millis()).unwrap()
}

fn send(world: &mut World, client: usize, payload: &[u8]) -> DeliveryState {
    world.transfer(client, 1, false, payload);
    world.run();
    world.dispositions(client).remove(0).state.unwrap()
}

#[test]
fn a_plain_message_comes_when_its_time_or_delay_says() {
    let minute = at(MINUTE);
    let cases = [
        (TIME, AnnotationValue::Long(minute)),
        (TIME, AnnotationValue::Timestamp(minute)),
        (DELAY, AnnotationValue::Long(60_000)),
        (DELAY, AnnotationValue::Uint(60_000)),
    ];
    for target in [Some("q"), None] {
        for (name, value) in cases {
            let mut world = World::new();
            let (sender, receiver) = (world.plain(), world.plain());
            world.script(sender).attach_sender(0, 1, "s", target);
            world.run();
            world.received(sender);
            let annotations = RawMap::with_symbol_keys(&[(name, value)]);
            let message = MessageBuilder::new().message_annotations(annotations).to("q").data(b"m").build();
            assert_eq!(send(&mut world, sender, &message), DeliveryState::Accepted);
            assert_eq!(world.receive(receiver, "q", 9).len(), 0, "{name}");
            world.pass(Duration::from_millis(59_999));
            assert_eq!(world.transfers(receiver).len(), 0, "{name}");
            world.pass(Duration::from_millis(1));
            let got = world.transfers(receiver);
            assert_eq!(texts(&got), ["m"], "{name}");
            assert_eq!(annotation(&got[0].1, name), annotation(&message, name), "it stays as it was sent");
        }
    }
}

#[test]
fn a_delay_that_is_over_or_none_changes_nothing() {
    let mut world = World::new();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(client);
    let cases = [
        (TIME, AnnotationValue::Long(at(Duration::ZERO))),
        (TIME, AnnotationValue::Timestamp(0)),
        (DELAY, AnnotationValue::Long(0)),
        (DELAY, AnnotationValue::Null),
    ];
    for (name, value) in cases {
        assert_eq!(send(&mut world, client, &delayed(name, value)), DeliveryState::Accepted);
    }
    assert_eq!(world.receive(client, "q", 9).len(), cases.len());
}

#[test]
fn a_bad_delay_is_rejected_and_nothing_is_stored() {
    let mut world = World::new();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(client);
    let cases = [
        (DELAY, AnnotationValue::Long(-1)),
        (DELAY, AnnotationValue::Str("60000")),
        (TIME, AnnotationValue::Long(-1)),
        (TIME, AnnotationValue::Str("tomorrow")),
    ];
    for (name, value) in cases {
        let state = send(&mut world, client, &delayed(name, value));
        let DeliveryState::Rejected(Some(error)) = state else { panic!("{name}: {state:?}") };
        assert!(error.description.as_ref().is_some_and(|text| text.contains(name)), "{error:?}");
        assert_eq!(error.condition, "amqp:invalid-field");
    }
    assert_eq!(world.bytes_of("q"), 0);
    assert_eq!(send(&mut world, client, &delayed(DELAY, AnnotationValue::Long(1))), DeliveryState::Accepted);
}

#[test]
fn clients_of_service_bus_have_no_such_annotations() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(client);
    for value in [AnnotationValue::Long(60_000), AnnotationValue::Str("60000")] {
        assert_eq!(send(&mut world, client, &delayed(DELAY, value)), DeliveryState::Accepted);
    }
    assert_eq!(world.receive(client, "q", 9).len(), 2);
}

#[test]
fn a_service_bus_client_peeks_at_the_time_of_a_delayed_message() {
    let mut world = World::new();
    let (plain, client) = (world.plain(), world.service_bus());
    world.management(client, "q");
    world.script(plain).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(plain);
    let annotations = RawMap::with_symbol_keys(&[(DELAY, AnnotationValue::Long(60_000))]);
    let header = Header { ttl: Some(600_000), ..Header::default() };
    let message = MessageBuilder::new().header(header).message_annotations(annotations).data(b"m").build();
    assert_eq!(send(&mut world, plain, &message), DeliveryState::Accepted);
    let shown = peek(&mut world, client).pop().unwrap();
    let names = ["x-opt-message-state", "x-opt-scheduled-enqueue-time"];
    assert_eq!(names.map(|name| annotation(&shown, name)), [Some(2), Some(at(MINUTE))]);
    let ttl = amqp_codec::sections::Sections::scan(&shown).unwrap().read_header(&shown).unwrap().ttl;
    assert_eq!(ttl, Some(600_000), "its life begins when it is due");
    world.pass(MINUTE);
    let shown = peek(&mut world, client).pop().unwrap();
    assert_eq!(names.map(|name| annotation(&shown, name)), [Some(0), None]);
}

#[test]
fn a_delay_is_waited_for_once_though_the_message_is_forwarded() {
    let mut world = World::new();
    world.create("end", EntitySettings::default());
    let settings = EntitySettings { forward_to: Some("end".into()), ..EntitySettings::default() };
    world.create("way", settings);
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("way"));
    world.run();
    world.received(client);
    let message = delayed(DELAY, AnnotationValue::Long(60_000));
    assert_eq!(send(&mut world, client, &message), DeliveryState::Accepted);
    world.pass(MINUTE);
    assert_eq!(world.receive(client, "end", 9).len(), 1);
}

#[test]
fn subscribers_of_a_topic_get_a_delayed_message_when_it_is_due() {
    let mut world = World::new();
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    let client = world.plain();
    attach(&mut world, client, 5, "early", Some(volatile())).unwrap();
    world.script(client).attach_sender(0, 1, "s", Some("t"));
    world.run();
    world.received(client);
    let message = delayed(TIME, AnnotationValue::Long(at(MINUTE)));
    assert_eq!(send(&mut world, client, &message), DeliveryState::Accepted);
    assert_eq!(take(&mut world, client, 5), [""; 0]);
    world.pass(MINUTE);
    assert_eq!(texts(&world.transfers(client)), ["m"]);
}

#[test]
fn a_delay_in_a_transaction_counts_from_the_send_and_only_if_it_commits() {
    for fail in [false, true] {
        let (mut world, mut peer): (World, Peer) = within_world(World::new(), false, &[]);
        let txn = peer.declare(&mut world);
        let state = Some(posting(&txn));
        let message = delayed(DELAY, AnnotationValue::Long(60_000));
        let answer =
            peer.transfer(&mut world, 0, |frame| (frame.handle, frame.state) = (SENDER, state), &message);
        assert_eq!(answer, accepted_within(&txn));
        world.pass(MINUTE / 2);
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
        assert_eq!(world.receive(peer.client, "q", 9).len(), 0);
        world.pass(MINUTE / 2);
        assert_eq!(world.transfers(peer.client).len(), usize::from(!fail));
        world.pass(2 * MINUTE);
        assert_eq!(world.transfers(peer.client).len(), 0);
    }
}

#[test]
fn a_bad_delay_spoils_its_transaction() {
    let (mut world, mut peer) = within_world(World::new(), false, &[]);
    let txn = peer.declare(&mut world);
    let state = Some(posting(&txn));
    let message = delayed(DELAY, AnnotationValue::Long(-1));
    let answer =
        peer.transfer(&mut world, 0, |frame| (frame.handle, frame.state) = (SENDER, state), &message);
    assert!(answer.error().description.as_ref().is_some_and(|text| text.contains(DELAY)), "{answer:?}");
    assert_eq!(peer.discharge(&mut world, &txn, false).condition(), "amqp:transaction:rollback");
}

#[test]
fn the_capability_is_offered_in_the_open_and_where_a_link_of_a_sender_desires_it() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl_plain(KEY_NAME, "SAS_KEY_VALUE").open("test").begin(0);
    world.run();
    let offered = world.frames(client).into_iter().find_map(|frame| match frame.performative {
        Performative::Open(open) => Some(open.offered_capabilities),
        _ => None,
    });
    assert!(offered.is_some_and(|offered| offered.iter().any(|it| it == CAPABILITY)));
    let other = world.service_bus();
    let cases = [
        // client, role, desired, offered
        (client, Role::Sender, vec![CAPABILITY, "foo"], vec![CAPABILITY]),
        (client, Role::Sender, vec!["foo"], vec![]),
        (client, Role::Sender, vec![], vec![]),
        (client, Role::Receiver, vec![CAPABILITY], vec![]),
        (other, Role::Sender, vec![CAPABILITY], vec![]),
    ];
    for (handle, (client, role, desired, offered)) in (10..).zip(cases) {
        let mut attach = Attach::new(format!("l{handle}"), handle, role);
        attach.initial_delivery_count = (role == Role::Sender).then_some(0);
        (attach.source, attach.target) = (Some(Source::new("q")), Some(Target::new("q")));
        attach.desired_capabilities = desired.iter().map(|&it| Symbol::from(it)).collect();
        world.script(client).attach(0, attach);
        world.run();
        let (attaches, detaches) = world.link_frames(client);
        assert_eq!(detaches.len(), 0);
        assert_eq!(attaches[0].offered_capabilities, offered, "{role:?} {desired:?}");
    }
}
