//! An imitation of `azservicebus` for Go on go-amqp: settle modes that must come back, a `$cbs` pair for each claim on a
//! session that is ended afterwards, reply links of settled mode, a drain after each receive.

use std::time::{Duration, Instant};

use amqp_codec::{
    performative::{Attach, DeliveryState, Error, Open, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, Sdk, dead_letter, described_session, modified},
    service_bus, sessions, topics,
};

const FIRST: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::First);
const SETTLED: Option<SenderSettleMode> = Some(SenderSettleMode::Settled);

pub(crate) const GO: Dialect = Dialect {
    sasl: ("ANONYMOUS", Some(b"")),
    open,
    address: str::to_owned,
    audience: "amqps",
    expiration: AnnotationValue::Str("4102444800"),
    message_id: AnnotationValue::Str("d0c2b6f4-1"),
    reply_to: |node| format!("{node}${node}-reply-to-1"),
    settled_requests: false,
    requests: (Some(SenderSettleMode::Mixed), FIRST),
    replies: (SETTLED, FIRST),
    sending: (Some(SenderSettleMode::Mixed), FIRST),
    locking: (None, Some(ReceiverSettleMode::Second)),
    deleting: (SETTLED, FIRST),
    properties: |_| None,
    bare_receivers: false,
    associated_link: None,
    session_filter: described_session,
    server_timeout: AnnotationValue::Ulong(59_000),
    abandon: || modified(Some(false), Some(false)),
    defer: || modified(Some(false), Some(true)),
    dead_letter: || dead_letter(false),
};

fn open() -> Open {
    let mut open = Open::new("8d1f4a3c-container");
    open.hostname = Some("localhost".to_owned());
    (open.max_frame_size, open.idle_time_out) = (65_536, Some(30_000));
    open.properties = Some(RawMap::with_symbol_keys(&[("product", AnnotationValue::Str("MSGolangClient"))]));
    open
}

#[test]
fn scripted_go_sends_one_message_and_a_batch() {
    service_bus::sends_and_batches(&GO);
}

#[test]
fn scripted_go_pipelines_a_thousand_sends() {
    service_bus::pipelines(&GO);
}

#[test]
fn scripted_go_counts_to_the_dead_letters() {
    service_bus::counts_to_the_dead_letters(&GO);
}

#[test]
fn scripted_go_receivers_compete() {
    service_bus::competes(&GO);
}

#[test]
fn scripted_go_is_told_on_the_link_that_a_lock_is_lost() {
    service_bus::loses_a_lock(&GO);
}

#[test]
fn scripted_go_is_told_of_a_message_that_is_too_large() {
    service_bus::is_told_of_a_size(&GO);
}

#[test]
fn scripted_go_settles_in_every_way() {
    service_bus::settles(&GO);
}

#[test]
fn scripted_go_receives_and_deletes() {
    service_bus::receives_and_deletes(&GO);
}

#[test]
fn scripted_go_renews_and_settles_by_token() {
    service_bus::renews_and_settles_by_token(&GO);
}

#[test]
fn scripted_go_peeks() {
    service_bus::peeks(&GO);
}

#[test]
fn scripted_go_accepts_sessions() {
    sessions::accepts(&GO);
}

#[test]
fn scripted_go_waits_for_the_next_session() {
    sessions::waits_for_the_next(&GO);
}

#[test]
fn scripted_go_keeps_a_session_and_its_state() {
    sessions::keeps(&GO);
}

#[test]
fn scripted_go_is_answered_when_it_settles_in_a_session_that_it_has_lost() {
    sessions::settles_too_late(&GO);
}

#[test]
fn scripted_go_settles_the_copies_of_subscriptions_apart() {
    topics::settles_copies_apart(&GO);
}

#[test]
fn scripted_go_is_told_that_an_entity_is_missing() {
    service_bus::misses_an_entity_by_its_token(&GO);
}

#[test]
fn scripted_go_is_refused_without_a_good_token() {
    service_bus::is_refused_without_a_good_token(&GO);
}

#[test]
fn scripted_go_keeps_its_claim_when_the_session_of_the_claim_ends() {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, &GO);
    sdk.authorize(QUEUE);
    sdk.client.wire.script.end(0);
    sdk.client.wire.ended().unwrap();
    let channel = sdk.session();
    let mut attach = Attach::new("receiver", 3, Role::Receiver);
    attach.source = Some(Source::new(QUEUE));
    attach.target = Some(Target::new("here"));
    sdk.attach(channel, GO.locking, attach);
    sdk.client.close();
}

#[test]
fn scripted_go_is_refused_a_session_with_a_described_filter() {
    // described(ulong 0x000000137000000c, string "s") and described(the same, null)
    let descriptor = [0x00, 0x80, 0, 0, 0, 0x13, 0x70, 0, 0, 0x0c];
    for value in [&[0xa1, 1, b's'][..], &[0x40]] {
        let filter = [&descriptor[..], value].concat();
        let filter = AnnotationValue::Raw(RawValue::first(&filter).unwrap());
        let broker = Broker::start();
        let mut sdk = Sdk::connect(&broker, &GO);
        sdk.authorize(QUEUE);
        let channel = sdk.session();
        let mut attach = Attach::new("session-receiver", 3, Role::Receiver);
        attach.rcv_settle_mode = Some(ReceiverSettleMode::Second);
        let filter = RawMap::with_symbol_keys(&[("com.microsoft:session-filter", filter)]);
        attach.source = Some(Source::new(QUEUE).with_filter(Some(filter)));
        attach.target = Some(Target::new("here"));
        // go-amqp wants closing detaches that say why; `refused` demands both.
        assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:not-allowed");
    }
}

#[test]
fn scripted_go_drains_within_its_second_after_a_receive() {
    let broker = Broker::start();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    sender.accepted(1, &["m"]);
    let mut sdk = Sdk::connect(&broker, &GO);
    let channel = sdk.receiver(QUEUE, 3, GO.locking);
    sdk.client.credit_on(channel, 3, 5, false);
    sdk.client.delivery(3);
    for _ in 0..3 {
        let asked = Instant::now();
        assert!(sdk.client.drain(channel, 3, 4).is_empty());
        // JavaScript waits for 200 ms only; the margin is for a busy machine.
        assert!(asked.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn scripted_go_adds_properties_to_its_dead_letters() {
    let broker = service_bus::filled(&["bad"]);
    let mut sdk = Sdk::connect(&broker, &GO);
    let channel = sdk.receiver(QUEUE, 3, GO.locking);
    let delivery = sdk.receive(channel, 3, 1).remove(0);
    let info = RawMap::with_string_keys(&[
        ("DeadLetterReason", AnnotationValue::Str("broken")),
        ("DeadLetterErrorDescription", AnnotationValue::Str("cannot be read")),
        ("note", AnnotationValue::Str("seen")),
        ("attempts", AnnotationValue::Long(3)),
    ]);
    let error = Error { condition: "com.microsoft:dead-letter".into(), description: None, info: Some(info) };
    sdk.settle(channel, &delivery, DeliveryState::Rejected(Some(Box::new(error))));
    let dead = sdk.receiver("orders/$DeadLetterQueue", 13, GO.locking);
    let letter = sdk.receive(dead, 13, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    assert_eq!(letter.property("DeadLetterErrorDescription").as_deref(), Some("cannot be read"));
    assert_eq!(letter.property("note").as_deref(), Some("seen"));
    assert_eq!(letter.number("attempts"), Some(3));
    sdk.client.close();
}
