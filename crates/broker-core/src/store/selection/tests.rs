use super::*;
use crate::store::slots::Slots;

fn slots(numbers: impl IntoIterator<Item = u64>) -> Slots<u8> {
    let mut slots = Slots::default();
    for number in numbers {
        slots.insert(number, 0);
    }
    slots
}

/// Numbers that a consumer visits until none is left.
fn slots_visited(selection: &mut Selection, selectors: &Selectors, slots: &Slots<u8>) -> Vec<u64> {
    selection.catch_up(selectors, false);
    let mut seen = Vec::new();
    while let Some(number) = selection.next(false, slots) {
        selection.pass(false, number);
        seen.push(number);
    }
    assert!(selection.has_caught_up(selectors));
    seen
}

#[test]
fn returned_messages_are_matched_once_more_and_the_rest_is_not() {
    let (mut selectors, mut selection) = (Selectors::default(), Selection::new(Filter::False));
    assert_eq!(slots_visited(&mut selection, &selectors, &slots(1..=5)), [1, 2, 3, 4, 5]);
    for number in [4, 2, 4] {
        selectors.note(number);
    }
    assert!(!selection.has_caught_up(&selectors));
    assert_eq!(slots_visited(&mut selection, &selectors, &slots(1..=7)), [2, 4, 6, 7]);
    assert_eq!(slots_visited(&mut selection, &selectors, &slots(1..=7)), [0; 0]);
}

#[test]
fn messages_returned_ahead_are_matched_in_their_place() {
    let (mut selectors, mut selection) = (Selectors::default(), Selection::new(Filter::False));
    let slots = slots(1..=5);
    selection.pass(false, 1);
    for number in [4, 1] {
        selectors.note(number);
    }
    assert_eq!(slots_visited(&mut selection, &selectors, &slots), [1, 2, 3, 4, 5]);
}

#[test]
fn a_consumer_that_missed_too_many_scans_all_again_and_keeps_no_more_than_the_limit() {
    let most = u64::try_from(RETURNED_MAX).unwrap();
    for (missed, expected) in [(most, most), (most + 1, most + 2)] {
        let (mut selectors, mut selection) = (Selectors::default(), Selection::new(Filter::False));
        let slots = slots(1..=most + 2);
        assert_eq!(slots_visited(&mut selection, &selectors, &slots).len() as u64, most + 2);
        for number in 1..=missed {
            selectors.note(number);
        }
        assert!(selectors.log.len() <= RETURNED_MAX);
        selection.catch_up(&selectors, false);
        assert!(selection.again.len() <= RETURNED_MAX);
        assert_eq!(slots_visited(&mut selection, &selectors, &slots).len() as u64, expected, "{missed}");
    }
    // The same where it hears bit by bit, and does not look.
    let (mut selectors, mut selection) = (Selectors::default(), Selection::new(Filter::False));
    let slots = slots(1..=most + 2);
    slots_visited(&mut selection, &selectors, &slots);
    for number in 1..=most + 1 {
        selectors.note(number);
        selection.catch_up(&selectors, false);
        assert!(selection.again.len() <= RETURNED_MAX);
    }
    assert_eq!(slots_visited(&mut selection, &selectors, &slots).len() as u64, most + 2);
}
