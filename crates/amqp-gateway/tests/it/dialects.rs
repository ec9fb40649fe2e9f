//! The same queue, seen by plain AMQP 1.0 clients and by those of Service Bus.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Modified, Open, Source, Target},
    raw::{AnnotationValue, RawMap},
    sections::Sections,
    types::{ReceiverSettleMode, Role, SenderSettleMode, Symbol},
};
use broker_core::EntitySettings;
use bytes::Bytes;

use crate::harness::{KEY_NAME, World, text, texts};

const FIRST: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::First);
const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

fn modified(delivery_failed: Option<bool>, undeliverable_here: Option<bool>) -> DeliveryState {
    let message_annotations = None;
    DeliveryState::Modified(Box::new(Modified { delivery_failed, undeliverable_here, message_annotations }))
}

fn header(payload: &Bytes) -> amqp_codec::sections::Header {
    Sections::scan(payload).unwrap().read_header(payload).unwrap()
}

/// A receiver whose source has a default outcome.
pub(crate) fn receiver(handle: u32, default_outcome: Option<DeliveryState>) -> Attach {
    let mut source = Source::new("q");
    source.default_outcome = default_outcome;
    let mut attach = Attach::new(format!("r{handle}"), handle, Role::Receiver);
    (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
    attach
}

#[test]
fn all_spellings_of_an_address_reach_one_queue() {
    let mut world = World::new();
    let client = world.plain();
    for address in ["q", "/q", "Q", "/queues/q", "amqp://broker:5672/q"] {
        world.send(client, address, &[address]);
    }
    let received = texts(&world.receive(client, "/queues/Q", 10));
    assert_eq!(received, ["q", "/q", "Q", "/queues/q", "amqp://broker:5672/q"]);
}

#[test]
fn a_plain_client_sees_first_acquirer_and_count() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &["m"]);
    let (transfer, payload) = world.receive(client, "q", 5).remove(0);
    assert!(header(&payload).is_first_acquirer());
    let mut id = transfer.delivery_id.unwrap();
    let cases = [
        // said, delivery-count of the next delivery
        (DeliveryState::Released, 0),
        (modified(None, None), 0),
        (modified(Some(false), Some(false)), 0),
        (modified(Some(true), None), 1),
    ];
    for (said, count) in cases {
        world.script(client).disposition(0, id, id, true, Some(said.clone()));
        world.run();
        let (transfer, payload) = world.transfers(client).remove(0);
        assert_eq!(
            (header(&payload).first_acquirer, header(&payload).delivery_count),
            (Some(false), count),
            "{said:?}"
        );
        id = transfer.delivery_id.unwrap();
    }
}

#[test]
fn annotations_of_modified_stay_with_the_message_whether_it_failed_or_not() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &["m"]);
    let mut id = world.receive(client, "q", 5)[0].0.delivery_id.unwrap();
    for (name, failed, count) in [("x-opt-one", None, 0), ("x-opt-two", Some(true), 1)] {
        let DeliveryState::Modified(mut said) = modified(failed, None) else { panic!() };
        said.message_annotations = Some(RawMap::with_symbol_keys(&[(name, AnnotationValue::Bool(true))]));
        world.script(client).disposition(0, id, id, false, Some(DeliveryState::Modified(said)));
        world.run();
        let (transfer, payload) = world.transfers(client).remove(0);
        assert_eq!(header(&payload).delivery_count, count);
        let sections = Sections::scan(&payload).unwrap();
        let annotations = sections.message_annotations_view(&payload);
        assert!(annotations.get("x-opt-one").is_some(), "{name}");
        assert_eq!(annotations.get(name).unwrap().as_bool(), Some(true));
        id = transfer.delivery_id.unwrap();
    }
}

#[test]
fn what_cannot_be_delivered_here_goes_to_the_dead_letters_with_a_reason() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &["m"]);
    let id = world.receive(client, "q", 5)[0].0.delivery_id.unwrap();
    world.script(client).disposition(0, id, id, true, Some(modified(None, Some(true))));
    world.run();
    assert!(world.transfers(client).is_empty());
    world.script(client).attach_receiver(0, 7, "d", "q/$DeadLetterQueue", FIRST);
    world.credit(client, 0, 7, 0, 1, false);
    world.run();
    let (_, payload) = world.transfers(client).remove(0);
    assert_eq!(crate::harness::property(&payload, "DeadLetterReason").as_deref(), Some("UndeliverableHere"));
}

