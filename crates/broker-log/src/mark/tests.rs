//! Marks: what is written is read, and anything else is refused for the right reason.

use super::*;

const MARK: Mark = Mark { shard: 3, number: 77, node: 0x0123_4567_89ab_cdef, time: 1_764_000_000_000 };

#[test]
fn a_mark_is_read_as_it_was_written() {
    assert_eq!(Mark::decode(&MARK.encode()), Ok(MARK));
}

#[test]
fn marks_of_newer_versions_and_of_replicated_journals_are_refused_as_such() {
    let cases: [(usize, u8, NewerPart); 6] = [
        (0, 2, NewerPart::MarkVersion(2)),
        (2, 1, NewerPart::MarkFlags(1)),
        (8, 1, NewerPart::Term(0)),
        (24, 9, NewerPart::Term(9)),
        (58, 3, NewerPart::Members(3)),
        (59, 1, NewerPart::Members(256)),
    ];
    for (at, byte, part) in cases {
        let mut bytes = MARK.encode();
        *bytes.get_mut(at).unwrap() = byte;
        assert_eq!(Mark::decode(&bytes), Err(NotAMark::Newer(part)), "byte {at}");
    }
}

#[test]
fn a_mark_of_another_length_or_without_a_number_is_malformed() {
    let bytes = MARK.encode();
    for length in 0..bytes.len() {
        assert_eq!(Mark::decode(bytes.get(..length).unwrap()), Err(NotAMark::Malformed), "{length} bytes");
    }
    assert_eq!(Mark::decode(&[&bytes[..], &[0]].concat()), Err(NotAMark::Malformed));
    assert_eq!(Mark::decode(&Mark { number: 0, ..MARK }.encode()), Err(NotAMark::Malformed));
}
