use proptest::prelude::*;

use super::*;

#[test]
fn durations_are_read_as_the_clients_write_them() {
    let seconds = |seconds| Some(IsoDuration::Of(Duration::from_secs(seconds)));
    let cases = [
        ("PT1M", seconds(60)),
        ("PT0S", seconds(0)),
        ("P1D", seconds(86_400)),
        ("P1DT2H3M4S", seconds(93_784)),
        ("P1Y2M", seconds(425 * 86_400)),
        ("PT90M", seconds(5_400)),
        ("PT1.5S", Some(IsoDuration::Of(Duration::from_millis(1_500)))),
        ("PT0.0000001S", Some(IsoDuration::Of(Duration::from_nanos(100)))),
        (" PT1M ", seconds(60)),
        ("P10675198D", seconds(10_675_198 * 86_400)),
        ("P10675199DT2H48M5.4775807S", Some(IsoDuration::Forever)),
        ("P10675199DT2H48M5.477539S", Some(IsoDuration::Forever)),
        ("P106751990D", Some(IsoDuration::Forever)),
        ("", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1M", None),
        ("PT1", None),
        ("PTM", None),
        ("PT1S1M", None),
        ("P1H", None),
        ("PT1.5M", None),
        ("PT1.S", None),
        ("PT-1S", None),
        ("-PT1S", None),
        ("PT+1S", None),
        ("PT1M1M", None),
        ("PT99999999999999999999S", None),
        ("P99999999999999999D", None),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), expected, "{text}");
    }
}

#[test]
fn durations_are_written_without_zeros() {
    let cases = [
        (Some(Duration::ZERO), "PT0S"),
        (Some(Duration::from_secs(60)), "PT1M"),
        (Some(Duration::from_secs(86_400)), "P1D"),
        (Some(Duration::from_secs(93_784)), "P1DT2H3M4S"),
        (Some(Duration::from_secs(86_403)), "P1DT3S"),
        (Some(Duration::from_millis(1_500)), "PT1.5S"),
        (Some(Duration::from_millis(60_020)), "PT1M0.02S"),
        (None, INFINITE),
        (Some(Duration::MAX), INFINITE),
    ];
    for (duration, expected) in cases {
        assert_eq!(format(duration), expected);
    }
}

#[test]
fn values_may_be_negative_and_are_bounded() {
    let cases = [
        ("PT0S", Some(0)),
        ("-PT1S", Some(-10_000_000)),
        ("PT0.0000001S", Some(1)),
        (INFINITE, Some(i64::MAX)),
        ("P99999999D", Some(i64::MAX)),
        ("-P10675199DT2H48M5.4775808S", Some(i64::MIN)),
        ("-P99999999D", Some(i64::MIN)),
        ("--PT1S", None),
        ("-", None),
        ("P", None),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_ticks(text), expected, "{text}");
    }
    assert_eq!(format_ticks(i64::MAX), INFINITE);
    assert_eq!(format_ticks(-15_000_000), "-PT1.5S");
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(millis in 0..10_675_199 * 86_400_000u64) {
        let duration = Duration::from_millis(millis);
        prop_assert_eq!(parse(&format(Some(duration))), Some(IsoDuration::Of(duration)));
    }

    #[test]
    fn a_value_is_read_back_to_the_tick(ticks: i64) {
        prop_assert_eq!(parse_ticks(&format_ticks(ticks)), Some(ticks));
    }

    #[test]
    fn no_text_panics(text in "[PTYMDHS0-9.]{0,20}|.{0,20}") {
        let (_span, _ticks) = (parse(&text), parse_ticks(&text));
    }
}
