//! `azure-messaging-servicebus` for Java, by the book: requests numbered by `ulong`, one constant reply address for
//! each node, `long` time-outs, properties of a settlement with string keys, and transactions.

use amqp_codec::{
    performative::{DeliveryState, Error, Modified, Open, Source},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
    value::Value,
};

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, Sdk, dead_letter, modified, plain_session},
    numbers::{longs, map, messages, outcome},
    service_bus, sessions, topics, transactions,
};

const UNSETTLED: Option<SenderSettleMode> = Some(SenderSettleMode::Unsettled);
const FIRST: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::First);
const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

pub(crate) const JAVA: Dialect = Dialect {
    sasl: ("ANONYMOUS", None),
    open,
    address: str::to_owned,
    audience: "amqp",
    expiration: AnnotationValue::Timestamp(4_102_444_800_000),
    message_id: AnnotationValue::Ulong(1),
    reply_to: |node| format!("{}-client-reply-to", node.replace('$', "")),
    settled_requests: false,
    requests: (None, None),
    replies: (None, None),
    sending: (UNSETTLED, FIRST),
    locking: (UNSETTLED, SECOND),
    deleting: (Some(SenderSettleMode::Settled), FIRST),
    // Only receivers name the kind of their entity.
    properties: |role| {
        let time_out = ("com.microsoft:timeout", AnnotationValue::Uint(59_000));
        let kind = ("com.microsoft:entity-type", AnnotationValue::Int(0));
        let kind = (role == Role::Receiver).then_some(kind);
        Some(RawMap::with_symbol_keys(&[time_out].into_iter().chain(kind).collect::<Vec<_>>()))
    },
    bare_receivers: false,
    associated_link: None,
    session_filter: plain_session,
    server_timeout: AnnotationValue::Long(59_000),
    abandon: || modified(None, None),
    defer: || modified(None, Some(true)),
    dead_letter: || dead_letter(false),
};

fn open() -> Open {
    let mut open = Open::new("MF_1a2b3c_1700000000000");
    open.hostname = Some("localhost".to_owned());
    (open.max_frame_size, open.idle_time_out) = (65_536, Some(60_000));
    open
}

#[test]
fn scripted_java_sends_one_message_and_a_batch() {
    service_bus::sends_and_batches(&JAVA);
}

#[test]
fn scripted_java_pipelines_a_thousand_sends() {
    service_bus::pipelines(&JAVA);
}

#[test]
fn scripted_java_counts_to_the_dead_letters() {
    service_bus::counts_to_the_dead_letters(&JAVA);
}

#[test]
fn scripted_java_receivers_compete() {
    service_bus::competes(&JAVA);
}

#[test]
fn scripted_java_is_told_on_the_link_that_a_lock_is_lost() {
    service_bus::loses_a_lock(&JAVA);
}

#[test]
fn scripted_java_is_told_of_a_message_that_is_too_large() {
    service_bus::is_told_of_a_size(&JAVA);
}

#[test]
fn scripted_java_settles_in_every_way() {
    service_bus::settles(&JAVA);
}

#[test]
fn scripted_java_receives_and_deletes() {
    service_bus::receives_and_deletes(&JAVA);
}

#[test]
fn scripted_java_renews_and_settles_by_token() {
    service_bus::renews_and_settles_by_token(&JAVA);
}

#[test]
fn scripted_java_peeks() {
    service_bus::peeks(&JAVA);
}

#[test]
fn scripted_java_accepts_sessions() {
    sessions::accepts(&JAVA);
}

#[test]
fn scripted_java_waits_for_the_next_session() {
    sessions::waits_for_the_next(&JAVA);
}

#[test]
fn scripted_java_keeps_a_session_and_its_state() {
    sessions::keeps(&JAVA);
}

#[test]
fn scripted_java_is_answered_when_it_settles_in_a_session_that_it_has_lost() {
    sessions::settles_too_late(&JAVA);
}

#[test]
fn scripted_java_settles_the_copies_of_subscriptions_apart() {
    topics::settles_copies_apart(&JAVA);
}

#[test]
fn scripted_java_manages_rules() {
    topics::manages_rules(&JAVA);
}

#[test]
fn scripted_java_is_told_that_an_entity_is_missing() {
    service_bus::misses_an_entity(&JAVA);
}

#[test]
fn scripted_java_is_refused_without_a_good_token() {
    service_bus::is_refused_without_a_good_token(&JAVA);
}

#[test]
fn scripted_java_connections_use_the_same_reply_address_without_mixing_answers() {
    let broker = Broker::start();
    let mut one = Sdk::connect(&broker, &JAVA);
    let mut other = Sdk::connect(&broker, &JAVA);
    for _ in 0..3 {
        // Each waits for its own answer; one that went astray would be missing here and surplus there.
        one.authorize(QUEUE);
        other.authorize(QUEUE);
    }
    one.client.close();
    other.client.close();
}

