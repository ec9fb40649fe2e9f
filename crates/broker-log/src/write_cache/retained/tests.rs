use super::*;

/// A run of pieces, each with a start and a length; it takes 1000 bytes.
fn run(owner: u16, pieces: &[(u64, usize)]) -> RetainedRun {
    let live = pieces.iter().map(|(_, length)| *length as u64).sum();
    let piece = |(start, length): &(u64, usize)| Piece { start: *start, bytes: vec![1; *length].into() };
    RetainedRun { owner: Owner(owner), pieces: pieces.iter().map(piece).collect(), live, bytes: 1_000 }
}

fn freed(owner: u16) -> Freed {
    Freed { owner: Owner(owner), bytes: 1_000 }
}

fn retained() -> RetainedRuns {
    let mut runs = RetainedRuns::default();
    runs.insert(run(1, &[(100, 50), (192, 10)]));
    runs.insert(run(2, &[(300, 10)]));
    runs.insert(run(1, &[(310, 10)]));
    runs
}

#[test]
fn records_are_found_in_the_pieces_that_hold_them_and_not_between() {
    let runs = retained();
    for (at, found) in [
        (99, None),
        (100, Some((50, 0))),
        (149, Some((50, 49))),
        (150, None),
        (192, Some((10, 0))),
        (202, None),
        (309, Some((10, 9))),
        (310, Some((10, 0))),
        (320, None),
        (u64::MAX, None),
    ] {
        assert_eq!(runs.holding(at).map(|(bytes, place)| (bytes.len(), place)), found, "{at}");
    }
}

#[test]
fn a_run_goes_with_its_last_living_record() {
    let mut runs = retained();
    for at in [0, 99, 202, 320] {
        assert_eq!(runs.release(at, 10), None, "nothing of it is here: {at}");
    }
    assert_eq!(runs.release(100, 50), None);
    assert!(runs.holding(100).is_some());
    assert_eq!(runs.release(192, 10), Some(freed(1)));
    assert!(runs.holding(100).is_none() && runs.holding(192).is_none());
    assert_eq!(runs.bytes(), 2_000);
}

#[test]
fn the_oldest_run_of_an_owner_goes_first() {
    let mut runs = retained();
    assert_eq!(runs.drop_oldest(Owner(0)), None);
    assert_eq!(runs.drop_oldest(Owner(1)), Some(freed(1)));
    assert!(runs.holding(100).is_none() && runs.holding(310).is_some());
    assert_eq!(runs.drop_oldest(Owner(1)), Some(freed(1)));
    assert_eq!(runs.drop_oldest(Owner(1)), None);
    assert_eq!(runs.drop_oldest(Owner(2)), Some(freed(2)));
    assert!(runs.is_empty() && runs.bytes() == 0 && runs.by_owner.is_empty());
}

#[test]
fn runs_before_the_tail_go() {
    let mut runs = retained();
    assert_eq!(runs.drop_before(201), None);
    assert_eq!(runs.drop_before(310), Some(freed(1)));
    assert_eq!(runs.drop_before(310), Some(freed(2)));
    assert_eq!(runs.drop_before(310), None);
    assert_eq!(runs.bytes(), 1_000);
}
