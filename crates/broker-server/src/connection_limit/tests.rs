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
