#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the paths of the methods are not general enough over the reader's lifetime"
)]

use bytes::{BufMut, BytesMut};
use proptest::prelude::*;

use super::*;

/// The fields of a list that holds one encoded value.
fn one_field(value: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    write_list(&mut out, 1, |out| out.put_slice(value));
    out.to_vec()
}

fn read<T>(
    value: &[u8],
    read: impl FnOnce(&mut FieldReader<'_>) -> Result<Option<T>, Malformed>,
) -> Result<Option<T>, Malformed> {
    let list = one_field(value);
    let mut fields = Reader::new(&list).list()?;
    let result = read(&mut fields)?;
    fields.finish()?;
    Ok(result)
}

#[test]
fn every_encoding_of_a_uint_is_read() {
    let cases: [(&[u8], Option<u32>); 5] = [
        (&[0x40], None),
        (&[0x43], Some(0)),
        (&[0x52, 0xff], Some(255)),
        (&[0x70, 0, 0, 0, 7], Some(7)),
        (&[0x70, 0xff, 0xff, 0xff, 0xff], Some(u32::MAX)),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(read(bytes, |it| it.uint()), Ok(expected), "{case:?}");
    }
}

#[test]
fn every_encoding_of_a_ulong_is_read() {
    let cases: [(&[u8], Option<u64>); 4] = [
        (&[0x40], None),
        (&[0x44], Some(0)),
        (&[0x53, 0xff], Some(255)),
        (&[0x80, 1, 0, 0, 0, 0, 0, 0, 0], Some(1 << 56)),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(read(bytes, |it| it.ulong()), Ok(expected), "{case:?}");
    }
}

#[test]
fn every_encoding_of_a_boolean_is_read() {
    type Case<'a> = (&'a [u8], Result<Option<bool>, Malformed>);
    let cases: [Case<'_>; 6] = [
        (&[0x40], Ok(None)),
        (&[0x41], Ok(Some(true))),
        (&[0x42], Ok(Some(false))),
        (&[0x56, 1], Ok(Some(true))),
        (&[0x56, 0], Ok(Some(false))),
        (&[0x56, 2], Err(Malformed::NotBoolean(2))),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(read(bytes, |it| it.boolean()), expected, "{case:?}");
    }
}

#[test]
fn strings_symbols_and_binaries_are_read_in_both_widths() {
    assert_eq!(read(b"\xa1\x02\xc3\xa9", |f| Ok(f.string()?.map(str::to_owned))), Ok(Some("é".into())));
    assert_eq!(read(b"\xb1\0\0\0\x01a", |f| Ok(f.string()?.map(str::to_owned))), Ok(Some("a".into())));
    assert_eq!(read(b"\xa3\x01a", |it| it.owned_symbol()), Ok(Some(Symbol::from("a"))));
    assert_eq!(read(b"\xb3\0\0\0\x01a", |it| it.owned_symbol()), Ok(Some(Symbol::from("a"))));
    assert_eq!(read(b"\xa0\x01\xff", |f| Ok(f.binary()?.map(<[u8]>::to_vec))), Ok(Some(vec![255])));
    assert_eq!(read(b"\xb0\0\0\0\x01\xff", |f| Ok(f.binary()?.map(<[u8]>::to_vec))), Ok(Some(vec![255])));
}

#[test]
fn text_in_the_wrong_alphabet_is_refused() {
    assert_eq!(read(b"\xa1\x01\xff", |f| f.string().map(|_| Some(()))), Err(Malformed::NotUtf8));
    assert_eq!(read(b"\xa3\x02\xc3\xa9", |f| f.symbol().map(|_| Some(()))), Err(Malformed::NotAscii));
    assert_eq!(Symbol::new("é"), Err(NotAscii));
}

#[test]
fn a_value_of_another_type_is_named() {
    fn expected<T>(expected: TypeKind, found: u8) -> Result<Option<T>, Malformed> {
        Err(Malformed::Unexpected { expected, found })
    }
    assert_eq!(read(&[0x41], |it| it.uint()), expected(TypeKind::Uint, 0x41));
    assert_eq!(read(&[0x43], |it| it.ulong()), expected(TypeKind::Ulong, 0x43));
    assert_eq!(read(&[0x52, 1], |it| it.boolean()), expected(TypeKind::Boolean, 0x52));
    assert_eq!(read(&[0x43], |it| it.ubyte()), expected(TypeKind::Ubyte, 0x43));
    assert_eq!(read(&[0x43], |it| it.ushort()), expected(TypeKind::Ushort, 0x43));
    assert_eq!(read(&[0x43], |it| it.timestamp()), expected(TypeKind::Timestamp, 0x43));
    assert_eq!(read(&[0x43], |it| it.delivery_tag()), expected(TypeKind::Binary, 0x43));
}

