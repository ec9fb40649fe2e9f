//! `azure-messaging-servicebus` for Java, by the book: requests numbered by `ulong`, one constant reply address for
//! each node, `long` time-outs, properties of a settlement with string keys, and transactions.

use amqp_codec::{
    performative::{DeliveryState, Open, Source},
    raw::{AnnotationValue, RawMap},
    types::{ReceiverSettleMode, SenderSettleMode},
};

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, Sdk, dead_letter, modified, plain_session},
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
    properties: || {
        Some(RawMap::with_symbol_keys(&[
            ("com.microsoft:timeout", AnnotationValue::Uint(59_000)),
            ("com.microsoft:entity-type", AnnotationValue::Int(0)),
        ]))
    },
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
fn java_sends_one_message_and_a_batch() {
    service_bus::sends_and_batches(&JAVA);
}

#[test]
fn java_settles_in_every_way() {
    service_bus::settles(&JAVA);
}

#[test]
fn java_receives_and_deletes() {
    service_bus::receives_and_deletes(&JAVA);
}

#[test]
fn java_renews_and_settles_by_token() {
    service_bus::renews_and_settles_by_token(&JAVA);
}

#[test]
fn java_peeks() {
    service_bus::peeks(&JAVA);
}

#[test]
fn java_accepts_sessions() {
    sessions::accepts(&JAVA);
}

#[test]
fn java_waits_for_the_next_session() {
    sessions::waits_for_the_next(&JAVA);
}

#[test]
fn java_keeps_a_session_and_its_state() {
    sessions::keeps(&JAVA);
}

#[test]
fn java_settles_the_copies_of_subscriptions_apart() {
    topics::settles_copies_apart(&JAVA);
}

#[test]
fn java_manages_rules() {
    topics::manages_rules(&JAVA);
}

#[test]
fn java_is_told_that_an_entity_is_missing() {
    service_bus::misses_an_entity(&JAVA);
}

#[test]
fn java_is_refused_without_a_good_token() {
    service_bus::is_refused_without_a_good_token(&JAVA);
}

#[test]
fn java_connections_use_the_same_reply_address_without_mixing_answers() {
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
fn java_sees_a_symbolic_reason_in_a_lost_lock() {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, &JAVA);
    let channel = sdk.management();
    let body = crate::message::update([7; 16], "completed");
    let lost = sdk.manage(channel, "com.microsoft:update-disposition", &body);
    assert_eq!(lost.status("statusCode"), 410);
    assert_eq!(lost.error_condition().as_deref(), Some("com.microsoft:message-lock-lost"));
}

#[test]
fn java_commits_and_rolls_back_over_several_entities() {
    transactions::cross_entity(&JAVA, || Source::new("here"));
}

#[test]
fn java_sends_via_the_entity_it_receives_from() {
    transactions::one_entity_and_send_via(&JAVA, || Source::new("here"));
}

#[test]
fn java_settles_in_transactions() {
    transactions::settles_in_transactions(&JAVA, || Source::new("here"));
}

#[test]
fn java_is_answered_for_a_rejection_without_any_reason() {
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
