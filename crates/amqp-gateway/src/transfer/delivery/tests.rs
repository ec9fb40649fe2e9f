use std::{cell::Cell, collections::BTreeMap};

use amqp_codec::{
    message::MessageBuilder,
    raw::{MapView, RawMap, RawValue},
    types::TypeKind,
};
use broker_core::{LockId, PropertyValue};

use super::*;

fn stored(payload: Bytes) -> Stored {
    Stored {
        extras: None,
        enqueued_at: Timestamp::from_millis(1_000_000),
        expires_at: None,
        delivery_count: 0,
        state: 0,
        acquired_before: false,
        properties: Properties::default(),
        payload,
    }
}

fn lock() -> Lock {
    Lock {
        id: LockId(1),
        token: LockToken(0x903a_173c_50b2_46df_a7d2_162f_1512_5cba),
        until: Timestamp::from_millis(1_060_000),
    }
}

fn whole(stored: &Stored, lock: Option<&Lock>, dialect: Dialect) -> Bytes {
    let mut out = BytesMut::new();
    let rest = write(&mut out, stored, SequenceNumber(12), lock, &recipient(dialect));
    out.extend_from_slice(&rest);
    out.freeze()
}

fn recipient(dialect: Dialect) -> Recipient {
    Recipient { dialect, id_base: 7, in_answer: false, due: None }
}

fn annotations(message: &Bytes) -> Vec<(String, TypeKind)> {
    let sections = Sections::scan(message).unwrap();
    let entries = sections.message_annotations_view(message).into_iter();
    entries.map(|(key, value)| (key.as_symbol().unwrap().to_owned(), value.kind().unwrap())).collect()
}

#[test]
fn tags_carry_the_token_in_the_order_of_a_net_guid() {
    let expected =
        [0x3c, 0x17, 0x3a, 0x90, 0xb2, 0x50, 0xdf, 0x46, 0xa7, 0xd2, 0x16, 0x2f, 0x15, 0x12, 0x5c, 0xba];
    assert_eq!(guid_order(lock().token), expected);
}

#[test]
fn service_bus_sees_token_annotations_and_count_with_their_exact_types() {
    let message = whole(
        &stored(MessageBuilder::new().message_id("m").data(b"x").build()),
        Some(&lock()),
        Dialect::ServiceBus,
    );
    let sections = Sections::scan(&message).unwrap();
    let token = sections.delivery_annotations_view(&message).get("x-opt-lock-token").unwrap().as_uuid();
    assert_eq!(token, Some(lock().token.0.to_be_bytes()));
    let expected = [
        ("x-opt-sequence-number", TypeKind::Long),
        ("x-opt-enqueued-time", TypeKind::Timestamp),
        ("x-opt-locked-until", TypeKind::Timestamp),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    assert_eq!(annotations(&message), expected);
    assert!(!sections.header.is_empty());
    assert_eq!(sections.read_header(&message).unwrap(), Header::default());
}

/// A message, its first number, its state, whether it has a lock, whether it is in an answer, and its annotations.
type Written<'a> = (&'a Bytes, Option<u64>, u8, bool, bool, &'a [&'a str]);

