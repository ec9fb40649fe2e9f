use proptest::prelude::*;

use super::*;

#[test]
fn instants_are_written_in_utc() {
    let cases = [
        (i64::MIN, "0001-01-01T00:00:00Z"),
        (FIRST, "0001-01-01T00:00:00Z"),
        (-2_203_891_200_001, "1900-02-28T23:59:59.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (0, "1970-01-01T00:00:00Z"),
        (951_782_400_000, "2000-02-29T00:00:00Z"),
        (951_868_800_000, "2000-03-01T00:00:00Z"),
        (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
        (1_735_689_600_000, "2025-01-01T00:00:00Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        (LAST, "9999-12-31T23:59:59.999Z"),
        (i64::MAX, "9999-12-31T23:59:59.999Z"),
    ];
    for (millis, expected) in cases {
        assert_eq!(format_millis(millis), expected);
    }
    assert_eq!(format(Timestamp::from_millis(u64::MAX)), "9999-12-31T23:59:59.999Z");
    // As .NET counts: 2025-01-01.
    assert_eq!(ticks(Timestamp::from_millis(1_735_689_600_000)), 638_712_864_000_000_000);
}

#[test]
fn instants_are_read_with_and_without_an_offset() {
    let cases = [
        ("1970-01-01T00:00:00Z", Some(0)),
        ("1970-01-01T00:00:00", Some(0)),
        ("1969-12-31T23:59:59.999Z", Some(-1)),
        ("2024-02-29T23:59:59.9999999Z", Some(1_709_251_199_999)),
        ("2025-01-01T01:00:00+01:00", Some(1_735_689_600_000)),
        ("2024-12-31T19:30:00-04:30", Some(1_735_689_600_000)),
        ("9999-12-31T23:59:59.999Z", Some(LAST)),
        ("0001-01-01T00:00:00", Some(FIRST)),
        ("2023-02-29T00:00:00Z", None),
        ("2023-13-01T00:00:00Z", None),
        ("2023-00-01T00:00:00Z", None),
        ("2023-01-00T00:00:00Z", None),
        ("2023-01-01T24:00:00Z", None),
        ("2023-01-01T00:60:00Z", None),
        ("2023-01-01T00:00:60Z", None),
        ("2023-01-01T00:00Z", None),
        ("2023-01-01", None),
        ("2023-01-01T00:00:00.Z", None),
        ("2023-01-01T00:00:00+1", None),
        ("x", None),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), expected, "{text}");
    }
}

#[test]
fn instants_with_milliseconds_are_written_as_everybody_writes_them() {
    let cases = [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
        (1_795_198_930_000, "2026-11-20T18:22:10.000Z"),
        (i64::MAX, "9999-12-31T23:59:59.999Z"),
    ];
    for (millis, expected) in cases {
        assert_eq!(rfc_3339_millis(millis), expected);
    }
}

proptest! {
    #[test]
    fn texts_sort_as_their_instants(a in FIRST..=LAST, b in FIRST..=LAST) {
        prop_assert_eq!(rfc_3339_millis(a).cmp(&rfc_3339_millis(b)), a.cmp(&b));
    }

    #[test]
    fn what_is_written_is_read_back(millis in FIRST..=LAST) {
        prop_assert_eq!(parse(&format_millis(millis)), Some(millis));
    }

    #[test]
    fn no_text_panics(text in "[0-9TZ:+.-]{0,30}|.{0,20}") {
        let _instant = parse(&text);
    }
}
