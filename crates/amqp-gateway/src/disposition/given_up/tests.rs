use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn what_was_given_up_is_found_and_little_else(
        base in any::<u32>(),
        steps in proptest::collection::vec((1u32..5, 0u32..3), 1..200),
        (from, width) in (0u32..900, 0u32..4),
    ) {
        let mut given_up = GivenUp::default();
        let mut model = BTreeSet::new();
        let mut at = 0;
        for (gap, run) in steps {
            at += gap;
            for _ in 0..=run {
                given_up.add(base.wrapping_add(at));
                model.insert(at);
                at += 1;
            }
        }
        let expected = model.range(from..=from + width).next().is_some();
        let found = given_up.meets(base.wrapping_add(from), base.wrapping_add(from + width));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn beyond_the_most_runs_more_is_found_and_never_less() {
    let mut given_up = GivenUp::default();
    let end = u32::try_from(RUNS_MAX * 4).unwrap();
    for id in (0..end).step_by(2) {
        given_up.add(id);
    }
    assert_eq!(given_up.runs.len(), RUNS_MAX);
    assert!((0..end).step_by(2).all(|id| given_up.meets(id, id)));
    assert!(given_up.meets(1, 1), "between two runs that were joined");
    assert!(!given_up.meets(end - 3, end - 3));
}

#[test]
fn what_lies_far_back_is_forgotten() {
    let mut given_up = GivenUp::default();
    given_up.add(7);
    given_up.add(7 + AGE_MAX + 1);
    assert!(!given_up.meets(7, 7));
    // A link that is older may give up its deliveries later.
    given_up.add(5 + AGE_MAX);
    assert!(given_up.meets(7 + AGE_MAX + 1, 7 + AGE_MAX + 1));
}
