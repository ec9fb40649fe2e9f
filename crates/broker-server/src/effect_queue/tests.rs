use super::*;
use crate::in_flight_limit::InFlightLimit;

#[test]
fn a_connection_reads_below_each_limit_and_not_at_it() {
    let cases = [
        // the limit of all, its own bytes, those of others, may it read
        (usize::MAX, IN_FLIGHT_MAX - 1, 0, true),
        (usize::MAX, IN_FLIGHT_MAX, 0, false),
        (100, 99, 0, true),
        (100, 100, 0, false),
        (100, 0, 99, true),
        (100, 0, 100, false),
        (100, 50, 50, false),
        (100, 50, 49, true),
    ];
    for case @ (limit, own, others, expected) in cases {
        let account = Arc::new(IngressCredit::of_namespace(Arc::new(InFlightLimit::new(limit))));
        let effect_queues = [(); 2].map(|()| Arc::new(EffectQueue::new(Arc::clone(&account))));
        effect_queues[0].handed_over(own);
        effect_queues[1].handed_over(others);
        assert_eq!(effect_queues[0].may_read(), expected, "{case:?}");
    }
}

#[test]
fn a_connection_that_begins_to_wait_reads_if_room_has_come_meanwhile() {
    let account = Arc::new(IngressCredit::of_namespace(Arc::new(InFlightLimit::new(100))));
    let effect_queue = Arc::new(EffectQueue::new(Arc::clone(&account)));
    account.add(100);
    assert!(!account.has_room());
    // Nobody waits yet, so this calls nobody.
    account.remove(100);
    assert!(effect_queue.waited(QueueEnd::Back));
}

#[test]
fn bytes_are_taken_out_of_the_accounts_once_whoever_ends_first() {
    let all = Arc::new(InFlightLimit::new(1_000));
    let account = Arc::new(IngressCredit::of_namespace(Arc::clone(&all)));
    let new = || EffectQueue::new(Arc::clone(&account));
    // The node ends while the connection hands over: it takes out what the connection has taken back, too.
    let effect_queue = new();
    effect_queue.handed_over(100);
    effect_queue.abandon();
    effect_queue.processed(100);
    assert_eq!((account.bytes(), all.has_room(0, 1)), (0, true));
    // A connection is closed, and the node that still has its bytes ends.
    let effect_queue = new();
    effect_queue.handed_over(999);
    effect_queue.processed(9);
    assert_eq!(account.bytes(), 990);
    drop(effect_queue);
    assert_eq!(account.bytes(), 0);
}
