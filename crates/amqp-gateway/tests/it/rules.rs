//! Rules of the wire that Service Bus SDKs rely on. Each breaks at least one unmodified SDK when missed.

use std::time::Duration;

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{Attach, DeliveryState, Error, Modified, Open, Performative, Source, Target, Transfer},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::{PropertyField, Sections},
    types::{Descriptor, ReceiverSettleMode, Role, SenderSettleMode, Symbol, TypeKind},
};
use broker_core::{EntityKind, EntitySettings};
use bytes::Bytes;
use testkit::Incoming;

use crate::harness::{TOKEN, World, body_map, property, status, text};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

fn message(text: &str) -> Bytes {
    MessageBuilder::new().message_id(text).data(text.as_bytes()).build()
}

fn modified(delivery_failed: Option<bool>, undeliverable_here: Option<bool>) -> DeliveryState {
    let message_annotations = None;
    DeliveryState::Modified(Box::new(Modified { delivery_failed, undeliverable_here, message_annotations }))
}

/// Each described list with this code in what was written: its bytes from the list's constructor on.
fn described_lists(raw: &[u8], code: u8) -> Vec<&[u8]> {
    let starts = raw.windows(3).enumerate().filter(|(_, bytes)| *bytes == [0x00, 0x53, code]);
    starts.map(|(at, _)| &raw[at + 3..]).collect()
}

/// How many fields a list has.
fn fields(list: &[u8]) -> u32 {
    match list {
        [0x45, ..] => 0,
        [0xc0, _, count, ..] => u32::from(*count),
        [0xd0, _, _, _, _, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
        _ => panic!("no list: {:x?}", &list[..8]),
    }
}

#[test]
fn errors_carry_all_three_fields() {
    let mut world = World::new();
    let client = world.service_bus();
    world.fill_disk();
    // In `rejected`, in `detach`, in `end` and in `close`.
    world.script(client).attach_sender(0, 1, "s", Some("q")).transfer(0, 1, 1, false, &message("m"));
    world.script(client).attach_sender(0, 2, "nowhere", Some("missing"));
    world.script(client).begin(1).transfer(1, 77, 0, false, &message("m"));
    world.run();
    let now = world.now;
    world.clients[client].gateway.close(now, amqp_gateway::CloseReason::Shutdown);
    world.run();
    let raw = world.clients[client].raw.clone();
    let errors = described_lists(&raw, 0x1d);
    assert_eq!(errors.len(), 4);
    for error in errors {
        assert_eq!(fields(error), 3);
    }
    for (code, name) in [(0x25, "rejected"), (0x16, "detach"), (0x17, "end"), (0x18, "close")] {
        let carriers = described_lists(&raw, code);
        let with_error =
            carriers.iter().filter(|list| list.windows(3).take(16).any(|bytes| bytes == [0, 0x53, 0x1d]));
        assert_eq!(with_error.count(), 1, "{name}");
    }
}

#[test]
fn messages_are_answered_with_accepted_or_rejected_with_an_error() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q")).transfer(0, 1, 1, false, &message("a"));
    world.run();
    assert_eq!(world.dispositions(client)[0].state, Some(DeliveryState::Accepted));
    world.fill_disk();
    world.script(client).transfer(0, 1, 2, false, &message("b"));
    world.run();
    let Some(DeliveryState::Rejected(Some(error))) = world.dispositions(client).remove(0).state else {
        panic!()
    };
    assert_eq!(error.condition, "amqp:resource-limit-exceeded");
    let description = error.description.unwrap();
    for part in [" Reference:", ", TrackingId:", ", SystemTracker:", ", Timestamp:20"] {
        assert!(description.contains(part), "{description}");
    }
}

#[test]
fn sends_are_settled_by_a_settled_disposition_of_the_receiver() {
    let mut world = World::new();
    let client = world.service_bus();
    // Python's senders ask for rcv-settle-mode second and wait for a settled answer all the same.
    let mut attach = Attach::new("s", 1, Role::Sender);
    (attach.snd_settle_mode, attach.rcv_settle_mode) = (Some(SenderSettleMode::Unsettled), SECOND);
    (attach.source, attach.target) = (Some(Source::new("sender-link")), Some(Target::new("q")));
    attach.initial_delivery_count = Some(0);
    world.script(client).attach(0, attach);
    for id in 1..=3 {
        world.script(client).transfer(0, 1, id, false, &message("m"));
    }
    world.run();
    let dispositions = world.dispositions(client);
    assert_eq!(dispositions.len(), 1, "one for the range: {dispositions:?}");
    let answer = &dispositions[0];
    assert_eq!((answer.role, answer.settled), (Role::Receiver, true));
    assert_eq!((answer.first, answer.last), (1, Some(3)));
}

