use proptest::prelude::*;

use super::*;
use crate::{LockId, Position};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn store() -> Store {
    Store::new(QueueId(1), Role::DeadLetter { of: QueueId(2) }, Duration::from_secs(1))
}

fn put(store: &mut Store, sequence: u64) {
    store.insert(sequence, Slot::new(Position(sequence), 1, at(1), Timestamp::MAX));
}

fn drain(store: &mut Store) -> Vec<u64> {
    let next = |store: &mut Store| {
        let sequence = store.next_ready()?;
        store.take(sequence);
        Some(sequence)
    };
    std::iter::from_fn(|| next(store)).collect()
}

#[test]
fn messages_inserted_in_any_order_leave_in_order_of_number() {
    let mut store = store();
    for n in [50, 70, 60] {
        put(&mut store, n);
    }
    assert_eq!(store.next_ready(), Some(50));
    store.take(50);
    for n in [40, 65, 49] {
        put(&mut store, n);
    }
    assert_eq!(drain(&mut store), [40, 49, 60, 65, 70]);
}

#[test]
fn a_message_put_back_goes_before_later_ones() {
    let mut store = store();
    (1..=4).for_each(|n| put(&mut store, n));
    for n in [1, 2, 3] {
        store.take(n);
        store.lock(n, LockId(9), ConsumerNumber(1), at(10));
    }
    store.unlock(2);
    store.put_back(2);
    assert_eq!(drain(&mut store), [2, 4]);
    assert_eq!(store.counts.locked, 2);
}

#[test]
fn lock_deadlines_follow_live_locks_and_not_throughput() {
    let mut store = store();
    for n in 1..=200_000 {
        put(&mut store, n);
        store.take(n);
        store.lock(n, LockId(0), ConsumerNumber(1), at(1_000_000 + n));
        if n > 50 {
            store.remove(n - 50).unwrap();
        }
    }
    assert!(store.timers.locks.runs().count() < 1_000, "{}", store.timers.locks.runs().count());
    assert_eq!(store.locked_by(&Holders::from([(ConsumerNumber(1), true)])).0.len(), 50);
}

/// Locks `each` messages for each of `consumers`, in turn.
fn handed_out(consumers: u32, each: u32) -> Store {
    let mut store = store();
    for n in 0..consumers * each {
        hand_out(&mut store, u64::from(n) + 1, n % consumers);
    }
    store
}

fn hand_out(store: &mut Store, sequence: u64, consumer: u32) {
    put(store, sequence);
    store.take(sequence);
    store.lock(sequence, LockId(0), ConsumerNumber(consumer), at(1_000_000));
}

/// A consumer leaves; says which of its locks ended.
fn leave(store: &mut Store, consumer: u32) -> Vec<u64> {
    let (held, _) = store.locked_by(&Holders::from([(ConsumerNumber(consumer), true)]));
    for (sequence, _) in &held {
        store.unlock(*sequence);
        store.put_back(*sequence);
    }
    held.into_iter().map(|(sequence, _)| sequence).collect()
}

#[test]
fn consumers_that_close_one_by_one_cost_their_own_locks_and_not_those_of_others() {
    for (consumers, each) in [(1, 1), (10, 10), (1_000, 10), (10, 1_000), (4_000, 2)] {
        let mut store = handed_out(consumers, each);
        for consumer in 0..consumers {
            assert_eq!(leave(&mut store, consumer).len(), each as usize);
        }
        let locks = (consumers * each) as usize;
        assert!(store.slots_visited <= 2 * locks, "{consumers} x {each}: {}", store.slots_visited);
        assert_eq!(store.counts.locked, 0);
    }
}

#[test]
fn consumers_that_come_and_go_cost_a_few_looks_for_each_lock_that_is_granted() {
    // A thousand hold ten each and stay; others come, lock three and leave.
    let mut store = handed_out(1_000, 10);
    for consumer in 1_000..6_000 {
        for n in 0..3 {
            hand_out(&mut store, u64::from(consumer) * 100 + n, consumer);
        }
        assert_eq!(leave(&mut store, consumer).len(), 3);
    }
    let granted = 10_000 + 15_000;
    assert!(store.slots_visited <= 4 * granted, "{}", store.slots_visited);
}

