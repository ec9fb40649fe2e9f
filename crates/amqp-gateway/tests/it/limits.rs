//! Entities that are switched off, and what is too large or too many: the error that each breach gets.

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{DeliveryState, Error, Transfer},
    raw::{AnnotationValue, RawMap},
    sections::PropertyField,
    types::ReceiverSettleMode,
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use broker_core::{EntitySettings, EntityStatus};
use bytes::Bytes;
use testkit::Script;

use crate::harness::{World, property, status};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);
const DISABLED: &str = "com.microsoft:entity-disabled";

/// What a message sent on handle 1 in a format was answered: nothing for accepted, else the condition.
fn sent(world: &mut World, client: usize, format: u32, message: &Bytes) -> Option<String> {
    told(world, client, format, message).map(|error| error.condition.as_str().to_owned())
}

/// The same with the whole error.
fn told(world: &mut World, client: usize, format: u32, message: &Bytes) -> Option<Error> {
    let id = world.next_delivery(client);
    let transfer = Transfer { message_format: Some(format), ..Script::transfer_frame(1, id, false) };
    world.script(client).transfer_with(0, transfer, message);
    world.run();
    match world.dispositions(client).pop().expect("an answer").state.unwrap() {
        DeliveryState::Accepted => None,
        DeliveryState::Rejected(Some(error)) => Some(*error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_disabled_entity_refuses_links_messages_and_requests() {
    let cases = [
        // status, sends, receives
        (EntityStatus::Active, true, true),
        (EntityStatus::SendDisabled, false, true),
        (EntityStatus::ReceiveDisabled, true, false),
        (EntityStatus::Disabled, false, false),
    ];
    for (disabled, sends, receives) in cases {
        let mut world = World::new();
        let client = world.service_bus();
        world.update("q", EntitySettings { status: disabled, ..EntitySettings::default() });
        for (handle, allowed) in [(1, sends), (2, receives)] {
            if handle == 1 {
                world.script(client).attach_sender(0, 1, "s", Some("q"));
            } else {
                world.script(client).attach_receiver(0, 2, "r", "q", SECOND);
            }
            world.run();
            let (attaches, detaches) = world.link_frames(client);
            assert_eq!(attaches.len(), 1, "a refusal attaches first: {disabled:?}");
            let errors: Vec<_> = detaches.into_iter().map(|detach| detach.error.unwrap()).collect();
            assert_eq!(errors.len(), usize::from(!allowed), "{disabled:?} {handle}");
            assert!(errors.iter().all(|error| error.condition == DISABLED));
        }
        world.management(client, "q");
        let peek = RawMap::with_string_keys(&[
            ("from-sequence-number", AnnotationValue::Long(1)),
            ("message-count", AnnotationValue::Int(1)),
        ]);
        let reply = world.request(client, "com.microsoft:peek-message", &peek);
        assert_eq!(status(&reply, "statusCode"), if receives { 204 } else { 403 }, "{disabled:?}");
        let condition = property(&reply, "errorCondition");
        assert_eq!(condition.as_deref(), (!receives).then_some(DISABLED));
    }
}

#[test]
fn switching_an_entity_off_detaches_the_links_it_forbids() {
    for (disabled, gone) in [
        (EntityStatus::SendDisabled, vec!["s"]),
        (EntityStatus::ReceiveDisabled, vec!["r"]),
        (EntityStatus::Disabled, vec!["s", "r"]),
    ] {
        let mut world = World::new();
        let client = world.service_bus();
        world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", SECOND);
        world.run();
        let (attaches, _) = world.link_frames(client);
        let handle = |name: &str| attaches.iter().find(|attach| attach.name == name).unwrap().handle;
        world.update("q", EntitySettings { status: disabled, ..EntitySettings::default() });
        let (_, detaches) = world.link_frames(client);
        let mut found: Vec<u32> = detaches.iter().map(|detach| detach.handle).collect();
        found.sort_unstable();
        let mut expected: Vec<u32> = gone.iter().map(|name| handle(name)).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{disabled:?}");
        assert!(detaches.iter().all(|detach| detach.closed), "{disabled:?}");
        assert!(detaches.into_iter().all(|detach| detach.error.unwrap().condition == DISABLED));
        // Switched on again, everything can be attached again.
        world.update("q", EntitySettings::default());
        world.script(client).detach(0, 1, true).detach(0, 2, true);
        world.run();
        world.send(client, "q", &["m"]);
        assert_eq!(world.receive(client, "q", 1).len(), 1, "{disabled:?}");
    }
}

#[test]
fn too_large_and_too_long_messages_are_rejected_and_their_link_stays() {
    let size = "amqp:link:message-size-exceeded";
    let range = "com.microsoft:argument-out-of-range";
    let text = |count: usize| "x".repeat(count);
    let (long, good) = (text(129), text(128));
    let builder = MessageBuilder::new;
    let cases = [
        (builder().message_id(&good), None),
        (builder().message_id(&long), Some(range)),
        (builder().property(PropertyField::GroupId, AnnotationValue::Str(&long)), Some(range)),
        (builder().application_property("p", AnnotationValue::Str(&text(32 << 10))), Some(size)),
        (builder().application_property("p", AnnotationValue::Str(&text(30 << 10))), None),
        (
            builder()
                .application_property("p", AnnotationValue::Str(&text(30_000)))
                .application_property("q", AnnotationValue::Str(&text(30_000)))
                .application_property("r", AnnotationValue::Str(&text(6_000))),
            Some(size),
        ),
    ];
    // So that each message fits one frame.
    let config = GatewayConfig { max_frame_bytes: 1 << 20, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    for (number, (message, expected)) in cases.into_iter().enumerate() {
        let message = message.data(b"m").build();
        assert_eq!(sent(&mut world, client, 0, &message).as_deref(), expected, "{number}");
        // As part of a batch it takes the others along.
        let inner = MessageBuilder::new().message_id("other").data(b"m").build();
        let batch = MessageBuilder::new().data(&inner).data(&message).build();
        let found = sent(&mut world, client, BATCH_FORMAT, &batch);
        assert_eq!(found.as_deref(), expected, "in a batch: {number}");
    }
    assert_eq!(sent(&mut world, client, 0, &MessageBuilder::new().data(b"m").build()), None);
}

#[test]
fn a_full_entity_refuses_by_its_name_and_numbers() {
    let mut world = World::new();
    let client = world.service_bus();
    world.update("q", EntitySettings { max_size_bytes: Some(200), ..EntitySettings::default() });
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let message = MessageBuilder::new().message_id("m").data(&[0; 64]).build();
    let mut taken = 0;
    let refused = loop {
        match told(&mut world, client, 0, &message) {
            None => taken += 1,
            Some(error) => break error,
        }
    };
    assert_eq!(refused.condition, "amqp:resource-limit-exceeded");
    assert!((1..200 / 64).contains(&taken), "{taken}");
    let held = world.bytes_of("q");
    assert!(held >= (taken * message.len()) as u64);
    let text = refused.description.unwrap();
    assert!(text.starts_with(&format!("'q' holds {held} bytes and takes at most 200.")), "{text}");
}