#[test]
fn settle_modes_are_echoed() {
    let mut world = World::new();
    let client = world.service_bus();
    let modes = [SenderSettleMode::Unsettled, SenderSettleMode::Settled, SenderSettleMode::Mixed];
    let mut handle = 10;
    for node in ["q", "q/$management", "$cbs"] {
        for role in [Role::Sender, Role::Receiver] {
            for (snd, rcv) in modes
                .into_iter()
                .flat_map(|snd| [(snd, ReceiverSettleMode::First), (snd, ReceiverSettleMode::Second)])
            {
                handle += 1;
                let mut attach = Attach::new(format!("l{handle}"), handle, role);
                (attach.snd_settle_mode, attach.rcv_settle_mode) = (Some(snd), Some(rcv));
                (attach.source, attach.target) = (Some(Source::new(node)), Some(Target::new(node)));
                attach.initial_delivery_count = Some(0);
                world.script(client).attach(0, attach);
                world.run();
                let (attaches, detaches) = world.link_frames(client);
                assert_eq!(detaches, vec![]);
                assert_eq!(
                    (attaches[0].snd_settle_mode, attaches[0].rcv_settle_mode),
                    (Some(snd), Some(rcv)),
                    "{node} {role:?}"
                );
            }
        }
    }
}

#[test]
fn source_and_target_are_echoed_unchanged() {
    let mut world = World::new();
    let client = world.service_bus();
    let address = "amqps://localhost:15672/q";
    let mut source = Source::new(address);
    source.filter = Some(RawMap::empty());
    source.expiry_policy = Some(Symbol::from_static("LINK_DETACH"));
    let mut attach = Attach::new("r", 1, Role::Receiver);
    (attach.source, attach.target) = (Some(source.clone()), Some(Target::new("receiver-link-r")));
    world.script(client).attach(0, attach.clone());
    world.run();
    let (attaches, _) = world.link_frames(client);
    assert_eq!(attaches[0].source, Some(source));
    assert_eq!(attaches[0].target, attach.target);

    world.script(client).attach_sender(0, 2, "s", Some("amqps://localhost:15672/Q"));
    world.run();
    let (attaches, _) = world.link_frames(client);
    assert_eq!(attaches[0].target, Some(Target::new("amqps://localhost:15672/Q")));
    assert_eq!(attaches[0].source, Some(Source::new("here")));
}

#[test]
fn a_sending_attach_has_its_initial_delivery_count() {
    let mut world = World::new();
    let client = world.service_bus();
    for (handle, node) in [(1, "q"), (2, "q/$management"), (3, "$cbs")] {
        world.script(client).attach_receiver(0, handle, node, node, SECOND);
        world.run();
        let (attaches, _) = world.link_frames(client);
        assert_eq!((attaches[0].role, attaches[0].initial_delivery_count), (Role::Sender, Some(0)), "{node}");
    }
}

#[test]
fn a_put_token_is_answered_by_202_and_no_condition() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("MSSBCBS", None).open("test").begin(0);
    world.cbs_links(client);
    world.put_token(client, "amqp://localhost/q", TOKEN);
    let (_, reply) = world.transfers(client).pop().unwrap();
    let sections = Sections::scan(&reply).unwrap();
    let view = sections.application_properties_view(&reply);
    let code = view.get("status-code").unwrap();
    assert_eq!((code.kind(), code.as_i64()), (Some(TypeKind::Int), Some(202)));
    assert_eq!(view.get("status-description").unwrap().as_string(), Some("Accepted"));
    assert!(view.get("error-condition").is_none());
    assert!(sections.body_value(&reply).unwrap().is_null());

    world.put_token(client, "amqp://localhost/q", &TOKEN.replace("sig=VL", "sig=XX"));
    let (_, reply) = world.transfers(client).pop().unwrap();
    assert_eq!(status(&reply, "status-code"), 401);
    let told = property(&reply, "status-description").unwrap();
    assert!(told.starts_with("InvalidSignature") && told.contains("TrackingId:"), "{told}");
    // A failure says no more than that.
    let sections = Sections::scan(&reply).unwrap();
    assert_eq!(sections.application_properties_view(&reply).iter().count(), 2);
}

#[test]
fn the_message_id_comes_back_with_its_type() {
    let mut world = World::new();
    let client = world.service_bus();
    let ids = [
        AnnotationValue::Uuid([3; 16]),
        AnnotationValue::Str("text"),
        AnnotationValue::Ulong(0),
        AnnotationValue::Ulong(u64::MAX),
        AnnotationValue::Binary(b"bytes"),
    ];
    for (delivery, id) in (1u32..).zip(ids) {
        let request = MessageBuilder::new()
            .property(PropertyField::MessageId, id)
            .application_property("operation", AnnotationValue::Str("put-token"))
            .body_null()
            .build();
        world.script(client).transfer(0, 100, delivery, false, &request);
        world.run();
        let (_, reply) = world.transfers(client).pop().unwrap();
        let sections = Sections::scan(&reply).unwrap();
        let correlation = sections.properties_view(&reply).get(PropertyField::CorrelationId).unwrap();
        let sent = Sections::scan(&request).unwrap();
        let sent = sent.properties_view(&request).get(PropertyField::MessageId).unwrap();
        assert_eq!(correlation.bytes(), sent.bytes());
    }
}

