use proptest::prelude::*;

use super::{Admission::*, *};

/// Any moment will do.
#[expect(clippy::disallowed_methods, reason = "there is no other way to an `Instant`")]
fn some_instant() -> Instant {
    Instant::now()
}

#[test]
fn a_minutes_number_is_told_at_once_and_then_one_for_each_part_of_a_minute() {
    let begin = some_instant();
    let mut limit = RateLimit::new(3);
    let cases = [
        // milliseconds, what becomes of it
        (0, Logged { others: 0 }),
        (0, Logged { others: 0 }),
        (10, Logged { others: 0 }),
        (10, FirstLeftOut),
        (11, LeftOut),
        (19_999, LeftOut),
        (20_000, Logged { others: 3 }),
        // The flood goes on, which was said.
        (20_001, LeftOut),
        (40_000, Logged { others: 1 }),
        (60_000, Logged { others: 0 }),
        (60_001, FirstLeftOut),
        // Long afterwards all is as it was.
        (600_000, Logged { others: 1 }),
        (600_000, Logged { others: 0 }),
        (600_000, Logged { others: 0 }),
        (600_000, FirstLeftOut),
    ];
    for (at, (millis, expected)) in cases.into_iter().enumerate() {
        assert_eq!(limit.attempt(begin + Duration::from_millis(millis)), expected, "case {at}");
    }
}

#[test]
fn zero_tells_none() {
    let mut limit = RateLimit::new(0);
    assert_eq!(limit.attempt(some_instant()), FirstLeftOut);
    assert_eq!(limit.attempt(some_instant() + Duration::from_secs(3_600)), LeftOut);
}

proptest! {
    #[test]
    fn what_is_told_is_bounded_and_the_rest_is_counted(
        per_minute in 1..200_u32,
        pauses in proptest::collection::vec(prop_oneof![Just(0), 0..2_000_u64, 0..90_000_u64], 1..400),
    ) {
        let (begin, mut limit) = (some_instant(), RateLimit::new(per_minute));
        let (mut now, mut error_text, mut counted) = (begin, 0_u64, 0);
        for pause in &pauses {
            now += Duration::from_millis(*pause);
            if let Logged { others } = limit.attempt(now) {
                (error_text, counted) = (error_text + 1, counted + others);
            }
        }
        let worth = u128::from(per_minute) * (now - begin).as_nanos() / MINUTE.as_nanos();
        prop_assert!(u128::from(error_text) <= u128::from(per_minute) + worth, "{error_text}");
        prop_assert_eq!(error_text + counted + limit.left_out, pauses.len() as u64);
        prop_assert!(limit.left_out == 0 || limit.is_flooded, "that some are left out was said");
    }
}
