use super::*;

const MICROS: u64 = 1_000;

#[test]
fn a_turn_ends_with_the_first_step_a_millisecond_after_it_began() {
    let start = crate::clock::instant();
    let at = |micros| start + Duration::from_micros(micros);
    let cases = [
        // microseconds at which steps begin; whether the turn is over with the last
        (&[0][..], false),
        (&[0, 999], false),
        (&[0, MICROS], true),
        (&[0, 10 * MICROS], true),
        (&[500, 1_400], false),
        (&[500, 600, 1_500], true),
        // A clock that goes back ends nothing.
        (&[500, 0], false),
    ];
    for case @ (steps, over) in cases {
        let mut turn = ConnectionTurn::new();
        for step in steps {
            turn.step(at(*step));
        }
        assert_eq!(turn.is_over(), over, "{case:?}");
    }
}

#[test]
fn a_turn_among_those_of_several_namespaces_is_a_quarter_as_long() {
    let start = crate::clock::instant();
    for (is_shared, length) in [(true, SHARED_TURN), (false, TURN), (true, TURN / 4)] {
        let mut turn = ConnectionTurn::new();
        turn.share(is_shared);
        turn.step(start);
        turn.step(start + length * 99 / 100);
        assert!(!turn.is_over());
        turn.step(start + length);
        assert!(turn.is_over());
    }
}

#[test]
fn the_turn_after_a_rest_begins_anew() {
    let start = crate::clock::instant();
    let mut turn = ConnectionTurn::new();
    turn.step(start);
    turn.step(start + TURN);
    assert!(turn.is_over());
    turn.end();
    assert!(!turn.is_over());
    turn.step(start + 2 * TURN);
    assert!(!turn.is_over(), "it has just begun");
    assert!(turn.goes_on(Work(1), (start + 2 * TURN, start + 2 * TURN + STEP)));
    assert!(!turn.goes_on(Work(1), (start + 2 * TURN + STEP, start + 3 * TURN)));
}

#[test]
fn steps_of_dear_work_get_less_of_it() {
    let start = crate::clock::instant();
    let mut turn = ConnectionTurn::new();
    let first = turn.budget().left();
    for _ in 0..50 {
        let done = turn.budget().left();
        turn.step(start);
        // A unit that takes ten times as long as assumed.
        assert_eq!(turn.goes_on(done, (start, start + Duration::from_nanos(done.0 * 1_000))), done.0 < 1_000);
        turn.end();
    }
    let last = turn.budget().left();
    assert!(last.0 * 9 < first.0 && last.0 * 11 > first.0, "{first:?}, then {last:?}");
}