#[test]
fn a_field_beyond_the_list_is_absent() {
    for list in [&[0x45][..], &[0xc0, 1, 0], &[0xd0, 0, 0, 0, 4, 0, 0, 0, 0]] {
        let mut fields = Reader::new(list).list().unwrap();
        assert_eq!(fields.uint(), Ok(None));
        assert_eq!(fields.boolean(), Ok(None));
        assert_eq!(fields.value(), Ok(None));
        assert_eq!(fields.index(), 3);
        assert_eq!(fields.finish(), Ok(()));
    }
}

#[test]
fn a_list_that_lies_about_its_size_is_refused() {
    let cases: [(&[u8], Malformed); 7] = [
        (&[0xc0], Malformed::Truncated),
        (&[0xc0, 0], Malformed::SizeMismatch),
        (&[0xc0, 5, 1, 0x43], Malformed::Truncated),
        (&[0xc0, 2, 2, 0x43], Malformed::SizeMismatch),
        (&[0xd0, 0, 0, 0, 3, 0, 0, 0], Malformed::SizeMismatch),
        (&[0xd0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], Malformed::Truncated),
        (&[0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], Malformed::SizeMismatch),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(Reader::new(bytes).list().map(|_| ()), Err(expected), "{case:?}");
    }
}

#[test]
fn trailing_fields_of_a_list_are_refused() {
    let mut more = Reader::new(&[0xc0, 3, 2, 0x43, 0x43]).list().unwrap();
    assert_eq!(more.uint(), Ok(Some(0)));
    assert_eq!(more.finish(), Err(Malformed::TooManyFields(2)));
    let mut bytes = Reader::new(&[0xc0, 3, 1, 0x43, 0x43]).list().unwrap();
    assert_eq!(bytes.uint(), Ok(Some(0)));
    assert_eq!(bytes.finish(), Err(Malformed::SizeMismatch));
}

#[test]
fn symbols_come_as_null_one_or_an_array() {
    let words = |bytes: &[u8]| read(bytes, |fields| fields.symbols().map(Some));
    assert_eq!(words(&[0x40]), Ok(Some(vec![])));
    assert_eq!(words(b"\xa3\x01a"), Ok(Some(vec!["a".into()])));
    assert_eq!(words(b"\xb3\0\0\0\x01a"), Ok(Some(vec!["a".into()])));
    assert_eq!(words(b"\xe0\x06\x02\xa3\x01a\x01b"), Ok(Some(vec!["a".into(), "b".into()])));
    assert_eq!(words(b"\xf0\0\0\0\x0a\0\0\0\x01\xb3\0\0\0\x01a"), Ok(Some(vec!["a".into()])));
    assert_eq!(words(b"\xe0\x02\x00\xa3"), Ok(Some(vec![])), "an empty array");
    assert_eq!(words(b"\xe0\x03\xff\xa3\x00"), Err(Malformed::Truncated), "a false count");
    assert_eq!(words(b"\xe0\x05\x01\xa3\x01ab"), Err(Malformed::SizeMismatch));
    assert_eq!(words(b"\xe0\x01\x00"), Err(Malformed::Truncated), "no element constructor");
    assert_eq!(
        words(b"\xe0\x03\x01\x50\x00"),
        Err(Malformed::Unexpected { expected: TypeKind::Symbol, found: 0x50 })
    );
}

