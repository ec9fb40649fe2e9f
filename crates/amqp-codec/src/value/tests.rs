#![expect(clippy::disallowed_methods, reason = "`serde_amqp` is the oracle here")]

use proptest::prelude::*;
use serde_amqp::primitives::{Array, Dec32, Dec64, Dec128, OrderedMap, Symbol, Timestamp, Uuid};

use super::*;

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    write_value(&mut out, value);
    out.to_vec()
}

fn symbol(word: &str) -> Value {
    Value::Symbol(Symbol::from(word))
}

fn described(descriptor: Descriptor, value: Value) -> Value {
    Value::Described(Box::new(Described { descriptor, value }))
}

fn name(word: &str) -> Descriptor {
    Descriptor::Name(Symbol::from(word))
}

fn map(entries: impl IntoIterator<Item = (Value, Value)>) -> Value {
    let mut map = OrderedMap::new();
    for (key, value) in entries {
        map.insert(key, value);
    }
    Value::Map(map)
}

/// One row for each encoding in the tables of types 1.6.
#[test]
fn every_primitive_encoding_of_the_specification_is_read() {
    let uuid = *b"\x90\x3a\x17\x3c\x50\xb2\x46\xdf\xa7\xd2\x16\x2f\x15\x12\x5c\xba";
    let cases: Vec<(&[u8], Value)> = vec![
        (b"\x40", Value::Null),
        (b"\x56\x01", Value::Bool(true)),
        (b"\x56\x00", Value::Bool(false)),
        (b"\x41", Value::Bool(true)),
        (b"\x42", Value::Bool(false)),
        (b"\x50\xff", Value::Ubyte(255)),
        (b"\x60\xff\xfe", Value::Ushort(65_534)),
        (b"\x70\x80\x00\x00\x00", Value::Uint(1 << 31)),
        (b"\x52\x80", Value::Uint(128)),
        (b"\x43", Value::Uint(0)),
        (b"\x80\x80\x00\x00\x00\x00\x00\x00\x00", Value::Ulong(1 << 63)),
        (b"\x53\x80", Value::Ulong(128)),
        (b"\x44", Value::Ulong(0)),
        (b"\x51\x80", Value::Byte(-128)),
        (b"\x61\xff\xfe", Value::Short(-2)),
        (b"\x71\xff\xff\xff\xfe", Value::Int(-2)),
        (b"\x54\xfe", Value::Int(-2)),
        (b"\x81\xff\xff\xff\xff\xff\xff\xff\xfe", Value::Long(-2)),
        (b"\x55\xfe", Value::Long(-2)),
        (b"\x72\xbf\x80\x00\x00", Value::from(-1.0_f32)),
        (b"\x82\xbf\xf0\x00\x00\x00\x00\x00\x00", Value::from(-1.0_f64)),
        (b"\x74\x01\x02\x03\x04", Value::Decimal32(Dec32::from([1, 2, 3, 4]))),
        (b"\x84\x01\x02\x03\x04\x05\x06\x07\x08", Value::Decimal64(Dec64::from([1, 2, 3, 4, 5, 6, 7, 8]))),
        (
            b"\x94\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01",
            Value::Decimal128(Dec128::from([1; 16])),
        ),
        (b"\x73\x00\x01\xf4\x09", Value::Char('\u{1f409}')),
        (b"\x83\xff\xff\xff\xff\xff\xff\xff\xff", Value::Timestamp(Timestamp::from(-1))),
        (
            b"\x98\x90\x3a\x17\x3c\x50\xb2\x46\xdf\xa7\xd2\x16\x2f\x15\x12\x5c\xba",
            Value::Uuid(Uuid::from(uuid)),
        ),
        (b"\xa0\x02\x00\xff", Value::Binary(vec![0, 255].into())),
        (b"\xb0\x00\x00\x00\x02\x00\xff", Value::Binary(vec![0, 255].into())),
        (b"\xa1\x02\xc3\xa9", Value::String("é".into())),
        (b"\xb1\x00\x00\x00\x02\xc3\xa9", Value::String("é".into())),
        (b"\xa3\x01a", symbol("a")),
        (b"\xb3\x00\x00\x00\x01a", symbol("a")),
        (b"\x45", Value::List(vec![])),
        (b"\xc0\x01\x00", Value::List(vec![])),
        (b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00", Value::List(vec![])),
        (b"\xc1\x01\x00", map([])),
        (b"\xd1\x00\x00\x00\x04\x00\x00\x00\x00", map([])),
        (b"\xe0\x02\x00\x40", Value::Array(Array(vec![]))),
        (b"\xf0\x00\x00\x00\x05\x00\x00\x00\x00\x40", Value::Array(Array(vec![]))),
    ];
    for (bytes, expected) in cases {
        assert_eq!(decode_value(bytes).as_ref(), Ok(&expected), "{bytes:02x?}");
        // The canonical encoding reads back, whatever form was read.
        assert_eq!(decode_value(&encoded(&expected)).as_ref(), Ok(&expected), "{bytes:02x?}");
    }
}

/// Described values, lists, maps and arrays of every kind that clients are known to send.
#[test]
fn compound_values_of_the_specification_are_read() {
    let cases: Vec<(&[u8], Value)> = vec![
        (b"\x00\xa3\x03a:b\xa1\x01v", described(name("a:b"), Value::String("v".into()))),
        (b"\x00\x53\x0c\x54\x0d", described(Descriptor::Code(12), Value::Int(13))),
        (
            b"\x00\x53\x01\x00\x53\x02\x41",
            described(Descriptor::Code(1), described(Descriptor::Code(2), Value::Bool(true))),
        ),
        (
            b"\xc0\x06\x03\x54\x20\x40\xa1\x00",
            Value::List(vec![Value::Int(32), Value::Null, Value::String(String::new())]),
        ),
        (b"\xc0\x05\x01\xc0\x02\x01\x41", Value::List(vec![Value::List(vec![Value::Bool(true)])])),
        (
            b"\xc1\x09\x04\xa1\x01k\x54\x01\x54\x02\x42",
            map([(Value::String("k".into()), Value::Int(1)), (Value::Int(2), Value::Bool(false))]),
        ),
        (b"\xe0\x06\x02\x71\x00\x00\x00\x01", Value::Null),
        (
            b"\xe0\x0a\x02\x71\x00\x00\x00\x01\xff\xff\xff\xff",
            Value::Array(Array(vec![Value::Int(1), Value::Int(-1)])),
        ),
        (b"\xe0\x04\x02\x56\x01\x00", Value::Array(Array(vec![Value::Bool(true), Value::Bool(false)]))),
        (b"\xe0\x02\x03\x41", Value::Array(Array(vec![Value::Bool(true); 3]))),
        (b"\xe0\x06\x02\xa3\x01a\x01b", Value::Array(Array(vec![symbol("a"), symbol("b")]))),
        (
            b"\xe0\x08\x02\xc0\x02\x01\x41\x02\x01\x42",
            Value::Array(Array(vec![
                Value::List(vec![Value::Bool(true)]),
                Value::List(vec![Value::Bool(false)]),
            ])),
        ),
        (
            b"\xe0\x08\x01\xc1\x05\x02\xa3\x01k\x43",
            Value::Array(Array(vec![map([(symbol("k"), Value::Uint(0))])])),
        ),
        (
            b"\xe0\x06\x01\xe0\x03\x01\x50\x07",
            Value::Array(Array(vec![Value::Array(Array(vec![Value::Ubyte(7)]))])),
        ),
        (
            b"\xe0\x07\x02\x00\x53\x10\x50\x01\x02",
            Value::Array(Array(vec![
                described(Descriptor::Code(16), Value::Ubyte(1)),
                described(Descriptor::Code(16), Value::Ubyte(2)),
            ])),
        ),
    ];
    for (bytes, expected) in cases {
        if expected == Value::Null {
            assert!(decode_value(bytes).is_err(), "an element too few: {bytes:02x?}");
            continue;
        }
        assert_eq!(decode_value(bytes).as_ref(), Ok(&expected), "{bytes:02x?}");
        assert_eq!(decode_value(&encoded(&expected)).as_ref(), Ok(&expected), "{bytes:02x?}");
    }
}

#[test]
fn an_array_of_mixed_types_is_written_as_a_list() {
    let mixed = Value::Array(Array(vec![Value::Int(1), Value::Bool(true)]));
    assert_eq!(decode_value(&encoded(&mixed)), Ok(Value::List(vec![Value::Int(1), Value::Bool(true)])));
    let nested = Value::Array(Array(vec![mixed.clone(), mixed]));
    assert!(decode_value(&encoded(&nested)).is_ok());
}

#[test]
fn hostile_values_do_not_become_trees() {
    let deep = [0x00, 0x44].repeat(50_000);
    assert_eq!(decode_value(&deep).map_err(|e| e.problem), Err(Malformed::TooDeep));
    let wide = [0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40];
    assert_eq!(decode_value(&wide).map_err(|e| e.problem), Err(Malformed::TooManyEmptyElements));
    // A descriptor that is neither number nor name has no place in the tree.
    assert_eq!(
        decode_value(&[0x00, 0x41, 0x41]).map_err(|e| e.problem),
        Err(Malformed::UnexpectedDescriptor)
    );
}

/// Trees as clients send them. Leaves that the oracle loses are left out: see below.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        any::<u32>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<f32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(|it| Value::Timestamp(Timestamp::from(it))),
        any::<[u8; 16]>().prop_map(|it| Value::Uuid(Uuid::from(it))),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(|it| Value::Binary(it.into())),
        ".{0,40}".prop_map(Value::String),
        "[ -~]{0,40}".prop_map(|it| Value::Symbol(Symbol::from(it))),
    ];
    leaf.prop_recursive(3, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            proptest::collection::vec(("[a-z]{1,8}", inner.clone()), 0..6)
                .prop_map(|entries| map(entries.into_iter().map(|(k, v)| (Value::String(k), v)))),
            (any::<u64>(), inner.clone()).prop_map(|(code, value)| described(Descriptor::Code(code), value)),
            ("[a-z:]{1,8}", inner).prop_map(|(word, value)| described(name(&word), value)),
        ]
    })
}

