use super::*;

#[test]
fn time_follows_the_wall_clock_forward_and_never_goes_back() {
    let clock = Steady(AtomicU64::new(0));
    assert_eq!(clock.read(0, 1_000_000), 1_000_000);
    assert_eq!(clock.read(50, 1_000_050), 1_000_050);
    assert_eq!(clock.read(60, 1_500_000), 1_500_000, "set forward");
    assert_eq!(clock.read(100, 900_000), 1_500_040, "set back: time goes on");
    assert_eq!(clock.read(200, 900_100), 1_500_140);
}
