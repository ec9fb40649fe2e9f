use super::*;

const A: NamespaceSlot = NamespaceSlot(1);
const B: NamespaceSlot = NamespaceSlot(2);
const C: NamespaceSlot = NamespaceSlot(3);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn turn(schedule: &mut NamespaceSchedule) -> Vec<NamespaceSlot> {
    let mut turn = vec![C, C];
    schedule.take_turn(&mut turn);
    turn
}

#[test]
fn each_ready_namespace_has_one_turn_in_a_round_and_each_is_the_first_in_turn() {
    let mut schedule = NamespaceSchedule::default();
    assert_eq!(turn(&mut schedule), []);
    for slot in [C, A, B, A] {
        schedule.make_ready(slot, 1);
    }
    let rounds: Vec<_> = (0..4).map(|_| turn(&mut schedule)).collect();
    assert_eq!(rounds, [[A, B, C], [B, C, A], [C, A, B], [A, B, C]]);
    schedule.rest(B);
    assert_eq!(turn(&mut schedule), [C, A]);
}

#[test]
fn a_namespace_at_rest_is_ready_when_its_deadline_has_come() {
    let mut schedule = NamespaceSchedule::default();
    schedule.set_deadline(B, Some(at(20)));
    schedule.set_deadline(A, Some(at(10)));
    assert_eq!(schedule.deadline(), Some(at(10)));
    schedule.wake_due(at(9), |_| 1);
    assert_eq!(turn(&mut schedule), []);
    schedule.wake_due(at(10), |_| 1);
    assert_eq!((turn(&mut schedule), schedule.deadline()), (vec![A], Some(at(20))));
    schedule.rest(A);
    schedule.set_deadline(A, Some(at(30)));
    schedule.set_deadline(B, Some(at(40)));
    assert_eq!(schedule.deadline(), Some(at(30)), "an earlier deadline does not hold any more");
    schedule.forget(A);
    assert_eq!(schedule.deadline(), Some(at(40)));
    schedule.set_deadline(B, None);
    assert_eq!(schedule.deadline(), None);
    schedule.wake_due(at(50), |_| 1);
    assert_eq!(turn(&mut schedule), []);
}

#[test]
fn deadlines_that_change_all_the_time_take_bounded_memory() {
    let mut schedule = NamespaceSchedule::default();
    schedule.set_deadline(A, Some(at(1)));
    for millis in 2..10_000 {
        schedule.set_deadline(B, Some(at(millis)));
    }
    assert!(schedule.due.len() <= STALE_MAX + 2 * 3, "{}", schedule.due.len());
    assert_eq!(schedule.deadline(), Some(at(1)));
    schedule.set_deadline(A, None);
    assert_eq!(schedule.deadline(), Some(at(9_999)));
}

#[test]
fn shares_are_by_weight_among_those_that_have_work() {
    let mut schedule = NamespaceSchedule::default();
    assert_eq!(schedule.share(A, 1, 400), 400);
    schedule.make_ready(A, 1);
    assert_eq!(schedule.share(A, 1, 400), 400);
    schedule.make_ready(B, 3);
    assert_eq!((schedule.share(A, 1, 400), schedule.share(B, 3, 400)), (100, 300));
    schedule.make_ready(B, 1);
    assert_eq!((schedule.share(A, 1, 400), schedule.share(B, 1, 400)), (200, 200));
    // One that is about to come counts itself.
    assert_eq!(schedule.share(C, 2, 400), 200);
    schedule.rest(A);
    schedule.rest(A);
    assert_eq!(schedule.share(B, 1, 400), 400);
    // Weight 0 would be no share at all.
    schedule.make_ready(C, 0);
    assert_eq!(schedule.share(B, 1, 400), 200);
}
