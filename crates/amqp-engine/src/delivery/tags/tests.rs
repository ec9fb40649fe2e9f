use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn entries(index: &TagIndex, hash: u32) -> BTreeSet<u32> {
    index.find(hash).collect()
}

#[test]
fn an_empty_index_has_no_memory_and_finds_nothing() {
    let mut index = TagIndex::default();
    assert_eq!(entries(&index, 7), BTreeSet::new());
    index.remove(7, 1);
    assert_eq!(index.slots.capacity(), 0);
}

#[test]
fn memory_of_a_large_index_is_given_back() {
    let mut index = TagIndex::default();
    for number in 0..20_000 {
        index.insert(number * 7, number);
    }
    for number in 0..20_000 {
        index.remove(number * 7, number);
    }
    assert_eq!((index.len, index.slots.len()), (0, 0));
}

#[test]
fn tags_of_two_links_hash_differently() {
    assert_ne!(hash_tag(1, 0, b"tag"), hash_tag(1, 1, b"tag"));
    assert_ne!(hash_tag(1, 0, b"tag"), hash_tag(2, 0, b"tag"));
    assert_ne!(hash_tag(1, 0, b"tag"), hash_tag(1, 0, b"tag\0"));
}

#[test]
fn counters_spread_over_the_table() {
    let homes: BTreeSet<u32> = (0u32..4_096).map(|n| hash_tag(0, 0, &n.to_be_bytes()) >> 1 & 8_191).collect();
    assert!(homes.len() > 3_000, "{} of 4096 home slots differ", homes.len());
}

proptest! {
    #[test]
    fn the_index_holds_the_inserted_tags_that_were_not_removed(
        // Few hashes, so that probe sequences run into each other and wrap around.
        steps in proptest::collection::vec((any::<bool>(), 0u32..12, 0u32..40), 0..150),
    ) {
        let mut index = TagIndex::default();
        let mut model = BTreeSet::new();
        for (insert, hash, number) in steps {
            let hash = hash * 0x1234_5678;
            if insert && !model.contains(&(hash | 1, number)) {
                index.insert(hash, number);
                model.insert((hash | 1, number));
            } else {
                index.remove(hash, number);
                model.remove(&(hash | 1, number));
            }
            prop_assert_eq!(index.len, model.len());
            for key in (0..12u32).map(|n| n * 0x1234_5678) {
                let expected: BTreeSet<u32> =
                    model.iter().filter(|(h, _)| *h == key | 1).map(|&(_, n)| n).collect();
                prop_assert_eq!(entries(&index, key), expected);
            }
        }
    }
}
