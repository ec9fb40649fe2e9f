use proptest::prelude::*;

use super::*;

fn entry(number: u32) -> UnsettledDelivery {
    UnsettledDelivery {
        consumer: LinkId(number % 3),
        queue: QueueId(1),
        sequence: SequenceNumber(u64::from(number)),
        lock: Some(LockId(number)),
        since_seconds: number,
    }
}

fn take_all(locks: &mut UnsettledDeliveries, first: u32, last: u32) -> Vec<u32> {
    let mut range = DeliveryIdRange::new(first, last);
    std::iter::from_fn(|| locks.take_next(&mut range)).map(|(id, _)| id).collect()
}

#[test]
fn the_oldest_open_delivery_says_since_when_it_is_open() {
    let mut locks = UnsettledDeliveries::default();
    assert_eq!(locks.oldest_since(), None);
    (7..=9).for_each(|id| locks.insert(id, entry(id)));
    assert_eq!(locks.oldest_since(), Some(7));
    locks.take(7);
    locks.take(8);
    assert_eq!(locks.oldest_since(), Some(9));
    // Ids that are skipped for long begin the ring anew.
    locks.insert(1_000_000, entry(1_000_000));
    assert_eq!(locks.oldest_since(), Some(9));
    locks.take(9);
    assert_eq!(locks.oldest_since(), Some(1_000_000));
}

#[test]
fn a_delivery_is_taken_once() {
    let mut locks = UnsettledDeliveries::default();
    locks.insert(7, entry(7));
    assert_eq!(locks.take(7), Some(entry(7)));
    assert_eq!(locks.take(7), None);
    assert_eq!(locks.len(), 0);
}

#[test]
fn ids_go_on_across_the_wrap() {
    let mut locks = UnsettledDeliveries::default();
    for id in [u32::MAX - 1, u32::MAX, 0, 1] {
        locks.insert(id, entry(id));
    }
    assert_eq!(take_all(&mut locks, u32::MAX, 0), vec![u32::MAX, 0]);
    assert_eq!(take_all(&mut locks, u32::MAX - 5, 10), vec![u32::MAX - 1, 1]);
}

#[test]
fn the_oldest_delivery_is_known_in_ring_and_tree_and_across_the_wrap() {
    let mut locks = UnsettledDeliveries::default();
    assert_eq!(locks.oldest(), None);
    let start = u32::MAX - 2;
    let ids: Vec<u32> = (0..10_000).map(|step| start.wrapping_add(step)).collect();
    for id in &ids {
        locks.insert(*id, entry(*id));
    }
    // The last one stays, so the ones in the tree go first.
    let kept = [ids[0], ids[2], ids[5], ids[9_000], ids[9_999]];
    for id in ids.iter().filter(|id| !kept.contains(id)) {
        locks.take(*id);
    }
    for id in kept {
        assert_eq!(locks.oldest(), Some(id));
        locks.take(id);
    }
    assert_eq!(locks.oldest(), None);
}

#[test]
fn a_huge_range_costs_only_what_is_open() {
    let mut locks = UnsettledDeliveries::default();
    for id in 100..110 {
        locks.insert(id, entry(id));
    }
    assert_eq!(take_all(&mut locks, 0, 99), Vec::<u32>::new());
    assert_eq!(take_all(&mut locks, 110, u32::MAX), Vec::<u32>::new());
    assert_eq!(take_all(&mut locks, 0, u32::MAX), (100..110).collect::<Vec<_>>());
    assert_eq!(take_all(&mut UnsettledDeliveries::default(), 0, u32::MAX), Vec::<u32>::new());
}

#[test]
fn one_old_delivery_does_not_keep_the_ring_long() {
    let mut locks = UnsettledDeliveries::default();
    locks.insert(0, entry(0));
    for id in 1..1_000_000 {
        locks.insert(id, entry(id));
        assert!(locks.take(id).is_some());
    }
    assert!(locks.ring.len() <= RING_SMALL + 1, "{}", locks.ring.len());
    assert_eq!(locks.take(0), Some(entry(0)));
}

#[test]
fn forgetting_a_link_leaves_the_others() {
    let mut locks = UnsettledDeliveries::default();
    for id in 0..9 {
        locks.insert(id, entry(id));
    }
    locks.forget(LinkId(0));
    assert_eq!(take_all(&mut locks, 0, 8), vec![1, 2, 4, 5, 7, 8]);
}

#[test]
fn links_that_leave_one_by_one_cost_what_they_leave_and_not_what_others_hold() {
    for (links, each) in [(1, 1), (10, 10), (1_000, 10), (10, 1_000), (4_000, 2)] {
        let mut locks = UnsettledDeliveries::default();
        for id in 0..links * each {
            locks.insert(id, UnsettledDelivery { consumer: LinkId(id % links), ..entry(id) });
        }
        for link in 0..links {
            locks.forget(LinkId(link));
        }
        let deliveries = (links * each) as usize;
        assert!(locks.looked_at <= 2 * deliveries, "{links} x {each}: {}", locks.looked_at);
        assert_eq!(locks.len(), 0);
    }
}

#[test]
fn links_that_come_and_go_cost_a_few_looks_for_each_delivery() {
    let mut locks = UnsettledDeliveries::default();
    for id in 0..10_000 {
        locks.insert(id, UnsettledDelivery { consumer: LinkId(id % 1_000), ..entry(id) });
    }
    for link in 1_000..6_000 {
        for n in 0..3 {
            let id = 10_000 + (link - 1_000) * 3 + n;
            locks.insert(id, UnsettledDelivery { consumer: LinkId(link), ..entry(id) });
        }
        locks.forget(LinkId(link));
    }
    assert_eq!(locks.len(), 10_000);
    // The places between are walked as well, as long as the ring is not thinned out.
    assert!(locks.looked_at <= 6 * 25_000, "{}", locks.looked_at);
}

proptest! {
    /// Against a plain map, from any starting id, with gaps and any order of taking.
    #[test]
    fn the_table_is_a_map(
        start in prop_oneof![Just(0u32), Just(u32::MAX - 2000), any::<u32>()],
        steps in prop::collection::vec((0u32..5, 0u32..3000, any::<bool>()), 1..400),
    ) {
        let mut locks = UnsettledDeliveries::default();
        let mut model: Vec<u32> = Vec::new();
        let mut next = start;
        for (kind, number, long) in steps {
            match kind {
                0 | 1 => {
                    next = next.wrapping_add(if long { number } else { 0 });
                    locks.insert(next, entry(next));
                    model.push(next);
                    next = next.wrapping_add(1);
                }
                4 => {
                    // Links are three, and a number may be used again.
                    locks.forget(LinkId(number % 3));
                    model.retain(|id| id % 3 != number % 3);
                }
                2 if !model.is_empty() => {
                    let id = model.remove(number as usize % model.len());
                    prop_assert_eq!(locks.take(id), Some(entry(id)));
                    prop_assert_eq!(locks.take(id), None);
                }
                _ => {
                    let first = start.wrapping_add(number);
                    let span = if long { 5000 } else { number / 2 };
                    let (mut expected, rest): (Vec<u32>, Vec<u32>) =
                        model.iter().partition(|id| id.wrapping_sub(first) <= span);
                    expected.sort_by_key(|id| id.wrapping_sub(first));
                    prop_assert_eq!(take_all(&mut locks, first, first.wrapping_add(span)), expected);
                    model = rest;
                }
            }
            prop_assert_eq!(locks.len(), model.len());
        }
    }
}
