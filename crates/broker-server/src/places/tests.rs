use super::*;

/// Takes what is expected to be within the limit.
fn within(places: &Places) -> Place {
    match places.take() {
        Some(Taken::Within(place)) => place,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_place_goes_to_the_next_who_asks_though_the_refused_are_still_there() {
    let places = Places::new(2);
    let _first = within(&places);
    let second = within(&places);
    let refused: Vec<Taken> = std::iter::from_fn(|| places.take()).collect();
    assert!(refused.iter().all(|taken| matches!(taken, Taken::Beyond(_))), "{refused:?}");
    assert_eq!((refused.len(), places.taken()), (BEYOND_MAX, 2 + BEYOND_MAX));
    drop(second);
    let _again = within(&places);
    assert!(places.take().is_none());
    drop(refused);
    assert_eq!(places.taken(), 2);
    assert!(matches!(places.take(), Some(Taken::Beyond(_))));
}

#[test]
fn a_limit_of_none_serves_none() {
    let places = Places::new(0);
    assert!(matches!(places.take(), Some(Taken::Beyond(_))));
    assert_eq!(places.limit(), 0);
}
