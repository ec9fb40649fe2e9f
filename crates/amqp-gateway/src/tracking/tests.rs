use super::*;

/// More than any text of these tests.
const ROOM: usize = 10_000;

#[test]
fn a_text_ends_with_reference_tracking_id_place_and_time() {
    let mut tracking = Tracking::new(1, ClientId(7));
    let text = tracking.tracked("No.", "ns:orders", Timestamp::from_millis(1_795_266_540_123), ROOM);
    let (start, rest) = text.split_once(" Reference:").unwrap();
    assert_eq!(start, "No.");
    let (reference, rest) = rest.split_once(", TrackingId:").unwrap();
    assert_eq!(reference.len(), 36);
    let (id, rest) = rest.split_once("_G7, SystemTracker:").unwrap();
    assert_eq!(id.len(), 36);
    assert_eq!(rest, "ns:orders, Timestamp:2026-11-21T13:09:00.123Z");
}

#[test]
fn what_has_too_little_room_keeps_its_tracking_id() {
    let id = |text: &str| text.split_once(", TrackingId:").map(|(_, rest)| rest[..36].to_owned());
    let mut tracking = Tracking::new(1, ClientId(u64::MAX));
    let (text, place) = ("Nö! ".repeat(200), "ns:örders".repeat(50));
    for room in 320..400 {
        let mut same = tracking.clone();
        let whole = tracking.tracked(&text, &place, Timestamp::MAX, ROOM);
        let short = same.tracked(&text, &place, Timestamp::MAX, room);
        assert!((room - 4..=room).contains(&short.len()), "{} of {room}", short.len());
        assert!(short.starts_with("Nö! ") && id(&short).is_some() && id(&short) == id(&whole), "{short}");
        assert!(short.contains(", SystemTracker:ns:ö"), "{short}");
    }
    let fits = tracking.tracked("No.", "ns", Timestamp::MAX, 320);
    assert!(fits.starts_with("No. Reference:"), "{fits}");
}

#[test]
fn a_trail_over_http_has_tracking_id_place_and_second() {
    let trail =
        |number| http_trail(1, number, "localhost:5300:orders", Timestamp::from_millis(1_795_266_540_123));
    let (id, rest) = trail(7)
        .strip_prefix(" TrackingId:")
        .map(|rest| (rest[..36].to_owned(), rest[36..].to_owned()))
        .unwrap();
    assert_eq!(rest, "_G7, SystemTracker:localhost:5300:orders, Timestamp:2026-11-21T13:09:00");
    assert!(id.split('-').map(str::len).eq([8, 4, 4, 4, 12]), "{id}");
    assert!(!trail(8).contains(&id) && trail(7).contains(&id));
}

#[test]
fn a_reference_is_the_tail_without_the_time() {
    let mut tracking = Tracking::new(1, ClientId(7));
    let reference = tracking.reference("ns");
    let text = Tracking::new(1, ClientId(7)).tracked("", "ns", Timestamp::from_millis(0), ROOM);
    assert_eq!(text, format!("{reference}, Timestamp:1970-01-01T00:00:00.000Z"));
    assert_ne!(tracking.reference("ns"), reference);
}

#[test]
fn tracking_ids_do_not_repeat_and_follow_from_the_seed() {
    let ids = |seed| -> Vec<u128> {
        let mut tracking = Tracking::new(seed, ClientId(1));
        (0..1000).map(|_| tracking.next_id()).collect()
    };
    let mut sorted = ids(1);
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 1000);
    assert_eq!(ids(1), ids(1));
    assert_ne!(ids(1), ids(2));
}

#[test]
fn dates_are_those_of_the_calendar() {
    let cases = [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_795_198_930_042, "2026-11-20T18:22:10.042Z"),
        (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        (u64::MAX, "9999-12-31T23:59:59.999Z"),
    ];
    for (millis, expected) in cases {
        let mut text = String::new();
        push_time(&mut text, Timestamp::from_millis(millis));
        assert_eq!(text, expected);
    }
}