#[test]
fn replies_go_by_target_address_then_link_name_then_node() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).begin(1);
    let receivers = [
        // channel, handle, name, target address
        (0, 10, "by-name", None),
        (0, 11, "other", Some("by-address")),
        (0, 12, "by-address", Some("something-else")),
        (1, 10, "elsewhere", Some("by-address")),
    ];
    for (channel, handle, name, target) in receivers {
        let mut attach = Attach::new(name, handle, Role::Receiver);
        attach.source = Some(Source::new("q/$management"));
        let anonymous = Target::Terminus(amqp_codec::performative::TargetTerminus::default());
        attach.target = Some(target.map_or(anonymous, Target::new));
        world.script(client).attach(channel, attach);
        world.credit(client, channel, handle, 0, 100, false);
    }
    world.script(client).attach_sender(0, 20, "requests", Some("q/$management"));
    world.script(client).attach_sender(1, 20, "requests-1", Some("q/$management"));
    world.run();
    let cases = [
        // request's channel, reply-to, answered on channel and (our) link of
        (0, Some("by-address"), Some((0, "other"))),
        (0, Some("by-name"), Some((0, "by-name"))),
        (1, Some("by-address"), Some((1, "elsewhere"))),
        (1, None, Some((1, "elsewhere"))),
        (1, Some("q/$management"), Some((1, "elsewhere"))),
        (1, Some("amqp://localhost/Q/$Management"), Some((1, "elsewhere"))),
        (0, Some("nobody"), None),
    ];
    let handles: Vec<(u16, String, u32)> = world
        .frames(client)
        .into_iter()
        .filter_map(|frame| match frame.performative {
            Performative::Attach(attach) => Some((frame.channel, attach.name.clone(), attach.handle)),
            _ => None,
        })
        .collect();
    for (delivery, (channel, reply_to, expected)) in (1u32..).zip(cases) {
        let mut request = MessageBuilder::new().message_id("m").body_null();
        if let Some(reply_to) = reply_to {
            request = request.reply_to(reply_to);
        }
        world.script(client).transfer(channel, 20, delivery, true, &request.build());
        world.run();
        let found = world.frames(client).into_iter().find_map(|frame| match frame.performative {
            Performative::Transfer(transfer) => Some((frame.channel, transfer.handle)),
            _ => None,
        });
        let expected = expected.map(|(channel, name)| {
            let of = |it: &&(u16, String, u32)| it.0 == channel && it.1 == name;
            (channel, handles.iter().find(of).unwrap().2)
        });
        assert_eq!(found, expected, "{channel} {reply_to:?}");
    }
}

#[test]
fn settlements_are_answered_with_the_same_outcome_and_without_error() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["1", "2", "3", "4", "5", "6", "7"]);
    let deliveries = world.receive(client, "q", 7);
    assert_eq!(deliveries.len(), 7);
    let dead_letter = Error {
        condition: Symbol::from_static("com.microsoft:dead-letter"),
        description: Some("because".into()),
        info: Some(RawMap::with_symbol_keys(&[("DeadLetterReason", AnnotationValue::Str("because"))])),
    };
    let outcomes = [
        (DeliveryState::Accepted, DeliveryState::Accepted),
        (modified(Some(true), Some(false)), modified(Some(true), Some(false))),
        (modified(None, None), modified(None, None)),
        (modified(None, Some(true)), modified(None, Some(true))),
        (DeliveryState::Rejected(Some(Box::new(dead_letter))), DeliveryState::Rejected(None)),
        (DeliveryState::Rejected(None), DeliveryState::Rejected(None)),
        (DeliveryState::Released, DeliveryState::Released),
    ];
    for ((transfer, _), (said, answered)) in deliveries.iter().zip(outcomes) {
        let id = transfer.delivery_id.unwrap();
        world.script(client).disposition(0, id, id, false, Some(said));
        world.run();
        let answers = world.dispositions(client);
        assert_eq!(answers.len(), 1);
        let answer = &answers[0];
        assert_eq!(
            (answer.role, answer.settled, answer.first, answer.last),
            (Role::Sender, true, id, Some(id))
        );
        assert_eq!(answer.state, Some(answered));
    }
}

#[test]
fn a_lost_lock_is_rejected_with_its_condition() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["m"]);
    let deliveries = world.receive(client, "q", 1);
    world.pass(Duration::from_secs(61));
    world.received(client);
    let id = deliveries[0].0.delivery_id.unwrap();
    world.script(client).disposition(0, id, id, false, Some(DeliveryState::Accepted));
    world.run();
    let Some(DeliveryState::Rejected(Some(error))) = world.dispositions(client).remove(0).state else {
        panic!()
    };
    assert_eq!(error.condition, "com.microsoft:message-lock-lost");
}

#[test]
fn the_tag_is_the_lock_token_and_stands_in_the_annotations_too() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["m"]);
    let (transfer, payload) = world.receive(client, "q", 1).remove(0);
    let tag: [u8; 16] = transfer.delivery_tag.unwrap().as_slice().try_into().unwrap();
    let sections = Sections::scan(&payload).unwrap();
    let token =
        sections.delivery_annotations_view(&payload).get("x-opt-lock-token").unwrap().as_uuid().unwrap();
    let net = |[a, b, c, d, e, f, g, h, rest @ ..]: [u8; 16]| {
        let mut bytes = [d, c, b, a, f, e, h, g, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[8..].copy_from_slice(&rest);
        bytes
    };
    assert_eq!(tag, net(token));

    // The token proves the lock on the management node.
    world.management(client, "q");
    let mut array = vec![0xe0, 18, 1, 0x98];
    array.extend_from_slice(&token);
    let tokens = AnnotationValue::Raw(RawValue::first(&array).unwrap());
    let reply = world.request(
        client,
        "com.microsoft:renew-lock",
        &RawMap::with_string_keys(&[("lock-tokens", tokens)]),
    );
    assert_eq!(status(&reply, "statusCode"), 200);
}

