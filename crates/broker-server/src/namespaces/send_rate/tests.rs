use super::*;

/// Time for which a connection that sends `messages` at `now` waits afterwards.
fn wait(rate: &SendRate, messages: u64, now: Instant) -> Duration {
    rate.sent(messages, now);
    rate.owes_until(now).map_or(Duration::ZERO, |until| until - now)
}

#[test]
fn without_a_limit_nobody_waits() {
    let (rate, now) = (SendRate::default(), Instant::now());
    assert_eq!(wait(&rate, u64::MAX, now), Duration::ZERO);
}

#[test]
fn messages_of_one_second_come_at_once_and_one_more_waits() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(100));
    assert_eq!(wait(&rate, 100, now), Duration::ZERO);
    assert_eq!(wait(&rate, 1, now), Duration::from_millis(10));
    // The time makes up for it.
    let later = now + Duration::from_millis(20);
    assert_eq!(wait(&rate, 1, later), Duration::ZERO);
}

#[test]
fn over_ten_seconds_a_busy_namespace_sends_at_its_rate() {
    let (rate, begin) = (SendRate::default(), Instant::now());
    rate.set(Some(1_000));
    let (mut now, mut sent) = (begin, 0);
    while now < begin + Duration::from_secs(10) {
        sent += 7;
        now += wait(&rate, 7, now);
    }
    assert!((11_000..=11_007).contains(&sent), "{sent}");
}

#[test]
fn a_new_rate_holds_from_now_on() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(1));
    assert!(!wait(&rate, 100, now).is_zero());
    rate.set(Some(1_000));
    assert_eq!(wait(&rate, 100, now), Duration::ZERO);
    rate.set(None);
    assert_eq!(wait(&rate, 1 << 40, now), Duration::ZERO);
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    let (rate, now) = (SendRate::default(), Instant::now());
    rate.set(Some(1));
    assert!(!wait(&rate, u64::MAX, now).is_zero() && !wait(&rate, u64::MAX, now).is_zero());
    rate.set(Some(u64::MAX));
    assert_eq!(wait(&rate, u64::MAX - 1, now), Duration::ZERO);
}