#[test]
fn descriptors_are_read_as_numbers_and_as_names() {
    let cases: [(&[u8], Result<Descriptor<'_>, Malformed>); 8] = [
        (&[0, 0x53, 0x70], Ok(Descriptor::Code(0x70))),
        (&[0, 0x44], Ok(Descriptor::Code(0))),
        (&[0, 0x80, 0, 0, 0, 1, 0, 0, 0, 2], Ok(Descriptor::Code(0x1_0000_0002))),
        (b"\0\xa3\x03a:b", Ok(Descriptor::Name("a:b"))),
        (b"\0\xb3\0\0\0\x03a:b", Ok(Descriptor::Name("a:b"))),
        (&[0, 0x43], Err(Malformed::UnexpectedDescriptor)),
        (&[0], Err(Malformed::Truncated)),
        (&[0x45], Err(Malformed::Unexpected { expected: TypeKind::Described, found: 0x45 })),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(Reader::new(bytes).descriptor(), expected, "{case:?}");
    }
}

#[test]
fn a_value_is_passed_over_by_its_category() {
    let cases: [(&[u8], Result<usize, Malformed>); 14] = [
        (&[0x40, 9], Ok(1)),
        (&[0x56, 1, 9], Ok(2)),
        (&[0x60, 0, 1, 9], Ok(3)),
        (&[0x70, 0, 0, 0, 1, 9], Ok(5)),
        (&[0x80, 0, 0, 0, 0, 0, 0, 0, 1, 9], Ok(9)),
        (&[0x98; 17], Ok(17)),
        (&[0xa1, 2, b'a', b'b', 9], Ok(4)),
        (&[0xb0, 0, 0, 0, 1, 7, 9], Ok(6)),
        (&[0xc0, 1, 0, 9], Ok(3)),
        (&[0, 0x53, 1, 0x43, 9], Ok(4)),
        (&[0, 0, 0x43, 0x43, 0x43, 9], Ok(5)),
        (&[0x98; 16], Err(Malformed::Truncated)),
        (&[0x3f], Err(Malformed::UnknownConstructor(0x3f))),
        (&[], Err(Malformed::Truncated)),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(Reader::new(bytes).value().map(<[u8]>::len), expected, "{case:?}");
    }
}

#[test]
fn numbers_are_written_in_their_shortest_form() {
    type Write = fn(&mut BytesMut);
    let cases: [(Write, &[u8]); 14] = [
        (|out| write_uint(out, 0), &[0x43]),
        (|out| write_uint(out, 255), &[0x52, 0xff]),
        (|out| write_uint(out, 256), &[0x70, 0, 0, 1, 0]),
        (|out| write_ulong(out, 0), &[0x44]),
        (|out| write_ulong(out, 255), &[0x53, 0xff]),
        (|out| write_ulong(out, 256), &[0x80, 0, 0, 0, 0, 0, 0, 1, 0]),
        (|out| write_int(out, -128), &[0x54, 0x80]),
        (|out| write_int(out, 128), &[0x71, 0, 0, 0, 128]),
        (|out| write_long(out, -1), &[0x55, 0xff]),
        (|out| write_long(out, -129), &[0x81, 255, 255, 255, 255, 255, 255, 255, 0x7f]),
        (|out| write_descriptor(out, 0x70), &[0, 0x53, 0x70]),
        (|out| write_descriptor(out, 0x1_0000), &[0, 0x80, 0, 0, 0, 0, 0, 1, 0, 0]),
        (|out| write_symbols(out, &[]), &[0x40]),
        (|out| write_symbols(out, &["a".into()]), b"\xe0\x04\x01\xa3\x01a"),
    ];
    for (write, expected) in cases {
        let mut out = BytesMut::new();
        write(&mut out);
        assert_eq!(&out[..], expected);
    }
}

#[test]
fn a_binary_in_two_pieces_is_the_binary() {
    let value: Vec<u8> = (0..=u8::MAX).collect();
    for length in [0, 1, 255, 256] {
        for cut in [0, length / 2, length] {
            let (mut whole, mut pieces) = (BytesMut::new(), BytesMut::new());
            write_binary(&mut whole, &value[..length]);
            write_binary_pieces(&mut pieces, &value[..cut], &value[cut..length]);
            assert_eq!(pieces, whole, "{length} cut at {cut}");
        }
    }
}

#[test]
fn lists_grow_to_four_byte_sizes_exactly_when_they_must() {
    for (items, expected) in [(0, 0xc0), (253, 0xc0), (254, 0xc0), (255, 0xd0), (256, 0xd0), (1000, 0xd0)] {
        let mut out = BytesMut::from(&b"before"[..]);
        write_list(&mut out, items, |out| out.put_bytes(code::NULL, items));
        assert_eq!(out[6], expected, "{items} items");
        let mut reader = Reader::new(&out[6..]);
        let fields = reader.list().unwrap();
        assert!(reader.is_empty());
        assert_eq!(fields.left() as usize, items);
        assert_eq!(fields.remaining().rest(), vec![code::NULL; items]);
    }
}

#[test]
fn long_symbols_make_a_wide_array() {
    let words = [Symbol::new("x".repeat(300)).unwrap(), Symbol::from("b")];
    let mut out = BytesMut::new();
    write_symbols(&mut out, &words);
    assert_eq!(read(&out, |fields| fields.symbols().map(Some)), Ok(Some(words.to_vec())));
}

#[test]
fn tags_hold_up_to_32_bytes() {
    for len in 0..=32 {
        let bytes: Vec<u8> = (0..len).collect();
        let tag = DeliveryTag::try_from(&bytes[..]).unwrap();
        assert_eq!(&*tag, &bytes[..]);
        assert_eq!(tag, DeliveryTag::try_from(&bytes[..]).unwrap());
    }
    assert_eq!(DeliveryTag::try_from(&[0; 33][..]), Err(TagTooLong(33)));
    let mut long = vec![0xa0, 65];
    long.extend([0; 65]);
    assert_eq!(read(&long, |it| it.delivery_tag()), Err(Malformed::TagTooLong(65)));
}

#[test]
fn longer_tags_of_a_peer_are_told_apart_and_never_sent() {
    let uuid = b"0f8fad5b-d9cb-469f-a165-70867728950e";
    let received = |tag: &[u8]| {
        let mut field = vec![0xa0, u8::try_from(tag.len()).unwrap()];
        field.extend_from_slice(tag);
        read(&field, |it| it.delivery_tag())
    };
    let tag = received(uuid).unwrap().unwrap();
    assert!(tag.is_too_long() && tag.as_slice().len() == 32);
    assert_eq!(received(uuid), Ok(Some(tag)));
    let mut others: Vec<Vec<u8>> = (0..uuid.len())
        .map(|at| {
            let mut other = uuid.to_vec();
            other[at] ^= 1;
            other
        })
        .collect();
    // Shorter and longer ones, and what is kept of it as a tag of its own.
    others.extend([uuid[..35].to_vec(), [&uuid[..], &[0]].concat(), tag.as_slice().to_vec()]);
    for other in others {
        assert_ne!(received(&other).unwrap().unwrap(), tag, "{other:?}");
    }
    for len in [0, 32] {
        assert!(!received(&vec![1; len]).unwrap().unwrap().is_too_long());
    }
    for len in [33, 64] {
        assert!(received(&vec![1; len]).unwrap().unwrap().is_too_long());
        assert!(DeliveryTag::try_from(&vec![1; len][..]).is_err(), "own tags are short");
    }
}

#[test]
fn tags_of_different_length_differ() {
    let tag = |bytes: &[u8]| DeliveryTag::try_from(bytes).unwrap();
    assert_ne!(tag(&[]), tag(&[0]));
    assert_ne!(tag(&[0; 4]), tag(&[0; 8]));
    assert_eq!(format!("{:?}", tag(&[0xab, 1])), "DeliveryTag(ab01)");
}

#[test]
fn settle_modes_map_to_their_numbers_and_back() {
    for code in 0..=2 {
        assert_eq!(SenderSettleMode::from_code(code).map(SenderSettleMode::code), Some(code));
    }
    for code in 0..=1 {
        assert_eq!(ReceiverSettleMode::from_code(code).map(ReceiverSettleMode::code), Some(code));
    }
    assert_eq!(SenderSettleMode::from_code(3), None);
    assert_eq!(ReceiverSettleMode::from_code(2), None);
    assert_eq!(read(&[0x50, 3], |it| it.sender_settle_mode()), Err(Malformed::OutOfRange(3)));
    assert_eq!(read(&[0x50, 2], |it| it.receiver_settle_mode()), Err(Malformed::OutOfRange(2)));
}

#[test]
fn every_constructor_of_the_specification_has_a_kind() {
    let known = (0..=255).filter(|&byte| TypeKind::of(byte).is_some()).count();
    // 39 encodings in the tables of types 1.6, and the described constructor.
    assert_eq!(known, 40);
}

proptest! {
    #[test]
    fn passing_over_a_value_never_reads_past_it(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut reader = Reader::new(&bytes);
        if let Ok(value) = reader.value() {
            prop_assert_eq!(value.len() + reader.rest().len(), bytes.len());
            prop_assert!(bytes.starts_with(value));
        }
    }

    #[test]
    fn fields_of_any_type_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(mut fields) = Reader::new(&bytes).list() {
            _ = fields.uint();
            _ = fields.boolean();
            _ = fields.delivery_tag();
            drop(fields.symbols());
            _ = fields.string();
            _ = fields.value();
            _ = fields.finish();
        }
    }
}
