use super::*;

fn segment(base: u64, end: u64) -> Segment {
    let (incarnation, seed) = (base, Seed::of(base));
    Segment { number: base / 100, file: FileId(0), base, end, incarnation, seed, file_bytes: 100, live: 0 }
}

fn three() -> Segments {
    Segments::new([segment(0, 100), segment(100, 200)].into(), segment(200, 250))
}

#[test]
fn a_position_belongs_to_the_segment_that_holds_it() {
    let segments = three();
    let cases = [
        (0, Some(0)),
        (99, Some(0)),
        (100, Some(100)),
        (199, Some(100)),
        (200, Some(200)),
        (249, Some(200)),
        (250, None),
    ];
    for (at, base) in cases {
        assert_eq!(segments.at(at).map(|segment| segment.base), base, "{at}");
    }
}

#[test]
fn live_bytes_are_counted_where_they_are() {
    let mut segments = three();
    segments.grow(270, 20);
    segments.add_live_at(Position(100), 30);
    assert_eq!((segments.live(), segments.newest().live, segments.used()), (50, 20, 270));
    segments.release(Position(100), 30);
    segments.release(Position(255), 5);
    assert_eq!((segments.live(), segments.newest().live), (15, 15));
    segments.clear_live();
    assert_eq!((segments.live(), segments.newest().live), (0, 0));
}

#[test]
fn releasing_a_record_of_a_freed_segment_has_no_effect() {
    let mut segments = three();
    segments.add_live_at(Position(120), 10);
    assert_eq!(segments.pop_oldest().unwrap().base, 0);
    segments.release(Position(50), 10);
    assert_eq!((segments.live(), segments.tail(), segments.count()), (10, 100, 2));
    assert!(segments.at(50).is_none());
}

#[test]
fn the_one_that_grows_is_never_taken_away() {
    let mut segments = Segments::new([].into(), segment(0, 64));
    assert!(segments.pop_oldest().is_none() && segments.oldest_full().is_none());
    segments.newest_mut().end = 100;
    segments.push(segment(100, 164));
    assert_eq!(segments.oldest_full().unwrap().base, 0);
}
