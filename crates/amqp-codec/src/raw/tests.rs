use bytes::BytesMut;
use proptest::prelude::*;

use super::*;
use crate::types::Symbol;

fn encoded(value: AnnotationValue<'_>) -> Bytes {
    let mut out = BytesMut::new();
    value.write(&mut out);
    out.freeze()
}

fn whole(bytes: &[u8]) -> RawValue<'_> {
    let value = RawValue::first(bytes).unwrap();
    assert_eq!(value.bytes(), bytes);
    value
}

#[test]
fn integers_read_across_widths_and_signs() {
    let cases: [(&[u8], Option<i64>, Option<u64>); 15] = [
        (&[0x43], Some(0), Some(0)),
        (&[0x44], Some(0), Some(0)),
        (&[0x50, 200], Some(200), Some(200)),
        (&[0x51, 0xff], Some(-1), None),
        (&[0x52, 200], Some(200), Some(200)),
        (&[0x53, 200], Some(200), Some(200)),
        (&[0x54, 0xfe], Some(-2), None),
        (&[0x55, 0xfe], Some(-2), None),
        (&[0x60, 1, 0], Some(256), Some(256)),
        (&[0x61, 0xff, 0xff], Some(-1), None),
        (&[0x70, 0xff, 0xff, 0xff, 0xff], Some(0xffff_ffff), Some(0xffff_ffff)),
        (&[0x71, 0xff, 0xff, 0xff, 0xff], Some(-1), None),
        (&[0x80, 0xff, 0, 0, 0, 0, 0, 0, 0], None, Some(0xff << 56)),
        (&[0x81, 0, 0, 0, 0, 0, 0, 0, 9], Some(9), Some(9)),
        (&[0x83, 0, 0, 0, 0, 0, 0, 0, 9], None, None),
    ];
    for case @ (bytes, signed, unsigned) in cases {
        assert_eq!(whole(bytes).as_i64(), signed, "{case:?}");
        assert_eq!(whole(bytes).as_u64(), unsigned, "{case:?}");
    }
}

#[test]
fn each_accessor_reads_its_own_type_and_no_other() {
    let symbol = Symbol::from("word");
    let uuid = [7; 16];
    let text = encoded(AnnotationValue::Str("text"));
    assert_eq!(whole(&text).as_str(), Some("text"));
    assert_eq!(whole(&text).as_string(), Some("text"));
    assert_eq!(whole(&text).as_symbol(), None);
    assert_eq!(whole(&text).as_binary(), None);
    let word = encoded(AnnotationValue::Symbol(&symbol));
    assert_eq!(whole(&word).as_str(), Some("word"));
    assert_eq!(whole(&word).as_symbol(), Some("word"));
    assert_eq!(whole(&word).as_string(), None);
    let id = encoded(AnnotationValue::Uuid(uuid));
    assert_eq!(whole(&id).as_uuid(), Some(uuid));
    assert_eq!(whole(&id).as_u64(), None);
    let time = encoded(AnnotationValue::Timestamp(-1));
    assert_eq!(whole(&time).as_timestamp(), Some(-1));
    let binary = encoded(AnnotationValue::Binary(&[1; 300]));
    assert_eq!(whole(&binary).as_binary(), Some(&[1; 300][..]));
    assert_eq!(whole(&encoded(AnnotationValue::Bool(true))).as_bool(), Some(true));
    assert_eq!(whole(&[0x56, 0]).as_bool(), Some(false));
    assert_eq!(whole(&[0x72, 0x3f, 0x80, 0, 0]).as_f64(), Some(1.0));
    assert!(whole(&encoded(AnnotationValue::Null)).is_null());
}

#[test]
fn values_of_the_broker_have_the_types_that_sdks_demand() {
    let cases = [
        (AnnotationValue::Long(1), 0x81),
        (AnnotationValue::Timestamp(1), 0x83),
        (AnnotationValue::Int(1), 0x54),
        (AnnotationValue::Short(1), 0x61),
        (AnnotationValue::Uint(1), 0x52),
        (AnnotationValue::Ulong(1), 0x53),
        (AnnotationValue::Ubyte(1), 0x50),
        (AnnotationValue::Uuid([0; 16]), 0x98),
    ];
    for (value, constructor) in cases {
        assert_eq!(encoded(value)[0], constructor, "{value:?}");
    }
}

#[test]
fn no_value_is_longer_than_announced() {
    let symbol = Symbol::from("word");
    let long = "x".repeat(300);
    let values = [
        AnnotationValue::Null,
        AnnotationValue::Long(i64::MIN),
        AnnotationValue::Ulong(u64::MAX),
        AnnotationValue::Uuid([1; 16]),
        AnnotationValue::Str(&long),
        AnnotationValue::Symbol(&symbol),
        AnnotationValue::Binary(&[2; 255]),
        AnnotationValue::Raw(RawValue(&[0x43])),
    ];
    for value in values {
        assert!(encoded(value).len() <= value.max_len(), "{value:?}");
    }
}