#[test]
fn annotations_of_service_bus_say_something_or_are_part_of_an_answer() {
    let former = RawMap::with_symbol_keys(&[
        ("x-opt-partition-key", AnnotationValue::Str("key")),
        ("x-opt-message-state", AnnotationValue::Int(2)),
        ("x-opt-enqueue-sequence-number", AnnotationValue::Long(99)),
        ("x-opt-locked-until", AnnotationValue::Timestamp(5)),
    ]);
    let fresh = MessageBuilder::new().message_id("m").data(b"x").build();
    let keyed = MessageBuilder::new().message_annotations(former).message_id("m").data(b"x").build();
    let (sequence, enqueued) = ("x-opt-sequence-number", "x-opt-enqueued-time");
    let (key, locked) = ("x-opt-partition-key", "x-opt-locked-until");
    let (first, state) = ("x-opt-enqueue-sequence-number", "x-opt-message-state");
    let cases: [Written<'_>; 9] = [
        (&fresh, None, 0, true, false, &[sequence, enqueued, locked]),
        (&fresh, None, 0, false, false, &[sequence, enqueued]),
        (&keyed, None, 0, true, false, &[key, sequence, enqueued, locked]),
        (&keyed, None, 0, false, false, &[key, sequence, enqueued]),
        (&fresh, Some(3), 0, true, false, &[sequence, enqueued, first, locked]),
        (&fresh, None, 0, false, true, &[sequence, enqueued, first, state]),
        (&keyed, Some(3), 2, false, true, &[key, sequence, enqueued, first, state]),
        (&fresh, None, 1, true, true, &[sequence, enqueued, first, state, locked]),
        (&fresh, None, 1, true, false, &[sequence, enqueued, state, locked]),
    ];
    for (payload, enqueued_sequence, state, is_locked, in_answer, expected) in cases {
        let extras = broker_core::StoredExtras { enqueued_sequence, ..Default::default() };
        let stored = Stored { extras: Some(Box::new(extras)), state, ..stored(payload.clone()) };
        let lock = is_locked.then(lock);
        let recipient = Recipient { in_answer, ..recipient(Dialect::ServiceBus) };
        let mut message = BytesMut::new();
        let rest = write(&mut message, &stored, SequenceNumber(12), lock.as_ref(), &recipient);
        message.extend_from_slice(&rest);
        let message = message.freeze();
        let found: Vec<String> = annotations(&message).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, expected);
        let sections = Sections::scan(&message).unwrap();
        let own = sections.delivery_annotations.of(&message);
        if is_locked {
            assert!(sections.delivery_annotations_view(&message).get("x-opt-lock-token").is_some());
        } else if in_answer {
            assert!(own.is_empty());
        } else {
            assert_eq!(own, [0x00, 0x53, 0x71, 0xc1, 1, 0], "an empty section");
        }
    }
}

#[test]
fn a_service_bus_sender_says_whether_its_message_has_a_first_acquirer() {
    for said in [Some(true), Some(false), None] {
        for (acquired_before, dialect) in [
            (false, Dialect::ServiceBus),
            (true, Dialect::ServiceBus),
            (false, Dialect::Plain),
            (true, Dialect::Plain),
        ] {
            let header = Header { first_acquirer: said, ..Header::default() };
            let payload = MessageBuilder::new().header(header).message_id("m").data(b"x").build();
            let message = whole(&Stored { acquired_before, ..stored(payload) }, None, dialect);
            let header = Sections::scan(&message).unwrap().read_header(&message).unwrap();
            let expected = if dialect == Dialect::ServiceBus { said } else { Some(!acquired_before) };
            assert_eq!(header.first_acquirer, expected, "{said:?} {acquired_before} {dialect:?}");
        }
    }
}

#[test]
fn an_expiry_without_a_ttl_comes_back_as_it_was_sent() {
    // Enqueued at 1,000,000.
    let cases = [
        // ttl, creation, end, expiry in the queue, ttl, creation and end that are told
        (None, None, 1_600_000, 1_600_000, (None, None, 1_600_000)),
        (None, Some(970_000), 1_570_000, 1_600_000, (None, Some(970_000), 1_570_000)),
        (None, Some(1_030_000), 1_600_000, 1_570_000, (None, Some(1_030_000), 1_600_000)),
        // The queue ends it earlier.
        (None, None, 1_600_000, 1_005_000, (Some(5_000), Some(1_000_000), 1_005_000)),
        (None, Some(970_000), 1_570_000, 1_005_000, (Some(5_000), Some(1_000_000), 1_005_000)),
        // The sender gave a ttl.
        (Some(600_000), Some(970_000), 1_570_000, 1_600_000, (Some(600_000), Some(1_000_000), 1_600_000)),
    ];
    for (ttl, created, end, expires, expected) in cases {
        let mut message = MessageBuilder::new().header(Header { ttl, ..Header::default() }).message_id("m");
        if let Some(created) = created {
            message = message.property(PropertyField::CreationTime, AnnotationValue::Timestamp(created));
        }
        let payload = message
            .property(PropertyField::AbsoluteExpiryTime, AnnotationValue::Timestamp(end))
            .data(b"x")
            .build();
        let expires_at = Some(Timestamp::from_millis(expires));
        let message = whole(&Stored { expires_at, ..stored(payload) }, None, Dialect::ServiceBus);
        let sections = Sections::scan(&message).unwrap();
        let view = sections.properties_view(&message);
        let time = |field| view.get(field).and_then(RawValue::as_timestamp);
        let ttl = sections.read_header(&message).unwrap().ttl;
        let ends = (time(PropertyField::CreationTime), time(PropertyField::AbsoluteExpiryTime));
        assert_eq!((ttl, ends.0, ends.1), (expected.0, expected.1, Some(expected.2)));
    }
}

