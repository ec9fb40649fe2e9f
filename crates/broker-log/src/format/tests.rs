use proptest::prelude::*;

use super::*;

const HEADER_AT_0: SegmentHeader = SegmentHeader {
    version: VERSION,
    base: 0,
    incarnation: 2,
    synced: 0,
    tail: 0,
    previous: 0,
    resume: None,
};

fn segment() -> impl Strategy<Value = SegmentHeader> {
    (any::<[u64; 4]>(), any::<u32>(), any::<Option<u32>>()).prop_map(|(numbers, previous, resume)| {
        SegmentHeader {
            version: if numbers[0].is_multiple_of(2) { VERSION } else { VERSION_0_1 },
            base: numbers[0] >> 8 << 6,
            incarnation: numbers[1],
            synced: numbers[2] >> 2,
            tail: numbers[3] >> 8 << 6,
            previous,
            resume,
        }
    })
}

fn batch() -> impl Strategy<Value = BatchHeader> {
    (any::<[u16; 2]>(), any::<[u32; 3]>(), any::<[u64; 5]>()).prop_map(|(codes, small, large)| BatchHeader {
        kind: BatchKind::from_code(codes[0] % 12),
        flags: codes[1],
        count: small[0],
        previous: small[1],
        length: small[2],
        position: large[0] >> 8 << 6,
        incarnation: large[1],
        synced: large[2] >> 2,
        tail: large[3] >> 8 << 6,
        extra: large[4],
    })
}

