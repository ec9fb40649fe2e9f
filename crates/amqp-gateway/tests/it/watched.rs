//! What a gateway tells those who watch it: spans of messages that belong to a trace, and notes of changes.

use std::time::Duration;

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{DeliveryState, Transfer},
    raw::{AnnotationValue, RawMap},
    value::Value,
};
use amqp_gateway::{AuditEvent, GatewayConfig, Span, SpanKind};
use broker_auth::{Anonymous, Right};
use bytes::Bytes;

use crate::{
    harness::{KEY_NAME, START, TOKEN, World},
    management::map,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn traced(name: &str, value: &str) -> Bytes {
    let builder =
        MessageBuilder::new().message_id("m").application_property("colour", AnnotationValue::Str("red"));
    builder.application_property(name, AnnotationValue::Str(value)).data(b"tea").build()
}

fn sampled() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

fn world() -> World {
    World::with(GatewayConfig { traces: true, ..GatewayConfig::default() }, Anonymous::Deny)
}

fn spans(world: &mut World, client: usize) -> Vec<Span> {
    let (spans, lost) = world.clients[client].gateway.take_spans();
    assert_eq!(lost, 0);
    spans
}

#[test]
fn a_message_of_a_trace_has_a_span_for_each_thing_that_happens_to_it() {
    let mut world = world();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let message = traced("traceparent", &sampled());
    world.transfer(client, 1, false, &message);
    world.run();
    let published = spans(&mut world, client);
    world.pass(Duration::from_millis(250));
    let got = world.receive(client, "q", 5);
    let delivered = spans(&mut world, client);
    let id = got[0].0.delivery_id.unwrap();
    world.script(client).disposition(0, id, id, false, Some(DeliveryState::Accepted));
    world.run();
    let settled = spans(&mut world, client);

    let cases = [(published, SpanKind::Publish), (delivered, SpanKind::Deliver), (settled, SpanKind::Settle)];
    let mut ids = Vec::new();
    for (found, kind) in cases {
        let [span] = found.as_slice() else { panic!("{kind:?}: {found:?}") };
        assert_eq!((span.kind, &*span.entity, span.messages, span.failed), (kind, "q", 1, false));
        assert_eq!((span.parent.trace_id().as_str(), span.parent.span_id().as_str()), (TRACE, PARENT));
        assert!(span.began >= START * 1_000_000 && span.ended >= span.began, "{span:?}");
        if kind == SpanKind::Deliver {
            assert!(span.ended - span.began >= 250_000_000, "the time in the queue: {span:?}");
        }
        ids.push(span.id.to_string());
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "each has an id of its own");
}

#[test]
fn only_what_is_sampled_and_wanted_has_spans() {
    let cases = [
        (true, traced("traceparent", &sampled()), 1),
        (true, traced("Diagnostic-Id", &sampled()), 1),
        (true, traced("traceparent", &format!("00-{TRACE}-{PARENT}-00")), 0),
        (true, traced("traceparent", "nonsense"), 0),
        (true, traced("Diagnostic-Id", "|abc.1."), 0),
        (true, traced("unrelated", &sampled()), 0),
        (true, MessageBuilder::new().message_id("m").data(b"tea").build(), 0),
        (false, traced("traceparent", &sampled()), 0),
    ];
    for (number, (traces, message, expected)) in cases.into_iter().enumerate() {
        for settled in [false, true] {
            let config = GatewayConfig { traces, ..GatewayConfig::default() };
            let mut world = World::with(config, Anonymous::Deny);
            let client = world.plain();
            world.script(client).attach_sender(0, 1, "s", Some("q"));
            world.run();
            world.transfer(client, 1, settled, &message);
            world.run();
            let found = spans(&mut world, client);
            assert_eq!(found.len(), expected, "case {number}, settled {settled}: {found:?}");
        }
    }
}

#[test]
fn a_batch_has_one_span_that_names_the_traces_of_all_its_messages() {
    let mut world = world();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let other = "00f067aa0ba902b7";
    let parts = [traced("traceparent", &sampled()), traced("traceparent", &format!("00-{TRACE}-{other}-01"))];
    let payload = MessageBuilder::new().data(&parts[0]).data(&parts[1]).build();
    let id = world.next_delivery(client);
    let transfer =
        Transfer { message_format: Some(BATCH_FORMAT), ..testkit::Script::transfer_frame(1, id, false) };
    world.script(client).transfer_with(0, transfer, &payload);
    world.run();
    let found = spans(&mut world, client);
    let [span] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((span.messages, span.parent.span_id().as_str()), (2, PARENT));
    assert_eq!(span.links.iter().map(amqp_gateway::TraceContext::span_id).collect::<Vec<_>>(), [other]);
}

#[test]
fn a_refused_message_has_a_span_that_failed() {
    let mut world = world();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.fill_disk();
    world.transfer(client, 1, false, &traced("traceparent", &sampled()));
    world.run();
    let found = spans(&mut world, client);
    assert!(matches!(found.as_slice(), [Span { failed: true, .. }]), "{found:?}");
}

#[test]
fn a_purge_is_noted_with_who_did_it() {
    let mut world = World::new();
    let client = world.service_bus();
    world.send(client, "q", &["a", "b"]);
    world.management(client, "q");
    world.request(client, "com.microsoft:peek-message", &RawMap::empty());
    assert_eq!(world.clients[client].gateway.record().take_changes(), [], "looking changes nothing");
    world.pass(Duration::from_millis(1));
    world.received(client);
    world.request(client, "com.microsoft:batch-delete-messages", &map(&[("message-count", Value::Int(5))]));
    let expected = AuditEvent {
        namespace: "default".into(),
        who: KEY_NAME.into(),
        action: "purge",
        entity: "q".into(),
        subject: Some("2 messages".into()),
        refused: None,
    };
    assert_eq!(world.clients[client].gateway.record().take_changes(), [expected]);
    assert_eq!(world.clients[client].gateway.record().take_changes(), []);
}

#[test]
fn a_token_for_the_node_alone_says_who_did_it() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("ANONYMOUS", None).open("test").begin(0);
    world.cbs_links(client);
    // As the SDKs do: for the address of each link.
    world.put_token(client, "amqp://localhost/q/$management", TOKEN);
    world.management(client, "q");
    world.request(client, "com.microsoft:batch-delete-messages", &map(&[("message-count", Value::Int(5))]));
    let missing = map(&[("rule-name", Value::String("r".into()))]);
    world.request(client, "com.microsoft:remove-rule", &missing);
    let notes = world.clients[client].gateway.record().take_changes();
    let seen: Vec<_> = notes.iter().map(|note| (&*note.who, note.action)).collect();
    assert_eq!(seen, [(KEY_NAME, "purge"), (KEY_NAME, "remove-rule")]);
}