#[test]
fn plain_receivers_are_told_first_acquirer_and_no_token() {
    let mut stored = stored(MessageBuilder::new().data(b"x").build());
    let first = whole(&stored, Some(&lock()), Dialect::Plain);
    let sections = Sections::scan(&first).unwrap();
    assert!(sections.delivery_annotations.is_empty() && sections.properties.is_empty());
    assert!(sections.read_header(&first).unwrap().is_first_acquirer());
    (stored.acquired_before, stored.delivery_count) = (true, 3);
    let again = whole(&stored, None, Dialect::Plain);
    let header = Sections::scan(&again).unwrap().read_header(&again).unwrap();
    assert_eq!((header.first_acquirer, header.delivery_count), (Some(false), 3));
    assert!(annotations(&again).iter().all(|(name, _)| name != "x-opt-locked-until"));
    assert!(annotations(&first).iter().any(|(name, _)| name == "x-opt-locked-until"));
    let entry = Lock { until: Timestamp::MAX, ..lock() };
    let entry = whole(&stored, Some(&entry), Dialect::Plain);
    assert!(
        annotations(&entry).iter().all(|(name, _)| name != "x-opt-locked-until"),
        "it has no end to tell"
    );
}

#[test]
fn the_bare_message_stays_and_delivery_annotations_reach_service_bus_alone() {
    let payload = MessageBuilder::new()
        .header(Header { durable: Some(true), priority: Some(7), delivery_count: 9, ..Header::default() })
        .delivery_annotations(RawMap::with_symbol_keys(&[
            ("x-opt-lock-token", AnnotationValue::Uuid([9; 16])),
            ("x-opt-hop", AnnotationValue::Bool(true)),
        ]))
        .message_annotations(RawMap::with_symbol_keys(&[
            ("x-opt-mine", AnnotationValue::Ubyte(1)),
            ("x-opt-sequence-number", AnnotationValue::Long(999)),
        ]))
        .message_id("m")
        .application_property("k", AnnotationValue::Str("v"))
        .data(b"body")
        .build();
    for dialect in [Dialect::Plain, Dialect::ServiceBus] {
        let message = whole(&stored(payload.clone()), None, dialect);
        let (before, after) = (Sections::scan(&payload).unwrap(), Sections::scan(&message).unwrap());
        assert_eq!(before.bare().of(&payload), after.bare().of(&message));
        let own = after.delivery_annotations_view(&message);
        assert_eq!(own.get("x-opt-hop").is_some(), dialect == Dialect::ServiceBus);
        assert!(own.get("x-opt-lock-token").is_none(), "a lock that somebody had elsewhere");
        let locked = whole(&stored(payload.clone()), Some(&lock()), dialect);
        let view = Sections::scan(&locked).unwrap();
        let own = view.delivery_annotations_view(&locked);
        let token = (dialect == Dialect::ServiceBus).then_some(lock().token.0.to_be_bytes());
        assert_eq!(own.get("x-opt-lock-token").and_then(RawValue::as_uuid), token);
        assert_eq!(own.len(), if dialect == Dialect::ServiceBus { 2 } else { 0 });
        let header = after.read_header(&message).unwrap();
        assert_eq!((header.durable, header.priority, header.delivery_count), (Some(true), Some(7), 0));
        let view = after.message_annotations_view(&message);
        assert_eq!(view.get("x-opt-mine").unwrap().as_u64(), Some(1));
        assert_eq!(view.get("x-opt-sequence-number").unwrap().as_i64(), Some(12));
    }
}

#[test]
fn a_lifetime_is_told_in_header_and_properties_alike() {
    let mut stored = stored(MessageBuilder::new().message_id("m").data(b"x").build());
    stored.expires_at = Some(Timestamp::from_millis(1_005_000));
    let message = whole(&stored, None, Dialect::ServiceBus);
    let sections = Sections::scan(&message).unwrap();
    assert_eq!(sections.read_header(&message).unwrap().ttl, Some(5000));
    let view = sections.properties_view(&message);
    assert_eq!(view.get(PropertyField::CreationTime).unwrap().as_timestamp(), Some(1_000_000));
    assert_eq!(view.get(PropertyField::AbsoluteExpiryTime).unwrap().as_timestamp(), Some(1_005_000));
    assert_eq!(view.get(PropertyField::MessageId).unwrap().as_str(), Some("m"));
}