#[test]
fn every_message_has_a_header_with_its_delivery_count() {
    let count = |payload: &Bytes| {
        let sections = Sections::scan(payload).unwrap();
        let header = sections.header.of(payload);
        assert_eq!(fields(&header[3..]), 5);
        sections.read_header(payload).unwrap().delivery_count
    };
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["m"]);
    let (transfer, payload) = world.receive(client, "q", 2).remove(0);
    assert_eq!(count(&payload), 0);
    let id = transfer.delivery_id.unwrap();
    world.script(client).disposition(0, id, id, false, Some(modified(None, None)));
    world.run();
    assert_eq!(count(&world.transfers(client)[0].1), 1);

    world.management(client, "q");
    let ask = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(1)),
    ]);
    let reply = world.request(client, "com.microsoft:peek-message", &ask);
    assert_eq!(count(&peeked(&reply)[0]), 1);
    // Answers of nodes are messages as well.
    assert_eq!(count(&reply), 0);
}

fn peeked(reply: &Bytes) -> Vec<Bytes> {
    let body = body_map(reply);
    let list = body.get("messages").unwrap();
    assert_eq!(list.kind(), Some(TypeKind::List));
    let messages = list.as_list().unwrap().map(|entry| {
        let entry = entry.as_map().unwrap();
        Bytes::copy_from_slice(entry.get("message").unwrap().as_binary().unwrap())
    });
    messages.collect()
}

#[test]
fn messages_without_an_id_get_one_of_32_hex_digits() {
    let id = |payload: &Bytes| {
        let sections = Sections::scan(payload).unwrap();
        let id = sections.properties_view(payload).get(PropertyField::MessageId).unwrap();
        let id = id.as_string().unwrap().to_owned();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        id
    };
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    let bare = MessageBuilder::new().data(b"x").build();
    let batch =
        Transfer { message_format: Some(BATCH_FORMAT), ..testkit::Script::transfer_frame(1, 2, false) };
    let packed = MessageBuilder::new().data(&bare).data(&bare).build();
    world.script(client).transfer(0, 1, 1, false, &bare).transfer_with(0, batch, &packed);
    // And one from a client that is none of Service Bus.
    let plain = world.plain();
    world.script(plain).attach_sender(0, 1, "s", Some("q")).transfer(0, 1, 1, false, &bare);
    world.run();
    world.received(client);
    let mut ids: Vec<_> = world.receive(client, "q", 9).iter().map(|(_, payload)| id(payload)).collect();
    assert_eq!(ids.len(), 4);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn a_first_transfer_says_id_tag_and_format() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["a", "b"]);
    let (transfer, _) = world.receive(client, "q", 1).remove(0);
    assert!(transfer.delivery_id.is_some() && transfer.delivery_tag.is_some());
    assert_eq!((transfer.message_format, transfer.settled), (Some(0), Some(false)));

    world.script(client).attach_receiver(0, 5, "d", "q", None);
    world.credit(client, 0, 5, 0, 1, false);
    world.run();
    let (transfer, _) = world.transfers(client).remove(0);
    assert!(transfer.delivery_tag.is_some());
    assert_eq!((transfer.message_format, transfer.settled), (Some(0), Some(true)));
}

#[test]
fn a_delivery_without_a_lock_has_an_empty_tag_for_clients_that_read_lock_tokens_from_tags() {
    let cases = [
        // product, bytes of the tag
        (Some("azsdk-python-servicebus"), 0),
        (Some("MSJSClient"), 0),
        (Some("MSGolangClient"), 0),
        (Some("azsdk-net-ServiceBus"), 16),
        // The SDK for Rust sends none, and takes no message with an empty tag.
        (None, 16),
    ];
    for (product, bytes) in cases {
        let mut world = World::new();
        let mut open = Open::new("test");
        open.properties =
            product.map(|product| RawMap::with_symbol_keys(&[("product", AnnotationValue::Str(product))]));
        let client = world.service_bus_with(open);
        world.send(client, "q", &["a", "b"]);
        world.script(client).attach_receiver(0, 5, "d", "q", None);
        world.credit(client, 0, 5, 0, 1, false);
        world.run();
        let (transfer, _) = world.transfers(client).remove(0);
        assert_eq!(transfer.delivery_tag.unwrap().as_slice().len(), bytes, "{product:?}");
        let (transfer, _) = world.receive(client, "q", 1).remove(0);
        assert_eq!(transfer.delivery_tag.unwrap().as_slice().len(), 16, "{product:?}: with a lock");
    }
}

