use amqp_codec::{
    message::MessageBuilder,
    raw::{AnnotationValue, RawMap},
    types::{self, Symbol},
};
use broker_filter::Property;
use bytes::{BufMut as _, BytesMut};

use super::*;

fn encoded(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(&mut out);
    out.to_vec()
}

fn described_as(name: &'static str, write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    encoded(|out| {
        out.put_u8(0);
        types::write_symbol(out, &Symbol::from_static(name));
        write(out);
    })
}

#[test]
fn every_type_of_the_wire_has_its_kind() {
    let cases = [
        (encoded(types::write_null), Value::Null),
        (encoded(|out| types::write_bool(out, true)), Value::Bool(true)),
        (encoded(|out| types::write_ubyte(out, 5)), Value::Int(5)),
        (encoded(|out| types::write_ushort(out, 5)), Value::Int(5)),
        (encoded(|out| types::write_uint(out, 5)), Value::Int(5)),
        (encoded(|out| types::write_ulong(out, 5)), Value::Int(5)),
        (encoded(|out| types::write_ulong(out, u64::MAX)), Value::unsigned(u64::MAX)),
        (encoded(|out| types::write_byte(out, -5)), Value::Int(-5)),
        (encoded(|out| types::write_short(out, -5)), Value::Int(-5)),
        (encoded(|out| types::write_int(out, -5)), Value::Int(-5)),
        (encoded(|out| types::write_long(out, i64::MIN)), Value::Int(i64::MIN)),
        (encoded(|out| types::write_float(out, 1.5)), Value::Double(1.5)),
        (encoded(|out| types::write_double(out, -1.5)), Value::Double(-1.5)),
        (vec![types::code::CHAR, 0, 0, 0, b'c'], Value::Text("c".into())),
        (vec![types::code::CHAR, 0, 0, 0xd8, 0], Value::Null),
        (encoded(|out| types::write_str(out, "s")), Value::Text("s".into())),
        (encoded(|out| types::write_symbol(out, &Symbol::from_static("s"))), Value::Text("s".into())),
        (encoded(|out| types::write_timestamp(out, 7)), Value::Timestamp(7)),
        (encoded(|out| types::write_uuid(out, [7; 16])), Value::Uuid([7; 16])),
        (encoded(|out| types::write_binary(out, b"b")), Value::Binary(b"b".as_slice().into())),
        (vec![types::code::DECIMAL32, 0, 0, 0, 0], Value::Null),
        (encoded(|out| types::write_list(out, 0, |_| {})), Value::Null),
        (described_as(URI, |out| types::write_str(out, "sb://x")), Value::Text("sb://x".into())),
        (described_as(DATE_TIME, |out| types::write_long(out, TICKS_AT_1970 + 70_000)), Value::Timestamp(7)),
        (described_as(TIME_SPAN, |out| types::write_long(out, 70_000)), Value::duration_ms(7)),
        (described_as("else", |out| types::write_long(out, 1)), Value::Null),
    ];
    for (bytes, expected) in cases {
        assert_eq!(value(RawValue::first(&bytes).unwrap()), expected, "{bytes:02x?}");
    }
}

#[test]
fn a_message_shows_its_fields_annotations_and_properties() {
    let uuid = u128::from_str_radix("903a173c50b246dfa7d2162f15125cba", 16).unwrap().to_be_bytes();
    let bytes = MessageBuilder::new()
        .message_id("id")
        .to("to")
        .property(PropertyField::CorrelationId, AnnotationValue::Uuid(uuid))
        .property(PropertyField::Subject, AnnotationValue::Str("label"))
        .property(PropertyField::GroupId, AnnotationValue::Str("session"))
        .message_annotations(RawMap::with_symbol_keys(&[(
            "x-opt-partition-key",
            AnnotationValue::Str("key"),
        )]))
        .application_property("Color", AnnotationValue::Str("red"))
        .application_property("color", AnnotationValue::Int(1))
        .build();
    let sections = Sections::scan(&bytes).unwrap();
    let lifetime = std::time::Duration::from_secs(2);
    let found = read(&bytes, &sections, &Message { time_to_live: Some(lifetime), ..Message::default() });
    let cases = [
        (SystemProperty::MessageId, Some(Value::from("id"))),
        (SystemProperty::To, Some(Value::from("to"))),
        (SystemProperty::CorrelationId, Some(Value::from("903a173c-50b2-46df-a7d2-162f15125cba"))),
        (SystemProperty::Label, Some(Value::from("label"))),
        (SystemProperty::SessionId, Some(Value::from("session"))),
        (SystemProperty::PartitionKey, Some(Value::from("key"))),
        (SystemProperty::TimeToLive, Some(Value::duration_ms(2_000))),
        (SystemProperty::ReplyTo, None),
    ];
    for (property, expected) in cases {
        assert_eq!(found.get(&Property::System(property)).cloned(), expected, "{property}");
    }
    assert_eq!(found.user("Color"), Some(&Value::from("red")));
    assert_eq!(found.user("color"), Some(&Value::Int(1)));
}
