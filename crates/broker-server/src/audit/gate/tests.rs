use proptest::prelude::*;

use super::{Verdict::*, *};

#[test]
fn a_minutes_number_is_told_at_once_and_then_one_for_each_part_of_a_minute() {
    let begin = Instant::now();
    let mut gate = Gate::new(3);
    let cases = [
        // milliseconds, what becomes of it
        (0, Told { others: 0 }),
        (0, Told { others: 0 }),
        (10, Told { others: 0 }),
        (10, LeftOutFirst),
        (11, LeftOut),
        (19_999, LeftOut),
        (20_000, Told { others: 3 }),
        // The flood goes on, which was said.
        (20_001, LeftOut),
        (40_000, Told { others: 1 }),
        (60_000, Told { others: 0 }),
        (60_001, LeftOutFirst),
        // Long afterwards all is as it was.
        (600_000, Told { others: 1 }),
        (600_000, Told { others: 0 }),
        (600_000, Told { others: 0 }),
        (600_000, LeftOutFirst),
    ];
    for (at, (millis, expected)) in cases.into_iter().enumerate() {
        assert_eq!(gate.attempt(begin + Duration::from_millis(millis)), expected, "case {at}");
    }
}

#[test]
fn zero_tells_none() {
    let mut gate = Gate::new(0);
    assert_eq!(gate.attempt(Instant::now()), LeftOutFirst);
    assert_eq!(gate.attempt(Instant::now() + Duration::from_secs(3_600)), LeftOut);
}

proptest! {
    #[test]
    fn what_is_told_is_bounded_and_the_rest_is_counted(
        per_minute in 1..200_u32,
        pauses in proptest::collection::vec(prop_oneof![Just(0), 0..2_000_u64, 0..90_000_u64], 1..400),
    ) {
        let (begin, mut gate) = (Instant::now(), Gate::new(per_minute));
        let (mut now, mut told, mut counted) = (begin, 0_u64, 0);
        for pause in &pauses {
            now += Duration::from_millis(*pause);
            if let Told { others } = gate.attempt(now) {
                (told, counted) = (told + 1, counted + others);
            }
        }
        let worth = u128::from(per_minute) * (now - begin).as_nanos() / MINUTE.as_nanos();
        prop_assert!(u128::from(told) <= u128::from(per_minute) + worth, "{told}");
        prop_assert_eq!(told + counted + gate.left_out, pauses.len() as u64);
        prop_assert!(gate.left_out == 0 || gate.is_flooded, "that some are left out was said");
    }
}
