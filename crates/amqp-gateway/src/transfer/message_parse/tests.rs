use amqp_codec::{message::MessageBuilder, raw::RawMap, sections::Header};
use broker_core::ClientId;
use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_000_000;

fn read(dialect: Dialect, payload: &Bytes) -> Result<Message, Refusal> {
    let options =
        ParseOptions { dialect, utc: Timestamp::from_millis(NOW), required_fields: RequiredFields::ALL };
    message(payload.clone(), options, &mut Tracking::new(1, ClientId(1)))
}

fn properties(fields: &[(PropertyField, AnnotationValue<'_>)]) -> Bytes {
    let builder =
        fields.iter().fold(MessageBuilder::new(), |builder, (field, value)| builder.property(*field, *value));
    builder.data(b"x").build()
}

#[test]
fn a_plain_message_is_stored_as_the_bytes_it_came() {
    for payload in
        [MessageBuilder::new().data(b"x").build(), MessageBuilder::new().subject("s").data(b"x").build()]
    {
        let message = read(Dialect::Plain, &payload).unwrap();
        assert_eq!(message, Message { payload, ..Message::default() });
    }
}

#[test]
fn facts_are_read_from_header_properties_and_annotations() {
    let payload = MessageBuilder::new()
        .header(Header { durable: Some(true), ttl: Some(5000), ..Header::default() })
        .message_annotations(RawMap::with_symbol_keys(&[
            ("x-opt-scheduled-enqueue-time", AnnotationValue::Timestamp(7)),
            ("x-opt-partition-key", AnnotationValue::Str("k")),
        ]))
        .message_id("m")
        .property(PropertyField::GroupId, AnnotationValue::Str("g"))
        .data(b"x")
        .build();
    for dialect in [Dialect::Plain, Dialect::ServiceBus] {
        let message = read(dialect, &payload).unwrap();
        let expected = Message {
            payload: payload.clone(),
            time_to_live: Some(Duration::from_secs(5)),
            durable: true,
            limits: dialect.limits(),
            session_id: Some("g".into()),
            message_id: Some("m".into()),
            partition_key: Some("k".into()),
            scheduled_enqueue_time: Some(Timestamp::from_millis(7)),
            forwarded: None,
            properties: None,
        };
        assert_eq!(message, expected, "{dialect:?}");
    }
}

#[test]
fn an_annotation_of_another_type_is_refused_by_its_name_and_null_is_none() {
    let annotated = |name, value| {
        let annotations = RawMap::with_symbol_keys(&[(name, value)]);
        MessageBuilder::new().message_annotations(annotations).data(b"x").build()
    };
    let time = "x-opt-scheduled-enqueue-time";
    let key = "x-opt-partition-key";
    let wrong = [
        (time, AnnotationValue::Long(7), "a timestamp"),
        (time, AnnotationValue::Str("2027-01-01T00:00:00Z"), "a timestamp"),
        (key, AnnotationValue::Long(7), "a string"),
        (key, AnnotationValue::Timestamp(7), "a string"),
    ];
    for dialect in [Dialect::Plain, Dialect::ServiceBus] {
        for (name, value, wanted) in wrong {
            let refusal = read(dialect, &annotated(name, value)).unwrap_err();
            assert_eq!(refusal, Refusal::BadAnnotation { name, wanted }, "{dialect:?}");
            assert_eq!(refusal.named().condition, "com.microsoft:argument-error");
            assert!(refusal.text().contains(name));
        }
        for name in [time, key] {
            let message = read(dialect, &annotated(name, AnnotationValue::Null)).unwrap();
            assert_eq!((message.scheduled_enqueue_time, message.partition_key), (None, None));
        }
        let past = read(dialect, &annotated(time, AnnotationValue::Timestamp(i64::MIN))).unwrap();
        assert_eq!(past.scheduled_enqueue_time, Some(Timestamp::from_millis(0)));
    }
}

#[test]
fn a_missing_ttl_follows_from_the_absolute_expiry() {
    let expiry = |end| (PropertyField::AbsoluteExpiryTime, AnnotationValue::Timestamp(end));
    let created = (PropertyField::CreationTime, AnnotationValue::Timestamp(500_000));
    let cases = [
        (vec![expiry(1_004_000)], Some(4000), Some(4000)),
        (vec![expiry(999_000)], Some(0), Some(0)),
        (vec![expiry(i64::MIN)], Some(0), Some(0)),
        (vec![expiry(NEVER)], None, None),
        (vec![expiry(600_000), created], Some(0), Some(100_000)),
    ];
    for (fields, plain, service_bus) in cases {
        let payload = properties(&fields);
        for (dialect, expected) in [(Dialect::Plain, plain), (Dialect::ServiceBus, service_bus)] {
            let lifetime = read(dialect, &payload).unwrap().time_to_live;
            assert_eq!(lifetime, expected.map(Duration::from_millis), "{dialect:?} {fields:?}");
        }
    }
}

#[test]
fn the_largest_ttl_of_a_header_gives_way_to_a_longer_life_between_both_ends() {
    const MOST: u32 = u32::MAX;
    const DAYS_100: i64 = 100 * 86_400_000;
    let most = Some(u64::from(MOST));
    let cases = [
        (MOST, Some(500_000), Some(500_000 + DAYS_100), most, Some(100 * 86_400_000)),
        (MOST, Some(500_000), Some(NEVER), most, None),
        (MOST, Some(i64::MIN), Some(i64::MAX), most, None),
        (MOST, Some(500_000), Some(500_000 + i64::from(MOST)), most, most),
        (MOST, Some(500_000), Some(600_000), most, most),
        (MOST, None, Some(500_000 + DAYS_100), most, most),
        (MOST, Some(500_000), None, most, most),
        (
            MOST - 1,
            Some(500_000),
            Some(500_000 + DAYS_100),
            Some(u64::from(MOST) - 1),
            Some(u64::from(MOST) - 1),
        ),
        (4_000, Some(500_000), Some(500_000 + DAYS_100), Some(4_000), Some(4_000)),
    ];
    for (ttl, created, end, plain, service_bus) in cases {
        let mut message = MessageBuilder::new().header(Header { ttl: Some(ttl), ..Header::default() });
        let ends = [(PropertyField::CreationTime, created), (PropertyField::AbsoluteExpiryTime, end)];
        for (field, at) in ends {
            if let Some(at) = at {
                message = message.property(field, AnnotationValue::Timestamp(at));
            }
        }
        let payload = message.data(b"x").build();
        for (dialect, expected) in [(Dialect::Plain, plain), (Dialect::ServiceBus, service_bus)] {
            let lifetime = read(dialect, &payload).unwrap().time_to_live;
            assert_eq!(
                lifetime,
                expected.map(Duration::from_millis),
                "{dialect:?} {ttl} {created:?} {end:?}"
            );
        }
        // When it is forwarded it lives as long again.
        let again = describe(Timestamp::from_millis(1_000_000), &payload).time_to_live;
        assert_eq!(again, service_bus.map(Duration::from_millis), "{ttl} {created:?} {end:?}");
    }
}

#[test]
fn a_service_bus_message_without_id_gets_one_of_32_hex_digits() {
    let payload = MessageBuilder::new().subject("s").data(b"body").build();
    let stored = read(Dialect::ServiceBus, &payload).unwrap().payload;
    let sections = Sections::scan(&stored).unwrap();
    let view = sections.properties_view(&stored);
    let id = view.get(PropertyField::MessageId).unwrap().as_string().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{id}");
    assert_eq!(view.get(PropertyField::Subject).unwrap().as_str(), Some("s"));
    let original = Sections::scan(&payload).unwrap();
    assert_eq!(sections.body.of(&stored), original.body.of(&payload));
}

#[test]
fn sections_out_of_order_are_stored_in_order() {
    const ANNOTATIONS: &[u8] = &[0x00, 0x53, 0x71, 0xc1, 1, 0];
    const FOOTER: &[u8] = &[0x00, 0x53, 0x78, 0xc1, 1, 0];
    let to_q = (PropertyField::To, AnnotationValue::Str("q"));
    let head = MessageBuilder::new().message_id("m").property(to_q.0, to_q.1);
    let (head, whole) = (head.clone().build(), head.data(b"x").build());
    let body = &whole[head.len()..];
    for dialect in [Dialect::Plain, Dialect::ServiceBus] {
        // As Python does it, and as rhea does.
        let late = Bytes::from([&whole[..], ANNOTATIONS].concat());
        assert_eq!(read(dialect, &late).unwrap().payload, [ANNOTATIONS, &whole[..]].concat());
        let early = Bytes::from([&head[..], FOOTER, body].concat());
        assert_eq!(read(dialect, &early).unwrap().payload, [&whole[..], FOOTER].concat());
        assert_eq!(destination(&early), Some(("q".to_owned(), None)));
        // A section that comes twice has no order.
        let twice = Bytes::from([&head[..], FOOTER, FOOTER, body].concat());
        assert!(matches!(read(dialect, &twice), Err(Refusal::Malformed(_))));
    }
}

#[test]
fn a_body_may_be_missing() {
    let payload = MessageBuilder::new().message_id("m").build();
    assert_eq!(read(Dialect::ServiceBus, &payload).unwrap().payload, payload);
    assert_eq!(read(Dialect::Plain, &Bytes::new()).unwrap().payload, Bytes::new());
}

#[test]
fn a_batch_is_taken_apart_within_its_limit() {
    let inner = |text: &str| MessageBuilder::new().message_id(text).data(b"x").build();
    let packed = |count: usize| {
        (0..count).fold(MessageBuilder::new(), |builder, n| builder.data(&inner(&n.to_string()))).build()
    };
    let options = ParseOptions {
        dialect: Dialect::ServiceBus,
        utc: Timestamp::from_millis(NOW),
        required_fields: RequiredFields::ALL,
    };
    let mut ids = Tracking::new(1, ClientId(1));
    let messages = batch(&packed(2), options, 2, &mut ids).unwrap();
    assert_eq!(messages.iter().map(|m| m.payload.clone()).collect::<Vec<_>>(), vec![inner("0"), inner("1")]);
    let too_long = Refusal::BatchLength { messages: 3, limit: 2 };
    assert_eq!(batch(&packed(3), options, 2, &mut ids), Err(too_long));
    assert!(matches!(batch(&packed(0), options, 2, &mut ids), Err(Refusal::Malformed(_))));
}

proptest! {
    #[test]
    fn no_payload_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let payload = Bytes::from(bytes);
        let _plain = read(Dialect::Plain, &payload);
        let _service_bus = read(Dialect::ServiceBus, &payload);
        let _destination = destination(&payload);
    }

    #[test]
    fn ids_are_written_as_hexadecimal(id: u128) {
        prop_assert_eq!(String::from_utf8(hex(id).to_vec()).unwrap(), format!("{id:032x}"));
    }
}

#[test]
fn what_nobody_needs_is_not_read() {
    let payload = MessageBuilder::new()
        .message_annotations(RawMap::with_symbol_keys(&[("x-opt-partition-key", AnnotationValue::Str("k"))]))
        .message_id("m")
        .data(b"x")
        .build();
    for (message_id, partition_key) in [(false, false), (true, false), (false, true), (true, true)] {
        let required_fields = RequiredFields { message_id, partition_key, rules: false };
        let options =
            ParseOptions { dialect: Dialect::Plain, utc: Timestamp::from_millis(NOW), required_fields };
        let message = message(payload.clone(), options, &mut Tracking::new(1, ClientId(1))).unwrap();
        assert_eq!(message.message_id.is_some(), message_id);
        assert_eq!(message.partition_key.is_some(), partition_key);
    }
}

#[test]
fn a_made_up_id_is_nobodys_duplicate() {
    let payload = MessageBuilder::new().data(b"x").build();
    let message = read(Dialect::ServiceBus, &payload).unwrap();
    assert_eq!(message.message_id, None);
    assert!(message.payload.len() > payload.len());
}
