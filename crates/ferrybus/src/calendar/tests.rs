use proptest::prelude::*;

use super::*;

#[test]
fn known_instants_are_written_as_everybody_writes_them() {
    let cases = [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
        (1_795_198_930_000, "2026-11-20T18:22:10.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ];
    for case @ (millis, expected) in cases {
        assert_eq!(rfc_3339(millis), expected, "{case:?}");
    }
}

proptest! {
    #[test]
    fn texts_sort_as_their_instants(a in 0_i64..253_402_300_799_999, b in 0_i64..253_402_300_799_999) {
        prop_assert_eq!(rfc_3339(a).cmp(&rfc_3339(b)), a.cmp(&b));
    }

    #[test]
    fn the_day_after_comes_next(days in -1_000_000_i64..1_000_000) {
        let (year, month, day) = civil(days);
        let next = civil(days + 1);
        prop_assert!(next == (year, month, day + 1) || next == (year, month + 1, 1) || next == (year + 1, 1, 1));
    }
}
