use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_summary_lists_the_added_records(
        records in prop::collection::vec((0_u64..100, 0_u32..5000, prop::collection::vec(any::<u8>(), 0..30)), 1..50),
    ) {
        let mut builder = SummaryBuilder::new(1000, 1 << 20);
        let mut at = 1000;
        let mut expected = Vec::new();
        for (gap, length, index) in &records {
            at += gap;
            builder.add(at, *length, index);
            expected.push((at, *length, index.clone()));
            at += RECORD_HEADER + u64::from(*length);
        }
        let listed: Vec<_> = entries(builder.finished().unwrap(), 1000)
            .map(|entry| entry.map(|entry| (entry.at, entry.length, entry.index.to_vec())).unwrap())
            .collect();
        prop_assert_eq!(listed, expected);
    }

    #[test]
    fn arbitrary_bytes_end_the_list_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), base: u64) {
        prop_assert!(entries(&bytes, base).count() <= bytes.len() / ENTRY_BYTES + 1);
    }
}

#[test]
fn a_summary_as_large_as_a_quarter_of_its_segment_is_given_up() {
    let mut builder = SummaryBuilder::new(0, 400);
    builder.add(64, 10, &[0; 40]);
    assert_eq!(builder.bytes(), 52);
    builder.add(86, 10, &[0; 40]);
    assert!(builder.finished().is_none());
    builder.reset(500);
    builder.add(564, 0, &[]);
    assert!(builder.finished().is_some());
}

#[test]
fn nothing_is_listed_in_memory() {
    let mut builder = SummaryBuilder::disabled();
    builder.add(64, 10, &[]);
    builder.reset(0);
    builder.add(64, 10, &[]);
    assert!(builder.finished().is_none() && builder.bytes() == 0);
}
