use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn busy(place: &str, left: Option<u64>, until: Option<Timestamp>) -> Fault {
    Fault { kind: FaultKind::ServerBusy, scope: Scope::of(place), left, until }
}

fn strike_fault(faults: &Faults, now: Timestamp, place: &str) -> bool {
    faults.strike(now, place, |kind| kind == FaultKind::ServerBusy).is_some()
}

#[test]
fn a_fault_strikes_where_it_was_ordered() {
    let cases = [
        ("orders", "orders", true),
        ("orders", "ORDERS", true),
        ("orders", "orders/Subscriptions/a", true),
        ("orders/Subscriptions/a", "orders", false),
        ("orders", "orders2", false),
        ("", "orders", true),
        ("", "", true),
        ("orders", "", false),
    ];
    for (ordered, place, expected) in cases {
        let faults = Faults::default();
        faults.order(busy(ordered, Some(1), None), at(0)).unwrap();
        assert_eq!(strike_fault(&faults, at(1), place), expected, "{ordered} at {place}");
    }
}

#[test]
fn a_fault_ends_with_its_time_and_can_be_taken_back() {
    let faults = Faults::default();
    let one = faults.order(busy("a", None, Some(at(10))), at(0)).unwrap();
    let two = faults.order(busy("b", Some(2), Some(at(20))), at(0)).unwrap();
    assert!(strike_fault(&faults, at(9), "a"));
    assert!(!strike_fault(&faults, at(10), "a"), "the moment itself is too late");
    assert_eq!(faults.list(at(10)), [(two, busy("b", Some(2), Some(at(20))))]);
    assert_eq!(faults.clear(Some(one), at(10)), 0);
    assert_eq!(faults.clear(Some(two), at(10)), 1);
    faults.order(busy("a", None, None), at(10)).unwrap();
    faults.order(busy("b", None, None), at(10)).unwrap();
    assert_eq!(faults.clear(None, at(10)), 2);
    assert!(faults.list(at(10)).is_empty());
}

#[test]
fn the_table_is_bounded_and_what_is_over_makes_room() {
    let faults = Faults::default();
    for _ in 0..FAULTS_MAX {
        faults.order(busy("a", None, Some(at(10))), at(0)).unwrap();
    }
    assert_eq!(faults.order(busy("a", None, None), at(9)), Err(TooManyFaults));
    assert_eq!(faults.order(busy("a", None, None), at(10)), Ok(FAULTS_MAX as u64 + 1));
}

proptest! {
    #[test]
    fn a_fault_strikes_as_often_as_was_ordered(left in 0u64..20, tries in 0u64..40) {
        let faults = Faults::default();
        faults.order(busy("a", Some(left), None), at(0)).unwrap();
        let struck = (0..tries).filter(|_| strike_fault(&faults, at(1), "a")).count() as u64;
        prop_assert_eq!(struck, left.min(tries));
    }
}
