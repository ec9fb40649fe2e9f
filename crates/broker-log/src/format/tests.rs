use proptest::prelude::*;

use super::*;

fn segment() -> impl Strategy<Value = SegmentHeader> {
    (any::<[u64; 4]>(), any::<u32>(), any::<Option<u32>>()).prop_map(|(numbers, previous, resume)| {
        SegmentHeader {
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
    (0..5_usize, any::<[u32; 3]>(), any::<[u64; 5]>()).prop_map(|(kind, small, large)| BatchHeader {
        kind: BatchKind::ALL[kind].1,
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
        SegmentHeader { base: 64, incarnation: 2, synced: 3, tail: 128, previous: 5, resume: Some(6) }
            .encode();
    assert_eq!(&header[..8], b"FERRYSEG");
    let words: Vec<u64> =
        header.chunks_exact(8).skip(1).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words[..6], [1, 64, 2, 3, 128, 1 << 32 | 6]);
    assert_eq!(header[56..60], 5_u32.to_le_bytes());
    let batch = BatchHeader {
        kind: BatchKind::Seal,
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
    assert_eq!(&bytes[..8], b"FBAT\x03\0\0\0");
    assert_eq!(bytes[8..20], [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!((bytes[20], bytes[28], bytes[36], bytes[44], bytes[52]), (4, 5, 6, 7, 8));
    assert_eq!(bytes[60..], checksum.to_le_bytes());
    assert_eq!(RecordHeader::lost(9).encode(), [9, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0]);
}

#[test]
fn positions_that_no_journal_reaches_are_refused() {
    let good =
        SegmentHeader { base: POSITION_MAX, incarnation: 0, synced: 0, tail: 0, previous: 0, resume: None };
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
fn a_header_of_another_version_names_it() {
    let mut bytes =
        SegmentHeader { base: 0, incarnation: 0, synced: 0, tail: 0, previous: 0, resume: None }.encode();
    bytes[8] = 9;
    assert_eq!(SegmentHeader::decode(&with_checksum(bytes, 0)), Err(NotASegment::Version(9)));
    assert_eq!(SegmentHeader::decode(&spare_header()), Err(NotASegment::Spare));
    assert_eq!(SegmentHeader::decode(&[0; 64]), Err(NotASegment::Unknown));
}
