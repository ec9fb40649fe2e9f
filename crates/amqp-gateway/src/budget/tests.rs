use proptest::prelude::*;

use super::*;

#[test]
fn the_whole_window_is_allowed_at_first_and_again_as_output_drains() {
    let mut budget = Budget::new(1000);
    assert_eq!(budget.raise(0), Some(1000));
    assert_eq!(budget.raise(0), None);
    budget.delivered(800);
    assert_eq!(budget.raise(800), None);
    budget.built(850);
    assert_eq!(budget.raise(0), None);
    budget.written(850);
    assert_eq!(budget.raise(0), Some(1800));
}

proptest! {
    #[test]
    fn no_more_than_a_window_is_on_its_way(
        steps in prop::collection::vec((0u8..3, 0usize..400), 1..300),
    ) {
        let (mut budget, mut told, mut delivered, mut waiting, mut unwritten) = (Budget::new(1000), 0, 0, 0, 0);
        for (kind, bytes) in steps {
            match kind {
                0 if delivered + bytes as u64 <= told => {
                    budget.delivered(bytes);
                    delivered += bytes as u64;
                    waiting += bytes;
                }
                1 => {
                    let bytes = bytes.min(waiting);
                    budget.built(bytes);
                    waiting -= bytes;
                    unwritten += bytes;
                }
                _ => {
                    let bytes = bytes.min(unwritten);
                    budget.written(bytes);
                    unwritten -= bytes;
                }
            }
            if let Some(limit) = budget.raise(waiting as u64) {
                prop_assert!(limit > told);
                told = limit;
                prop_assert!(told - delivered + (waiting + unwritten) as u64 <= 1000);
            }
        }
    }
}