#[test]
fn unsettled_messages_of_a_plain_link_return_when_it_goes() {
    // The delivery count where the receiver detaches, and where it is lost.
    let cases =
        [(None, [0, 0]), (Some(DeliveryState::Released), [0, 0]), (Some(modified(Some(true), None)), [0, 1])];
    for (default_outcome, counts) in cases {
        for (lost, count) in [false, true].into_iter().zip(counts) {
            let mut world = World::new();
            let client = world.plain();
            world.send(client, "q", &["m"]);
            world.script(client).attach(0, receiver(2, default_outcome.clone()));
            world.credit(client, 0, 2, 0, 1, false);
            world.run();
            assert_eq!(world.transfers(client).len(), 1);
            if lost {
                world.lose(client);
            } else {
                world.script(client).detach(0, 2, true);
                world.run();
            }
            let other = world.plain();
            let again = world.receive(other, "q", 1);
            assert_eq!(header(&again[0].1).delivery_count, count, "{default_outcome:?} lost={lost}");
        }
    }
}

#[test]
fn locks_of_a_service_bus_link_run_on_when_it_goes() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["m"]);
    assert_eq!(world.receive(client, "q", 1).len(), 1);
    world.script(client).detach(0, 2, true);
    world.run();
    let other = world.service_bus();
    assert_eq!(world.receive(other, "q", 1).len(), 0);
    world.pass(Duration::from_secs(61));
    let again = world.transfers(other);
    assert_eq!(header(&again[0].1).delivery_count, 1);
}

#[test]
fn settling_without_a_word_means_the_default_outcome() {
    let cases =
        [(Some(DeliveryState::Accepted), None), (Some(modified(Some(true), None)), Some(1)), (None, Some(0))];
    for (default_outcome, again) in cases {
        let mut world = World::new();
        let client = world.plain();
        world.send(client, "q", &["m"]);
        world.script(client).attach(0, receiver(2, default_outcome.clone()));
        world.credit(client, 0, 2, 0, 2, false);
        world.run();
        let id = world.transfers(client)[0].0.delivery_id.unwrap();
        world.script(client).disposition(0, id, id, true, None);
        world.run();
        let count = world.transfers(client).first().map(|(_, payload)| header(payload).delivery_count);
        assert_eq!(count, again, "{default_outcome:?}");
    }
}

#[test]
fn a_browser_sees_every_message_and_takes_none() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &["a", "b"]);
    for (handle, mode) in
        [(5, SenderSettleMode::Settled), (6, SenderSettleMode::Unsettled), (7, SenderSettleMode::Mixed)]
    {
        let mut attach = receiver(handle, None);
        attach.snd_settle_mode = Some(mode);
        let mut source = Source::new("q");
        source.distribution_mode = Some(Symbol::from_static("copy"));
        attach.source = Some(source);
        world.script(client).attach(0, attach);
        world.credit(client, 0, handle, 0, 5, false);
        world.run();
        let seen = world.transfers(client);
        assert_eq!(texts(&seen), ["a", "b"], "{mode:?}");
        let unsettled = mode == SenderSettleMode::Unsettled;
        assert!(seen.iter().all(|(transfer, _)| transfer.settled == Some(!unsettled)));
        if unsettled {
            let (first, last) = (seen[0].0.delivery_id.unwrap(), seen[1].0.delivery_id.unwrap());
            world.script(client).disposition(0, first, last, false, Some(DeliveryState::Accepted));
            world.run();
            assert!(world.dispositions(client).iter().all(|it| it.settled));
        }
    }
    assert_eq!(texts(&world.receive(client, "q", 5)), ["a", "b"]);
}

