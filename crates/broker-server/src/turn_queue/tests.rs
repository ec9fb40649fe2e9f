use proptest::prelude::*;

use super::*;

/// Cost of each turn in the tables.
const COST: u64 = 100;

/// Serves one after the other, each of which costs [`COST`], while all keys wait for ever. The keys, in the order of their turns.
fn served(weights: &[(char, u16)], turns: usize) -> String {
    let mut queue = TurnQueue::new(1, COST);
    for &(key, weight) in weights {
        for _ in 0..turns {
            queue.enter(key, weight, Step::Begin);
        }
    }
    (0..turns).map(|_| one(&mut queue, COST)).collect()
}

/// Grants one turn, which lasts until it has cost so much.
fn one(queue: &mut TurnQueue<char>, cost: u64) -> char {
    let id = queue.grant().unwrap();
    let key = queue.entries[&id].key;
    queue.leave(id, cost);
    key
}

#[test]
fn keys_that_wait_are_served_by_weight() {
    let cases: [(&[(char, u16)], &str); 5] = [
        (&[('a', 1)], "aaaaaa"),
        (&[('a', 1), ('b', 1)], "abababab"),
        (&[('a', 1), ('b', 4)], "abbbbabbbbabbbb"),
        (&[('a', 2), ('b', 1), ('c', 1)], "abcaabcaabca"),
        // A weight of nothing counts as 1.
        (&[('a', 0), ('b', 1)], "abab"),
    ];
    for (weights, expected) in cases {
        assert_eq!(served(weights, expected.len()), expected, "{weights:?}");
    }
}

#[test]
fn one_of_a_key_that_comes_late_waits_for_one_turn_and_not_for_all_that_were_there_before() {
    let mut queue = TurnQueue::new(1, COST);
    for _ in 0..1_000 {
        queue.enter('a', 1, Step::Begin);
    }
    assert_eq!((0..10).map(|_| one(&mut queue, COST)).collect::<String>(), "aaaaaaaaaa");
    queue.enter('b', 1, Step::Begin);
    assert_eq!((0..3).map(|_| one(&mut queue, COST)).collect::<String>(), "baa");
}

#[test]
fn a_turn_costs_what_was_measured() {
    let mut queue = TurnQueue::new(1, COST);
    for key in ['a', 'b'] {
        for _ in 0..20 {
            queue.enter(key, 1, Step::Begin);
        }
    }
    let costs = |key| if key == 'a' { 3 * COST } else { COST };
    let mut order = String::new();
    for _ in 0..12 {
        let id = queue.grant().unwrap();
        let key = queue.entries[&id].key;
        order.push(key);
        queue.leave(id, costs(key));
    }
    assert_eq!(order, "abbbabbbabbb");
}

#[test]
fn within_a_key_those_that_have_begun_come_first_and_then_the_oldest() {
    let mut queue = TurnQueue::new(1, COST);
    let new = [queue.enter('a', 1, Step::Begin), queue.enter('a', 1, Step::Begin)];
    let begun = [queue.enter('a', 1, Step::Continue), queue.enter('a', 1, Step::Continue)];
    for expected in [begun[0], begun[1], new[0], new[1]] {
        let id = queue.grant().unwrap();
        assert_eq!(id, expected);
        queue.leave(id, COST);
    }
    assert_eq!(queue.grant(), None);
}

#[test]
fn only_so_many_turns_last_at_once_and_the_next_begins_when_one_ends() {
    let mut queue = TurnQueue::new(2, COST);
    let ids: Vec<TurnId> = (0..4).map(|_| queue.enter('a', 1, Step::Begin)).collect();
    assert_eq!([queue.grant(), queue.grant(), queue.grant()], [Some(ids[0]), Some(ids[1]), None]);
    assert_eq!(ids.iter().map(|id| queue.is_running(*id)).collect::<Vec<_>>(), [true, true, false, false]);
    queue.leave(ids[1], COST);
    // One that is not waited for any more gets no turn.
    queue.leave(ids[2], 0);
    assert_eq!([queue.grant(), queue.grant()], [Some(ids[3]), None]);
}

#[test]
fn a_key_that_had_more_than_its_share_does_not_begin_anew_by_leaving() {
    let mut queue = TurnQueue::new(1, COST);
    for _ in 0..20 {
        queue.enter('b', 1, Step::Begin);
    }
    queue.enter('a', 1, Step::Begin);
    // Its one turn is a long one.
    assert_eq!(one(&mut queue, 5 * COST), 'a');
    queue.enter('a', 1, Step::Begin);
    assert_eq!((0..7).map(|_| one(&mut queue, COST)).collect::<String>(), "bbbbbab");
}

