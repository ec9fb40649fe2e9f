//! `Azure.Messaging.ServiceBus` for .NET, by the book: SASL `MSSBCBS`, addresses with a leading slash, requests that
//! are settled and carry an empty tag, a session for each link.

use std::time::{Duration, Instant};

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Error, Modified, Open, Performative, Source, Target},
    raw::{AnnotationValue, RawMap},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
    value::{Described, Descriptor, OrderedMap, Value},
};
use broker_core::EntitySettings;
use testkit::Incoming;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, Sdk, dead_letter, modified, plain_session},
    numbers::{longs, map, messages},
    service_bus, sessions, topics, transactions,
};

const SETTLED: Option<SenderSettleMode> = Some(SenderSettleMode::Settled);
const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

pub(crate) const DOTNET: Dialect = Dialect {
    sasl: ("MSSBCBS", Some(b"")),
    open,
    address: |entity| format!("/{entity}"),
    audience: "amqps",
    expiration: AnnotationValue::Timestamp(4_102_444_800_000),
    message_id: AnnotationValue::Str("1"),
    reply_to: |_| "0f8fad5bd9cb469fa16570867728950e".to_owned(),
    settled_requests: true,
    requests: (SETTLED, None),
    replies: (SETTLED, None),
    sending: (Some(SenderSettleMode::Unsettled), None),
    locking: (None, SECOND),
    deleting: (SETTLED, None),
    properties: |_| {
        Some(RawMap::with_symbol_keys(&[("com.microsoft:timeout", AnnotationValue::Uint(60_000))]))
    },
    bare_receivers: true,
    associated_link: Some("receiver-3"),
    session_filter: plain_session,
    server_timeout: AnnotationValue::Uint(59_000),
    abandon: || modified(None, None),
    defer: || modified(None, Some(true)),
    dead_letter: || dead_letter(true),
};

fn open() -> Open {
    let mut open = Open::new("localhost-1a2b3c4d");
    open.hostname = Some("localhost".to_owned());
    (open.max_frame_size, open.channel_max, open.idle_time_out) = (65_536, 8191, Some(60_000));
    open.properties =
        Some(RawMap::with_symbol_keys(&[("product", AnnotationValue::Str("Messaging.ServiceBus"))]));
    open
}

#[test]
fn scripted_dotnet_sends_one_message_and_a_batch() {
    service_bus::sends_and_batches(&DOTNET);
}

#[test]
fn scripted_dotnet_pipelines_a_thousand_sends() {
    service_bus::pipelines(&DOTNET);
}

#[test]
fn scripted_dotnet_counts_to_the_dead_letters() {
    service_bus::counts_to_the_dead_letters(&DOTNET);
}

#[test]
fn scripted_dotnet_is_told_of_a_refusal_no_sooner_than_a_millisecond_after_its_send() {
    // Its library overwrites an outcome that comes before its send call has returned.
    let broker = Broker::with(|config| config.core.max_message_bytes = 4096);
    let mut sdk = Sdk::connect(&broker, &DOTNET);
    sdk.authorize(QUEUE);
    let channel = sdk.sender(QUEUE);
    let large = MessageBuilder::new().data(&[0; 5_000]).build();
    for _ in 0..20 {
        let sent = Instant::now();
        let answer = sdk.offer(channel, 0, &large);
        let waited = sent.elapsed();
        assert!(matches!(answer, Some(DeliveryState::Rejected(Some(_)))), "{answer:?}");
        assert!(waited >= Duration::from_millis(1), "{waited:?}");
    }
}

#[test]
fn scripted_dotnet_receivers_compete() {
    service_bus::competes(&DOTNET);
}

#[test]
fn scripted_dotnet_is_told_on_the_link_that_a_lock_is_lost() {
    service_bus::loses_a_lock(&DOTNET);
}

#[test]
fn scripted_dotnet_is_told_of_a_message_that_is_too_large() {
    service_bus::is_told_of_a_size(&DOTNET);
}

#[test]
fn scripted_dotnet_settles_in_every_way() {
    service_bus::settles(&DOTNET);
}

#[test]
fn scripted_dotnet_receives_and_deletes() {
    service_bus::receives_and_deletes(&DOTNET);
}

