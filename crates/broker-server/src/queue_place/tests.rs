use super::*;

#[test]
fn a_connection_enters_is_called_and_answers() {
    let place = QueuePlace::default();
    assert!(!place.is_called() && !place.call(), "it is in no queue");
    assert!(place.enter());
    assert!(!place.enter(), "once at most");
    place.answer();
    assert!(!place.enter(), "it was not called");
    assert!(place.call() && place.is_called());
    assert!(!place.call() && !place.enter());
    place.answer();
    assert!(!place.is_called() && place.enter());
}

#[test]
fn a_connection_that_goes_says_where_it_was_and_never_comes_back() {
    type Steps = fn(&QueuePlace);
    let cases: [(Steps, Left); 3] = [
        (|_| (), Left::Alone),
        (|place| assert!(place.enter()), Left::Waiting),
        (|place| assert!(place.enter() && place.call()), Left::Called),
    ];
    for (steps, left) in cases {
        let place = QueuePlace::default();
        steps(&place);
        assert_eq!(place.leave(), left);
        assert!(!place.enter() && !place.call() && !place.is_called());
        assert_eq!(place.leave(), Left::Alone);
    }
}
