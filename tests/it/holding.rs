//! Receivers of plain AMQP hold their messages without a timer, beside receivers of Service Bus whose locks have one.

use std::time::Duration;

use amqp_codec::{performative::DeliveryState, types::ReceiverSettleMode};
use broker_core::{EntitySettings, LockLifetime};
use serde_json::Value;

use crate::{
    broker::{Broker, QUEUE},
    dialect::modified,
    http::ask,
    message::Delivery,
    testing::advance,
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);
const HOUR: Duration = Duration::from_secs(3_600);

fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(Delivery::text).collect()
}

/// The connections that have deliveries which are not settled.
fn holders(broker: &Broker) -> Vec<Value> {
    let (status, body) = ask(broker.address, "GET /$ferrybus/connections", "");
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let all = body["connections"].as_array().unwrap().iter();
    all.filter(|it| it["unsettled"].as_u64() > Some(0)).cloned().collect()
}

/// For how long the oldest message of the queue is held, by the metrics.
fn oldest_held(broker: &Broker) -> Duration {
    let (_, text) = ask(broker.address, "GET /metrics", "");
    let name = format!(
        "ferrybus_entity_oldest_held_message_age_seconds{{namespace=\"default\",entity=\"{QUEUE}\",kind=\"queue\"}} "
    );
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    let seconds = line.unwrap_or_else(|| panic!("{name} is not in\n{text}"));
    Duration::from_secs_f64(seconds.parse().unwrap())
}

#[test]
fn a_listener_slower_than_a_lock_processes_each_message_once() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let sent: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    client.accepted(1, &sent.iter().map(String::as_str).collect::<Vec<_>>());
    client.receiver_with(2, QUEUE, modified(Some(true), None));
    let prefetched = client.receive(2, 20);
    for delivery in &prefetched {
        advance(broker.address, Duration::from_secs(20));
        client.complete(delivery);
    }
    assert_eq!(texts(&prefetched), sent);
    client.nothing_on(2);
    client.receiver(3, &format!("{QUEUE}/$DeadLetterQueue"), SECOND);
    client.nothing_on(3);
}

#[test]
fn an_operator_finds_a_client_that_hangs_and_closes_its_connection() {
    let broker = Broker::start();
    let mut other = broker.plain();
    other.sender(1, QUEUE);
    other.accepted(1, &["first", "second", "third"]);
    assert_eq!((oldest_held(&broker), holders(&broker)), (Duration::ZERO, Vec::new()));
    let mut hangs = broker.plain();
    hangs.receiver_with(2, QUEUE, modified(Some(true), None));
    assert_eq!(texts(&hangs.receive(2, 2)), ["first", "second"]);
    advance(broker.address, HOUR);
    other.receiver(2, QUEUE, SECOND);
    other.credit_on(0, 2, 3, false);
    let third = [other.delivery(2)];
    assert_eq!(texts(&third), ["third"]);
    let held = holders(&broker);
    assert_eq!(held.len(), 2, "{held:?}");
    let oldest = held.iter().max_by_key(|it| it["oldest_unsettled_seconds"].as_u64()).unwrap();
    assert_eq!((&oldest["unsettled"], &oldest["protocol"]), (&2.into(), &"amqp".into()), "{held:?}");
    assert!((3_600..4_000).contains(&oldest["oldest_unsettled_seconds"].as_u64().unwrap()), "{held:?}");
    assert!((HOUR..HOUR + Duration::from_secs(400)).contains(&oldest_held(&broker)));
    let (status, body) = ask(broker.address, &format!("DELETE /$ferrybus/connections/{}", oldest["id"]), "");
    assert_eq!(status, 200, "{body}");
    hangs.wire.closed().unwrap();
    drop(hangs);
    // Its receiver's default outcome says that what returns counts as failed.
    let returned = [other.delivery(2), other.delivery(2)];
    assert_eq!(texts(&returned), ["first", "second"]);
    assert_eq!(returned.each_ref().map(|it| it.header().delivery_count), [1, 1]);
    assert!(oldest_held(&broker) < Duration::from_secs(600));
    for delivery in third.iter().chain(&returned) {
        client_settles(&mut other, delivery);
    }
    assert_eq!((oldest_held(&broker), holders(&broker)), (Duration::ZERO, Vec::new()));
}

fn client_settles(client: &mut crate::client::Client, delivery: &Delivery) {
    let answer = client.outcome(0, delivery.id(), DeliveryState::Accepted);
    assert_eq!(answer.state, Some(DeliveryState::Accepted));
}

#[test]
fn a_queue_that_holds_by_lock_gives_plain_receivers_a_timer() {
    let broker = Broker::with_queue(EntitySettings { hold: LockLifetime::Lock, ..EntitySettings::default() });
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["m"]);
    client.receiver(2, QUEUE, SECOND);
    client.credit_on(0, 2, 2, false);
    let first = client.delivery(2);
    assert_eq!(oldest_held(&broker), Duration::ZERO, "its lock ends by itself");
    advance(broker.address, HOUR);
    let again = client.delivery(2);
    assert_eq!((again.text(), again.header().delivery_count), (first.text(), 1));
}
