use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn behaves_as_a_sorted_set(steps in proptest::collection::vec((any::<bool>(), 0u64..9), 0..100), from in 0u64..10) {
        let (mut numbers, mut model) = (SequenceSet::default(), BTreeSet::new());
        for (insert, number) in steps {
            if insert {
                numbers.insert(number);
                model.insert(number);
            } else {
                prop_assert_eq!(numbers.remove(number), model.remove(&number));
            }
            prop_assert!(numbers.iter().eq(model.iter().copied()));
            prop_assert_eq!(numbers.first(), model.first().copied());
            prop_assert_eq!(numbers.next(from), model.range(from..).next().copied());
            prop_assert_eq!(numbers.is_empty(), model.is_empty());
        }
    }
}

#[test]
fn three_numbers_need_no_tree_and_an_empty_one_is_given_up() {
    let mut numbers = SequenceSet::default();
    (1..=3).for_each(|number| numbers.insert(number));
    assert!(matches!(numbers, SequenceSet::Few { count: 3, .. }));
    numbers.insert(4);
    assert!(matches!(numbers, SequenceSet::Many(_)));
    (1..=4).for_each(|number| assert!(numbers.remove(number)));
    assert!(matches!(numbers, SequenceSet::Few { count: 0, .. }));
}
