use bytes::{BufMut, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::types;

fn problem(bytes: &[u8]) -> Option<Malformed> {
    check_value(bytes).err().map(|error| error.problem)
}

/// `depth` lists inside of each other, each with sizes of four bytes.
fn nested_lists(depth: usize) -> Vec<u8> {
    let mut value = vec![code::LIST_0];
    for _ in 0..depth {
        let mut outer = vec![code::LIST_32];
        outer.extend(u32::try_from(value.len() + 4).unwrap().to_be_bytes());
        outer.extend(1_u32.to_be_bytes());
        outer.extend(value);
        value = outer;
    }
    value
}

#[test]
fn nesting_passes_up_to_the_limit_and_not_beyond() {
    assert_eq!(problem(&nested_lists(MAX_DEPTH)), None);
    assert_eq!(problem(&nested_lists(MAX_DEPTH + 1)), Some(Malformed::TooDeep));
}

#[test]
fn nesting_that_overflows_a_recursive_reader_is_refused() {
    // 45 KB of lists that claim to hold one more list each.
    let mut lists = Vec::new();
    for _ in 0..5_000 {
        lists.extend([code::LIST_32, 0, 0, 0x10, 0, 0, 0, 0, 1]);
    }
    lists.resize(lists.len() + 0x2000, code::NULL);
    assert_eq!(problem(&lists), Some(Malformed::TooDeep));
    // One byte each: a described value whose descriptor is described, and so on.
    assert_eq!(problem(&vec![code::DESCRIBED; 45_000]), Some(Malformed::TooDeep));
    // Two bytes each: a described value whose value is described, and so on.
    assert_eq!(problem(&[code::DESCRIBED, code::ULONG_0].repeat(20_000)), Some(Malformed::TooDeep));
    // Maps and arrays of arrays.
    let maps = [code::MAP_32, 0, 0, 0x10, 0, 0, 0, 0, 2, code::NULL].repeat(5_000);
    assert_eq!(problem(&maps), Some(Malformed::TooDeep));
    let mut arrays = [code::ARRAY_32, 0, 0, 0x10, 0, 0, 0, 0, 1].repeat(5_000);
    arrays.push(code::NULL);
    assert_eq!(problem(&arrays), Some(Malformed::TooDeep));
}

#[test]
fn sizes_beyond_the_bytes_are_refused_without_being_reserved() {
    let max = 0xff;
    let cases: [(&[u8], Malformed); 12] = [
        (&[], Malformed::Truncated),
        (&[code::BINARY_32, max, max, max, max], Malformed::Truncated),
        (&[code::STRING_32, 0x7f, max, max, max, b'a'], Malformed::Truncated),
        (&[code::SYMBOL_8, 2, b'a'], Malformed::Truncated),
        (&[code::LIST_32, max, max, max, max, max, max, max, max], Malformed::Truncated),
        (&[code::LIST_32, 0, 0, 0, 4, max, max, max, max], Malformed::SizeMismatch),
        (&[code::LIST_32, 0, 0, 0, 3, 0, 0, 0, 0], Malformed::SizeMismatch),
        (&[code::LIST_8, 0, 0], Malformed::SizeMismatch),
        (&[code::LIST_8, 3, 1, 0x43, 0x43], Malformed::SizeMismatch),
        (&[code::MAP_8, 2, 1, 0x43], Malformed::OddMap(1)),
        (&[code::ARRAY_8, 1, 0], Malformed::Truncated),
        (&[code::ARRAY_32, 0, 0, 0, 9, max, max, max, max, 0x70, 0, 0, 0, 0], Malformed::Truncated),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(problem(bytes), Some(expected), "{case:02x?}");
    }
}

#[test]
fn a_list_with_more_elements_than_bytes_runs_into_its_end() {
    // The elements after the list must not be taken for its own.
    let bytes = [code::LIST_8, 2, 3, code::NULL, code::NULL, code::NULL];
    assert_eq!(problem(&bytes), Some(Malformed::SizeMismatch));
}

#[test]
fn elements_without_width_are_counted() {
    let array = |count: u32| {
        let mut bytes = vec![code::ARRAY_32, 0, 0, 0, 5];
        bytes.extend(count.to_be_bytes());
        bytes.push(code::NULL);
        bytes
    };
    assert_eq!(problem(&array(MAX_EMPTY_ELEMENTS)), None);
    assert_eq!(problem(&array(MAX_EMPTY_ELEMENTS + 1)), Some(Malformed::TooManyEmptyElements));
    assert_eq!(problem(&array(u32::MAX)), Some(Malformed::TooManyEmptyElements));
    // All arrays of one value share the allowance.
    let mut many = BytesMut::new();
    types::write_list(&mut many, 2, |out| {
        out.put_slice(&array(MAX_EMPTY_ELEMENTS));
        out.put_slice(&array(1));
    });
    assert_eq!(problem(&many), Some(Malformed::TooManyEmptyElements));
}

#[test]
fn contents_are_checked_at_every_depth() {
    let cases: [(&[u8], Malformed); 8] = [
        (&[0x56, 2], Malformed::NotBoolean(2)),
        (&[0x73, 0, 0, 0xd8, 0], Malformed::NotChar(0xd800)),
        (&[0xa1, 1, 0xff], Malformed::NotUtf8),
        (&[0xa3, 1, 0x80], Malformed::NotAscii),
        (&[0x57], Malformed::UnknownConstructor(0x57)),
        (&[0x99], Malformed::UnknownConstructor(0x99)),
        (&[0xe0, 4, 1, 0xa1, 1, 0xff], Malformed::NotUtf8),
        (&[0xe0, 3, 1, 0x56, 9], Malformed::NotBoolean(9)),
    ];
    for case @ (bytes, expected) in cases {
        assert_eq!(problem(bytes), Some(expected), "{case:02x?}");
        let mut inside = BytesMut::new();
        types::write_map(&mut inside, 2, |out| {
            types::write_str(out, "key");
            types::write_list(out, 1, |out| out.put_slice(bytes));
        });
        assert_eq!(problem(&inside), Some(expected), "{case:02x?} inside of a list in a map");
    }
}

#[test]
fn arrays_may_have_one_descriptor_for_all_elements() {
    let described = [0xe0, 7, 2, 0x00, 0x53, 0x10, 0x50, 1, 2];
    assert_eq!(check_value(&described), Ok(described.len()));
    let twice = [0xe0, 9, 1, 0x00, 0x53, 0x10, 0x00, 0x53, 0x10, 0x50, 1];
    assert_eq!(problem(&twice), Some(Malformed::UnexpectedDescriptor));
    let of_list = [0xe0, 5, 1, 0x00, 0x45, 0x50, 1];
    assert_eq!(problem(&of_list), Some(Malformed::UnexpectedDescriptor));
}

#[test]
fn arrays_of_lists_maps_and_arrays_pass() {
    let lists = [0xe0, 8, 2, 0xc0, 2, 1, 0x43, 2, 1, 0x41];
    assert_eq!(check_value(&lists), Ok(lists.len()));
    let maps = [0xe0, 6, 1, 0xc1, 3, 2, 0x43, 0x40];
    assert_eq!(check_value(&maps), Ok(maps.len()));
    let arrays = [0xe0, 6, 1, 0xe0, 3, 1, 0x50, 7];
    assert_eq!(check_value(&arrays), Ok(arrays.len()));
}

#[test]
fn only_the_first_value_is_looked_at() {
    assert_eq!(check_value(&[0x43, 0xff, 0xff]), Ok(1));
    assert_eq!(
        check_whole_value(&[0x43, 0xff]),
        Err(GuardError { offset: 1, problem: Malformed::SizeMismatch })
    );
}

#[test]
fn the_error_says_where() {
    let error = check_value(&[0xc0, 4, 2, 0x43, 0x56, 7]).unwrap_err();
    assert_eq!(error, GuardError { offset: 6, problem: Malformed::NotBoolean(7) });
    assert_eq!(error.to_string(), "at byte 6: boolean octet is 0x07, expected 0x00 or 0x01");
}

proptest! {
    #[test]
    fn a_guarded_value_is_as_long_as_the_skipped_one(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(len) = check_value(&bytes) {
            prop_assert_eq!(Reader::new(&bytes).value().map(<[u8]>::len), Ok(len));
        }
    }

    #[test]
    fn constructor_soup_never_panics_or_hangs(
        bytes in proptest::collection::vec(
            prop_oneof![
                Just(0x00_u8), Just(0x40), Just(0x45), Just(0x53), Just(0xa1), Just(0xc0), Just(0xc1),
                Just(0xd0), Just(0xd1), Just(0xe0), Just(0xf0), 0_u8..8, any::<u8>(),
            ],
            0..400,
        ),
    ) {
        _ = check_value(&bytes);
    }
}