#[test]
fn the_anonymous_terminus_goes_by_to() {
    let mut world = World::new();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", None);
    world.run();
    world.received(client);
    let cases = [
        (Some("/queues/q"), None),
        (Some("missing"), Some("amqp:not-found")),
        (Some("/exchanges/x/k"), Some("amqp:precondition-failed")),
        (None, Some("amqp:precondition-failed")),
    ];
    for (to, condition) in cases {
        let mut message = MessageBuilder::new().data(b"x");
        if let Some(to) = to {
            message = message.to(to);
        }
        let id = world.transfer(client, 1, false, &message.build());
        world.run();
        let answer = world.dispositions(client).remove(0);
        assert_eq!((answer.first, answer.settled), (id, true));
        match (answer.state.unwrap(), condition) {
            (DeliveryState::Accepted, None) => {}
            (DeliveryState::Rejected(Some(error)), Some(condition)) => {
                assert_eq!(error.condition, condition, "{to:?}");
                let tag = error.info.as_ref().unwrap().get("delivery-tag").unwrap();
                assert_eq!(tag.as_binary(), Some(&id.to_be_bytes()[..]));
            }
            (other, _) => panic!("{to:?}: {other:?}"),
        }
    }
    // Sent settled, a refusal can only be told by detaching.
    let lost = MessageBuilder::new().to("missing").data(b"x").build();
    world.transfer(client, 1, true, &lost);
    world.run();
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:not-found");
}

#[test]
fn a_sender_that_does_not_take_rejected_is_detached_instead() {
    let mut world = World::new();
    let client = world.plain();
    let mut source = Source::new("here");
    source.outcomes = vec![Symbol::from_static("amqp:accepted:list")];
    let mut attach = Attach::new("s", 1, Role::Sender);
    (attach.source, attach.target) = (Some(source), Some(Target::new("q")));
    attach.initial_delivery_count = Some(0);
    world.script(client).attach(0, attach);
    let message = MessageBuilder::new().data(b"x").build();
    world.transfer(client, 1, false, &message);
    world.run();
    assert_eq!(world.dispositions(client)[0].state, Some(DeliveryState::Accepted));
    world.fill_disk();
    world.transfer(client, 1, false, &message);
    world.run();
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:resource-limit-exceeded");
}

#[test]
fn what_is_not_offered_is_refused_with_its_condition() {
    let mut world = World::new();
    let client = world.plain();
    let link = |role| {
        let mut attach = Attach::new("link", 1, role);
        (attach.source, attach.target) = (Some(Source::default()), Some(Target::new("t")));
        attach.initial_delivery_count = Some(0);
        attach
    };
    let target = |target| {
        let mut attach = link(Role::Sender);
        attach.target = target;
        attach
    };
    let mut no_source = link(Role::Receiver);
    no_source.source = None;
    let cases = [
        (target(Some(Target::new("/exchanges/x/k"))), "amqp:not-implemented"),
        (target(Some(Target::new("/queues/q%zz"))), "amqp:invalid-field"),
        (target(Some(Target::new("q/$DeadLetterQueue"))), "amqp:not-allowed"),
        (target(None), "amqp:invalid-field"),
        (no_source, "amqp:not-found"),
        (link(Role::Receiver), "amqp:invalid-field"),
    ];
    for (attach, condition) in cases {
        world.script(client).attach(0, attach.clone());
        world.run();
        world.script(client).detach(0, 1, true);
        let (_, detaches) = world.link_frames(client);
        let error = detaches[0].error.as_ref().unwrap();
        assert_eq!(error.condition, condition, "{attach:?}");
        // The words speak of the end that the client named.
        let other = if attach.role == Role::Sender { "source" } else { "target" };
        let text = error.description.as_ref().unwrap();
        assert!(!text.contains(other), "{text}");
    }
}

#[test]
fn a_filter_that_is_not_applied_is_not_claimed() {
    let mut world = World::new();
    let client = world.plain();
    let mut attach = receiver(2, None);
    let mut source = attach.source.take().unwrap();
    source.filter = Some(RawMap::with_symbol_keys(&[("selector", AnnotationValue::Str("a = 1"))]));
    attach.source = Some(source);
    world.script(client).attach(0, attach);
    world.run();
    let (attaches, _) = world.link_frames(client);
    let answered = attaches[0].source.as_ref().unwrap();
    assert!(answered.filter.is_none());
    assert_eq!(answered.address, Source::new("q").address);
}

