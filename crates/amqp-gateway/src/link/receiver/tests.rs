use std::collections::VecDeque;

use super::{DRAINS_MAX, await_drained, drained_to};

#[test]
fn drains_that_nobody_waits_for_are_answered_with_the_last() {
    let mut drains = VecDeque::new();
    for limit in 1..=1_000 {
        await_drained(&mut drains, (limit, limit));
    }
    assert_eq!(drains.len(), DRAINS_MAX);
    assert_eq!(drained_to(&mut drains, 0), None);
    assert_eq!(drained_to(&mut drains, 1), Some(1));
    assert_eq!(drained_to(&mut drains, 999), Some(63), "the last is not done");
    assert_eq!(drained_to(&mut drains, 1_000), Some(1_000));
    assert_eq!(drained_to(&mut drains, 1_000), None);
}