#[test]
fn scripted_dotnet_renews_and_settles_by_token() {
    service_bus::renews_and_settles_by_token(&DOTNET);
}

#[test]
fn scripted_dotnet_peeks() {
    service_bus::peeks(&DOTNET);
}

/// A guid as address, and distribution mode `move`.
fn control_source() -> Source {
    let distribution_mode = Some("move".into());
    Source { distribution_mode, ..Source::new("0f8fad5bd9cb469fa16570867728950e") }
}

#[test]
fn scripted_dotnet_commits_and_rolls_back_over_several_entities() {
    transactions::cross_entity(&DOTNET, control_source);
}

#[test]
fn scripted_dotnet_keeps_a_transaction_to_one_entity_without_the_option() {
    transactions::one_entity_and_send_via(&DOTNET, control_source);
}

#[test]
fn scripted_dotnet_settles_in_transactions() {
    transactions::settles_in_transactions(&DOTNET, control_source);
}

#[test]
fn scripted_dotnet_accepts_sessions() {
    sessions::accepts(&DOTNET);
}

#[test]
fn scripted_dotnet_waits_for_the_next_session() {
    sessions::waits_for_the_next(&DOTNET);
}

#[test]
fn scripted_dotnet_keeps_a_session_and_its_state() {
    sessions::keeps(&DOTNET);
}

#[test]
fn scripted_dotnet_is_answered_when_it_settles_in_a_session_that_it_has_lost() {
    sessions::settles_too_late(&DOTNET);
}

#[test]
fn scripted_dotnet_settles_the_copies_of_subscriptions_apart() {
    topics::settles_copies_apart(&DOTNET);
}

#[test]
fn scripted_dotnet_manages_rules() {
    topics::manages_rules(&DOTNET);
}

#[test]
fn scripted_dotnet_is_told_that_an_entity_is_missing() {
    service_bus::misses_an_entity_by_its_token(&DOTNET);
}

#[test]
fn scripted_dotnet_is_refused_without_a_good_token() {
    service_bus::is_refused_without_a_good_token(&DOTNET);
}

#[test]
fn scripted_dotnet_finds_its_mechanism_first_and_an_idle_time_out_it_takes() {
    let broker = Broker::start();
    let mut wire = testkit::Wire::connect(broker.address).unwrap();
    wire.script.sasl("MSSBCBS", Some(b"")).open_with(open());
    let mut offered = Vec::new();
    let opened = loop {
        match wire.next_incoming().unwrap() {
            Incoming::Sasl(amqp_codec::performative::SaslFrame::Mechanisms(these)) => {
                offered = these.mechanisms;
            }
            Incoming::Frame(frame) => break frame,
            _ => {}
        }
    };
    assert_eq!(offered, ["MSSBCBS", "PLAIN", "ANONYMOUS"]);
    let Performative::Open(open) = opened.performative else { panic!("{opened:?}") };
    // It refuses less than 5 s, and drops a broker that is silent for 60.
    assert!(open.idle_time_out.is_some_and(|millis| millis >= 5000));
}