fn uniform_array() -> impl Strategy<Value = Value> {
    prop_oneof![
        proptest::collection::vec(any::<i32>().prop_map(Value::Int), 0..6),
        proptest::collection::vec(any::<[u8; 16]>().prop_map(|it| Value::Uuid(Uuid::from(it))), 0..6),
        proptest::collection::vec(".{0,9}".prop_map(Value::String), 0..6),
        proptest::collection::vec(any::<bool>().prop_map(Value::Bool), 0..6),
        proptest::collection::vec(
            any::<i64>().prop_map(|it| described(Descriptor::Code(9), Value::Long(it))),
            0..6
        ),
        proptest::collection::vec(
            proptest::collection::vec(any::<u8>().prop_map(Value::Ubyte), 0..3).prop_map(Value::List),
            0..6
        ),
        proptest::collection::vec(any::<i8>().prop_map(|it| map([(Value::Byte(it), Value::Null)])), 0..6),
    ]
    .prop_map(|items| Value::Array(Array(items)))
}

proptest! {
    #[test]
    fn a_tree_reads_back_as_it_was_written(value in tree()) {
        prop_assert_eq!(decode_value(&encoded(&value)), Ok(value));
    }

    #[test]
    fn an_array_reads_back_as_it_was_written(value in uniform_array()) {
        prop_assert_eq!(decode_value(&encoded(&value)), Ok(value));
    }

    #[test]
    fn the_oracle_reads_our_encoding(value in tree()) {
        let read: Value = serde_amqp::from_slice(&encoded(&value)).unwrap();
        prop_assert_eq!(read, value);
    }

    #[test]
    fn we_read_the_encoding_of_the_oracle(value in tree()) {
        let bytes = serde_amqp::to_vec(&value).unwrap();
        prop_assert_eq!(decode_value(&bytes), Ok(value));
    }

    #[test]
    fn a_truncated_tree_is_refused(value in tree(), cut in any::<prop::sample::Index>()) {
        let bytes = encoded(&value);
        let cut = cut.index(bytes.len());
        prop_assert!(decode_value(&bytes[..cut]).is_err());
    }

    #[test]
    fn any_bytes_are_a_tree_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = decode_value(&bytes) {
            prop_assert_eq!(decode_value(&encoded(&value)), Ok(value));
        }
    }
}