/// A step of the test below.
#[derive(Clone, Debug)]
enum Act {
    Enter(u8, Step),
    Grant,
    /// One of those that are there, with its cost.
    Leave(usize, u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0_u8..6, prop_oneof![Just(Step::Begin), Just(Step::Continue)])
            .prop_map(|(key, step)| Act::Enter(key, step)),
        Just(Act::Grant),
        (any::<usize>(), 0_u64..1_000).prop_map(|(which, cost)| Act::Leave(which, cost)),
    ]
}

proptest! {
    /// The bound of start-time fair queueing, in units of cost by weight.
    #[test]
    fn what_two_waiting_keys_were_served_differs_by_one_turn_of_each(
        weights in proptest::collection::vec(1_u16..=1_000, 2..6),
        costs in proptest::collection::vec(1_u32..1_000, 20..200),
    ) {
        let mut queue = TurnQueue::new(1, 500);
        let mut served = vec![0_u32; weights.len()];
        for (key, weight) in weights.iter().enumerate() {
            queue.enter(key, *weight, Step::Begin);
            queue.enter(key, *weight, Step::Begin);
        }
        for cost in costs {
            let id = queue.grant().unwrap();
            let key = queue.entries[&id].key;
            queue.leave(id, cost.into());
            served[key] += cost;
            queue.enter(key, weights[key], Step::Begin);
            let normal: Vec<f64> =
                served.iter().zip(&weights).map(|(served, weight)| f64::from(*served) / f64::from(*weight)).collect();
            for (first, of_first) in normal.iter().zip(&weights) {
                for (second, of_second) in normal.iter().zip(&weights) {
                    let bound = 1_000.0 / f64::from(*of_first) + 1_000.0 / f64::from(*of_second);
                    prop_assert!((first - second).abs() <= bound + 1e-3, "{normal:?} by {weights:?}");
                }
            }
        }
    }

    #[test]
    fn a_newcomer_is_served_after_one_turn_of_each_other_key_of_its_weight(
        keys in 1_usize..20, backlog in 1_usize..50, at_once in 1_usize..5, before in 0_usize..200,
    ) {
        let mut queue = TurnQueue::new(at_once, COST);
        for key in 0..keys {
            for _ in 0..backlog {
                queue.enter(key, 1, Step::Begin);
            }
        }
        let next = |queue: &mut TurnQueue<usize>| {
            let id = queue.grant()?;
            let key = queue.entries[&id].key;
            queue.leave(id, COST);
            if key < keys {
                queue.enter(key, 1, Step::Begin);
            }
            Some(key)
        };
        for _ in 0..before {
            next(&mut queue);
        }
        let newcomer = keys;
        queue.enter(newcomer, 1, Step::Begin);
        let turns = std::iter::from_fn(|| next(&mut queue)).position(|key| key == newcomer).unwrap();
        prop_assert!(turns <= keys, "{turns} turns before it, among {keys} keys");
    }

    #[test]
    fn each_gets_one_turn_no_more_last_than_may_and_nothing_stays_behind(
        acts in proptest::collection::vec(act(), 1..300), at_once in 1_usize..4,
    ) {
        let mut queue = TurnQueue::new(at_once, 500);
        let (mut there, mut granted) = (Vec::new(), BTreeSet::new());
        for act in acts {
            match act {
                Act::Enter(key, step) => there.push(queue.enter(key, 1 + u16::from(key), step)),
                Act::Grant => {
                    let running = there.iter().filter(|id| queue.is_running(**id)).count();
                    let waits = there.len() > running;
                    match queue.grant() {
                        Some(id) => prop_assert!(granted.insert(id) && running < at_once),
                        None => prop_assert!(running == at_once || !waits, "{running} of {at_once}"),
                    }
                }
                Act::Leave(which, cost) if !there.is_empty() => {
                    let id = there.swap_remove(which % there.len());
                    queue.leave(id, cost);
                    // A second time changes nothing.
                    queue.leave(id, cost);
                }
                Act::Leave(..) => {}
            }
            prop_assert!(queue.keys.len() <= 6 && queue.entries.len() == there.len());
            let waiting = queue.keys.values().filter(|share| !share.waiting.is_empty()).count();
            prop_assert_eq!(queue.waiting.len(), waiting);
            let idle = queue.keys.values().filter(|share| share.waiting.is_empty() && share.running == 0);
            prop_assert_eq!(queue.ahead.len(), idle.count());
        }
        for id in there {
            queue.leave(id, 1);
        }
        let left = (queue.keys.len(), queue.waiting.len(), queue.ahead.len(), queue.running, queue.virtual_time);
        prop_assert_eq!(left, (0, 0, 0, 0, 0));
    }
}