#[test]
fn a_service_bus_receiver_finds_the_same_made_id_each_time() {
    let stored = stored(MessageBuilder::new().data(b"x").build());
    let id = |message: &Bytes| {
        let sections = Sections::scan(message).unwrap();
        sections
            .properties_view(message)
            .get(PropertyField::MessageId)
            .unwrap()
            .as_string()
            .unwrap()
            .to_owned()
    };
    let first = id(&whole(&stored, Some(&lock()), Dialect::ServiceBus));
    assert_eq!(first, format!("{:016x}{:016x}", 7, 12));
    assert_eq!(first, id(&whole(&stored, None, Dialect::ServiceBus)));
}

#[test]
fn added_properties_replace_those_of_the_same_name() {
    let payload = MessageBuilder::new()
        .application_property("k", AnnotationValue::Str("old"))
        .application_property("other", AnnotationValue::Int(1))
        .data(b"body")
        .build();
    let mut stored = stored(payload);
    let text = |value: &str| PropertyValue::Text(value.into());
    stored.properties = Properties(
        vec![
            ("k".into(), text("newer")),
            ("k".into(), text("newest")),
            ("DeadLetterReason".into(), text("r")),
            ("n".into(), PropertyValue::Encoded(Bytes::from_static(&[0x52, 5]))),
            ("\u{1}x-opt-note".into(), text("annotation")),
        ]
        .into(),
    );
    let message = whole(&stored, None, Dialect::Plain);
    let sections = Sections::scan(&message).unwrap();
    let view: MapView<'_> = sections.application_properties_view(&message);
    assert_eq!(view.len(), 4);
    assert_eq!(view.get("k").unwrap().as_string(), Some("newest"));
    assert_eq!(view.get("other").unwrap().as_i64(), Some(1));
    assert_eq!(view.get("DeadLetterReason").unwrap().as_string(), Some("r"));
    assert_eq!(view.get("n").unwrap().as_u64(), Some(5));
    let note = sections.message_annotations_view(&message).get("x-opt-note").unwrap();
    assert_eq!(note.as_string(), Some("annotation"));
}

#[test]
fn a_forwarded_message_tells_its_first_number_and_where_it_was_dead_lettered() {
    let payload = MessageBuilder::new().message_id("m").data(b"x").build();
    let extras = broker_core::StoredExtras {
        enqueued_sequence: Some(3),
        hops: 2,
        dead_letter_source: Some("orders".into()),
        ..Default::default()
    };
    let stored = Stored { extras: Some(Box::new(extras)), ..stored(payload) };
    for (dialect, shown) in [(Dialect::ServiceBus, true), (Dialect::Plain, false)] {
        let message = whole(&stored, Some(&lock()), dialect);
        let sections = Sections::scan(&message).unwrap();
        let annotations = sections.message_annotations_view(&message);
        let number = |key: &str| annotations.get(key).and_then(RawValue::as_i64);
        assert_eq!(number("x-opt-sequence-number"), Some(12));
        assert_eq!(number("x-opt-enqueue-sequence-number"), shown.then_some(3));
        let source = annotations.get("x-opt-deadletter-source").and_then(RawValue::as_string);
        assert_eq!(source, shown.then_some("orders"));
    }
}