#[test]
fn a_refused_change_is_noted_as_such() {
    let (mut world, client) = World::limited(Right::Manage);
    world.management(client, "q");
    let body = map(&[("rule-name", Value::String("r".into()))]);
    world.request(client, "com.microsoft:remove-rule", &body);
    let notes = world.clients[client].gateway.record().take_changes();
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert_eq!((&*note.who, note.action, note.subject.as_deref()), ("limited", "remove-rule", Some("r")));
    assert!(note.refused.is_some(), "{note:?}");
}

/// Spans of one connection that may be open (`docs/features/tracing.md`).
const OPEN_MAX: usize = 8_192;

#[test]
fn a_connection_keeps_so_many_open_spans_and_counts_what_is_beyond() {
    for (messages, expected) in [(OPEN_MAX, 0), (OPEN_MAX + 1, 1), (OPEN_MAX + 20, 20)] {
        let mut world = world();
        let client = world.plain();
        world.script(client).attach_sender(0, 1, "s", Some("q"));
        world.run();
        let message = traced("traceparent", &sampled());
        for _ in 0..messages {
            // Settled: its span is over at once.
            world.transfer(client, 1, true, &message);
            world.run();
        }
        assert_eq!(spans(&mut world, client).len(), messages, "what is over needs no room");
        let got = world.receive(client, "q", u32::try_from(messages).unwrap());
        assert_eq!(got.len(), messages);
        let (delivered, lost) = world.clients[client].gateway.take_spans();
        assert_eq!((delivered.len(), lost), (messages, expected), "the end of each delivery is known");

        // All are settled; those that had no room for their beginning have no span of it.
        let ids = |place: usize| got[place].0.delivery_id.unwrap();
        let (from, to) = (ids(0), ids(messages - 1));
        world.script(client).disposition(0, from, to, true, Some(DeliveryState::Accepted));
        world.run();
        assert_eq!(spans(&mut world, client).len(), OPEN_MAX);
        world.transfer(client, 1, true, &message);
        world.run();
        assert_eq!(spans(&mut world, client).len(), 1, "there is room again");
    }
}

#[test]
fn a_change_that_the_client_may_not_make_is_noted_with_who_tried() {
    let (mut world, client) = World::limited(Right::Send);
    world.management(client, "q");
    world.request(client, "com.microsoft:peek-message", &RawMap::empty());
    let body = map(&[("rule-name", Value::String("r".into()))]);
    world.request(client, "com.microsoft:remove-rule", &body);
    let expected = AuditEvent {
        namespace: "default".into(),
        who: "limited".into(),
        action: "remove-rule",
        entity: "q".into(),
        subject: None,
        refused: Some("amqp:unauthorized-access"),
    };
    assert_eq!(world.clients[client].gateway.record().take_changes(), [expected]);
}