#[test]
fn transfers_beyond_the_credit_are_accepted() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let credit = world.flows(client).pop().unwrap().link_credit.unwrap();
    // More than was granted, without looking at any flow.
    for id in 1..=credit * 2 + 10 {
        world.script(client).transfer(0, 1, id, false, &message("m"));
    }
    world.run();
    let frames = world.frames(client);
    let accepted = frames.iter().filter_map(|frame| match &frame.performative {
        Performative::Disposition(it) => Some(it.last.unwrap() - it.first + 1),
        Performative::Detach(detach) => panic!("{detach:?}"),
        _ => None,
    });
    assert_eq!(accepted.sum::<u32>(), credit * 2 + 10);
    let topped_up = frames.iter().any(|frame| match &frame.performative {
        Performative::Flow(flow) => flow.link_credit > Some(credit / 2),
        _ => false,
    });
    assert!(topped_up);
}

#[test]
fn the_idle_time_out_is_long_and_granted_twice() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("ANONYMOUS", None).open("test");
    world.run();
    let open = world.frames(client).remove(0).performative;
    let Performative::Open(open) = open else { panic!() };
    let idle = open.idle_time_out.unwrap();
    assert!(idle >= 120_000, "{idle}");
    world.pass(Duration::from_millis(u64::from(idle) * 2 - 1000));
    assert!(world.frames(client).is_empty());
    world.pass(Duration::from_secs(2));
    assert!(matches!(world.frames(client)[0].performative, Performative::Close(_)));
}

#[test]
fn an_empty_frame_goes_out_often_enough_for_the_strictest_peer() {
    for (asked, interval) in [(None, 25_000), (Some(60_000), 25_000), (Some(30_000), 15_000)] {
        let mut world = World::new();
        let client = world.accept();
        let mut open = Open::new("test");
        open.idle_time_out = asked;
        world.script(client).sasl("ANONYMOUS", None).open_with(open);
        world.run();
        world.received(client);
        for _ in 0..3 {
            world.pass(Duration::from_millis(interval + 100));
            assert!(world.received(client).contains(&Incoming::Heartbeat), "{asked:?}");
            world.script(client).heartbeat();
        }
    }
}

#[test]
fn a_refused_link_is_attached_without_terminus_and_detached_once() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("missing"));
    world.script(client).attach_receiver(0, 2, "r", "missing", SECOND);
    world.run();
    let (attaches, detaches) = world.link_frames(client);
    assert_eq!((attaches.len(), detaches.len()), (2, 2));
    // go-amqp waits for the detach only when both are missing.
    assert!(attaches.iter().all(|attach| attach.source.is_none() && attach.target.is_none()));
    for detach in &detaches {
        assert!(detach.closed);
        assert_eq!(detach.error.as_ref().unwrap().condition, "amqp:not-found");
    }
    // The client's own detaches find silence.
    world.script(client).detach(0, 1, true).detach(0, 2, true);
    world.run();
    assert_eq!(world.link_frames(client).1, vec![]);
    // And the handles are free again.
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    assert!(world.link_frames(client).0[0].target.is_some());
}

#[test]
fn a_drain_is_answered_at_once() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["a", "b"]);
    world.script(client).attach_receiver(0, 2, "r", "q", SECOND);
    world.credit(client, 0, 2, 0, 5, true);
    world.run();
    let frames = world.frames(client);
    let place =
        |wanted: fn(&Performative) -> bool| frames.iter().rposition(|frame| wanted(&frame.performative));
    let last_transfer = place(|it| matches!(it, Performative::Transfer(_))).unwrap();
    let answer = place(|it| matches!(it, Performative::Flow(flow) if flow.drain)).unwrap();
    assert!(answer > last_transfer);
    let Performative::Flow(flow) = &frames[answer].performative else { panic!() };
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(5), Some(0), true));

    // On an empty queue, and again.
    for count in [9, 10] {
        world.credit(client, 0, 2, 5, count - 5, true);
        world.run();
        let flow = world.flows(client).pop().unwrap();
        assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(count), Some(0), true));
    }
}

