use super::*;

#[test]
fn every_message_is_passed_on_and_timed() {
    let floor = measure(100_000, 500, None).unwrap();
    assert!(floor.p50 > 0.0 && floor.p50 <= floor.p99, "{floor:?}");
}

#[test]
fn a_relayed_message_is_stored_first_and_nothing_stays() {
    let folder = std::env::temp_dir().join(format!("ferrybus-relay-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let floor = measure(100_000, 500, Some(&folder)).unwrap();
    assert!(floor.p50 > 0.0 && floor.p50 <= floor.p99, "{floor:?}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let mut journal = Journal::new(&folder).unwrap();
    journal.at = SPACE - 2;
    journal.keep(b"abc").unwrap();
    let mut found = [0; 3];
    journal.file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!((&found, journal.at), (b"abc", 3), "the space is used anew");
    std::fs::remove_dir(folder).unwrap();
}

#[test]
fn messages_are_due_at_their_pace() {
    assert_eq!([0, 1, 10_000].map(|number| due(number, 10_000).as_micros()), [0, 100, 1_000_000]);
}
