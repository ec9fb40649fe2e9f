use super::*;

#[test]
fn the_third_panic_in_a_minute_is_the_last() {
    let begin = clock::instant();
    let at = |seconds: u64| begin + Duration::from_secs(seconds);
    let cases: [(&[u64], bool); 5] = [
        (&[0], true),
        (&[0, 59], true),
        (&[0, 30, 59], false),
        (&[0, 30, 61], true),
        (&[0, 30, 61, 62], false),
    ];
    for (seconds, expected) in cases {
        let mut history = PanicHistory::default();
        let last = seconds.iter().map(|seconds| history.may_recover(at(*seconds))).last();
        assert_eq!(last, Some(expected), "{seconds:?}");
    }
}

#[test]
fn who_waits_for_an_order_to_stop_gets_it_at_once() {
    let flag = StopFlag::default();
    assert!(!flag.wait(Duration::ZERO));
    flag.set();
    assert!(flag.wait(Duration::from_secs(600)));
}
