use proptest::prelude::*;

use super::*;

const SEED: u64 = 42;

fn tag(bytes: &[u8]) -> DeliveryTag {
    DeliveryTag::try_from(bytes).unwrap()
}

fn add(unsettled: &mut Unsettled, link: u32, id: u32, name: &[u8]) -> Result<(), UnsettledError> {
    unsettled.note_id(id, true)?;
    unsettled.insert(SEED, link, (id, id), tag(name), true)
}

#[test]
fn a_tag_is_free_again_after_settlement_and_on_other_links() {
    let mut unsettled = Unsettled::default();
    assert_eq!(add(&mut unsettled, 0, 1, b"a"), Ok(()));
    assert_eq!(add(&mut unsettled, 0, 2, b"a"), Err(UnsettledError::DuplicateTag));
    assert_eq!(add(&mut unsettled, 1, 3, b"a"), Ok(()));
    assert_eq!(unsettled.settle(1), Some((0, 1)));
    assert_eq!(add(&mut unsettled, 0, 4, b"a"), Ok(()));
}

#[test]
fn settling_twice_or_the_unknown_gives_nothing() {
    let mut unsettled = Unsettled::default();
    for id in 5..8 {
        add(&mut unsettled, 0, id, &id.to_be_bytes()).unwrap();
    }
    let cases = [(4, None), (8, None), (6, Some(0)), (6, None), (5, Some(0)), (7, Some(0)), (7, None)];
    for case @ (id, expected) in cases {
        assert_eq!(unsettled.settle(id).map(|(link, _)| link), expected, "{case:?}");
    }
    assert_eq!(unsettled.len(), 0);
}

#[test]
fn ids_only_go_up_across_the_wrap() {
    let mut unsettled = Unsettled::default();
    let cases = [
        // id, accepted
        (u32::MAX - 1, true),
        (u32::MAX, true),
        (0, true),
        (0, false),
        (u32::MAX, false),
        (5, true),
    ];
    for case @ (id, accepted) in cases {
        assert_eq!(unsettled.note_id(id, true).is_ok(), accepted, "{case:?}");
    }
}

#[test]
fn a_delivery_that_stays_unsettled_does_not_keep_those_behind_it() {
    let mut unsettled = Unsettled::default();
    add(&mut unsettled, 0, 0, b"stays").unwrap();
    for id in 1..50_000 {
        add(&mut unsettled, 0, id, &id.to_be_bytes()).unwrap();
        unsettled.settle(id);
        assert!(unsettled.entries.len() <= KEEP_ENTRIES + 3, "{}", unsettled.entries.len());
    }
    assert_eq!(unsettled.settle(0), Some((0, 0)));
    assert!(unsettled.entries.is_empty());
}

#[test]
fn room_that_is_not_in_use_is_given_back() {
    let mut unsettled = Unsettled::default();
    for id in 0..1_000 {
        add(&mut unsettled, 0, id, &id.to_be_bytes()).unwrap();
    }
    for id in 0..999 {
        unsettled.settle(id);
    }
    unsettled.shrink();
    assert!(unsettled.entries.capacity() < 10, "{}", unsettled.entries.capacity());
    assert_eq!(add(&mut unsettled, 0, 2_000, &999u32.to_be_bytes()), Err(UnsettledError::DuplicateTag));
    unsettled.settle(999);
    unsettled.shrink();
    assert_eq!(unsettled.entries.capacity(), 0);
}

#[test]
fn an_id_too_far_ahead_of_the_oldest_is_refused() {
    let mut unsettled = Unsettled::default();
    add(&mut unsettled, 0, 0, b"a").unwrap();
    add(&mut unsettled, 0, 0x7fff_ffff, b"b").unwrap();
    assert!(matches!(add(&mut unsettled, 0, 0x8000_0001, b"c"), Err(UnsettledError::IdNotNext { .. })));
}

#[test]
fn a_link_that_goes_takes_its_deliveries_with_it() {
    let mut unsettled = Unsettled::default();
    for id in 0..10 {
        add(&mut unsettled, id % 2, id, &id.to_be_bytes()).unwrap();
    }
    unsettled.forget_link(0);
    let left: Vec<u32> = unsettled.range(0, 9).collect();
    assert_eq!((left, unsettled.len()), (vec![1, 3, 5, 7, 9], 5));
}

#[test]
fn ranges_cost_the_kept_deliveries_and_not_their_width() {
    let mut unsettled = Unsettled::default();
    for id in [u32::MAX - 1, u32::MAX, 0, 7] {
        add(&mut unsettled, 0, id, &id.to_be_bytes()).unwrap();
    }
    let cases: [(u32, u32, &[u32]); 5] = [
        (u32::MAX, 0, &[u32::MAX, 0]),
        (0, 0x7fff_0000, &[0, 7]),
        (0x9000_0000, 7, &[u32::MAX - 1, u32::MAX, 0, 7]),
        (8, 100, &[]),
        (0, u32::MAX, &[]),
    ];
    for case @ (first, last, expected) in cases {
        let got: Vec<u32> = unsettled.range(first, last).collect();
        assert_eq!(got, expected, "{case:?}");
    }
}

#[test]
fn deliveries_whose_ids_do_not_go_up_are_told_by_the_ids_they_came_with() {
    let mut unsettled = Unsettled::default();
    let wires = [5, 5, 7, 6, 7, 20];
    let ids = wires.map(|wire| {
        let id = unsettled.note_id(wire, false).unwrap();
        unsettled.insert(SEED, 0, (id, wire), tag(b"same"), false).unwrap();
        id
    });
    assert_eq!(ids, [5, 6, 7, 8, 9, 20], "here they go up, and those that do are what they are there");
    for (first, last, expected) in [(5, 5, vec![5, 6]), (6, 7, vec![7, 8, 9]), (0, 99, ids.to_vec())] {
        assert_eq!(unsettled.range(first, last).collect::<Vec<_>>(), expected, "{first} to {last}");
    }
    for (id, wire) in ids.into_iter().zip(wires) {
        assert_eq!(unsettled.wire_of(id), Some(wire));
        assert_eq!(unsettled.settle(id), Some((0, wire)));
    }
    assert!(!unsettled.renamed && unsettled.tags.find(hash_tag(SEED, 0, &tag(b"same"))).next().is_none());
}

proptest! {
    #[test]
    fn no_two_unsettled_deliveries_of_a_link_share_a_tag(
        start: u32,
        steps in proptest::collection::vec((0u32..3, 0u8..6, 1u32..4, any::<prop::sample::Index>()), 1..200),
    ) {
        let mut unsettled = Unsettled::default();
        let mut model: Vec<(u32, u32, u8)> = Vec::new();
        let mut id = start;
        for (link, name, step, pick) in steps {
            if link == 2 && !model.is_empty() {
                let (settled, of, _) = model.remove(pick.index(model.len()));
                prop_assert_eq!(unsettled.settle(settled), Some((of, settled)));
            } else {
                id = id.wrapping_add(step);
                let taken = model.iter().any(|&(_, l, n)| (l, n) == (link, name));
                prop_assert_eq!(add(&mut unsettled, link, id, &[name]).is_err(), taken);
                if !taken {
                    model.push((id, link, name));
                }
            }
            prop_assert_eq!(unsettled.len(), model.len());
            for &(id, link, _) in &model {
                let kept = unsettled.entries.iter().find(|entry| entry.id == id).map(|entry| entry.link);
                prop_assert_eq!((unsettled.wire_of(id), kept), (Some(id), Some(link)));
            }
        }
    }
}