#[test]
fn described_values_open_by_number_and_by_name() {
    let number = [0x00, 0x80, 0, 0, 0x01, 0x37, 0, 0, 0, 0x0c, 0xa1, 1, b's'];
    let (descriptor, value) = whole(&number).described().unwrap();
    assert_eq!(descriptor, Descriptor::Code(0x0137_0000_000c));
    assert_eq!(value.as_string(), Some("s"));
    let name = b"\x00\xa3\x03a:b\x43";
    assert_eq!(whole(name).described().unwrap().0, Descriptor::Name("a:b"));
    assert_eq!(whole(name).undescribed().as_u64(), Some(0));
    assert_eq!(whole(&[0x43]).undescribed().as_u64(), Some(0));
    assert!(whole(&[0x43]).described().is_none());
}

#[test]
fn maps_are_looked_up_by_string_and_symbol_alike() {
    let symbols = RawMap::with_symbol_keys(&[("a", AnnotationValue::Int(1)), ("b", AnnotationValue::Int(2))]);
    let strings = RawMap::with_string_keys(&[("a", AnnotationValue::Int(1)), ("b", AnnotationValue::Int(2))]);
    for map in [symbols, strings] {
        assert_eq!(map.get("b").and_then(RawValue::as_i64), Some(2));
        assert_eq!(map.get("c"), None);
        assert_eq!(map.len(), 2);
        let keys: Vec<_> = map.iter().filter_map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
    }
}

#[test]
fn a_map_must_be_one_whole_map() {
    assert!(RawMap::empty().is_empty());
    assert!(RawMap::new(Bytes::from_static(&[0xc1, 1, 0])).is_ok());
    for wrong in [&[0x45][..], &[0xc1, 1, 0, 0], &[0xc1, 2, 1, 0x43], &[]] {
        assert!(RawMap::copy_from_slice(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_malformed_map_reads_as_far_as_it_goes() {
    // Two entries are declared, the second has no value.
    let view = MapView::new(&[0xc1, 4, 4, 0x43, 0x41, 0x50]).unwrap_err();
    assert_eq!(view, Malformed::SizeMismatch);
    let view = MapView::new(&[0xc1, 6, 4, 0x43, 0x41, 0x43, 0x60, 0]).unwrap();
    assert_eq!(view.iter().count(), 1);
}

#[test]
fn items_of_lists_and_arrays_come_with_their_constructors() {
    let list = [0xc0, 5, 2, 0x43, 0x52, 7, 0x41];
    let items = RawValue::first(&list[..]).unwrap();
    assert!(items.to_items().is_some());
    let uuids = {
        let mut bytes = vec![0xe0, 34, 2, 0x98];
        bytes.extend([1; 16]);
        bytes.extend([2; 16]);
        bytes
    };
    let items = whole(&uuids).to_items().unwrap();
    let read: Vec<_> = items.iter().map(|item| whole(item).as_uuid().unwrap()).collect();
    assert_eq!(read, [[1; 16], [2; 16]]);
    assert_eq!(whole(&[0x43]).to_items(), None);
    // An array that claims more elements than there are bytes.
    assert_eq!(whole(&[0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40]).to_items(), None);
}

#[test]
fn an_array_of_described_values_has_no_items() {
    let described = [0xe0, 7, 2, 0x00, 0x53, 0x10, 0x50, 1, 2];
    assert_eq!(whole(&described).to_items(), None);
    assert_eq!(whole(&described).item_count(), Some(2));
}

#[test]
fn the_items_of_lists_and_arrays_are_counted_by_their_headers() {
    let table: [(&[u8], Option<usize>); 6] = [
        (&[0x45], Some(0)),
        (&[0xc0, 5, 2, 0x43, 0x52, 7, 0x41], Some(2)),
        (&[0xe0, 4, 2, 0x50, 1, 2], Some(2)),
        (&[0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40], Some(0xffff_ffff)),
        (&[0x43], None),
        (&[0xc1, 1, 0], None),
    ];
    for (bytes, count) in table {
        assert_eq!(whole(bytes).item_count(), count, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn views_of_any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(value) = RawValue::first(&bytes) {
            _ = (value.as_str(), value.as_i64(), value.as_u64(), value.as_uuid(), value.as_f64());
            drop((value.described(), value.to_items(), value.to_value()));
            if let Some(map) = value.as_map() {
                prop_assert!(map.iter().count() <= map.len());
            }
            if let Some(list) = value.as_list() {
                prop_assert!(list.count() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_map_that_was_written_reads_back(entries in proptest::collection::vec(("[a-z-]{1,12}", any::<i64>()), 0..40)) {
        let pairs: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), AnnotationValue::Long(*v))).collect();
        let map = RawMap::with_symbol_keys(&pairs);
        prop_assert!(RawMap::copy_from_slice(map.bytes()).is_ok());
        let read: Vec<_> = map.iter().map(|(k, v)| (k.as_symbol().unwrap().to_owned(), v.as_i64().unwrap())).collect();
        prop_assert_eq!(read, entries);
    }
}