proptest! {
    #[test]
    fn segment_headers_survive_the_round_trip(header in segment()) {
        prop_assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn a_segment_header_with_a_flipped_bit_is_none(header in segment(), bit in 0_usize..512) {
        let mut bytes = header.encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(SegmentHeader::decode(&bytes), Err(NotASegment::Unknown));
    }

    #[test]
    fn batch_headers_survive_the_round_trip(header in batch(), seed: u64) {
        let records = RecordsChecksum::new(Seed::of(seed));
        let (bytes, checksum) = header.encode(records);
        prop_assert_eq!(BatchHeader::decode(&bytes), Some(header));
        prop_assert_eq!(BatchHeader::verify(&bytes, records), Some(checksum));
    }

    #[test]
    fn a_batch_header_with_a_flipped_bit_fails_its_checksum(header in batch(), bit in 0_usize..512) {
        let records = RecordsChecksum::new(Seed::of(1));
        let (mut bytes, _) = header.encode(records);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(BatchHeader::verify(&bytes, records), None);
    }

    #[test]
    fn a_record_matches_its_own_bytes_in_its_own_segment_only(
        index in prop::collection::vec(any::<u8>(), 0..40),
        rest in prop::collection::vec(any::<u8>(), 0..400),
        split in 0_usize..400,
        bit: prop::sample::Index,
    ) {
        let (one, two) = rest.split_at(split.min(rest.len()));
        let length = u32::try_from(index.len() + rest.len()).unwrap();
        let header = RecordHeader::of(Seed::of(7), length, &index, &[one, two]);
        prop_assert_eq!(RecordHeader::decode(&header.encode()), Some(header));
        let mut bytes = [&index[..], &rest].concat();
        prop_assert!(header.matches(Seed::of(7), &bytes));
        prop_assert!(!header.matches(Seed::of(8), &bytes));
        if !bytes.is_empty() {
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!header.matches(Seed::of(7), &bytes));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: [u8; 32]) {
        let bytes: [u8; HEADER_LEN] = [bytes, bytes].concat().try_into().unwrap();
        prop_assert!(SegmentHeader::decode(&bytes).is_err());
        prop_assert!(BatchHeader::decode(&bytes).is_none());
        prop_assert!(RecordHeader::decode(&bytes).is_none_or(|header| header.index <= header.length || header.is_lost()));
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let header =
        SegmentHeader { base: 64, synced: 3, tail: 128, previous: 5, resume: Some(6), ..HEADER_AT_0 }
            .encode();
    assert_eq!(&header[..8], b"FERRYSEG");
    let words: Vec<u64> =
        header.chunks_exact(8).skip(1).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words[..6], [2, 64, 2, 3, 128, 1 << 32 | 6]);
    assert_eq!(header[56..60], 5_u32.to_le_bytes());
    let batch = BatchHeader {
        kind: BatchKind::Seal,
        flags: 0x0201,
        count: 1,
        previous: 2,
        length: 3,
        position: 4,
        incarnation: 5,
        synced: 6,
        tail: 7,
        extra: 8,
    };
    let (bytes, checksum) = batch.encode(RecordsChecksum::new(Seed::of(5)));
    assert_eq!(&bytes[..8], b"FBAT\x03\0\x01\x02");
    assert_eq!(bytes[8..20], [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!((bytes[20], bytes[28], bytes[36], bytes[44], bytes[52]), (4, 5, 6, 7, 8));
    assert_eq!(bytes[60..], checksum.to_le_bytes());
    assert_eq!(RecordHeader::lost(9).encode(), [9, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0]);
}

#[test]
fn positions_that_no_journal_reaches_are_refused() {
    let good = SegmentHeader { base: POSITION_MAX, ..HEADER_AT_0 };
    assert!(SegmentHeader::decode(&good.encode()).is_ok());
    for bad in [
        SegmentHeader { base: POSITION_MAX + 64, ..good },
        SegmentHeader { base: 63, ..good },
        SegmentHeader { tail: 65, ..good },
        SegmentHeader { synced: u64::MAX, ..good },
    ] {
        assert_eq!(SegmentHeader::decode(&bad.encode()), Err(NotASegment::Unknown), "{bad:?}");
    }
}

#[test]
fn a_segment_header_of_a_newer_version_is_refused_as_such() {
    let cases = [
        (8, NewerPart::Format(9)),
        (12, NewerPart::SegmentFlags(9)),
        (53, NewerPart::SegmentResume(9 << 40)),
    ];
    for (at, part) in cases {
        let mut bytes = HEADER_AT_0.encode();
        bytes[at] = 9;
        assert_eq!(SegmentHeader::decode(&with_checksum(bytes, 0)), Err(NotASegment::Newer(part)));
    }
    assert_eq!(SegmentHeader::decode(&spare_header()), Err(NotASegment::Spare));
    assert_eq!(SegmentHeader::decode(&[0; 64]), Err(NotASegment::Unknown));
}

#[test]
fn each_part_of_a_batch_that_is_not_known_is_named() {
    let batch = |kind, flags, extra| BatchHeader {
        kind,
        flags,
        count: 0,
        previous: 0,
        length: 64,
        position: 64,
        incarnation: 1,
        synced: 0,
        tail: 0,
        extra,
    };
    let chain = encode_resume(Some(7));
    let cases = [
        (batch(BatchKind::Data, 0, 0), None),
        (batch(BatchKind::Data, 0, chain), None),
        (batch(BatchKind::Gap, 0, chain), None),
        (batch(BatchKind::Seal, 0, u64::MAX), None),
        (batch(BatchKind::Newer(7), 0, 0), Some(NewerPart::BatchKind(7))),
        (batch(BatchKind::Data, 4, 0), Some(NewerPart::BatchFlags(4))),
        (batch(BatchKind::Data, 0, 1 << 33), Some(NewerPart::BatchExtra(1 << 33))),
        (batch(BatchKind::Gap, 0, chain | 1 << 63), Some(NewerPart::BatchExtra(1 << 63))),
        (batch(BatchKind::Summary, 0, 1), Some(NewerPart::BatchExtra(1))),
        (batch(BatchKind::Closed, 0, 2), Some(NewerPart::BatchExtra(2))),
        (batch(BatchKind::Mark, 0, 3), Some(NewerPart::BatchExtra(3))),
    ];
    for (header, newer) in cases {
        assert_eq!(header.newer(), newer, "{header:?}");
    }
}
