use super::*;

/// Time for which connections wait at `now`, however often they look again until then.
fn wait(rate: &SendRate, now: Instant) -> Duration {
    let mut at = now;
    while let Some(until) = rate.pause(at) {
        assert!(until > at && until <= at + PAUSE_MAX, "{:?}", until - at);
        at = until;
    }
    at - now
}

#[test]
fn without_a_limit_nobody_waits() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.sent(u64::MAX, now);
    assert_eq!((rate.pause(now), rate.waits()), (None, 0));
}

#[test]
fn messages_of_one_second_come_at_once_and_one_more_waits() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(100));
    rate.sent(100, now);
    assert_eq!((rate.pause(now), rate.waits()), (None, 0));
    rate.sent(1, now);
    assert_eq!((wait(&rate, now), rate.waits()), (Duration::from_millis(10), 1));
    // The time makes up for it.
    let later = now + Duration::from_millis(20);
    rate.sent(1, later);
    assert_eq!(rate.pause(later), None);
}

#[test]
fn a_long_wait_is_looked_at_again_each_second_and_ends_with_its_limit() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(10));
    rate.sent(2_510, now);
    assert_eq!(wait(&rate, now), Duration::from_secs(250));
    let later = now + Duration::from_secs(1);
    assert_eq!(rate.pause(later), Some(later + PAUSE_MAX));
    rate.set(None);
    assert_eq!(rate.pause(later), None);
}

#[test]
fn over_ten_seconds_a_busy_namespace_sends_at_its_rate() {
    let (rate, begin) = (SendRate::default(), Instant::now());
    rate.set(Some(1_000));
    let (mut now, mut sent) = (begin, 0);
    while now < begin + Duration::from_secs(10) {
        sent += 7;
        rate.sent(7, now);
        now += wait(&rate, now);
    }
    assert!((11_000..=11_007).contains(&sent), "{sent}");
}

#[test]
fn a_new_rate_holds_from_now_on() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(1));
    rate.sent(100, now);
    assert!(rate.pause(now).is_some());
    rate.set(Some(1_000));
    rate.sent(100, now);
    assert_eq!(rate.pause(now), None);
    rate.set(None);
    rate.sent(1 << 40, now);
    assert_eq!(rate.pause(now), None);
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(1));
    rate.sent(u64::MAX, now);
    rate.sent(u64::MAX, now);
    assert!(rate.pause(now).is_some());
    rate.set(Some(u64::MAX));
    rate.sent(u64::MAX - 1, now);
    assert_eq!(rate.pause(now), None);
}
