use super::*;

/// Takes what is expected to be within the limit.
fn within(connection_limit: &ConnectionLimit) -> CountGuard {
    match connection_limit.take() {
        Some(ConnectionSlot::Admitted(guard)) => guard,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_freed_place_goes_to_the_next_connection_though_refused_ones_are_still_open() {
    let connection_limit = ConnectionLimit::new(2);
    let _first = within(&connection_limit);
    let second = within(&connection_limit);
    let refused: Vec<ConnectionSlot> = std::iter::from_fn(|| connection_limit.take()).collect();
    assert!(refused.iter().all(|taken| matches!(taken, ConnectionSlot::OverLimit(_))), "{refused:?}");
    assert_eq!((refused.len(), connection_limit.taken()), (OVER_LIMIT_MAX, 2 + OVER_LIMIT_MAX));
    drop(second);
    let _again = within(&connection_limit);
    assert!(connection_limit.take().is_none());
    drop(refused);
    assert_eq!(connection_limit.taken(), 2);
    assert!(matches!(connection_limit.take(), Some(ConnectionSlot::OverLimit(_))));
}

#[test]
fn a_limit_of_none_serves_none() {
    let connection_limit = ConnectionLimit::new(0);
    assert!(matches!(connection_limit.take(), Some(ConnectionSlot::OverLimit(_))));
    assert_eq!(connection_limit.limit(), 0);
}

#[test]
fn a_namespace_may_have_fewer_connections_the_fewer_are_left() {
    let cases = [
        // limit, slots that are taken with that of the one that asks, weight, connections that its namespace may have
        (100, 1, 1, None),
        (100, 90, 1, None),
        (100, 91, 1, Some(10)),
        (100, 91, 3, Some(30)),
        (100, 99, 1, Some(2)),
        (100, 100, 1, Some(1)),
        (100, 100, 1_000, Some(1_000)),
        (10, 9, 1, None),
        (10, 10, 1, Some(1)),
        // No tenth.
        (9, 9, 1, None),
        (1, 1, 1, None),
    ];
    for (limit, taken, weight, expected) in cases {
        let connection_limit = ConnectionLimit::new(limit);
        let _slots: Vec<CountGuard> = (0..taken).map(|_| within(&connection_limit)).collect();
        assert_eq!(connection_limit.share(weight), expected, "{taken} of {limit}, weight {weight}");
    }
    assert_eq!(ConnectionLimit::new(usize::MAX).share(1), None);
}

proptest::proptest! {
    /// Namespaces connect and disconnect as they like; each has one connection more than it may, at most.
    #[test]
    fn a_namespace_without_connections_gets_each_free_slot_and_the_others_leave_some(
        limit in 1_usize..200,
        weights in proptest::collection::vec(1_u16..20, 2..6),
        acts in proptest::collection::vec((proptest::prelude::any::<u8>(), 0_u8..10), 1..600),
    ) {
        let connection_limit = ConnectionLimit::new(limit);
        let mut placed: Vec<Vec<CountGuard>> = weights.iter().map(|_| Vec::new()).collect();
        for (namespace, act) in acts {
            let namespace = usize::from(namespace) % weights.len();
            if act == 0 {
                placed[namespace].pop();
                continue;
            }
            let Some(ConnectionSlot::Admitted(slot)) = connection_limit.take() else {
                // The last slot is taken by one that had none, or there are too few for shares.
                let fewest = placed.iter().map(Vec::len).min();
                proptest::prop_assert!(limit < SHARED_PART || fewest < Some(limit));
                continue;
            };
            let may_have = connection_limit.share(weights[namespace]).unwrap_or(usize::MAX);
            let has = placed[namespace].len();
            proptest::prop_assert!(may_have >= 1, "one without connections is let in");
            if has < may_have {
                placed[namespace].push(slot);
            } else {
                drop(slot);
                let free = limit - connection_limit.taken();
                proptest::prop_assert!(free >= 1 && has >= free * usize::from(weights[namespace]));
            }
        }
        proptest::prop_assert_eq!(connection_limit.taken(), placed.iter().map(Vec::len).sum::<usize>());
    }
}
