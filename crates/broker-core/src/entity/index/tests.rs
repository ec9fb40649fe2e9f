use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn key(number: u32) -> Box<str> {
    format!("q{number:04}").into()
}

fn all(ordered: &Ordered, start: &PageStart) -> Vec<QueueId> {
    ordered.from(start).collect()
}

/// Whether the list is that of the model, from every place and behind every name.
fn check(ordered: &Ordered, model: &BTreeMap<Box<str>, QueueId>, places: &[u32]) {
    let expected: Vec<QueueId> = model.values().copied().collect();
    assert_eq!(ordered.len(), expected.len());
    assert!(ordered.pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE_MAX));
    for place in places.iter().map(|place| *place as usize).chain([0, expected.len(), expected.len() + 1]) {
        let skipped: Vec<QueueId> = expected.iter().skip(place).copied().collect();
        assert_eq!(all(ordered, &PageStart::Skip(place as u64)), skipped, "skip {place}");
    }
    for number in places {
        let name = key(*number);
        let behind = (std::ops::Bound::Excluded(&*name), std::ops::Bound::Unbounded);
        let expected: Vec<QueueId> = model.range::<str, _>(behind).map(|(_, queue)| *queue).collect();
        assert_eq!(
            all(ordered, &PageStart::Behind(name.to_ascii_uppercase().into())),
            expected,
            "behind {name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_list_is_that_of_a_plain_map(
        changes in proptest::collection::vec((any::<bool>(), 0u32..1_500), 0..60),
        filled in 0u32..1_400,
        places in proptest::collection::vec(0u32..1_600, 1..6),
    ) {
        let (mut ordered, mut model) = (Ordered::default(), BTreeMap::new());
        // Enough for several pieces, in an order that splits them everywhere.
        let first = (0..filled).map(|number| (true, number * 7 % 1_500));
        for (number, (enters, name)) in first.chain(changes).enumerate() {
            if enters {
                let queue = QueueId(u32::try_from(number).unwrap());
                ordered.insert(key(name), queue);
                model.insert(key(name), queue);
            } else {
                ordered.remove(&key(name));
                model.remove(&key(name));
            }
        }
        check(&ordered, &model, &places);
        for name in model.keys() {
            ordered.remove(name);
        }
        prop_assert!(ordered.pieces.is_empty() && ordered.len() == 0);
    }
}

#[test]
fn a_piece_is_split_when_it_has_one_too_many() {
    let mut ordered = Ordered::default();
    let fill = u32::try_from(PIECE_MAX).unwrap();
    (0..fill).for_each(|number| ordered.insert(key(number), QueueId(number)));
    assert_eq!(ordered.pieces.len(), 1);
    ordered.insert(key(fill), QueueId(fill));
    assert_eq!(ordered.pieces.iter().map(Vec::len).collect::<Vec<_>>(), [PIECE_MAX / 2, PIECE_MAX / 2 + 1]);
    let last = u64::try_from(PIECE_MAX).unwrap();
    assert_eq!(all(&ordered, &PageStart::Skip(last)), [QueueId(fill)]);
}
