use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

proptest! {
    #[test]
    fn everything_comes_out_once_in_order_of_time(entries in proptest::collection::vec((0u64..50, 1u64..500), 0..200), cut in 0u64..60) {
        let mut deadlines = Deadlines::default();
        for (when, sequence) in &entries {
            deadlines.push(at(*when), *sequence);
        }
        let mut popped = Vec::new();
        for now in [at(cut), at(100)] {
            while let Some(run) = deadlines.pop_due(now) {
                prop_assert!(run.at <= now);
                run.sequences().for_each(|sequence| popped.push((run.at.as_millis(), sequence)));
            }
            prop_assert!(deadlines.next().is_none_or(|next| next > now));
        }
        prop_assert!(popped.is_sorted_by_key(|(when, _)| *when));
        popped.sort_unstable();
        let mut expected = entries;
        expected.sort_unstable();
        prop_assert_eq!(popped, expected);
    }
}

#[test]
fn consecutive_messages_of_one_instant_share_an_entry() {
    let mut deadlines = Deadlines::default();
    (1..=1_000).for_each(|sequence| deadlines.push(at(5), sequence));
    assert_eq!(deadlines.runs().count(), 4);
    assert_eq!(deadlines.pop_due(at(4)), None);
    assert_eq!(deadlines.pop_due(at(5)), Some(Run { at: at(5), first: 1, count: 256 }));
}

#[test]
fn compaction_keeps_valid_deadlines() {
    let mut deadlines = Deadlines::default();
    for sequence in 1..=2_000 {
        deadlines.push(at(if sequence % 2 == 0 { 10 } else { 20 }), sequence * 2);
    }
    assert!(deadlines.is_bloated(10) && !deadlines.is_bloated(1_000));
    deadlines.compact(|run| run.first > 3_900);
    let left: Vec<u64> = std::iter::from_fn(|| deadlines.pop_due(at(30))).map(|run| run.first).collect();
    assert_eq!(left.len(), 50);
    assert!(left.iter().all(|first| *first > 3_900));
}
