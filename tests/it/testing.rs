//! What the broker offers to those who test against it: a clock that can be moved.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use amqp_codec::{performative::DeliveryState, types::ReceiverSettleMode};
use broker_core::{EntitySettings, LockLifetime};

use crate::{
    broker::{Broker, QUEUE},
    http::ask,
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

/// Moves the broker's time forward.
pub(crate) fn advance(address: SocketAddr, by: Duration) {
    let body = format!(r#"{{"by_ms":{}}}"#, by.as_millis());
    let (status, text) = ask(address, "POST /$ferrybus/clock/advance", &body);
    assert_eq!(status, 200, "{text}");
}

#[test]
fn a_lock_is_lost_as_soon_as_the_clock_has_moved_past_it() {
    let lock_duration = Duration::from_secs(300);
    let settings = EntitySettings { lock_duration, hold: LockLifetime::Lock, ..EntitySettings::default() };
    let broker = Broker::with_queue(settings);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["tea"]);
    client.receiver(2, QUEUE, SECOND);
    let first = client.receive(2, 1).remove(0);
    advance(broker.address, Duration::from_secs(200));
    client.nothing_on(2);
    let began = Instant::now();
    advance(broker.address, Duration::from_secs(101));
    let again = client.receive(2, 1).remove(0);
    assert!(began.elapsed() < Duration::from_secs(50), "nobody waited for it");
    assert_eq!((again.text().as_str(), again.header().delivery_count), ("tea", 1));
    let answer = client.outcome(0, first.id(), DeliveryState::Accepted);
    assert!(matches!(answer.state, Some(DeliveryState::Rejected(Some(_)))), "{answer:?}");
    client.complete(&again);
}

#[test]
fn what_has_expired_is_gone_when_the_answer_comes() {
    let day = Duration::from_secs(86_400);
    let broker = Broker::with_queue(EntitySettings {
        default_time_to_live: Some(14 * day),
        dead_letter_on_expiration: true,
        ..EntitySettings::default()
    });
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let texts: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    client.accepted(1, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    client.receiver(2, &format!("{QUEUE}/$DeadLetterQueue"), SECOND);
    client.nothing_on(2);
    advance(broker.address, 14 * day);
    // No waiting: a drain answers with what is there now.
    assert_eq!(client.drain(0, 2, 1000).len(), 500);
}

#[test]
fn connections_and_tokens_keep_to_the_real_time() {
    let broker = Broker::with(|config| config.idle_time_out = Duration::from_secs(60));
    let mut innocent = broker.innocent();
    advance(broker.address, Duration::from_secs(365 * 86_400));
    innocent.works();
    // The token of this request was made by the real clock, and is good still.
    let (status, time) = ask(broker.http_address(), "GET /$ferrybus/clock", "");
    assert_eq!(status, 200);
    assert!(time.contains(r#""ahead_ms":31536000000"#), "{time}");
}

#[test]
fn a_broker_that_was_not_started_for_testing_refuses() {
    let broker = Broker::with(|config| config.testing = false);
    for (request, body) in [
        ("GET /$ferrybus/clock", ""),
        ("POST /$ferrybus/clock/advance", r#"{"by_ms":1}"#),
        ("GET /$ferrybus/faults", ""),
        ("POST /$ferrybus/faults", r#"{"kind":"server-busy","count":1}"#),
        ("DELETE /$ferrybus/faults/1", ""),
    ] {
        let (status, text) = ask(broker.http_address(), request, body);
        assert_eq!(status, 403, "{request}");
        assert!(text.contains("--testing"), "{text}");
    }
}