#[test]
fn an_accepted_session_is_named_as_it_was_asked_for_and_its_lock_ends_in_ticks() {
    let described: &[u8] = &[0x00, 0x80, 0, 0, 0, 0x13, 0x70, 0, 0, 0x0c, 0xa1, 1, b'a'];
    for value in [&[0xa1, 1, b'a'], described].map(|bytes| RawValue::first(bytes).unwrap()) {
        let mut world = World::new();
        let lock_duration = Duration::from_secs(30);
        let settings = EntitySettings { requires_session: true, lock_duration, ..EntitySettings::default() };
        world.create("s", settings);
        let client = world.service_bus();
        let mut source = Source::new("s");
        let asked = [("com.microsoft:session-filter", AnnotationValue::Raw(value))];
        source.filter = Some(RawMap::with_symbol_keys(&asked));
        let mut attach = Attach::new("r", 1, Role::Receiver);
        (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
        world.script(client).attach(0, attach);
        world.run();
        let (attaches, detaches) = world.link_frames(client);
        assert!(detaches.is_empty(), "{detaches:?}");
        let filter = attaches[0].source.as_ref().unwrap().filter.as_ref().unwrap();
        assert_eq!(filter.get("com.microsoft:session-filter"), Some(value));
        let properties = attaches[0].properties.as_ref().unwrap();
        let until = properties.get("com.microsoft:locked-until-utc").unwrap();
        let ticks = (crate::harness::START + 30_000) * 10_000 + 621_355_968_000_000_000;
        assert_eq!((until.kind(), until.as_i64()), (Some(TypeKind::Long), i64::try_from(ticks).ok()));
    }
}

#[test]
fn session_receivers_are_refused_where_no_sessions_are() {
    let mut world = World::new();
    let client = world.service_bus();
    let described: &[u8] = &[0x00, 0x80, 0, 0, 0, 0x13, 0x70, 0, 0, 0x0c, 0xa1, 1, b'a'];
    let values = [
        AnnotationValue::Str("a"),
        AnnotationValue::Null,
        AnnotationValue::Raw(RawValue::first(described).unwrap()),
    ];
    for (handle, value) in (1..).zip(values) {
        let mut source = Source::new("q");
        source.filter = Some(RawMap::with_symbol_keys(&[("com.microsoft:session-filter", value)]));
        let mut attach = Attach::new(format!("r{handle}"), handle, Role::Receiver);
        (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
        world.script(client).attach(0, attach);
        world.run();
        let (_, detaches) = world.link_frames(client);
        assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:not-allowed");
    }
}

#[test]
fn management_bodies_have_string_keys_and_the_documented_types() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["a"]);
    let (_, payload) = world.receive(client, "q", 1).remove(0);
    let sections = Sections::scan(&payload).unwrap();
    let token = sections.delivery_annotations_view(&payload).get("x-opt-lock-token").unwrap();
    world.management(client, "q");
    let ask = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(10)),
    ]);
    let mut array = vec![0xe0, 18, 1];
    array.extend_from_slice(token.bytes());
    let tokens = ("lock-tokens", AnnotationValue::Raw(RawValue::first(&array).unwrap()));
    let complete = ("disposition-status", AnnotationValue::Str("completed"));
    let cases = [
        ("peek-message", ask, Some(("messages", TypeKind::List))),
        ("renew-lock", RawMap::with_string_keys(&[tokens]), Some(("expirations", TypeKind::Array))),
        ("update-disposition", RawMap::with_string_keys(&[tokens, complete]), None),
    ];
    for (operation, body, expected) in cases {
        let reply = world.request(client, &format!("com.microsoft:{operation}"), &body);
        assert_eq!(status(&reply, "statusCode"), 200, "{operation}");
        let body = body_map(&reply);
        let found: Vec<_> =
            body.iter().map(|(key, value)| (key.as_string().unwrap(), value.kind().unwrap())).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{operation}");
    }
    // Completed from the management node: the link's own settlement comes too late.
    let none = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(10)),
    ]);
    assert_eq!(status(&world.request(client, "com.microsoft:peek-message", &none), "statusCode"), 204);
}

#[test]
fn rules_have_numbered_descriptors_and_filters_of_all_or_nothing_empty_lists() {
    let mut world = World::new();
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    world.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    let client = world.service_bus();
    world.management(client, "t/Subscriptions/s");
    let expression = RawMap::with_string_keys(&[("expression", AnnotationValue::Str("1=0"))]);
    let filter = ("sql-filter", AnnotationValue::Raw(RawValue::first(expression.bytes()).unwrap()));
    let description = RawMap::with_string_keys(&[filter]);
    let rule = RawMap::with_string_keys(&[
        ("rule-name", AnnotationValue::Str("none")),
        ("rule-description", AnnotationValue::Raw(RawValue::first(description.bytes()).unwrap())),
    ]);
    let added = world.request(client, "com.microsoft:add-rule", &rule);
    assert_eq!(status(&added, "statusCode"), 200);
    let page =
        RawMap::with_string_keys(&[("top", AnnotationValue::Int(9)), ("skip", AnnotationValue::Int(0))]);
    let body = body_map(&world.request(client, "com.microsoft:enumerate-rules", &page));
    let rules = body.get("rules").unwrap().as_list().unwrap();
    let mut found = Vec::new();
    for rule in rules {
        let rule = rule.as_map().unwrap().get("rule-description").unwrap();
        let (descriptor, fields) = rule.described().unwrap();
        assert_eq!(descriptor, Descriptor::Code(0x0000_0137_0000_0004));
        let mut fields = fields.as_list().unwrap();
        let (filter, value) = fields.next().unwrap().described().unwrap();
        assert_eq!(value.as_list().unwrap().count(), 0, "the empty list");
        let (action, value) = fields.next().unwrap().described().unwrap();
        assert_eq!(action, Descriptor::Code(0x0000_0137_0000_0005));
        assert_eq!(value.as_list().unwrap().count(), 0, "no action");
        found.push((fields.next().unwrap().as_string().unwrap().to_owned(), filter));
    }
    let code = |low: u64| Descriptor::Code(0x0000_0013_7000_0000 + low);
    assert_eq!(found, [("$Default".to_owned(), code(7)), ("none".to_owned(), code(8))]);
}

