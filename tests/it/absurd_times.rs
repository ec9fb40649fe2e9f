//! Messages that name times of no calendar.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::DeliveryState,
    raw::{AnnotationValue, RawMap},
    sections::{Header, PropertyField},
    types::ReceiverSettleMode,
};

use crate::{
    broker::{Broker, QUEUE},
    dialect::{RECEIVER, Sdk},
    message::Delivery,
    sdk_dotnet::DOTNET,
    testing::advance,
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

#[test]
fn times_beyond_all_calendars_harm_nobody() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let begun_by_now = [i64::MIN, i64::MIN + 1, -1, 0];
    let never = [253_402_300_800_000, i64::MAX - 1, i64::MAX];
    for time in begun_by_now.into_iter().chain(never) {
        for ttl in [None, Some(u32::MAX)] {
            let builder = || MessageBuilder::new().header(Header { ttl, ..Header::default() });
            let at = AnnotationValue::Timestamp(time);
            let due = RawMap::with_symbol_keys(&[("x-opt-scheduled-enqueue-time", at)]);
            let scheduled = builder().message_annotations(due).data(b"scheduled").build();
            let expiring =
                builder().property(PropertyField::AbsoluteExpiryTime, at).data(b"expiring").build();
            for payload in [scheduled, expiring] {
                client.send(1, false, &payload);
                let answer = client.wire.disposed().unwrap();
                assert_eq!(answer.state, Some(DeliveryState::Accepted), "{time} {ttl:?}");
            }
        }
    }
    advance(broker.address, Duration::from_secs(3_600));
    client.receiver(2, QUEUE, SECOND);
    let received: Vec<String> = client.drain(0, 2, 100).iter().map(Delivery::text).collect();
    let of = |text: &str| received.iter().filter(|found| found.as_str() == text).count();
    assert_eq!(of("scheduled"), 2 * begun_by_now.len(), "a time that has passed is now");
    // Where the header says how long, that counts; else the end does.
    assert_eq!(of("expiring"), begun_by_now.len() + 2 * never.len());
    innocent.works();
}

#[test]
fn a_life_longer_than_a_header_can_say_is_as_long_as_its_sender_meant() {
    const CREATED: i64 = 1_700_000_000_000;
    const DAY: u64 = 86_400;
    const LIFE: i64 = 100 * 86_400_000;
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, &DOTNET);
    let channel = sdk.sender(QUEUE);
    // So the SDK for .NET writes a hundred days.
    let payload = MessageBuilder::new()
        .header(Header { ttl: Some(u32::MAX), ..Header::default() })
        .message_id("m")
        .property(PropertyField::AbsoluteExpiryTime, AnnotationValue::Timestamp(CREATED + LIFE))
        .property(PropertyField::CreationTime, AnnotationValue::Timestamp(CREATED))
        .data(b"long")
        .build();
    for _ in 0..2 {
        sdk.send(channel, 0, &payload);
    }
    advance(broker.address, Duration::from_secs(99 * DAY));
    let channel = sdk.receiver(QUEUE, RECEIVER, DOTNET.locking);
    let delivery = sdk.receive(channel, RECEIVER, 1).remove(0);
    assert_eq!(
        (delivery.text().as_str(), delivery.lifetime(), delivery.header().ttl),
        ("long", Some(LIFE), None)
    );
    sdk.settle(channel, &delivery, DeliveryState::Accepted);
    advance(broker.address, Duration::from_secs(DAY));
    assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    sdk.client.close();
}
