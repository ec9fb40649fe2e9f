use std::{cell::Cell, cmp::Ordering};

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_page_is_a_part_of_the_sorted_list(
        list in proptest::collection::vec(0u8..50, 0..60),
        skip in 0usize..70,
        top in prop_oneof![0usize..70, Just(usize::MAX)],
    ) {
        let mut sorted = list.clone();
        sorted.sort_unstable();
        let expected: Vec<u8> = sorted.into_iter().skip(skip).take(top).collect();
        prop_assert_eq!(page_of(list, skip, top), expected);
    }
}

/// A number that counts how often it is compared.
struct Counted<'a>(u64, &'a Cell<u64>);

impl Ord for Counted<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.set(self.1.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Counted<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Counted<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Counted<'_> {}

#[test]
fn a_page_of_a_long_list_takes_a_few_comparisons_for_each_of_its_members() {
    let length = 1 << 16;
    for (skip, top) in [(0, 100), (1_000, 100), (length / 2, 100), (length - 100, 100), (length, 100)] {
        let compared = Cell::new(0);
        // An odd factor brings each number once, far from its neighbours.
        let scattered = (0..length as u64).map(|number| number.wrapping_mul(40_503) % length as u64);
        let list = scattered.map(|number| Counted(number, &compared)).collect();
        let page: Vec<u64> = page_of(list, skip, top).into_iter().map(|Counted(number, _)| number).collect();
        assert!(page.into_iter().eq((skip as u64..length as u64).take(top)), "{skip}");
        // A sort takes sixteen for each.
        let each = compared.get() / length as u64;
        assert!(each < 8, "{skip}: {each} comparisons for each");
    }
}
