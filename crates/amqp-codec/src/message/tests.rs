use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::raw::{MapView, RawMap, RawValue};
use crate::sections::{BodyKind, Header, PropertiesView, PropertyField, SectionError, Sections};
use crate::types::Malformed;
use crate::value::Value;

fn annotations(entries: &[(&str, AnnotationValue<'_>)]) -> Vec<u8> {
    let mut out = vec![0x00, 0x53, 0x72];
    out.extend_from_slice(RawMap::with_symbol_keys(entries).bytes());
    out
}

fn entries(section: &[u8]) -> Vec<(String, i64)> {
    MapView::of_section(section)
        .unwrap()
        .iter()
        .map(|(key, value)| (key.as_str().unwrap().to_owned(), value.as_i64().unwrap_or(-1)))
        .collect()
}

#[test]
fn the_lock_token_annotation_is_a_uuid_under_a_symbol() {
    let mut out = BytesMut::new();
    write_lock_token_annotations(&mut out, [7; 16]);
    let sections = Sections::scan(&out).unwrap();
    assert_eq!(sections.check_contents(&out), Ok(()));
    let view = sections.delivery_annotations_view(&out);
    let (key, value) = view.iter().next().unwrap();
    assert_eq!(key.as_symbol(), Some("x-opt-lock-token"));
    assert_eq!(value.as_uuid(), Some([7; 16]));
    assert_eq!(view.len(), 1);
}

#[test]
fn broker_annotations_replace_those_of_the_same_name() {
    let original = annotations(&[
        ("kept", AnnotationValue::Int(1)),
        ("x-opt-sequence-number", AnnotationValue::Int(666)),
        ("also-kept", AnnotationValue::Int(2)),
        ("x-opt-enqueued-time", AnnotationValue::Int(666)),
    ]);
    let broker = [
        ("x-opt-sequence-number", AnnotationValue::Long(10)),
        ("x-opt-enqueued-time", AnnotationValue::Long(20)),
        ("x-opt-locked-until", AnnotationValue::Long(30)),
    ];
    let mut out = BytesMut::new();
    write_message_annotations(&mut out, Some(&original), &broker).unwrap();
    let expected = [
        ("kept", 1),
        ("also-kept", 2),
        ("x-opt-sequence-number", 10),
        ("x-opt-enqueued-time", 20),
        ("x-opt-locked-until", 30),
    ];
    assert_eq!(entries(&out), expected.map(|(key, value)| (key.to_owned(), value)));
    assert_eq!(Sections::scan(&out).unwrap().check_contents(&out), Ok(()));
}

#[test]
fn string_keys_of_the_original_are_replaced_too() {
    let mut original = vec![0x00, 0x53, 0x72];
    original.extend_from_slice(
        RawMap::with_string_keys(&[("a", AnnotationValue::Int(1)), ("b", AnnotationValue::Int(2))]).bytes(),
    );
    let mut out = BytesMut::new();
    write_message_annotations(&mut out, Some(&original), &[("a", AnnotationValue::Int(3))]).unwrap();
    assert_eq!(entries(&out), [("b".to_owned(), 2), ("a".to_owned(), 3)]);
}

#[test]
fn numbers_as_keys_and_values_of_any_type_are_copied_as_they_are() {
    // Key ulong 5, value a described list: neither is looked into.
    let original = b"\x00\x53\x72\xc1\x0a\x02\x53\x05\x00\x53\x10\xc0\x02\x01\x41";
    let mut out = BytesMut::new();
    write_message_annotations(&mut out, Some(original), &[("a", AnnotationValue::Int(1))]).unwrap();
    let copied = &original[6..];
    assert!(out.windows(copied.len()).any(|window| window == copied));
}

#[test]
fn without_any_entry_no_section_is_written() {
    let mut out = BytesMut::new();
    for original in [None, Some(&[][..]), Some(&[0x00, 0x53, 0x72, 0xc1, 1, 0][..])] {
        write_message_annotations(&mut out, original, &[]).unwrap();
        assert!(out.is_empty());
    }
}

#[test]
fn a_malformed_original_writes_nothing() {
    let mut out = BytesMut::from(&b"before"[..]);
    let cases: [&[u8]; 4] = [
        &[0x00, 0x53, 0x72, 0xc1, 3, 2, 0x43, 0x60],
        &[0x00, 0x53, 0x72, 0xc1, 4, 2, 0x43, 0x43, 0x43],
        &[0x00, 0x53, 0x72, 0xc1, 2, 1, 0x43],
        &[0x00, 0x53, 0x72, 0x45],
    ];
    for original in cases {
        let result = write_message_annotations(&mut out, Some(original), &[("a", AnnotationValue::Null)]);
        assert!(result.is_err(), "{original:02x?}");
        assert_eq!(&out[..], b"before");
    }
}

#[test]
fn merged_maps_grow_to_four_byte_sizes() {
    for count in [1, 10, 60, 119, 120, 121, 300] {
        let keys: Vec<String> = (0..count).map(|i| format!("{i}")).collect();
        let broker: Vec<_> = keys.iter().map(|key| (key.as_str(), AnnotationValue::Null)).collect();
        for original_len in [0, 20, 255, 1000] {
            let long = "x".repeat(original_len);
            let original = annotations(&[("long", AnnotationValue::Str(&long))]);
            let mut out = BytesMut::new();
            write_message_annotations(&mut out, Some(&original), &broker).unwrap();
            assert_eq!(entries(&out).len(), count + 1);
            assert_eq!(Sections::scan(&out).unwrap().check_contents(&out), Ok(()));
        }
    }
}

#[test]
fn application_properties_get_string_keys() {
    let mut out = BytesMut::new();
    let reason = [("DeadLetterReason", AnnotationValue::Str("expired"))];
    application_properties_with(&mut out, None, &reason).unwrap();
    let view = MapView::of_section(&out).unwrap();
    let (key, value) = view.iter().next().unwrap();
    assert_eq!((key.as_string(), value.as_string()), (Some("DeadLetterReason"), Some("expired")));
    // Again, over what was written: replaced, not doubled.
    let first = out.clone();
    let mut again = BytesMut::new();
    application_properties_with(&mut again, Some(&first), &reason).unwrap();
    assert_eq!(again, first);
}

#[test]
fn properties_without_a_change_are_copied() {
    let mut out = BytesMut::new();
    let original = b"\x00\x53\x73\xc0\x04\x01\xa1\x01a";
    properties_with(&mut out, Some(original), &PropertyChanges::default()).unwrap();
    assert_eq!(&out[..], original);
    let mut out = BytesMut::new();
    properties_with(&mut out, None, &PropertyChanges::default()).unwrap();
    assert!(out.is_empty());
}

#[test]
fn changed_properties_keep_the_others() {
    let message = MessageBuilder::new()
        .message_id("theirs")
        .to("to")
        .property(PropertyField::GroupId, AnnotationValue::Str("group"))
        .build();
    let changes = PropertyChanges {
        message_id: Some(AnnotationValue::Str("ours")),
        creation_time: Some(10),
        absolute_expiry_time: Some(20),
        others: &[],
    };
    for original in [Some(&message[..]), None] {
        let mut out = BytesMut::new();
        properties_with(&mut out, original, &changes).unwrap();
        let properties = PropertiesView::new(&out).unwrap();
        assert_eq!(properties.message_id().and_then(RawValue::as_string), Some("ours"));
        assert_eq!(properties.creation_time(), Some(10));
        assert_eq!(properties.absolute_expiry_time(), Some(20));
        assert_eq!(properties.to().is_some(), original.is_some());
        assert_eq!(properties.group_id(), original.map(|_| "group"));
        assert_eq!(Sections::scan(&out).unwrap().check_contents(&out), Ok(()));
    }
    let mut out = BytesMut::new();
    let short = PropertyChanges { message_id: Some(AnnotationValue::Null), ..Default::default() };
    properties_with(&mut out, None, &short).unwrap();
    assert_eq!(&out[..], [0x00, 0x53, 0x73, 0xc0, 2, 1, 0x40], "no more fields than needed");
}

#[test]
fn any_field_of_the_properties_can_be_changed() {
    let message = MessageBuilder::new().message_id("theirs").to("to").build();
    for field in PropertyField::ALL {
        let others = [(field, AnnotationValue::Str("first")), (field, AnnotationValue::Str("last"))];
        let changes = PropertyChanges { others: &others, ..PropertyChanges::default() };
        let mut out = BytesMut::new();
        properties_with(&mut out, Some(&message), &changes).unwrap();
        let properties = PropertiesView::new(&out).unwrap();
        assert_eq!(properties.get(field).and_then(RawValue::as_string), Some("last"), "{field:?}");
        if field != PropertyField::MessageId {
            assert_eq!(properties.message_id().and_then(RawValue::as_string), Some("theirs"), "{field:?}");
        }
    }
}

#[test]
fn removed_application_properties_are_left_out() {
    let mut original = BytesMut::new();
    let three = [
        ("a", AnnotationValue::Str("1")),
        ("b", AnnotationValue::Str("2")),
        ("c", AnnotationValue::Str("3")),
    ];
    application_properties_with(&mut original, None, &three).unwrap();
    let mut out = BytesMut::new();
    let more = [("d", AnnotationValue::Str("4"))];
    application_properties_changed(&mut out, Some(&original), &more, &["a", "c", "x"]).unwrap();
    let view = MapView::of_section(&out).unwrap();
    let keys: Vec<_> = view.iter().filter_map(|(key, _)| key.as_string()).collect();
    assert_eq!(keys, ["b", "d"]);
    assert_eq!(Sections::scan(&out).unwrap().check_contents(&out), Ok(()));
}

#[test]
fn malformed_properties_write_nothing() {
    let mut out = BytesMut::from(&b"before"[..]);
    let changes = PropertyChanges { creation_time: Some(1), ..Default::default() };
    for original in [&[0x00, 0x53, 0x73, 0xc0, 2, 1, 0x60][..], &[0x00, 0x53, 0x73, 0x40]] {
        assert!(properties_with(&mut out, Some(original), &changes).is_err());
        assert_eq!(&out[..], b"before");
    }
}

#[test]
fn a_batch_yields_its_messages_in_order() {
    // data{005375a00161} · data{005375a00162}, as the Rust SDK sends them.
    let payload = Bytes::from_static(
        b"\x00\x53\x75\xa0\x06\x00\x53\x75\xa0\x01a\x00\x53\x75\xb0\0\0\0\x06\x00\x53\x75\xa0\x01b",
    );
    let messages = batch_messages(&payload).unwrap();
    assert_eq!(messages, [&b"\x00\x53\x75\xa0\x01a"[..], b"\x00\x53\x75\xa0\x01b"]);
    // They are slices of the payload, not copies.
    assert!(payload.as_ptr_range().contains(&messages[1].as_ptr()));
}

#[test]
fn the_envelope_of_a_batch_is_passed_over() {
    // As the JavaScript SDK sends it: empty header, empty annotations, empty properties.
    let mut payload = BytesMut::from(&b"\x00\x53\x70\x45\x00\x53\x72\xc1\x01\x00\x00\x53\x73\x45"[..]);
    let inner = MessageBuilder::new().data(b"x").build();
    MessageBuilder::new().data(&inner).encode(&mut payload);
    assert_eq!(batch_messages(&payload.freeze()), Ok(vec![inner]));
}

#[test]
fn a_batch_needs_data_sections() {
    let value = MessageBuilder::new().body_null().build();
    assert_eq!(batch_messages(&value), Err(SectionError::NotABatch));
    assert_eq!(batch_messages(&Bytes::new()), Err(SectionError::NotABatch));
}

#[test]
fn a_management_reply_carries_the_request_id_with_its_type() {
    let request = MessageBuilder::new()
        .property(PropertyField::MessageId, AnnotationValue::Ulong(0))
        .body_null()
        .build();
    let sections = Sections::scan(&request).unwrap();
    let id = sections.properties_view(&request).message_id().unwrap();
    let reply = MessageBuilder::new()
        .correlation_id(id)
        .application_property("statusCode", AnnotationValue::Int(200))
        .application_property_value("statusDescription", &Value::String("OK".into()))
        .body_value(&Value::List(vec![]))
        .build();
    let sections = Sections::scan(&reply).unwrap();
    assert_eq!(sections.check_contents(&reply), Ok(()));
    assert_eq!(sections.body_kind, BodyKind::Value);
    let correlation = sections.properties_view(&reply).correlation_id().unwrap();
    assert_eq!(correlation.bytes(), id.bytes());
    let application = sections.application_properties_view(&reply);
    assert_eq!(application.get("statusCode").and_then(RawValue::as_i64), Some(200));
    assert_eq!(application.get("statusDescription").and_then(RawValue::as_string), Some("OK"));
}

#[test]
fn the_builder_writes_sections_in_order() {
    let map = RawMap::with_symbol_keys(&[("a", AnnotationValue::Int(1))]);
    let message = MessageBuilder::new()
        .data(b"one")
        .data(b"two")
        .application_property("k", AnnotationValue::Null)
        .message_id("id")
        .message_annotations(map.clone())
        .delivery_annotations(map)
        .header(Header::default())
        .build();
    let sections = Sections::scan(&message).unwrap();
    assert_eq!(sections.check_contents(&message), Ok(()));
    assert_eq!(sections.header.start, 0);
    assert_eq!(sections.body.range().end, message.len());
}

#[test]
fn the_error_of_a_section_names_it() {
    let error = SectionError::Malformed {
        section: crate::sections::Section::Properties,
        problem: Malformed::Truncated,
    };
    assert_eq!(error.to_string(), "properties: the bytes end before the value does");
}

proptest! {
    #[test]
    fn merging_keeps_entries_that_are_not_replaced(
        original in proptest::collection::vec(("[a-f]{1,2}", any::<i32>()), 0..40),
        broker in proptest::collection::btree_map("[a-f]{1,2}", any::<i32>(), 0..40),
    ) {
        let pairs: Vec<_> = original.iter().map(|(k, v)| (k.as_str(), AnnotationValue::Int(*v))).collect();
        let additions: Vec<_> = broker.iter().map(|(k, v)| (k.as_str(), AnnotationValue::Int(*v))).collect();
        let mut out = BytesMut::new();
        write_message_annotations(&mut out, Some(&annotations(&pairs)), &additions).unwrap();
        let mut expected: Vec<_> = original
            .iter()
            .filter(|(key, _)| !broker.contains_key(key))
            .map(|(key, value)| (key.clone(), i64::from(*value)))
            .collect();
        expected.extend(broker.iter().map(|(key, value)| (key.clone(), i64::from(*value))));
        prop_assert_eq!(entries(&out), expected);
    }

    #[test]
    fn rewriting_any_section_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), tail in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut section = vec![0x00, 0x53, 0x72, 0xc1, u8::try_from(tail.len() + 1).unwrap(), 2];
        section.extend(tail);
        let changes = PropertyChanges { creation_time: Some(1), ..Default::default() };
        for original in [&bytes, &section] {
            let mut out = BytesMut::new();
            _ = write_message_annotations(&mut out, Some(original), &[("a", AnnotationValue::Null)]);
            _ = application_properties_with(&mut out, Some(original), &[("a", AnnotationValue::Null)]);
            _ = properties_with(&mut out, Some(original), &changes);
        }
    }

    #[test]
    fn a_batch_of_any_messages_comes_apart_again(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..6)) {
        let builder = messages.iter().fold(MessageBuilder::new(), |builder, data| builder.data(data));
        prop_assert_eq!(batch_messages(&builder.build()).unwrap(), messages);
    }
}

#[test]
fn many_additions_are_not_compared_with_each_entry() {
    let names: Vec<String> = (0..4096).map(|number| format!("{number:04}")).collect();
    let original: Vec<_> = names[..3000].iter().map(|name| (&**name, AnnotationValue::Int(1))).collect();
    let additions: Vec<_> = names[2000..].iter().map(|name| (&**name, AnnotationValue::Int(2))).collect();
    let removed: Vec<&str> = names[..500].iter().map(|name| &**name).collect();
    let mut out = BytesMut::new();
    rewrite::COMPARISONS.set(0);
    message_annotations_changed(&mut out, Some(&annotations(&original)), &additions, &removed).unwrap();
    let compared = rewrite::COMPARISONS.get();
    assert!((3000..3000 * 16).contains(&compared), "{compared} comparisons");
    let kept = names[500..2000].iter().map(|name| (name.clone(), 1));
    let expected: Vec<_> = kept.chain(names[2000..].iter().map(|name| (name.clone(), 2))).collect();
    assert_eq!(entries(&out), expected);
}