#[test]
fn scripted_dotnet_modifies_properties_however_it_settles() {
    let broker = service_bus::filled(&["abandon", "defer", "dead-letter"]);
    let mut sdk = Sdk::connect(&broker, &DOTNET);
    let channel = sdk.receiver(QUEUE, 3, DOTNET.locking);
    let received = sdk.receive(channel, 3, 3);
    let seen = || ("note", AnnotationValue::Str("seen"));
    let noted = |undeliverable_here| {
        let message_annotations = Some(RawMap::with_symbol_keys(&[seen()]));
        DeliveryState::Modified(Box::new(Modified {
            delivery_failed: None,
            undeliverable_here,
            message_annotations,
        }))
    };
    let reason = ("DeadLetterReason", AnnotationValue::Str("broken"));
    let info = Some(RawMap::with_symbol_keys(&[reason, seen()]));
    let error = Error { condition: "com.microsoft:dead-letter".into(), description: None, info };
    let states = [noted(None), noted(Some(true)), DeliveryState::Rejected(Some(Box::new(error)))];
    for (delivery, state) in received.iter().zip(states) {
        sdk.settle(channel, delivery, state);
    }
    let again = sdk.receive(channel, 3, 1).remove(0);
    assert_eq!((again.text().as_str(), again.header().delivery_count), ("abandon", 1));
    let node = sdk.management();
    let numbers = longs(&[received[1].sequence_number()]);
    let body = map(&[("sequence-numbers", numbers), ("receiver-settle-mode", Value::Uint(1))]);
    let answer = sdk.manage(node, "com.microsoft:receive-by-sequence-number", &body);
    let deferred = messages(&answer).remove(0);
    assert_eq!((deferred.text().as_str(), deferred.header().delivery_count), ("defer", 1));
    let dead = sdk.receiver("orders/$DeadLetterQueue", 13, DOTNET.locking);
    let letter = sdk.receive(dead, 13, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    for delivery in [again, deferred, letter] {
        assert_eq!(delivery.property("note").as_deref(), Some("seen"), "{}", delivery.text());
    }
    sdk.client.close();
}

#[test]
fn scripted_dotnet_is_refused_a_session_that_the_queue_does_not_have() {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, &DOTNET);
    sdk.authorize(QUEUE);
    for session in [AnnotationValue::Str("session-1"), AnnotationValue::Null] {
        let channel = sdk.session();
        let mut attach = Attach::new("session-receiver", 3, Role::Receiver);
        attach.rcv_settle_mode = SECOND;
        let filter = RawMap::with_symbol_keys(&[("com.microsoft:session-filter", session)]);
        attach.source = Some(Source::new("/orders").with_filter(Some(filter)));
        attach.target = Some(Target::new("identifier"));
        assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:not-allowed");
    }
}

#[test]
fn scripted_dotnet_settles_what_another_link_received_through_management() {
    let broker = Broker::start();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    sender.accepted(1, &["m"]);
    let mut sdk = Sdk::connect(&broker, &DOTNET);
    let channel = sdk.receiver(QUEUE, 3, DOTNET.locking);
    let delivery = sdk.receive(channel, 3, 1).remove(0);
    sdk.client.wire.script.detach(channel, 3, true);
    sdk.client.wire.detached().unwrap();
    let management = sdk.management();
    let body = crate::message::update(delivery.lock_token(), "abandoned");
    assert_eq!(sdk.manage(management, "com.microsoft:update-disposition", &body).status("statusCode"), 200);
    let channel = sdk.receiver(QUEUE, 13, DOTNET.locking);
    sdk.receive(channel, 13, 1).remove(0).is_locked_for_service_bus(1);
}

#[test]
fn scripted_dotnet_works_on_topics_in_transactions() {
    transactions::topics_and_subscriptions(&DOTNET, control_source);
}

/// What .NET 7.21.0 asks for when a session may be shared: a described list of the session's id and a lock token.
fn shared_session(id: Value, token: Value) -> RawMap {
    let value = Value::Described(Box::new(Described {
        descriptor: Descriptor::Code(0x0000_0013_7000_000e),
        value: Value::List(vec![id, token]),
    }));
    let name = Value::Symbol("com.microsoft:non-exclusive-session-filter:list".into());
    RawMap::from_value(&Value::Map(OrderedMap::from_iter([(name, value)]))).unwrap()
}

#[test]
fn scripted_dotnet_is_refused_a_shared_session_and_takes_it_for_itself() {
    let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
    let broker = Broker::with_queue(settings);
    let mut sdk = Sdk::connect(&broker, &DOTNET);
    sdk.authorize(QUEUE);
    let id = || Value::String("s".into());
    let rows = [(id(), Value::Null), (id(), Value::Uuid([7; 16].into())), (Value::Null, Value::Null)];
    for (handle, (id, token)) in (3..).zip(rows) {
        let channel = sdk.session();
        let mut attach = Attach::new(format!("shared-{handle}"), handle, Role::Receiver);
        attach.rcv_settle_mode = SECOND;
        attach.source = Some(Source::new("/orders").with_filter(Some(shared_session(id, token))));
        attach.target = Some(Target::new("identifier"));
        assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:not-allowed");
    }
    // The refusals hold no session, and the connection goes on.
    let (_, session) = sessions::accept_of(&mut sdk, QUEUE, 10, Some("s"));
    assert_eq!(session, "s");
    sdk.client.close();
}
