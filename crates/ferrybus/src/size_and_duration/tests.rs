use proptest::prelude::*;

use super::*;

#[test]
fn sizes_are_read_with_their_units() {
    let cases = [
        ("0", Some(0)),
        ("1048576", Some(1_048_576)),
        ("1 MiB", Some(1_048_576)),
        ("64mib", Some(64 << 20)),
        ("64 MB", Some(64_000_000)),
        ("2k", Some(2_048)),
        ("1 GiB", Some(1 << 30)),
        ("3 TB", Some(3_000_000_000_000)),
        ("", None),
        ("MiB", None),
        ("-1", None),
        ("1.5 MiB", None),
        ("1 parsec", None),
        ("99999999999 TiB", None),
    ];
    for case @ (text, expected) in cases {
        assert_eq!(text.parse::<Bytes>().ok().map(|bytes| bytes.0), expected, "{case:?}");
    }
}

#[test]
fn times_are_read_in_words_and_in_iso_8601() {
    let of = |seconds| Some(Span::Of(Duration::from_secs(seconds)));
    let cases = [
        ("30s", of(30)),
        ("5m", of(300)),
        ("5 min", of(300)),
        ("1h 30m", of(5_400)),
        ("1h30m", of(5_400)),
        ("2 days", of(172_800)),
        ("250ms", Some(Span::Of(Duration::from_millis(250)))),
        ("PT30S", of(30)),
        ("PT1H", of(3_600)),
        ("P1D", of(86_400)),
        ("P1DT2H3M4S", of(93_784)),
        ("P1Y1M1W1D", of((365 + 30 + 7 + 1) * 86_400)),
        ("PT0.25S", Some(Span::Of(Duration::from_millis(250)))),
        ("pt5m", of(300)),
        ("P10675199DT2H48M5.4775807S", Some(Span::Forever)),
        ("P10675199DT2H48M5.477539S", Some(Span::Forever)),
        ("P10675198D", of(10_675_198 * 86_400)),
        ("", None),
        ("30", None),
        ("s", None),
        ("1 fortnight", None),
        ("-5s", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1H", None),
        ("PT1D", None),
        ("PT1M2H", None),
        ("PT1.5H", None),
        ("PT.5S", None),
        ("P99999999999999999999D", None),
    ];
    for case @ (text, expected) in cases {
        assert_eq!(text.parse::<Span>().ok(), expected, "{case:?}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics(text in "[PTpt0-9A-Za-z. -]{0,30}|\\PC{0,30}") {
        let _size = text.parse::<Bytes>();
        let _span = text.parse::<Span>();
    }

    #[test]
    fn whole_seconds_come_back(seconds in 0_u64..1_000_000_000) {
        let expected = Ok(Span::Of(Duration::from_secs(seconds)));
        prop_assert_eq!(format!("PT{seconds}S").parse::<Span>(), expected.clone());
        prop_assert_eq!(format!("{seconds}s").parse::<Span>(), expected);
    }
}
