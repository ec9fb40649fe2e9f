use super::*;

#[test]
fn namespaces_share_the_last_tenth_by_weight() {
    let cases = [
        // limit, free, own, weight, room
        (1_000, 1_000, 0, 1, 900),
        (1_000, 1_000, 0, 19, 950),
        (1_000, 101, 899, 1, 1),
        (1_000, 100, 900, 1, 0),
        (1_000, 100, 99, 1, 0),
        (1_000, 100, 98, 1, 1),
        (1_000, 100, 0, 1, 50),
        (1_000, 100, 0, 4, 80),
        (1_000, 100, 400, 4, 0),
        (1_000, 100, 390, 4, 2),
        (1_000, 100, 900, 10, 9),
        (1_000, 2, 0, 1, 1),
        (1_000, 1, 0, 1, 0),
        (1_000, 0, 0, 1, 0),
        // No tenth.
        (9, 9, 0, 1, 9),
        (9, 1, 8, 1, 1),
        (usize::MAX, usize::MAX, 0, usize::MAX, usize::MAX - usize::MAX / SHARED_PART),
    ];
    for (limit, free, own, weight, room) in cases {
        let all = InFlightLimit::new(limit);
        all.add_namespace();
        assert_eq!(all.share(own, weight, free), free, "alone, it has all");
        all.add_namespace();
        assert_eq!(all.share(own, weight, free), room, "{own} own, {free} of {limit} free, weight {weight}");
        all.remove_namespace();
        assert_eq!(all.share(own, weight, free), free);
    }
}

#[test]
fn unfinished_bytes_and_bytes_in_flight_are_two_things() {
    let all = InFlightLimit::new(100);
    all.add(100);
    assert_eq!((all.has_room(0, 1), all.unfinished_left(0, 1)), (false, 100));
    all.count_unfinished(0, 70);
    all.count_unfinished(70, 60);
    all.remove(1);
    assert_eq!((all.has_room(99, 1), all.unfinished_left(60, 1)), (true, 40));
}

proptest::proptest! {
    /// No share is more than there is, and a namespace with nothing in flight finds room while more than a byte is free.
    #[test]
    fn a_share_is_within_what_is_free_and_leaves_room_to_others(
        limit in 1_usize..=1 << 40,
        taken in 0_usize..=1_000,
        weight in 1_usize..=1_000,
    ) {
        let all = InFlightLimit::new(limit);
        (0..2).for_each(|_| all.add_namespace());
        let own = limit / 1_000 * taken;
        let free = limit.saturating_sub(own);
        let room = all.share(own, weight, free);
        proptest::prop_assert!(room <= free);
        let left = free - room;
        // A namespace with everything that is in flight leaves a part to one with nothing.
        let part = (limit / SHARED_PART).min(free) / (weight + 1);
        proptest::prop_assert!(left >= part, "{left} of {free} left, {own} of {limit} own");
        proptest::prop_assert!(left <= 1 || all.share(0, 1, left) > 0);
    }
}
