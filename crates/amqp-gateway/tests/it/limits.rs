//! Entities that are switched off, and what is too large or too many: the error that each breach gets.

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{DeliveryState, Error, Flow, Open, Performative, Transfer},
    raw::{AnnotationValue, RawMap},
    sections::PropertyField,
    types::ReceiverSettleMode,
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use broker_core::{EntitySettings, EntityStatus};
use bytes::Bytes;
use testkit::Script;

use crate::harness::{KEY_NAME, World, property, status};

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
fn a_plain_client_is_told_of_a_bad_argument_with_a_condition_of_amqp() {
    let long = "x".repeat(129);
    let due = "x-opt-scheduled-enqueue-time";
    let annotated = |name: &str, value| {
        MessageBuilder::new().message_annotations(RawMap::with_symbol_keys(&[(name, value)]))
    };
    let cases = [
        MessageBuilder::new().property(PropertyField::GroupId, AnnotationValue::Str(&long)),
        annotated("x-opt-partition-key", AnnotationValue::Str(&long)),
        annotated(due, AnnotationValue::Str("tomorrow")),
    ];
    for (number, message) in cases.into_iter().enumerate() {
        let message = message.data(b"m").build();
        for (is_service_bus, family) in [(false, "amqp:invalid-field"), (true, "com.microsoft:argument-")] {
            let mut world = World::new();
            let client = if is_service_bus { world.service_bus() } else { world.plain() };
            world.script(client).attach_sender(0, 1, "s", Some("q"));
            world.run();
            let condition = sent(&mut world, client, 0, &message).unwrap();
            assert!(condition.starts_with(family), "{number} {is_service_bus}: {condition}");
        }
    }
    // An empty batch.
    let mut world = World::new();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let empty = MessageBuilder::new().data(b"").build();
    let found = sent(&mut world, client, BATCH_FORMAT, &empty);
    assert!(found.is_none_or(|condition| !condition.starts_with("com.microsoft:")));
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

#[test]
fn the_smallest_frames_leave_room_for_the_tracking_id_of_every_error() {
    let mut world = World::new();
    let client = world.accept();
    let open = Open { max_frame_size: 512, ..Open::new("test") };
    world.script(client).sasl_plain(KEY_NAME, "SAS_KEY_VALUE").open_with(open).begin(0).begin(1);
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_sender(0, 2, "relay", None);
    world.run();
    world.received(client);
    // Refused: a link to a name that is long, messages to the queue and to such a name; then a session and all.
    let long = "n".repeat(200);
    world.script(client).attach_sender(0, 3, "nowhere", Some(&long));
    let lost = MessageBuilder::new().to(&long.repeat(20)).data(b"m").build();
    world.transfer(client, 2, false, &lost);
    world.fill_disk();
    world.transfer(client, 1, false, &MessageBuilder::new().data(b"m").build());
    world.script(client).flow(1, Flow { handle: Some(77), ..Flow::default() });
    world.run();
    let now = world.now;
    world.clients[client].gateway.close(now, amqp_gateway::CloseReason::Shutdown);
    world.run();
    let mut told = Vec::new();
    // The harness demands the tracking id in each.
    for frame in world.frames(client) {
        match frame.performative {
            Performative::Disposition(it) if matches!(it.state, Some(DeliveryState::Rejected(Some(_)))) => {
                told.push("rejected");
            }
            Performative::Detach(detach) if detach.error.is_some() => told.push("detach"),
            Performative::End(end) if end.error.is_some() => told.push("end"),
            Performative::Close(close) if close.error.is_some() => told.push("close"),
            _ => {}
        }
    }
    told.sort_unstable();
    assert_eq!(told, ["close", "detach", "end", "rejected", "rejected"]);
    let raw = &world.clients[client].raw;
    let opened = raw.windows(8).rposition(|bytes| bytes == b"AMQP\x00\x01\x00\x00").unwrap() + 8;
    let mut rest = &raw[opened..];
    while let Some((size, _)) = rest.split_first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        assert!(size <= 512, "a frame of {size} bytes");
        rest = &rest[size..];
    }
}

/// Asks `$cbs` for nothing that it knows, with a long message-id that the answer repeats.
fn ask_cbs(world: &mut World, client: usize) {
    let request = MessageBuilder::new().message_id(&"x".repeat(1_000)).body_null().build();
    world.transfer(client, 100, true, &request);
}

#[test]
fn answers_that_a_client_leaves_unread_are_bounded_and_cost_their_link() {
    const LIMIT: u64 = 20_000;
    let config = GatewayConfig { max_unread_cbs_bytes: LIMIT, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    // Nobody it knows: `$cbs` is for those who have yet to say who they are.
    let client = world.accept();
    world.script(client).sasl("ANONYMOUS", None).open("test").begin(0);
    world.cbs_links(client);
    world.credit(client, 0, 101, 0, u32::MAX >> 1, false);
    ask_cbs(&mut world, client);
    world.run();
    let size = world.transfers(client)[0].1.len() as u64;
    // As many as fit, and one more; what was read does not count.
    let fit = LIMIT / size + 1;
    for _ in 0..3 {
        world.clients[client].reads = false;
        for _ in 0..fit {
            ask_cbs(&mut world, client);
        }
        world.run();
        world.clients[client].reads = true;
        world.script(client).heartbeat();
        world.run();
        assert_eq!(world.transfers(client).len() as u64, fit);
    }
    world.clients[client].reads = false;
    for _ in 0..50 * fit {
        ask_cbs(&mut world, client);
    }
    world.run();
    world.clients[client].reads = true;
    world.script(client).heartbeat();
    world.run();
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches.len(), 1);
    let error = detaches[0].error.as_ref().unwrap();
    assert_eq!(error.condition, "amqp:resource-limit-exceeded");
    let text = error.description.as_ref().unwrap();
    assert!(text.starts_with("More than 20000 bytes of answers were asked for and are not read."), "{text}");
    // On another link it is answered again.
    world.script(client).detach(0, 101, true);
    world.script(client).attach_receiver(0, 102, "cbs-again", "$cbs", Some(ReceiverSettleMode::First));
    world.credit(client, 0, 102, 0, 10, false);
    ask_cbs(&mut world, client);
    world.run();
    assert_eq!(world.transfers(client).len(), 1);
}

