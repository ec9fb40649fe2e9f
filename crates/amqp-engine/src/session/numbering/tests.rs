use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[test]
fn ids_are_the_same_until_something_is_dropped() {
    let mut numbering = Numbering::new(u32::MAX);
    assert_eq!(numbering.hand_over(), u32::MAX);
    assert_eq!(numbering.hand_over(), 0);
    assert_eq!(numbering.wire_id_of_front(false), u32::MAX);
    assert_eq!(numbering.wire_id_of_front(true), u32::MAX, "a further frame of the same delivery");
    assert_eq!(numbering.wire_id_of_front(false), 0);
    assert_eq!((numbering.local_of(0), numbering.wire_of(0)), (0, 0));
}

#[test]
fn ranges_are_cut_to_the_deliveries_that_were_sent() {
    let mut numbering = Numbering::new(10);
    assert_eq!(numbering.sent_part(0, 100), None, "nothing was sent");
    for _ in 0..5 {
        numbering.hand_over();
        numbering.wire_id_of_front(false);
    }
    let cases = [
        // first, last, cut
        (10, 14, Some((10, 14))),
        (0, 100, Some((10, 14))),
        (12, 12, Some((12, 12))),
        (15, 20, None),
        (0, 9, None),
        (14, 12, None),
        (0, u32::MAX, None),
        (0, 0x7fff_ffff, Some((10, 14))),
    ];
    for case @ (first, last, expected) in cases {
        assert_eq!(numbering.sent_part(first, last), expected, "{case:?}");
    }
}

#[test]
fn runs_of_dropped_ids_join() {
    let mut numbering = Numbering::new(0);
    for _ in 0..10 {
        numbering.hand_over();
    }
    for id in [3, 5, 4, 9, 8] {
        numbering.drop_unsent(id).unwrap();
    }
    assert_eq!(numbering.gaps, [Gap { start: 3, len: 3 }, Gap { start: 8, len: 2 }]);
}

#[test]
fn too_many_runs_are_refused() {
    let mut numbering = Numbering::new(0);
    let ids: Vec<u32> = (0..=MAX_ID_GAPS * 2).map(|_| numbering.hand_over()).collect();
    let mut dropped = ids.into_iter().step_by(2).map(|id| numbering.drop_unsent(id));
    assert!(dropped.by_ref().take(MAX_ID_GAPS).all(|result| result.is_ok()));
    assert_eq!(dropped.next(), Some(Err(TooManyGaps)));
}

#[test]
fn runs_before_the_oldest_named_delivery_are_forgotten() {
    let mut numbering = Numbering::new(u32::MAX - 1);
    // Ids -2 to 5; -1, 2 and 4 are dropped, the rest is sent as -2, -1, 0, 1, 2.
    for _ in 0..8 {
        numbering.hand_over();
    }
    for id in [u32::MAX, 2, 4] {
        numbering.drop_unsent(id).unwrap();
    }
    for _ in 0..5 {
        numbering.wire_id_of_front(false);
    }
    numbering.forget_before(3);
    assert_eq!(numbering.gaps, [Gap { start: 4, len: 1 }]);
    assert_eq!((numbering.wire_of(3), numbering.wire_of(5)), (1, 2));
    assert_eq!((numbering.local_of(1), numbering.local_of(2)), (3, 5));
    assert_eq!(numbering.sent_part(u32::MAX - 1, 9), Some((1, 2)), "older ids have no meaning");
    assert!(!numbering.is_sent(1) && numbering.is_sent(3));
    numbering.forget_before(numbering.next_local());
    assert!(numbering.gaps.is_empty());
    assert_eq!(numbering.sent_part(0, 9), None);
    assert_eq!((numbering.hand_over(), numbering.wire_id_of_front(false)), (6, 3));
    assert_eq!((numbering.wire_of(6), numbering.local_of(3)), (6 - 3, 3 + 3));
}

proptest! {
    #[test]
    fn wire_ids_run_without_gaps_and_translate_both_ways(
        start: u32,
        steps in proptest::collection::vec((0u8..6, any::<prop::sample::Index>()), 0..200),
    ) {
        let mut numbering = Numbering::new(start);
        let mut waiting: Vec<u32> = Vec::new();
        // Sent and not settled, and the last id of the wire.
        let mut sent: Vec<(u32, u32)> = Vec::new();
        let mut last = start.wrapping_sub(1);
        for (what, pick) in steps {
            match what {
                0 | 1 => waiting.push(numbering.hand_over()),
                2 if !waiting.is_empty() => {
                    let wire = numbering.wire_id_of_front(false);
                    prop_assert_eq!(wire, last.wrapping_add(1));
                    last = wire;
                    sent.push((waiting.remove(0), wire));
                }
                3 if !waiting.is_empty() => {
                    let dropped = waiting.remove(pick.index(waiting.len()));
                    numbering.drop_unsent(dropped).unwrap();
                    prop_assert!(!numbering.is_sent(dropped));
                }
                4 if !sent.is_empty() => drop(sent.remove(pick.index(sent.len()))),
                5 => {
                    let named = sent.iter().map(|(local, _)| local).chain(&waiting);
                    let oldest = named.copied().min_by_key(|local| local.wrapping_sub(start));
                    numbering.forget_before(oldest.unwrap_or(numbering.next_local()));
                }
                _ => {}
            }
            for &(local, wire) in &sent {
                prop_assert_eq!(numbering.wire_of(local), wire);
                prop_assert_eq!(numbering.local_of(wire), local);
                prop_assert!(numbering.is_sent(local));
            }
            for &local in &waiting {
                prop_assert!(!numbering.is_sent(local));
            }
        }
    }

    #[test]
    fn a_settled_delivery_may_wait_while_ids_before_it_are_forgotten(
        steps in proptest::collection::vec((0u8..4, any::<bool>()), 0..100),
    ) {
        // Deliveries that are sent settled are named by nobody, so ids behind them are forgotten too.
        let mut numbering = Numbering::new(7);
        let mut waiting: VecDeque<(u32, bool)> = VecDeque::new();
        let mut sent: Vec<(u32, u32)> = Vec::new();
        for (what, settled) in steps {
            match what {
                0 => waiting.push_back((numbering.hand_over(), settled)),
                1 => {
                    if let Some((local, settled)) = waiting.pop_front() {
                        let wire = numbering.wire_id_of_front(false);
                        if !settled {
                            sent.push((local, wire));
                        }
                    }
                }
                2 => {
                    if let Some((local, _)) = waiting.pop_back() {
                        numbering.drop_unsent(local).unwrap();
                    }
                }
                _ => {
                    let waits = waiting.iter().filter(|(_, settled)| !settled).map(|(local, _)| *local);
                    let oldest = sent.iter().map(|(local, _)| *local).chain(waits).min();
                    numbering.forget_before(oldest.unwrap_or(numbering.next_local()));
                }
            }
            for &(local, wire) in &sent {
                prop_assert_eq!((numbering.wire_of(local), numbering.local_of(wire)), (wire, local));
                prop_assert!(numbering.is_sent(local));
            }
        }
    }
}
