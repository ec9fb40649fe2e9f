use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn id(number: u8) -> Digest {
    Digest([number; 16])
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

proptest! {
    #[test]
    fn places_are_a_map(
        seed: u64,
        steps in proptest::collection::vec((0u8..20, 0u8..3, 0u64..5), 0..200),
    ) {
        let (mut places, mut model) = (Places::new(seed), BTreeMap::new());
        for (number, step, time) in steps {
            match step {
                0 => {
                    places.insert(id(number), at(time));
                    model.insert(number, time);
                }
                1 => {
                    places.remove(&id(number), at(time));
                    if model.get(&number) == Some(&time) {
                        model.remove(&number);
                    }
                }
                _ => places.shrink(),
            }
            for number in 0..20 {
                prop_assert_eq!(places.get(&id(number)), model.get(&number).map(|time| at(*time)));
            }
        }
    }
}

#[test]
fn ids_that_share_their_first_bytes_are_spread_over_all_tables() {
    let mut places = Places::new(0x1234_5678_9ABC_DEF1);
    for number in 0u64..32_000 {
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&(number << 32).to_le_bytes());
        places.insert(Digest(bytes), at(number));
    }
    let sizes: Vec<usize> = places.shards.iter().map(Shard::len).collect();
    assert!(sizes.iter().all(|size| (500..2_000).contains(size)), "{sizes:?}");
}

#[test]
fn room_is_given_up_when_the_ids_are_gone() {
    let mut places = Places::new(3);
    let ids: Vec<Digest> = (0u64..10_000).map(|n| Digest::of("", &n.to_string())).collect();
    for id in &ids {
        places.insert(*id, at(1));
    }
    for id in &ids {
        places.remove(id, at(1));
    }
    places.shrink();
    let room: usize = places.shards.iter().map(Shard::capacity).sum();
    assert!(room <= SHARDS * SLACK, "{room}");
}

#[test]
fn a_time_comes_back_as_it_went_in() {
    for millis in [0, 1, 1_700_000_000_123, (1 << 48) - 1] {
        assert_eq!(Millis::of(at(millis)).timestamp(), at(millis));
    }
}