#[test]
fn a_rules_changes_lie_over_the_untouched_rest() {
    use amqp_codec::{raw::AnnotationValue, sections::PropertyField};
    use broker_core::SYSTEM;
    use broker_filter::Value;
    let system = |name: &str| -> Box<str> { format!("{SYSTEM}{name}").into() };
    let text = |text: &str| PropertyValue::Value(Value::from(text));
    let payload = MessageBuilder::new()
        .message_id("m")
        .to("old")
        .property(PropertyField::ReplyTo, AnnotationValue::Str("reply"))
        .application_property("small", AnnotationValue::Int(1))
        .application_property("gone", AnnotationValue::Str("x"))
        .application_property("kept", AnnotationValue::Str("k"))
        .data(b"body")
        .build();
    let properties = Properties(
        vec![
            (system("To"), text("new")),
            (system("ReplyTo"), PropertyValue::Removed),
            (system("ContentType"), text("application/json")),
            (system("PartitionKey"), text("key")),
            ("small".into(), PropertyValue::Value(Value::Int(2))),
            ("large".into(), PropertyValue::Value(Value::Int(3))),
            ("half".into(), PropertyValue::Value(Value::Double(0.5))),
            ("gone".into(), PropertyValue::Removed),
            ("RuleName".into(), PropertyValue::Text("r".into())),
        ]
        .into(),
    );
    for dialect in [Dialect::ServiceBus, Dialect::Plain] {
        let message =
            whole(&Stored { properties: properties.clone(), ..stored(payload.clone()) }, None, dialect);
        let sections = Sections::scan(&message).unwrap();
        assert_eq!(sections.check_contents(&message), Ok(()));
        let fields = sections.properties_view(&message);
        let field = |field| fields.get(field).and_then(RawValue::as_str);
        assert_eq!(field(PropertyField::To), Some("new"), "{dialect:?}");
        assert_eq!(field(PropertyField::ReplyTo), None, "{dialect:?}");
        assert_eq!(field(PropertyField::MessageId), Some("m"), "{dialect:?}");
        let content_type = fields.get(PropertyField::ContentType).unwrap();
        assert_eq!(content_type.as_symbol(), Some("application/json"), "{dialect:?}");
        let annotations = sections.message_annotations_view(&message);
        assert_eq!(annotations.get("x-opt-partition-key").and_then(RawValue::as_string), Some("key"));
        let users = sections.application_properties_view(&message);
        let kinds: Vec<_> =
            users.iter().map(|(key, value)| (key.as_str().unwrap(), value.kind().unwrap())).collect();
        let expected = [
            ("kept", TypeKind::String),
            ("small", TypeKind::Int),
            ("large", TypeKind::Long),
            ("half", TypeKind::Double),
            ("RuleName", TypeKind::String),
        ];
        assert_eq!(kinds, expected, "{dialect:?}");
        assert_eq!(sections.body.of(&message), Sections::scan(&payload).unwrap().body.of(&payload));
    }
}

#[test]
fn the_partition_is_an_annotation_of_its_own() {
    let stored = stored(MessageBuilder::new().message_id("m").data(b"body").build());
    let cases = [
        (7, Dialect::ServiceBus, None),
        ((3 << 48) + 7, Dialect::ServiceBus, Some(3)),
        ((16 << 48) + 7, Dialect::ServiceBus, Some(16)),
        ((3 << 48) + 7, Dialect::Plain, None),
    ];
    for case @ (number, dialect, expected) in cases {
        let recipient = recipient(dialect);
        let mut out = BytesMut::new();
        let rest = write(&mut out, &stored, SequenceNumber(number), None, &recipient);
        out.extend_from_slice(&rest);
        let sections = Sections::scan(&out).unwrap();
        let annotations = sections.message_annotations_view(&out);
        let partition = annotations.get("x-opt-partition-id");
        assert!(partition.is_none_or(|id| id.kind() == Some(TypeKind::Short)), "{case:?}");
        assert_eq!(partition.and_then(RawValue::as_i64), expected, "{case:?}");
        let error_text = annotations.get("x-opt-sequence-number").and_then(RawValue::as_i64);
        assert_eq!(error_text, i64::try_from(number).ok(), "{case:?}");
    }
}

#[test]
fn keys_that_are_strings_are_symbols_for_service_bus_and_stay_for_plain_clients() {
    // A map with one entry, `k` = 1, its key a string.
    let section = |code: u8| [0x00, 0x53, code, 0xc1, 6, 2, 0xa1, 1, b'k', 0x54, 1];
    let body = MessageBuilder::new().message_id("m").data(b"x").build();
    let payload = Bytes::from([&section(0x71)[..], &section(0x72), &body, &section(0x78)].concat());
    let symbol = |bytes: &[u8]| bytes.windows(3).filter(|it| *it == [0xa3, 1, b'k']).count();
    let string = |bytes: &[u8]| bytes.windows(3).filter(|it| *it == [0xa1, 1, b'k']).count();
    for properties in
        [Properties::default(), Properties(vec![("added".into(), PropertyValue::Text("x".into()))].into())]
    {
        let stored = Stored { properties, ..stored(payload.clone()) };
        let error_text = whole(&stored, Some(&lock()), Dialect::ServiceBus);
        assert_eq!((symbol(&error_text), string(&error_text)), (3, 0), "{error_text:x?}");
        let sections = Sections::scan(&error_text).unwrap();
        assert_eq!(sections.body.of(&error_text), Sections::scan(&body).unwrap().body.of(&body));
        assert_eq!(
            &sections.footer.of(&error_text)[4..],
            &section(0x78)[4..]
                .iter()
                .map(|byte| if *byte == 0xa1 { 0xa3 } else { *byte })
                .collect::<Vec<_>>()[..]
        );
        let error_text = whole(&stored, Some(&lock()), Dialect::Plain);
        assert_eq!(
            (symbol(&error_text), string(&error_text)),
            (0, 2),
            "delivery annotations end at the broker"
        );
    }
}

