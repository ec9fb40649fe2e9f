//! Clients of plain AMQP that ask for a queue or a topic, as JMS clients do by capability, prefix or annotation.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Source, Target, TargetTerminus},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode, Symbol},
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use broker_core::{EntityKind, EntitySettings};

use crate::{
    harness::World,
    subscribers::{attach, take},
};

const SENDER: u32 = 1;

fn world(auto_create: bool) -> (World, usize) {
    let config = GatewayConfig { auto_create, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.plain();
    (world, client)
}

fn source(address: &str, capability: &'static str) -> Source {
    let capabilities = vec![Symbol::from(capability)];
    Source { capabilities, expiry_policy: Some(Symbol::from("link-detach")), ..Source::new(address) }
}

/// Attaches a sender; says with which error it was refused.
pub(crate) fn attach_sender(
    world: &mut World,
    client: usize,
    address: Option<&str>,
    capabilities: &[&'static str],
) -> Result<(), String> {
    let mut attach = Attach::new("sender", SENDER, Role::Sender);
    (attach.snd_settle_mode, attach.rcv_settle_mode) =
        (Some(SenderSettleMode::Unsettled), Some(ReceiverSettleMode::First));
    (attach.source, attach.initial_delivery_count) = (Some(Source::new("here")), Some(0));
    attach.target = Some(Target::Terminus(TargetTerminus {
        address: address.map(Into::into),
        capabilities: capabilities.iter().map(|&name| Symbol::from(name)).collect(),
        ..TargetTerminus::default()
    }));
    world.script(client).attach(0, attach);
    world.run();
    let (_, mut detaches) = world.link_frames(client);
    let Some(detach) = detaches.pop() else { return Ok(()) };
    world.script(client).detach(0, SENDER, true);
    world.run();
    world.received(client);
    Err(detach.error.expect("a refusal has an error").condition.to_string())
}

fn send(world: &mut World, client: usize, message: MessageBuilder) -> DeliveryState {
    world.transfer(client, SENDER, false, &message.message_id("m").data(b"m").build());
    world.run();
    world.dispositions(client).remove(0).state.unwrap()
}

/// A message with the annotation by which Qpid JMS says what kind of node its `to` names.
fn jms_message(to: &str, kind: u8) -> MessageBuilder {
    let kind = [0x51, kind];
    let kind = AnnotationValue::Raw(RawValue::first(&kind).unwrap());
    MessageBuilder::new().to(to).message_annotations(RawMap::with_symbol_keys(&[("x-opt-jms-dest", kind)]))
}

#[test]
fn each_subscriber_of_a_missing_topic_gets_each_message() {
    let (mut world, client) = world(true);
    for handle in [5, 6] {
        attach(&mut world, client, handle, &format!("r{handle}"), Some(source("news", "topic"))).unwrap();
    }
    attach_sender(&mut world, client, Some("news"), &["topic"]).unwrap();
    assert_eq!(send(&mut world, client, MessageBuilder::new()), DeliveryState::Accepted);
    for handle in [5, 6] {
        assert_eq!(take(&mut world, client, handle), ["m"], "handle {handle}");
    }
}

#[test]
fn receivers_of_a_missing_queue_share_its_messages() {
    let (mut world, client) = world(true);
    for handle in [5, 6] {
        attach(&mut world, client, handle, &format!("r{handle}"), Some(source("work", "queue"))).unwrap();
    }
    attach_sender(&mut world, client, Some("work"), &["queue"]).unwrap();
    assert_eq!(send(&mut world, client, MessageBuilder::new()), DeliveryState::Accepted);
    let each = [5, 6].map(|handle| take(&mut world, client, handle).len());
    assert_eq!(each.iter().sum::<usize>(), 1);
}

#[test]
fn a_prefix_names_the_kind_of_a_missing_node() {
    let (mut world, client) = world(true);
    for handle in [5, 6] {
        let name = format!("r{handle}");
        attach(&mut world, client, handle, &name, Some(Source::new("topic://news"))).unwrap();
    }
    world.send(client, "topic://news", &["m"]);
    for handle in [5, 6] {
        assert_eq!(take(&mut world, client, handle), ["m"]);
    }
    world.send(client, "queue://work", &["n"]);
    assert_eq!(world.active("work"), 1);
}

#[test]
fn a_message_without_link_address_names_the_kind_by_annotation() {
    let (mut world, client) = world(true);
    attach_sender(&mut world, client, None, &[]).unwrap();
    assert_eq!(send(&mut world, client, jms_message("work", 0)), DeliveryState::Accepted);
    assert_eq!(send(&mut world, client, jms_message("news", 1)), DeliveryState::Accepted);
    assert_eq!(world.active("work"), 1);
    attach(&mut world, client, 5, "r", Some(source("news", "topic"))).unwrap();
    let refused = send(&mut world, client, jms_message("work", 1));
    let DeliveryState::Rejected(Some(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.condition, "amqp:not-allowed");
    let refused = send(&mut world, client, jms_message("topic://work", 0));
    let DeliveryState::Rejected(Some(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.condition, "amqp:invalid-field");
}

#[test]
fn a_node_of_another_kind_is_refused() {
    for auto_create in [false, true] {
        let (mut world, client) = world(auto_create);
        world.create_kind("t", EntityKind::Topic, EntitySettings::default());
        for (address, capability) in [("q", "topic"), ("t", "queue"), ("t", "temporary-queue")] {
            let refused = Err("amqp:not-allowed".to_owned());
            let receiver = attach(&mut world, client, 5, "r", Some(source(address, capability)));
            assert_eq!(receiver.map(|_| ()), refused, "{address} {capability}");
            assert_eq!(attach_sender(&mut world, client, Some(address), &[capability]), refused);
        }
        for (address, capability) in [("q", "queue"), ("t", "topic"), ("q", "temporary-queue")] {
            attach(&mut world, client, 5, "r", Some(source(address, capability))).unwrap();
            world.script(client).detach(0, 5, true);
            world.run();
            world.received(client);
        }
    }
}

#[test]
fn a_link_that_asks_for_two_kinds_is_refused() {
    let (mut world, client) = world(true);
    let refused = Err("amqp:invalid-field".to_owned());
    assert_eq!(attach_sender(&mut world, client, Some("n"), &["queue", "topic"]), refused);
    assert_eq!(attach_sender(&mut world, client, Some("topic://n"), &["queue"]), refused);
    let both = Source { capabilities: vec!["topic".into(), "queue".into()], ..Source::new("n") };
    assert_eq!(attach(&mut world, client, 5, "r", Some(both)).map(|_| ()), refused);
    assert_eq!(world.entities(), 1, "nothing was created beside the queue of the harness");
}

#[test]
fn without_auto_create_a_missing_node_is_not_found() {
    let (mut world, client) = world(false);
    let refused = Err("amqp:not-found".to_owned());
    for capability in ["queue", "topic", "temporary-queue", "temporary-topic"] {
        assert_eq!(attach_sender(&mut world, client, Some("n"), &[capability]), refused);
        let receiver = attach(&mut world, client, 5, "r", Some(source("n", capability)));
        assert_eq!(receiver.map(|_| ()), refused, "{capability}");
    }
}

#[test]
fn an_sdk_that_names_another_kind_than_that_of_the_entity_is_refused() {
    let mut world = World::new();
    let client = world.service_bus();
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    // Entity, value of the property, whether the entity is of that kind.
    let cases =
        [("q", 0, true), ("q", 1, false), ("t", 0, false), ("t", 1, true), ("q", 2, true), ("t", -1, true)];
    for (entity, value, fits) in cases {
        let mut attach = Attach::new("sender", SENDER, Role::Sender);
        (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new(entity)));
        attach.initial_delivery_count = Some(0);
        let kind = ("com.microsoft:entity-type", AnnotationValue::Int(value));
        attach.properties = Some(RawMap::with_symbol_keys(&[kind]));
        world.script(client).attach(0, attach);
        world.run();
        let (_, detaches) = world.link_frames(client);
        let refused = detaches.first().map(|detach| detach.error.as_ref().unwrap().condition.as_str());
        assert_eq!(refused, (!fits).then_some("amqp:not-allowed"), "{entity} {value}");
        world.script(client).detach(0, SENDER, true);
        world.run();
        world.received(client);
    }
}