#[test]
fn scripted_java_sees_a_symbolic_reason_in_a_lost_lock() {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, &JAVA);
    let channel = sdk.management();
    let body = crate::message::update([7; 16], "completed");
    let lost = sdk.manage(channel, "com.microsoft:update-disposition", &body);
    assert_eq!(lost.status("statusCode"), 410);
    assert_eq!(lost.error_condition().as_deref(), Some("com.microsoft:message-lock-lost"));
}

#[test]
fn scripted_java_commits_and_rolls_back_over_several_entities() {
    transactions::cross_entity(&JAVA, || Source::new("here"));
}

#[test]
fn scripted_java_sends_via_the_entity_it_receives_from() {
    transactions::one_entity_and_send_via(&JAVA, || Source::new("here"));
}

#[test]
fn scripted_java_settles_in_transactions() {
    transactions::settles_in_transactions(&JAVA, || Source::new("here"));
}

#[test]
fn scripted_java_is_answered_for_a_rejection_without_any_reason() {
    let broker = Broker::start();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    sender.accepted(1, &["m"]);
    let mut sdk = Sdk::connect(&broker, &JAVA);
    let channel = sdk.receiver(QUEUE, 3, JAVA.locking);
    let delivery = sdk.receive(channel, 3, 1).remove(0);
    let answer = sdk.client.outcome(channel, delivery.id(), DeliveryState::Rejected(None));
    assert_eq!(answer.state, Some(DeliveryState::Rejected(None)));
    let channel = sdk.receiver("orders/$deadletterqueue", 13, JAVA.locking);
    let letter = sdk.receive(channel, 13, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason"), None);
}

/// Properties to modify, with string keys where others have symbols.
fn noted(undeliverable_here: Option<bool>) -> DeliveryState {
    DeliveryState::Modified(Box::new(Modified {
        delivery_failed: None,
        undeliverable_here,
        message_annotations: Some(RawMap::with_string_keys(&[("note", AnnotationValue::Str("seen"))])),
    }))
}

#[test]
fn scripted_java_modifies_properties_however_it_settles() {
    let broker = service_bus::filled(&["abandon", "defer", "dead-letter"]);
    let mut sdk = Sdk::connect(&broker, &JAVA);
    let channel = sdk.receiver(QUEUE, 3, JAVA.locking);
    let received = sdk.receive(channel, 3, 3);
    sdk.settle(channel, &received[0], noted(None));
    sdk.settle(channel, &received[1], noted(Some(true)));
    let info = RawMap::with_string_keys(&[
        ("DeadLetterReason", AnnotationValue::Str("broken")),
        ("note", AnnotationValue::Str("seen")),
    ]);
    let error = Error { condition: "com.microsoft:dead-letter".into(), description: None, info: Some(info) };
    sdk.settle(channel, &received[2], DeliveryState::Rejected(Some(Box::new(error))));

    let abandoned = sdk.receive(channel, 3, 1).remove(0);
    assert_eq!((abandoned.text().as_str(), abandoned.property("note").as_deref()), ("abandon", Some("seen")));
    let node = sdk.management();
    let numbers = longs(&[received[1].sequence_number()]);
    let body = map(&[("sequence-numbers", numbers), ("receiver-settle-mode", Value::Uint(1))]);
    let answer = sdk.manage(node, "com.microsoft:receive-by-sequence-number", &body);
    let deferred = messages(&answer).remove(0);
    assert_eq!((deferred.text().as_str(), deferred.property("note").as_deref()), ("defer", Some("seen")));
    let dead = sdk.receiver("orders/$DeadLetterQueue", 13, JAVA.locking);
    let letter = sdk.receive(dead, 13, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    assert_eq!(letter.property("note").as_deref(), Some("seen"));

    // By request, as what was deferred is settled.
    let tokens = crate::message::uuids(&[deferred.lock_token()]);
    let notes = RawMap::with_string_keys(&[("note", AnnotationValue::Str("seen twice"))]);
    let update = RawMap::with_string_keys(&[
        ("disposition-status", AnnotationValue::Str("abandoned")),
        ("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap())),
        ("properties-to-modify", AnnotationValue::Raw(RawValue::first(notes.bytes()).unwrap())),
    ]);
    assert_eq!(outcome(&sdk.manage(node, "com.microsoft:update-disposition", &update)), (200, None));
    let again = messages(&sdk.manage(node, "com.microsoft:receive-by-sequence-number", &body)).remove(0);
    assert_eq!(again.property("note").as_deref(), Some("seen twice"));
    sdk.client.close();
}

#[test]
fn scripted_java_works_on_topics_in_transactions() {
    transactions::topics_and_subscriptions(&JAVA, || Source::new("here"));
}