#[test]
fn unknown_operations_are_answered_as_such_and_those_on_rules_are_judged() {
    let mut world = World::new();
    let client = world.service_bus();
    world.management(client, "q");
    let cases = [
        ("no-such-thing", 501, "amqp:not-implemented"),
        ("add-rule", 400, "com.microsoft:argument-error"),
        ("remove-rule", 400, "com.microsoft:argument-error"),
        ("enumerate-rules", 400, "amqp:not-allowed"),
    ];
    for (operation, code, condition) in cases {
        let reply = world.request(client, &format!("com.microsoft:{operation}"), &RawMap::empty());
        assert_eq!(status(&reply, "statusCode"), code, "{operation}");
        let sections = Sections::scan(&reply).unwrap();
        let said = sections.application_properties_view(&reply).get("errorCondition").unwrap();
        assert_eq!(said.as_symbol(), Some(condition), "{operation}");
        assert!(property(&reply, "statusDescription").unwrap().contains("TrackingId:"));
    }
}

#[test]
fn descriptors_are_small_and_performatives_have_all_their_fields() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["a"]);
    let id = world.receive(client, "q", 5)[0].0.delivery_id.unwrap();
    world
        .script(client)
        .disposition(0, id, id, false, Some(DeliveryState::Accepted))
        .detach(0, 2, true)
        .end(0)
        .close(None);
    world.run();
    let lengths = [
        (0x10, 10, "open"),
        (0x11, 8, "begin"),
        (0x12, 14, "attach"),
        (0x13, 11, "flow"),
        (0x14, 11, "transfer"),
        (0x15, 6, "disposition"),
        (0x16, 3, "detach"),
        (0x17, 1, "end"),
        (0x18, 1, "close"),
    ];
    let raw = world.clients[client].raw.clone();
    let mut rest = &raw[raw.windows(8).position(|bytes| bytes == b"AMQP\x00\x01\x00\x00").unwrap() + 8..];
    let mut seen = Vec::new();
    while let Some((size, _)) = rest.split_first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        let (frame, after) = rest.split_at(size);
        rest = after;
        let [0x00, 0x53, code, list @ ..] = &frame[8..] else { panic!("{frame:x?}") };
        let (_, length, name) = lengths.into_iter().find(|(known, ..)| known == code).unwrap();
        assert_eq!(fields(list), length, "{name}");
        seen.push(*code);
    }
    for (code, _, name) in lengths {
        assert!(seen.contains(&code), "{name} was written");
    }
    assert_eq!(long_descriptors(&raw), 0, "in SASL frames, termini, outcomes and errors neither");
}

#[test]
fn sections_have_small_descriptors_too() {
    let mut world = World::new();
    let client = world.service_bus();
    // The sender's own form is not kept in what the broker writes anew.
    let long = |code: u8, value: &[u8]| [&[0, 0x80, 0, 0, 0, 0, 0, 0, 0, code], value].concat();
    let sent = [long(0x70, &[0x45]), long(0x72, &[0xc1, 1, 0]), vec![0, 0x53, 0x75, 0xa0, 1, b'm']].concat();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.transfer(client, 1, true, &sent);
    world.run();
    world.received(client);
    let (_, payload) = world.receive(client, "q", 1).remove(0);
    assert_eq!(text(&payload), "m");
    let sections = Sections::scan(&payload).unwrap();
    let written = [
        (sections.header, 0x70),
        (sections.delivery_annotations, 0x71),
        (sections.message_annotations, 0x72),
        (sections.properties, 0x73),
    ];
    for (span, code) in written {
        assert_eq!(span.of(&payload)[..3], [0x00, 0x53, code], "{payload:02x?}");
    }
    assert_eq!(long_descriptors(&payload), 0);
}

/// How many descriptors of AMQP's own types are written as long numbers or as names.
fn long_descriptors(bytes: &[u8]) -> usize {
    let long = bytes.windows(9).filter(|window| *window == [0x00, 0x80, 0, 0, 0, 0, 0, 0, 0]).count();
    let named =
        bytes.windows(8).filter(|window| window.starts_with(&[0x00, 0xa3]) && &window[3..] == b"amqp:");
    long + named.count()
}

#[test]
fn a_missing_entity_is_named_in_the_services_words() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_receiver(0, 1, "r", "amqps://localhost/Missing", SECOND);
    world.run();
    let (_, detaches) = world.link_frames(client);
    let text = detaches[0].error.clone().unwrap().description.unwrap();
    assert!(text.starts_with("The messaging entity 'Missing' could not be found."), "{text}");
}

#[test]
fn a_batch_may_have_a_mebibyte_however_large_one_message_may_be() {
    for (max_message_bytes, batch) in [(10_000, 10_000), (1 << 20, 1 << 20), (100 << 20, 1 << 20)] {
        let config = amqp_gateway::GatewayConfig {
            max_message_bytes,
            tier_message_bytes: max_message_bytes,
            ..Default::default()
        };
        let mut world = World::with(config, broker_auth::Anonymous::Deny);
        let client = world.service_bus();
        world.script(client).attach_sender(0, 1, "s", Some("q"));
        world.run();
        let (attaches, _) = world.link_frames(client);
        assert_eq!(attaches[0].max_message_size, Some(max_message_bytes));
        let properties = attaches[0].properties.as_ref().unwrap();
        let told = properties.get("com.microsoft:max-message-batch-size").unwrap().as_u64();
        assert_eq!(told, Some(batch));
    }
}

