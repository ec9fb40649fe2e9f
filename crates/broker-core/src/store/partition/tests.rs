use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn a_key_keeps_its_partition_for_ever() {
    // Journals hold numbers made by these: a change would tear the messages of a key apart.
    let cases = [("", 2), ("a", 1), ("b", 10), ("orders", 15), ("session-1", 1), ("Ω", 16)];
    for case @ (key, expected) in cases {
        assert_eq!(PartitionId::of_key(key).0, expected, "{case:?}");
    }
}

#[test]
fn keys_spread_over_all_partitions() {
    let mut met = [0_u32; PARTITIONS as usize];
    for number in 0..16_000 {
        met[PartitionId::of_key(&format!("customer-{number}")).place()] += 1;
    }
    assert!(met.iter().all(|count| (700..1_300).contains(count)), "{met:?}");
}

#[test]
fn a_number_names_its_partition() {
    let cases = [
        (0, None),
        (1, None),
        (COUNT_MAX, None),
        (1 << COUNT_BITS, Some(1)),
        ((1 << COUNT_BITS) + COUNT_MAX, Some(1)),
        (16 << COUNT_BITS, Some(16)),
        (17 << COUNT_BITS, None),
        (u64::MAX, None),
    ];
    for case @ (number, expected) in cases {
        assert_eq!(PartitionId::of_number(number).map(|id| id.0), expected, "{case:?}");
    }
}

#[test]
fn after_the_last_number_of_a_partition_comes_its_zero_and_no_other_partition() {
    let mut counters = Counters::new((1..=16).map(|id| if id == 3 { COUNT_MAX } else { 7 })).unwrap();
    let third = PartitionId(3);
    assert_eq!(counters.next(third), (4 << COUNT_BITS) - 1);
    counters.pass(counters.next(third));
    assert_eq!(counters.next(third), 3 << COUNT_BITS);
    assert_eq!(counters.next(PartitionId(4)), (4 << COUNT_BITS) + 7);
}

#[test]
fn counts_that_are_too_many_too_few_or_too_high_are_none() {
    let good = || vec![1_u64; 16];
    let high = || [good(), vec![COUNT_MAX + 1]].concat()[1..].to_vec();
    let cases = [(good(), true), ([good(), good()].concat(), false), (vec![1; 15], false), (high(), false)];
    for (counts, is_good) in cases {
        assert_eq!(Counters::new(counts.clone().into_iter()).is_some(), is_good, "{counts:?}");
    }
}

proptest! {
    #[test]
    fn any_choice_gives_each_number_once_and_in_order_within_a_partition(
        keys in proptest::collection::vec(proptest::option::of("[a-z]{1,3}"), 1..200),
    ) {
        let (mut counters, mut seen, mut recovered) = (Counters::default(), BTreeSet::new(), Counters::default());
        for key in keys {
            let partition = key.as_deref().map_or_else(|| counters.fairest(), PartitionId::of_key);
            let number = counters.next(partition);
            prop_assert_eq!(PartitionId::of_number(number), Some(partition));
            prop_assert!(seen.range(number..partition.first_number() + COUNT_MAX).next().is_none());
            seen.insert(number);
            counters.pass(number);
            recovered.see(number);
        }
        prop_assert_eq!(counters, recovered);
    }

    #[test]
    fn messages_without_a_key_are_spread_evenly(messages in 0_u64..200) {
        let mut counters = Counters::default();
        for _ in 0..messages {
            counters.pass(counters.next(counters.fairest()));
        }
        let (low, high) = (counters.counts().min().unwrap(), counters.counts().max().unwrap());
        prop_assert!(high - low <= 1);
    }

    #[test]
    fn a_cursor_meets_each_number_once_in_any_order_of_arrival(
        has_partitions in any::<bool>(),
        rounds in proptest::collection::vec(proptest::collection::vec((0_u16..17, 0_usize..4), 0..10), 1..6),
    ) {
        let (mut there, mut met, mut next) = (BTreeSet::new(), Vec::new(), [1_u64; 17]);
        let mut cursor = SequenceCursor::default();
        for round in rounds {
            for (id, looks) in round {
                let place = if has_partitions { usize::from(id) } else { 0 };
                there.insert(((place as u64) << COUNT_BITS) + next[place]);
                next[place] += 1;
                for _ in 0..looks {
                    let found = cursor.next(has_partitions, |from, end| there.range(from..end).next().copied());
                    let Some(number) = found else { break };
                    cursor.pass(has_partitions, number);
                    met.push(number);
                }
            }
        }
        while let Some(number) = cursor.next(has_partitions, |from, end| there.range(from..end).next().copied()) {
            cursor.pass(has_partitions, number);
            met.push(number);
        }
        met.sort_unstable();
        prop_assert_eq!(met, there.into_iter().collect::<Vec<_>>());
    }
}
