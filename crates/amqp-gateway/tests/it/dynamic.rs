//! Dynamic nodes: asked for by an attach, known to their connection, gone with the link or the connection.

use std::{collections::BTreeSet, sync::Arc};

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Source, Target, TargetTerminus},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode, Symbol},
};
use amqp_gateway::{DynamicNodePool, GatewayConfig};
use broker_auth::{Anonymous, Right};

use crate::{
    harness::{World, texts},
    subscribers::{attach, take},
};

/// Number of entities before a client asks for a node: the queue `q`.
const BEFORE: usize = 1;

fn source(capabilities: &[&'static str]) -> Source {
    let capabilities = capabilities.iter().map(|name| Symbol::from_static(name)).collect();
    Source { dynamic: true, capabilities, ..Source::default() }
}

/// A source with this policy, by its code.
fn with_policy(code: u8) -> Source {
    let value = [0x00, 0x53, code, 0x45];
    let value = AnnotationValue::Raw(RawValue::first(&value).unwrap());
    let properties = RawMap::with_symbol_keys(&[("lifetime-policy", value)]);
    Source { dynamic_node_properties: Some(properties), ..source(&[]) }
}

fn address(source: &Source) -> String {
    source
        .address
        .as_ref()
        .and_then(|address| address.as_str())
        .expect("the answer has the address")
        .to_owned()
}

/// Attaches a receiver to a new node; says its address.
fn create(world: &mut World, client: usize, handle: u32, source: Source) -> String {
    let granted = attach(world, client, handle, &format!("dynamic {handle}"), Some(source)).unwrap();
    assert!(granted.dynamic);
    address(&granted)
}

/// Attaches a sender; says the address of the answer's target, or the error.
fn attach_sender(
    world: &mut World,
    client: usize,
    handle: u32,
    target: TargetTerminus,
) -> Result<Option<String>, String> {
    let mut attach = Attach::new(format!("sender {handle}"), handle, Role::Sender);
    (attach.snd_settle_mode, attach.rcv_settle_mode) =
        (Some(SenderSettleMode::Unsettled), Some(ReceiverSettleMode::First));
    (attach.source, attach.initial_delivery_count) = (Some(Source::new("here")), Some(0));
    attach.target = Some(Target::Terminus(target));
    world.script(client).attach(0, attach);
    world.run();
    let (mut attaches, mut detaches) = world.link_frames(client);
    match detaches.pop() {
        None => {
            let target = attaches.pop().and_then(|attach| attach.target);
            Ok(target.as_ref().and_then(Target::address).and_then(|it| it.as_str()).map(str::to_owned))
        }
        Some(detach) => {
            world.script(client).detach(0, handle, true);
            world.run();
            world.received(client);
            Err(detach.error.expect("a refusal has an error").condition.to_string())
        }
    }
}

fn at(address: &str) -> TargetTerminus {
    TargetTerminus { address: Some(address.into()), ..TargetTerminus::default() }
}

/// Sends one message to an address by a message without a link's; says the outcome's condition.
fn send_to(world: &mut World, client: usize, handle: u32, to: &str) -> Result<(), String> {
    let payload = MessageBuilder::new().to(to).message_id("m").data(b"m").build();
    world.transfer(client, handle, false, &payload);
    world.run();
    match world.dispositions(client).remove(0).state.unwrap() {
        DeliveryState::Accepted => Ok(()),
        DeliveryState::Rejected(Some(error)) => Err(error.condition.to_string()),
        other => panic!("{other:?}"),
    }
}

fn detach(world: &mut World, client: usize, handle: u32, closed: bool) {
    world.script(client).detach(0, handle, closed);
    world.run();
    world.received(client);
}

#[test]
fn a_request_is_answered_at_the_address_of_the_requester() {
    let mut world = World::new();
    let (requester, responder) = (world.plain(), world.plain());
    let replies = create(&mut world, requester, 5, source(&["temporary-queue"]));
    attach_sender(&mut world, responder, 1, TargetTerminus::default()).unwrap();
    assert_eq!(send_to(&mut world, responder, 1, &replies), Ok(()));
    let capability =
        TargetTerminus { capabilities: vec![Symbol::from_static("temporary-queue")], ..at(&replies) };
    assert_eq!(attach_sender(&mut world, responder, 2, capability), Ok(Some(replies.clone())));
    let payload = MessageBuilder::new().message_id("n").data(b"n").build();
    world.transfer(responder, 2, false, &payload);
    assert_eq!(take(&mut world, requester, 5), ["m", "n"]);
    // Another receiver of the same connection, by the address.
    attach(&mut world, requester, 6, "again", Some(Source::new(&*replies))).unwrap();
}

#[test]
fn a_topic_gives_each_receiver_of_its_connection_each_message() {
    let mut world = World::new();
    let client = world.plain();
    let news = create(&mut world, client, 5, source(&["temporary-topic"]));
    attach(&mut world, client, 6, "second", Some(Source::new(&*news))).unwrap();
    attach_sender(&mut world, client, 1, at(&news)).unwrap();
    let payload = MessageBuilder::new().message_id("m").data(b"m").build();
    world.transfer(client, 1, false, &payload);
    for handle in [5, 6] {
        assert_eq!(take(&mut world, client, handle), ["m"], "handle {handle}");
    }
    detach(&mut world, client, 5, true);
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn a_sender_may_ask_for_a_node_to_send_to() {
    for (capability, kind) in [("temporary-queue", 1), ("temporary-topic", 1)] {
        let mut world = World::new();
        let client = world.plain();
        let target = TargetTerminus {
            dynamic: true,
            capabilities: vec![Symbol::from_static(capability)],
            ..TargetTerminus::default()
        };
        let node = attach_sender(&mut world, client, 1, target).unwrap().expect("an address");
        assert_eq!(world.entities(), BEFORE + kind);
        let capability = Symbol::from_static(capability);
        let reader = Source { capabilities: vec![capability], ..Source::new(&*node) };
        attach(&mut world, client, 5, "reader", Some(reader)).unwrap();
        let payload = MessageBuilder::new().message_id("m").data(b"m").build();
        world.transfer(client, 1, false, &payload);
        assert_eq!(take(&mut world, client, 5), ["m"]);
        detach(&mut world, client, 1, true);
        assert_eq!(world.entities(), BEFORE, "gone with the link that asked for it");
    }
}

#[test]
fn only_the_connection_of_a_node_receives_from_it() {
    let mut world = World::new();
    let (owner, other) = (world.plain(), world.plain());
    let queue = create(&mut world, owner, 5, source(&[]));
    let topic = create(&mut world, owner, 6, source(&["temporary-topic"]));
    let locked = Err("amqp:resource-locked".to_owned());
    for name in [queue.clone(), topic, format!("{queue}/$DeadLetterQueue"), queue.to_uppercase()] {
        let refused = attach(&mut world, other, 7, "thief", Some(Source::new(&*name)));
        assert_eq!(refused.map(|_| ()), locked, "{name}");
    }
    let node = format!("{queue}/$management");
    assert_eq!(attach_sender(&mut world, other, 8, at(&node)), Err("amqp:resource-locked".to_owned()));
    assert_eq!(attach_sender(&mut world, owner, 8, at(&node)), Ok(Some(node)));
}

#[test]
fn a_node_is_gone_with_its_link_and_not_with_a_mere_detach() {
    let mut world = World::new();
    let (client, other) = (world.plain(), world.plain());
    attach_sender(&mut world, other, 1, TargetTerminus::default()).unwrap();
    let node = create(&mut world, client, 5, source(&[]));
    detach(&mut world, client, 5, false);
    assert_eq!(send_to(&mut world, other, 1, &node), Ok(()), "it is there");
    // The same link again, by its name, at the address that it got.
    attach(&mut world, client, 5, "dynamic 5", Some(Source::new(&*node))).unwrap();
    assert_eq!(take(&mut world, client, 5), ["m"]);
    // Another link of the same connection changes nothing.
    attach(&mut world, client, 6, "another", Some(Source::new(&*node))).unwrap();
    detach(&mut world, client, 6, true);
    assert_eq!(send_to(&mut world, other, 1, &node), Ok(()), "it is there");
    detach(&mut world, client, 5, true);
    let missing = Err("amqp:not-found".to_owned());
    assert_eq!(send_to(&mut world, other, 1, &node), missing);
    assert_eq!(attach(&mut world, client, 5, "dynamic 5", Some(Source::new(&*node))).map(|_| ()), missing);
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn a_link_that_ends_with_an_error_takes_its_node_along() {
    let mut world = World::new();
    let client = world.plain();
    let node = create(&mut world, client, 5, source(&[]));
    // A second link of the same name and direction steals it.
    world.script(client).attach_receiver(0, 6, "dynamic 5", "q", Some(ReceiverSettleMode::First));
    world.run();
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:link:stolen");
    assert_eq!(world.entities(), BEFORE, "{node}");
}

#[test]
fn a_node_is_gone_with_its_session_only_when_the_connection_ends() {
    for ending in ["close", "loss", "end"] {
        let mut world = World::new();
        let (client, other) = (world.plain(), world.plain());
        let node = create(&mut world, client, 5, source(&[]));
        attach_sender(&mut world, other, 1, at(&node)).unwrap();
        match ending {
            "close" => {
                world.script(client).close(None);
            }
            "loss" => world.lose(client),
            _ => {
                world.script(client).end(0);
            }
        }
        world.run();
        if ending == "end" {
            assert_eq!(world.entities(), BEFORE + 1, "its links are detached, not closed");
            world.lose(client);
            world.run();
        } else if ending == "close" {
            world.lose(client);
            world.run();
        }
        assert_eq!(world.entities(), BEFORE, "{ending}");
        let (_, detaches) = world.link_frames(other);
        let error = detaches[0].error.as_ref().expect("the sender of another connection is told");
        assert_eq!(error.condition, "amqp:resource-deleted", "{ending}");
    }
}

#[test]
fn the_other_policies_keep_a_node_while_they_have_a_reason() {
    // Rows: code of the policy; whether a link of another keeps the node, and whether a message does.
    for (code, by_link, by_message) in
        [(0x2b, false, false), (0x2c, true, false), (0x2d, false, true), (0x2e, true, true)]
    {
        for (with_link, with_message) in [(true, false), (false, true), (false, false)] {
            let row = format!("{code:x} {with_link} {with_message}");
            let mut world = World::new();
            let (client, other) = (world.plain(), world.plain());
            let node = create(&mut world, client, 5, with_policy(code));
            attach_sender(&mut world, other, 1, TargetTerminus::default()).unwrap();
            if with_message {
                send_to(&mut world, other, 1, &node).unwrap();
            }
            if with_link {
                attach_sender(&mut world, other, 2, at(&node)).unwrap();
            }
            detach(&mut world, client, 5, true);
            let stays = with_link && by_link || with_message && by_message;
            assert_eq!(world.entities() - BEFORE, usize::from(stays), "{row}");
            if stays && with_message {
                attach(&mut world, client, 6, "reader", Some(Source::new(&*node))).unwrap();
                assert_eq!(take(&mut world, client, 6), ["m"], "{row}");
                detach(&mut world, client, 6, true);
            }
            if with_link && stays {
                detach(&mut world, other, 2, true);
            }
            assert_eq!(world.entities(), BEFORE, "{row}: the reason is gone");
        }
    }
}

#[test]
fn a_request_that_makes_no_sense_is_refused_with_its_condition() {
    let mut world = World::new();
    let client = world.plain();
    let invalid = Err("amqp:invalid-field".to_owned());
    let named = Source { address: Some("q".into()), ..source(&[]) };
    let cases = [named, with_policy(0x2f), source(&["temporary-queue", "temporary-topic"])];
    for case in cases {
        assert_eq!(attach(&mut world, client, 5, "bad", Some(case.clone())).map(|_| ()), invalid, "{case:?}");
    }
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn each_limit_has_its_error_and_counts_only_nodes_that_are_there() {
    let pool = Arc::new(DynamicNodePool::new([7; 16], 3, 2));
    let config = GatewayConfig { dynamic_nodes: Arc::clone(&pool), ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let (first, second) = (world.plain(), world.plain());
    let exceeded = Err("amqp:resource-limit-exceeded".to_owned());
    create(&mut world, first, 5, source(&[]));
    create(&mut world, first, 6, source(&[]));
    assert_eq!(
        attach(&mut world, first, 7, "n", Some(source(&[]))).map(|_| ()),
        exceeded,
        "of the connection"
    );
    create(&mut world, second, 5, source(&[]));
    assert_eq!(attach(&mut world, second, 6, "n", Some(source(&[]))).map(|_| ()), exceeded, "of the broker");
    assert_eq!(pool.count(), 3);
    detach(&mut world, first, 5, true);
    assert_eq!(pool.count(), 2);
    let node = create(&mut world, second, 7, source(&[]));
    // One that an administrator deletes does not count either.
    world.delete(&node);
    assert_eq!(pool.count(), 2);
    world.received(second);
    create(&mut world, second, 8, source(&[]));
    assert_eq!(pool.count(), 3);
    world.lose(second);
    world.run();
    drop(world);
    assert_eq!(pool.count(), 0);
}

#[test]
fn addresses_follow_from_the_secret_and_none_from_another() {
    let mut seen = BTreeSet::new();
    for key in [[1; 16], [2; 16]] {
        let dynamic_nodes = Arc::new(DynamicNodePool::new(key, 100, 100));
        let mut world =
            World::with(GatewayConfig { dynamic_nodes, ..GatewayConfig::default() }, Anonymous::Deny);
        for _ in 0..2 {
            let client = world.plain();
            for handle in 5..8 {
                let node = create(&mut world, client, handle, source(&[]));
                let chance = node.strip_prefix("$dynamic/").expect("the prefix");
                assert_eq!(chance.len(), 32, "128 bits: {node}");
                assert!(seen.insert(node));
            }
        }
    }
}

#[test]
fn nodes_need_a_right_of_their_own() {
    for (right, permitted) in
        [(Right::Send, false), (Right::Listen, false), (Right::Dynamic, true), (Right::Manage, true)]
    {
        let (mut world, client) = World::limited(right);
        let asked = attach(&mut world, client, 5, "n", Some(source(&[])));
        let expected = if permitted { Ok(()) } else { Err("amqp:unauthorized-access".to_owned()) };
        assert_eq!(asked.as_ref().map(|_| ()).map_err(Clone::clone), expected, "{right}");
        // The right is asked for before anything of the request is read.
        let malformed = attach(&mut world, client, 9, "o", Some(with_policy(0x2f))).map(drop);
        let condition = if permitted { "amqp:invalid-field" } else { "amqp:unauthorized-access" };
        assert_eq!(malformed, Err(condition.to_owned()), "{right}");
        let Ok(granted) = asked else { continue };
        // The owner needs no other right on its node, and has none elsewhere.
        let node = address(&granted);
        attach(&mut world, client, 6, "m", Some(Source::new(&*node))).unwrap();
        assert_eq!(attach_sender(&mut world, client, 7, at(&node)), Ok(Some(node)), "{right}");
        assert_eq!(attach_sender(&mut world, client, 8, at("q")).is_ok(), right == Right::Manage, "{right}");
    }
}

#[test]
fn a_right_to_send_is_enough_for_the_node_of_another() {
    let (mut world, responder) = World::limited(Right::Send);
    let requester = world.plain();
    let node = create(&mut world, requester, 5, source(&[]));
    assert_eq!(attach_sender(&mut world, responder, 1, TargetTerminus::default()), Ok(None));
    assert_eq!(send_to(&mut world, responder, 1, &node), Ok(()));
    assert_eq!(attach_sender(&mut world, responder, 2, at(&node)), Ok(Some(node)));
    assert_eq!(take(&mut world, requester, 5), ["m"]);
}

#[test]
fn a_node_that_is_gone_is_not_created_by_a_late_reply() {
    let config = GatewayConfig { auto_create: true, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let (client, other) = (world.plain(), world.plain());
    let node = create(&mut world, client, 5, source(&[]));
    detach(&mut world, client, 5, true);
    attach_sender(&mut world, other, 1, TargetTerminus::default()).unwrap();
    let missing = || "amqp:not-found".to_owned();
    assert_eq!(send_to(&mut world, other, 1, &node), Err(missing()));
    let capability =
        TargetTerminus { capabilities: vec![Symbol::from_static("temporary-queue")], ..at(&node) };
    assert_eq!(attach_sender(&mut world, other, 2, capability), Err(missing()));
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn a_client_of_service_bus_may_have_a_node_too() {
    let mut world = World::new();
    let client = world.service_bus();
    let node = create(&mut world, client, 5, source(&[]));
    let sender = world.plain();
    world.send(sender, &node, &["m"]);
    world.credit(client, 0, 5, 0, 10, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["m"]);
}