#[test]
fn links_that_are_given_up_make_no_room_for_answers_that_others_leave_unread() {
    const LIMIT: u64 = 20_000;
    let config = GatewayConfig { max_unread_cbs_bytes: LIMIT, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.service_bus();
    world.clients[client].reads = false;
    let mut kept = 0;
    // Each round leaves one answer on a link of its own, behind it a link with several that is given up.
    for round in 0..40 {
        for (handle, count) in [(200 + 2 * round, 1), (201 + 2 * round, 5)] {
            let (name, reply_to) = (format!("r{handle}"), format!("r{handle}"));
            world.script(client).attach_receiver(0, handle, &name, "$cbs", None);
            world.credit(client, 0, handle, 0, 1_000, false);
            for _ in 0..count {
                let request =
                    MessageBuilder::new().message_id(&"x".repeat(1_000)).reply_to(&reply_to).body_null();
                world.transfer(client, 100, true, &request.build());
            }
            world.run();
            if count > 1 {
                world.script(client).detach(0, handle, true);
            }
        }
        kept += 1;
    }
    world.clients[client].reads = true;
    world.script(client).heartbeat();
    world.run();
    let answers = world.transfers(client).len() as u64;
    assert!(answers * 1_000 <= LIMIT + 1_000 && answers < kept, "{answers} of {kept}");
}

#[test]
fn answers_of_management_nodes_have_a_limit_of_their_own() {
    let config = GatewayConfig {
        max_unread_cbs_bytes: 0,
        max_unread_answer_bytes: 20_000,
        max_peek_bytes: 10_000,
        deliver_window_bytes: 1 << 20,
        ..GatewayConfig::default()
    };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.service_bus();
    // Its message-id is as long as its body, which only plain clients may do.
    let sender = world.plain();
    world.send(sender, "q", &["x".repeat(2_500).as_str()]);
    world.management(client, "q");
    world.credit(client, 0, 4, 0, u32::MAX >> 1, false);
    let ask = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(1)),
    ]);
    let reply = world.request(client, "com.microsoft:peek-message", &ask);
    let size = reply.len() as u64;
    let request = MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str("com.microsoft:peek-message"))
        .body_raw(amqp_codec::raw::RawValue::first(ask.bytes()).unwrap())
        .build();
    for (count, detached) in [(20_000 / size + 1, false), (20_000 / size + 2, true)] {
        world.clients[client].reads = false;
        for _ in 0..count {
            world.transfer(client, 3, true, &request);
        }
        world.run();
        world.clients[client].reads = true;
        world.script(client).heartbeat();
        world.run();
        let mut shown = 0;
        let mut errors = Vec::new();
        for frame in world.frames(client) {
            match frame.performative {
                Performative::Transfer(transfer) => shown += u64::from(!transfer.more),
                Performative::Detach(detach) => errors.push(detach.error.unwrap().condition.to_string()),
                _ => {}
            }
        }
        let expected: &[&str] = if detached { &["amqp:resource-limit-exceeded"] } else { &[] };
        assert_eq!(errors, expected, "{count}");
        assert!(detached || shown == count, "{shown} of {count}");
    }
}

#[test]
fn a_session_state_is_refused_while_its_client_leaves_answers_unread() {
    let config =
        GatewayConfig { deliver_window_bytes: 1_000, max_peek_bytes: 1_000, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.service_bus();
    world.management(client, "q");
    world.credit(client, 0, 4, 0, 100, false);
    let ask = RawMap::with_string_keys(&[("session-id", AnnotationValue::Str("a"))]);
    let request = MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str("com.microsoft:get-session-state"))
        .body_raw(amqp_codec::raw::RawValue::first(ask.bytes()).unwrap())
        .build();
    world.clients[client].reads = false;
    for _ in 0..20 {
        world.transfer(client, 3, true, &request);
        world.run();
    }
    world.clients[client].reads = true;
    world.script(client).heartbeat();
    world.run();
    let texts: Vec<String> = world
        .transfers(client)
        .iter()
        .map(|(_, payload)| property(payload, "statusDescription").unwrap_or_default())
        .collect();
    let refusal = "More than 2000 bytes of answers were asked for and are not read.";
    let first = texts.iter().position(|text| text.starts_with(refusal)).unwrap();
    assert!(first > 0 && texts.iter().skip(first).all(|text| text.starts_with(refusal)), "{texts:#?}");
}

#[test]
fn a_connection_has_room_for_2048_sessions() {
    let mut world = World::new();
    let client = world.plain();
    world.received(client);
    for channel in 1..2_048 {
        world.script(client).begin(channel);
    }
    world.run();
    let frames = world.frames(client);
    assert_eq!(frames.len(), 2_047);
    assert!(frames.iter().all(|frame| matches!(frame.performative, Performative::Begin(_))));
    world.script(client).attach_sender(2_047, 1, "s", Some("q"));
    world.run();
    assert!(world.frames(client).iter().any(|frame| matches!(frame.performative, Performative::Attach(_))));
}
