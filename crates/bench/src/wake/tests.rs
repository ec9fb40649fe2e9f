use super::*;

#[test]
fn every_wake_takes_some_time() {
    assert!(measure(3).unwrap() > 0.0);
    assert!(measure(0).is_err());
}

#[test]
fn the_median_does_not_depend_on_the_order() {
    let times = [9, 1, 3].map(Duration::from_micros).to_vec();
    assert_eq!(median(times), Some(3.0));
    assert_eq!(median(Vec::new()), None);
}