/// The live tests of the Python SDK count the bytes of a message and expect none for these fields.
#[test]
fn a_field_of_the_header_that_the_sender_left_out_is_null_on_delivery() {
    for said in [None, Some(false), Some(true)] {
        let header = Header { ttl: Some(30_000), durable: said, first_acquirer: said, ..Header::default() };
        let payload = MessageBuilder::new().header(header).message_id("m").data(b"x").build();
        let stored = Stored { expires_at: Some(Timestamp::from_millis(1_030_000)), ..stored(payload) };
        for (dialect, first_acquirer) in [(Dialect::ServiceBus, said), (Dialect::Plain, Some(true))] {
            let message = whole(&stored, None, dialect);
            let read = Sections::scan(&message).unwrap().read_header(&message).unwrap();
            assert_eq!(read, Header { first_acquirer, ..header }, "{dialect:?}");
        }
    }
}

#[test]
fn decimals_have_the_form_that_service_bus_reads_and_stay_for_plain_clients() {
    let decimal = |front: [u8; 2]| [&[0x94][..], &front, &[0; 10], &12_345_u32.to_be_bytes()].concat();
    let (sent, given) = (decimal([0x30, 0x38]), decimal([0x0c, 0x38]));
    let value = AnnotationValue::Raw(RawValue::first(&sent).unwrap());
    let payload = MessageBuilder::new().message_id("m").application_property("d", value).data(&sent).build();
    for properties in
        [Properties::default(), Properties(vec![("added".into(), PropertyValue::Text("x".into()))].into())]
    {
        let stored = Stored { properties, ..stored(payload.clone()) };
        for (dialect, expected) in [(Dialect::ServiceBus, &given), (Dialect::Plain, &sent)] {
            let message = whole(&stored, Some(&lock()), dialect);
            let sections = Sections::scan(&message).unwrap();
            let view = sections.application_properties_view(&message);
            assert_eq!(view.get("d").unwrap().bytes(), expected, "{dialect:?}");
            assert_eq!(sections.body.of(&message), Sections::scan(&payload).unwrap().body.of(&payload));
            assert_eq!(sections.check_contents(&message), Ok(()));
        }
    }
}

thread_local! {
    /// Names that were compared one by one.
    pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn the_latest_of_many_values_for_one_name_counts() {
    let payload = MessageBuilder::new()
        .application_property("00001", AnnotationValue::Int(1))
        .application_property("kept", AnnotationValue::Int(1))
        .data(b"x")
        .build();
    let original = Sections::scan(&payload).unwrap().application_properties.of(&payload).to_vec();
    for (count, names) in [(3, 2), (8, 3), (9, 3), (9, 9), (100, 30), (20_000, 20_000), (20_000, 7000)] {
        let name = |number: usize| format!("{:05}", number * 7919 % names);
        let properties = (0..count).map(|number| {
            let value = match number % 5 {
                0 => PropertyValue::Removed,
                _ => PropertyValue::Text(number.to_string().into()),
            };
            (name(number).into(), value)
        });
        let mut expected = vec![("kept".to_owned(), None)];
        let last: BTreeMap<String, usize> = (0..count).map(|number| (name(number), number)).collect();
        let mut last: Vec<(String, usize)> = last.into_iter().filter(|(_, number)| number % 5 != 0).collect();
        last.sort_unstable_by_key(|(_, number)| *number);
        expected.extend(last.into_iter().map(|(name, number)| (name, Some(number.to_string()))));
        let mut out = BytesMut::new();
        COMPARED.set(0);
        write_application_properties(&mut out, &original, &Properties(properties.collect()));
        assert!(COMPARED.get() <= 8 * 8, "{} comparisons for {count} values", COMPARED.get());
        let view = MapView::of_section(&out).unwrap();
        let found = view
            .iter()
            .map(|(name, value)| (name.as_str().unwrap().to_owned(), value.as_str().map(str::to_owned)));
        assert!(found.eq(expected), "{count} values of {names} names");
    }
}
