use super::*;

#[test]
fn every_message_is_passed_on_and_timed() {
    let floor = measure(100_000, 500).unwrap();
    assert!(floor.p50 > 0.0 && floor.p50 <= floor.p99, "{floor:?}");
}

#[test]
fn messages_are_due_at_their_pace() {
    assert_eq!([0, 1, 10_000].map(|number| due(number, 10_000).as_micros()), [0, 100, 1_000_000]);
}