#[test]
fn a_lifetime_is_capped_by_the_queue_and_told() {
    let mut world = World::new();
    let settings =
        EntitySettings { default_time_to_live: Some(Duration::from_secs(10)), ..EntitySettings::default() };
    world.create("short", settings);
    let client = world.service_bus();
    world.send(client, "short", &["m"]);
    let (_, payload) = world.receive(client, "short", 1).remove(0);
    assert_eq!(header(&payload).ttl, Some(10_000));
    assert_eq!(text(&payload), "m");
}

#[test]
fn reading_dead_letters_shows_reason_and_description() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["m"]);
    let id = world.receive(client, "q", 1)[0].0.delivery_id.unwrap();
    let info = RawMap::with_string_keys(&[
        ("DeadLetterReason", AnnotationValue::Str("bad")),
        ("DeadLetterErrorDescription", AnnotationValue::Str("very bad")),
        ("extra", AnnotationValue::Uint(5)),
    ]);
    let error = amqp_codec::performative::Error {
        condition: Symbol::from_static("com.microsoft:dead-letter"),
        description: None,
        info: Some(info),
    };
    world.script(client).disposition(0, id, id, false, Some(DeliveryState::Rejected(Some(Box::new(error)))));
    world.run();
    world.received(client);
    world.script(client).attach_receiver(0, 7, "d", "q/$deadletterqueue", SECOND);
    world.credit(client, 0, 7, 0, 1, false);
    world.run();
    let (_, payload) = world.transfers(client).remove(0);
    let sections = Sections::scan(&payload).unwrap();
    let view = sections.application_properties_view(&payload);
    assert_eq!(view.get("DeadLetterReason").unwrap().as_string(), Some("bad"));
    assert_eq!(view.get("DeadLetterErrorDescription").unwrap().as_string(), Some("very bad"));
    assert_eq!(view.get("extra").unwrap().as_u64(), Some(5));
    assert_eq!(text(&payload), "m");
}

#[test]
fn an_open_may_name_any_host() {
    let hosts = [
        None,
        Some(""),
        Some("localhost"),
        Some("nobody.example"),
        Some("vhost:x"),
        Some("host/$servicebus"),
    ];
    for host in hosts {
        let mut world = World::new();
        let client = world.accept();
        let mut open = Open::new("test");
        open.hostname = host.map(str::to_owned);
        world.script(client).sasl_plain(KEY_NAME, "SAS_KEY_VALUE").open_with(open).begin(0);
        world.run();
        world.received(client);
        world.send(client, "q", &["m"]);
        assert_eq!(texts(&world.receive(client, "q", 1)), ["m"], "{host:?}");
    }
}

/// A map of one unsettled delivery, as a peer says it that would resume it.
fn unsettled() -> RawMap {
    let mut bytes = vec![0xc1, 7, 2, 0xa0, 1, b't', 0x00, 0x53, 0x24, 0x45];
    bytes[1] = u8::try_from(bytes.len() - 2).unwrap();
    RawMap::copy_from_slice(&bytes).unwrap()
}

#[test]
fn an_unsettled_map_is_answered_with_none_and_a_resumed_delivery_is_a_message() {
    let mut world = World::new();
    let client = world.plain();
    let mut sender = Attach::new("s", 1, Role::Sender);
    (sender.source, sender.target) = (Some(Source::new("here")), Some(Target::new("q")));
    sender.initial_delivery_count = Some(0);
    let receiver = Attach { name: "r".into(), handle: 2, ..receiver(2, None) };
    for attach in [sender, receiver] {
        let name = attach.name.clone();
        world.script(client).attach(0, Attach { unsettled: Some(unsettled()), ..attach });
        world.run();
        let (attaches, detaches) = world.link_frames(client);
        assert_eq!(detaches, vec![], "{name}");
        let answer = &attaches[0];
        assert!(answer.unsettled.as_ref().is_none_or(|map| map.iter().next().is_none()), "{name}");
        assert!(!answer.incomplete_unsettled, "{name}");
    }
    let id = world.next_delivery(client);
    let mut frame = testkit::Script::transfer_frame(1, id, false);
    frame.resume = true;
    let message = MessageBuilder::new().message_id("m").data(b"m").build();
    world.script(client).transfer_with(0, frame, &message);
    world.run();
    assert_eq!(world.dispositions(client)[0].state, Some(DeliveryState::Accepted));
    world.credit(client, 0, 2, 0, 5, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["m"]);
}