#[test]
fn a_receiver_is_told_no_largest_message_whatever_the_limit_of_senders_is() {
    let config = amqp_gateway::GatewayConfig { max_message_bytes: 10_000, ..Default::default() };
    let mut world = World::with(config, broker_auth::Anonymous::Deny);
    for client in [world.service_bus(), world.plain()] {
        for (handle, address) in [(1, "q"), (2, "q/$DeadLetterQueue"), (3, "q/$management")] {
            world.script(client).attach_receiver(0, handle, &format!("r{handle}"), address, None);
        }
        world.run();
        let (attaches, _) = world.link_frames(client);
        assert_eq!(attaches.len(), 3);
        for attach in attaches {
            // 2^64-1, as Azure Service Bus says it at `$cbs`: Microsoft.Azure.Amqp closes the link on a larger message.
            assert_eq!(attach.max_message_size, Some(u64::MAX), "{attach:?}");
        }
    }
}

#[test]
fn the_message_size_is_enforced() {
    let config = amqp_gateway::GatewayConfig { max_message_bytes: 10_000, ..Default::default() };
    let mut world = World::with(config, broker_auth::Anonymous::Deny);
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let (attaches, _) = world.link_frames(client);
    assert_eq!(attaches[0].max_message_size, Some(10_000));
    let sized = |bytes: usize| {
        let overhead = MessageBuilder::new().message_id("m").data(&[0; 9000]).build().len() - 9000;
        MessageBuilder::new().message_id("m").data(&vec![0; bytes - overhead]).build()
    };
    world.script(client).transfer(0, 1, 1, false, &sized(10_000));
    world.run();
    assert_eq!(world.dispositions(client)[0].state, Some(DeliveryState::Accepted));
    // Too large: refused, in one frame or in many, and the link stays.
    world.script(client).transfer(0, 1, 2, false, &sized(10_001));
    for (more, bytes) in [(true, 8000), (true, 8000), (false, 500)] {
        let frame = Transfer { more, ..testkit::Script::transfer_frame(1, 3, false) };
        world.script(client).transfer_with(0, frame, &vec![0; bytes]);
    }
    world.run();
    let answers = world.dispositions(client);
    assert_eq!(answers.len(), 2, "{answers:?}");
    for (answer, (id, bytes)) in answers.into_iter().zip([(2, 10_001), (3, 16_500)]) {
        assert_eq!((answer.role, answer.first, answer.settled), (Role::Receiver, id, true));
        let Some(DeliveryState::Rejected(Some(error))) = answer.state else { panic!() };
        assert_eq!((error.condition.as_str(), error.info), ("amqp:link:message-size-exceeded", None));
        let text = error.description.unwrap();
        assert!(
            text.starts_with(&format!("The message has {bytes} bytes; the link takes at most 10000.")),
            "{text}"
        );
        assert!(text.contains(", TrackingId:"), "{text}");
    }
    world.script(client).transfer(0, 1, 4, false, &sized(10_000));
    world.run();
    assert_eq!(world.dispositions(client)[0].state, Some(DeliveryState::Accepted));
    // Where nothing is to be answered, the link has to tell.
    world.script(client).transfer(0, 1, 5, true, &sized(10_001));
    world.run();
    let (_, detaches) = world.link_frames(client);
    let error = detaches[0].error.as_ref().unwrap();
    assert_eq!(error.condition, "amqp:link:message-size-exceeded");
    assert!(error.description.as_ref().unwrap().contains(", TrackingId:"), "{error:?}");
    assert!(detaches[0].closed);
}

#[test]
fn requests_that_are_too_large_are_rejected_and_leave_their_link() {
    let config = amqp_gateway::GatewayConfig { max_frame_bytes: 100_000, ..Default::default() };
    let mut world = World::with(config, broker_auth::Anonymous::Deny);
    let client = world.service_bus();
    world.transfer(client, 100, false, &vec![0; 70_000]);
    world.run();
    let Some(DeliveryState::Rejected(Some(error))) = world.dispositions(client).remove(0).state else {
        panic!()
    };
    assert_eq!(error.condition, "amqp:link:message-size-exceeded");
    world.put_token(client, "amqp://localhost/q", TOKEN);
    let (_, reply) = world.transfers(client).pop().unwrap();
    assert_eq!(status(&reply, "status-code"), 202);
}

#[test]
fn link_names_may_be_long_and_hold_anything() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["m"]);
    let name = format!("Source {{ address: Some(\"q\"), 'ü', \u{0}\n{} }}", "x".repeat(3000));
    world.script(client).attach_receiver(0, 2, &name, "q", SECOND);
    world.credit(client, 0, 2, 0, 1, false);
    world.run();
    let frames = world.frames(client);
    let Performative::Attach(attach) = &frames[0].performative else { panic!() };
    assert_eq!(attach.name, name);
    let transfers = frames.iter().filter(|frame| matches!(frame.performative, Performative::Transfer(_)));
    assert_eq!(transfers.count(), 1);
}
