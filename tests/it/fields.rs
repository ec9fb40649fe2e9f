//! What messages tell of partitions, of where they have been and of how long they live, in the types that the SDKs cast to.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::DeliveryState,
    raw::{AnnotationValue, RawMap},
    sections::Header,
    types::TypeKind,
};
use broker_core::EntitySettings;
use broker_server::EntityPlan;
use bytes::Bytes;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, RECEIVER, Sdk},
    message::{message, peek},
    numbers::messages,
    sdk_dotnet::DOTNET,
    sdk_go::GO,
    sdk_java::JAVA,
    testing::advance,
};

const PARTS: &str = "parts";
const MINUTE: Duration = Duration::from_secs(60);

/// A partitioned queue whose dead letters go to a morgue, an entrance to [`QUEUE`], and there lifetimes of ten minutes
/// at most.
fn broker() -> Broker {
    let parts = EntitySettings {
        enable_partitioning: true,
        forward_dead_lettered_to: Some("morgue".into()),
        ..EntitySettings::default()
    };
    let orders = EntitySettings {
        default_time_to_live: Some(10 * MINUTE),
        dead_letter_on_expiration: true,
        lock_duration: MINUTE,
        ..EntitySettings::default()
    };
    let entrance = EntitySettings { forward_to: Some(QUEUE.into()), ..EntitySettings::default() };
    Broker::with(|config| {
        config.entities = vec![
            EntityPlan::queue("morgue", EntitySettings::default()),
            EntityPlan::queue(QUEUE, orders),
            EntityPlan::queue(PARTS, parts),
            EntityPlan::queue("entrance", entrance),
        ];
    })
}

/// Sends as SDKs do, through a link that is closed again.
fn send(broker: &Broker, dialect: &Dialect, entity: &str, messages: &[Bytes]) {
    let mut sdk = Sdk::connect(broker, dialect);
    let channel = sdk.sender(entity);
    for message in messages {
        sdk.send(channel, 0, message);
    }
    sdk.client.close();
}

fn keyed(text: &str, key: &str) -> Bytes {
    let key = [("x-opt-partition-key", AnnotationValue::Str(key))];
    let annotations = RawMap::with_symbol_keys(&key);
    MessageBuilder::new().message_id(text).message_annotations(annotations).data(text.as_bytes()).build()
}

fn living(text: &str, ttl: Duration) -> Bytes {
    let ttl = Some(u32::try_from(ttl.as_millis()).unwrap());
    let header = Header { ttl, ..Header::default() };
    MessageBuilder::new().header(header).message_id(text).data(text.as_bytes()).build()
}

/// The partition is a `short` and the top of the number; dead letters that were forwarded name their source.
fn reads_partitions_and_sources(dialect: &Dialect) {
    let broker = broker();
    send(&broker, dialect, PARTS, &["a1", "b2", "a3", "c4"].map(|text| keyed(text, &text[..1])));
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(PARTS, RECEIVER, dialect.locking);
    let received = sdk.receive(channel, RECEIVER, 4);
    let mut numbers = Vec::new();
    for delivery in &received {
        delivery.is_locked_for_service_bus(0);
        let partition = delivery.annotation("x-opt-partition-id", TypeKind::Short).as_i64().unwrap();
        assert_eq!(partition, delivery.sequence_number() >> 48, "{}", delivery.text());
        let key = delivery.annotation("x-opt-partition-key", TypeKind::String).as_str().unwrap().to_owned();
        assert_eq!(key, delivery.text()[..1]);
        numbers.push((delivery.text(), partition, delivery.sequence_number()));
        sdk.settle(channel, delivery, (dialect.dead_letter)());
    }
    numbers.sort();
    assert_eq!(numbers[0].1, numbers[1].1, "equal keys are one partition: {numbers:?}");
    assert_eq!(numbers[0].2 + 1, numbers[1].2, "which counts by itself: {numbers:?}");
    let channel = sdk.receiver("morgue", RECEIVER + 10, dialect.locking);
    for letter in sdk.receive(channel, RECEIVER + 10, 4) {
        assert_eq!(letter.annotation("x-opt-deadletter-source", TypeKind::String).as_str(), Some(PARTS));
        assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
        let first = letter.annotation("x-opt-enqueue-sequence-number", TypeKind::Long).as_i64().unwrap();
        assert!(numbers.iter().any(|(text, _, number)| (text, *number) == (&letter.text(), first)));
        sdk.settle(channel, &letter, DeliveryState::Accepted);
    }
    sdk.client.close();
}

/// A forwarded message keeps its first number beside its new one.
fn reads_forwarded_messages(dialect: &Dialect) {
    let broker = broker();
    send(&broker, dialect, QUEUE, &[message("straight")]);
    send(&broker, dialect, "entrance", &["a", "b"].map(message));
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    for (text, number, first) in [("straight", 1, None), ("a", 2, Some(1)), ("b", 3, Some(2))] {
        let delivery = sdk.receive(channel, RECEIVER, 1).remove(0);
        delivery.is_locked_for_service_bus(0);
        let found = (delivery.sequence_number(), delivery.first_number());
        assert_eq!((delivery.text().as_str(), found), (text, (number, first)));
        sdk.settle(channel, &delivery, DeliveryState::Accepted);
    }
    sdk.client.close();
}

/// The header and the properties tell the same lifetime, in peek only what the message itself named.
fn reads_lifetimes(dialect: &Dialect) {
    let broker = broker();
    let sent = [living("capped", 60 * MINUTE), message("default"), living("short", 5 * MINUTE)];
    send(&broker, dialect, QUEUE, &sent);
    let mut sdk = Sdk::connect(&broker, dialect);
    let node = sdk.management();
    let minutes = |count: u32| Some(60_000 * count);
    let rows = [("capped", minutes(10), true), ("default", minutes(10), false), ("short", minutes(5), true)];
    let peeked = messages(&sdk.manage(node, "com.microsoft:peek-message", &peek(1, 9)));
    for (shown, (text, lifetime, own)) in peeked.iter().zip(rows) {
        let expected = lifetime.filter(|_| own);
        assert_eq!((shown.text().as_str(), shown.header().ttl), (text, expected));
        assert_eq!(shown.lifetime(), expected.map(i64::from), "{text}");
    }
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    for (delivery, (text, lifetime, _)) in sdk.receive(channel, RECEIVER, 3).iter().zip(rows) {
        assert_eq!((delivery.text().as_str(), delivery.header().ttl), (text, lifetime));
        assert_eq!(delivery.lifetime(), lifetime.map(i64::from), "{text}");
        sdk.settle(channel, delivery, (dialect.abandon)());
    }
    advance(broker.address, 11 * MINUTE);
    assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    let channel = sdk.receiver("orders/$DeadLetterQueue", RECEIVER + 10, dialect.locking);
    for letter in sdk.receive(channel, RECEIVER + 10, 3) {
        assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("TTLExpiredException"));
        assert_eq!(letter.header().delivery_count, 1, "{}", letter.text());
    }
    sdk.client.close();
}

fn reads_all(dialect: &Dialect) {
    reads_partitions_and_sources(dialect);
    reads_forwarded_messages(dialect);
    reads_lifetimes(dialect);
}

#[test]
fn scripted_dotnet_reads_partitions_sources_and_lifetimes() {
    reads_all(&DOTNET);
}

#[test]
fn scripted_java_reads_partitions_sources_and_lifetimes() {
    reads_all(&JAVA);
}

#[test]
fn scripted_go_reads_partitions_sources_and_lifetimes() {
    reads_all(&GO);
}
