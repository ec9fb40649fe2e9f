mod replay;

use super::*;

const TARGET: Duration = Duration::from_micros(250);

/// Turns that spend their budgets, each unit in `unit`, give this budget in the end.
fn settles_at(unit: Duration) -> u64 {
    let mut pace = WorkPace::new(TARGET);
    for _ in 0..200 {
        let done = pace.budget().left();
        pace.note(done, unit * u32::try_from(done.0).unwrap());
    }
    pace.budget().left().0
}

#[test]
fn budgets_come_to_last_for_the_target() {
    let cases = [
        // nanoseconds of a unit, smallest and largest budget
        (50, 4_900, 5_300),
        (100, 2_500, 2_500),
        (400, 600, 640),
        (5_000, 48, 52),
        // The estimate keeps its bounds.
        (1, 25_000, 25_000),
        (0, 25_000, 25_000),
        (1_000_000, 25, 25),
    ];
    for case @ (nanos, least, most) in cases {
        let budget = settles_at(Duration::from_nanos(nanos));
        assert!((least..=most).contains(&budget), "{case:?}: {budget}");
    }
}

#[test]
fn one_outlier_moves_a_budget_by_an_eighth_at_most() {
    let before = WorkPace::new(TARGET).budget().left();
    for took in [Duration::ZERO, Duration::from_secs(10), Duration::MAX] {
        let mut pace = WorkPace::new(TARGET);
        pace.note(before, took);
        let after = pace.budget().left().0;
        assert!((before.0 * 7 / 8..=before.0 * 8 / 7 + 1).contains(&after), "{took:?}: {after}");
    }
}

#[test]
fn a_turn_that_did_little_does_not_count() {
    let budget = WorkPace::new(TARGET).budget().left().0;
    let cases = [(0, false), (1, false), (budget / 8, false), (budget.div_ceil(8), true), (budget, true)];
    for case @ (done, counts) in cases {
        let mut pace = WorkPace::new(TARGET);
        pace.note(Work(done), Duration::from_secs(1));
        assert_eq!(pace != WorkPace::new(TARGET), counts, "{case:?}");
    }
}

#[test]
fn no_budget_is_empty() {
    for target in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        assert!(!WorkPace::new(target).budget().is_spent(), "{target:?}");
    }
}
