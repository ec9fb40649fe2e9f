use super::*;

#[test]
fn without_a_limit_nobody_waits() {
    let (rate, now) = (SendRate::default(), Instant::now());
    assert_eq!(rate.sent(u64::MAX, now), None);
    assert_eq!(rate.waits(), 0);
}

#[test]
fn messages_of_one_second_come_at_once_and_one_more_waits() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(100));
    assert_eq!(rate.sent(100, now), None);
    let wait = rate.sent(1, now).unwrap() - now;
    assert_eq!((wait, rate.waits()), (Duration::from_millis(10), 1));
    // The time makes up for it.
    let later = now + Duration::from_millis(20);
    assert_eq!(rate.sent(1, later), None);
}

#[test]
fn over_ten_seconds_a_busy_namespace_sends_at_its_rate() {
    let (rate, begin) = (SendRate::default(), Instant::now());
    rate.set(Some(1_000));
    let (mut now, mut sent) = (begin, 0);
    while now < begin + Duration::from_secs(10) {
        sent += 7;
        now = rate.sent(7, now).unwrap_or(now);
    }
    assert!((11_000..=11_007).contains(&sent), "{sent}");
}

#[test]
fn a_new_rate_holds_from_now_on() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(1));
    assert!(rate.sent(100, now).is_some());
    rate.set(Some(1_000));
    assert_eq!(rate.sent(100, now), None);
    rate.set(None);
    assert_eq!(rate.sent(1 << 40, now), None);
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(1));
    assert!(rate.sent(u64::MAX, now).is_some() && rate.sent(u64::MAX, now).is_some());
    rate.set(Some(u64::MAX));
    assert_eq!(rate.sent(u64::MAX - 1, now), None);
}