proptest! {
    /// Against a plain map: who leaves loses its locks, all of them and nobody else's.
    #[test]
    fn a_closed_consumer_loses_its_locks(steps in prop::collection::vec((0u8..8, 0usize..100, 0u32..5), 1..300)) {
        let mut store = store();
        let mut held: BTreeMap<u64, u32> = BTreeMap::new();
        // Numbers of consumers are not used again.
        let mut consumers: Vec<u32> = (0..5).collect();
        let (mut next, mut sequence) = (5, 0);
        for (kind, which, who) in steps {
            let nth = held.keys().nth(which % held.len().max(1)).copied();
            match (kind, nth) {
                (0, _) => {
                    let gone = std::mem::replace(&mut consumers[who as usize], next);
                    next += 1;
                    let expected: Vec<u64> = held.iter().filter(|(_, by)| **by == gone).map(|(n, _)| *n).collect();
                    prop_assert_eq!(leave(&mut store, gone), expected);
                    held.retain(|_, by| *by != gone);
                }
                (1, Some(n)) => {
                    store.remove(n).unwrap();
                    held.remove(&n);
                }
                (2, Some(n)) => {
                    // Given up, and locked by another, or the same, again.
                    store.unlock(n);
                    store.put_back(n);
                    store.take(n);
                    store.lock(n, LockId(1), ConsumerNumber(consumers[who as usize]), at(2_000_000));
                    held.insert(n, consumers[who as usize]);
                }
                (3, Some(n)) => store.renew(n, at(3_000_000)),
                _ => {
                    sequence += 1;
                    hand_out(&mut store, sequence, consumers[who as usize]);
                    held.insert(sequence, consumers[who as usize]);
                }
            }
            prop_assert_eq!(store.counts.locked, held.len());
        }
    }
}

#[test]
fn expiry_reminders_follow_the_messages_that_are_there() {
    let mut store = Store::new(QueueId(1), Role::Unknown, Duration::from_secs(1));
    for n in 1..=50_000 {
        // Alternating, so that half of them go to the heap.
        let expires = at(if n % 2 == 0 { 1_000_000 + n } else { 5_000_000 + n });
        store.insert(n, Slot::new(Position(n), 1, at(1), expires));
        if n > 50 {
            store.remove(n - 50).unwrap();
        }
    }
    assert!(store.timers.expiries.runs().count() < 1_000, "{}", store.timers.expiries.runs().count());
}

#[test]
fn a_table_entry_is_replaced_by_an_earlier_one_only() {
    let (mut store, mut timers) = (store(), BTreeSet::new());
    put(&mut store, 1);
    put(&mut store, 2);
    for (n, until) in [(1, 50), (2, 40)] {
        store.lock(n, LockId(1), ConsumerNumber(1), at(until));
        store.arm(&mut timers);
    }
    assert_eq!(timers, BTreeSet::from([(at(40), QueueId(1))]));
    store.disarm(&mut timers);
    assert!(timers.is_empty());
}

#[test]
fn a_ring_keeps_no_more_closed_consumers_than_waiting_ones() {
    let mut store = store();
    store.links.ring.extend((0..10_000).map(ConsumerNumber));
    let mut compactions = 0;
    for gone in 0..10_000 {
        let before = store.links.ring.len();
        store.links.leave_ring(|number| number.0 > gone);
        compactions += usize::from(store.links.ring.len() < before);
        let there = 9_999 - gone as usize;
        assert!(store.links.ring.len() <= 2 * there + 1, "{} for {there}", store.links.ring.len());
    }
    assert!(store.links.ring.is_empty() && store.links.stale_consumers == 0);
    assert!(compactions < 20, "{compactions}");
}
