use proptest::prelude::*;

use super::*;
use crate::{Position, Timestamp, store::slot::Slot};

fn slot(sequence: u64) -> Slot {
    Slot::new(Position(sequence), 1, Timestamp::default(), Timestamp::MAX)
}

fn positions(slots: &Slots<Slot>) -> Vec<(u64, u64)> {
    slots.iter().map(|(sequence, slot)| (sequence, slot.position.0)).collect()
}

/// Slots for which memory is held, and empty places of the ring.
fn footprint(slots: &Slots<Slot>) -> (usize, usize) {
    let capacity = slots.ring.iter().chain(slots.old.values()).map(|chunk| chunk.slots.capacity()).sum();
    (capacity, slots.ring.len() - slots.occupied)
}

#[derive(Clone, Debug)]
enum Step {
    Next(u8),
    Put(u64),
    Remove(u16),
    RemoveFirst(u8),
    RemoveFrom(u64, u8),
    Jump(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Next),
        1 => (1u64..3_000).prop_map(Step::Put),
        1 => any::<u64>().prop_map(|n| Step::Put(n % (1 << 40) + 1)),
        4 => any::<u16>().prop_map(Step::Remove),
        2 => any::<u8>().prop_map(Step::RemoveFirst),
        1 => (0u64..3_000, any::<u8>()).prop_map(|(from, count)| Step::RemoveFrom(from, count)),
        1 => any::<u32>().prop_map(Step::Jump),
        // About as many chunks as the ring may fill with empty places.
        4 => (0u32..200).prop_map(|chunks| Step::Jump(64 * chunks)),
    ]
}

fn remove(slots: &mut Slots<Slot>, model: &mut BTreeMap<u64, u64>, sequence: u64) {
    let removed = slots.remove(sequence).map(|slot| slot.position.0);
    assert_eq!(removed, model.remove(&sequence));
}

fn take_step(slots: &mut Slots<Slot>, model: &mut BTreeMap<u64, u64>, last: &mut u64, step: &Step) {
    match *step {
        Step::Next(count) => {
            for _ in 0..count {
                *last += 1;
                assert!(slots.insert(*last, slot(*last)).is_none() == model.insert(*last, *last).is_none());
            }
        }
        Step::Put(sequence) => {
            let replaced = slots.insert(sequence, slot(sequence)).map(|slot| slot.position.0);
            assert_eq!(replaced, model.insert(sequence, sequence));
        }
        Step::Remove(pick) => {
            let Some(place) = usize::from(pick).checked_rem(model.len()) else { return };
            let sequence = *model.keys().nth(place).unwrap();
            remove(slots, model, sequence);
        }
        Step::RemoveFirst(count) => {
            for _ in 0..count {
                let Some(sequence) = model.keys().next().copied() else { break };
                remove(slots, model, sequence);
            }
        }
        Step::RemoveFrom(from, count) => {
            let victims: Vec<u64> = model.range(from..).map(|(n, _)| *n).take(usize::from(count)).collect();
            for sequence in victims {
                remove(slots, model, sequence);
            }
        }
        Step::Jump(by) => *last += u64::from(by),
    }
}

proptest! {
    #[test]
    fn it_behaves_as_a_sorted_map(steps in proptest::collection::vec(step(), 0..80), probes in proptest::collection::vec(0u64..3_000, 8)) {
        let (mut slots, mut model, mut last) = (Slots::<Slot>::default(), BTreeMap::new(), 0);
        for step in &steps {
            take_step(&mut slots, &mut model, &mut last, step);
            prop_assert_eq!(slots.len(), model.len());
            let (places, occupied) = (slots.ring.len(), slots.occupied);
            prop_assert!(places <= 2 * occupied + GAP, "{} places for {}", places, occupied);
            for probe in probes.iter().chain([&last]) {
                prop_assert_eq!(slots.get(*probe).map(|slot| slot.position.0), model.get(probe).copied());
                prop_assert_eq!(slots.next(*probe), model.range(probe..).next().map(|(n, _)| *n));
                let end = probe + 100;
                prop_assert_eq!(slots.next_before(*probe, end), model.range(*probe..end).next().map(|(n, _)| *n));
            }
            let mut found = [None; PREFETCH_MAX];
            slots.prefetch(probes.iter().copied(), &mut found);
            let found = found.map(|slot| slot.map(|slot| slot.position.0));
            for (found, probe) in found.iter().zip(&probes) {
                prop_assert_eq!(*found, model.get(probe).copied());
            }
        }
        prop_assert_eq!(positions(&slots), model.into_iter().collect::<Vec<_>>());
        let (capacity, _) = footprint(&slots);
        prop_assert!(slots.kept <= 2 * slots.live + SLACK, "{} kept for {}", slots.kept, slots.live);
        prop_assert!(capacity <= 2 * slots.kept + 4 * slots.ring.len() + 128, "{capacity} held for {}", slots.kept);
    }
}

#[test]
fn one_old_message_does_not_hold_the_memory_of_those_that_came_after_it() {
    let mut slots = Slots::<Slot>::default();
    slots.insert(1, slot(1));
    for sequence in 2..200_000 {
        slots.insert(sequence, slot(sequence));
        if sequence > 100 {
            slots.remove(sequence - 90).unwrap();
        }
    }
    assert_eq!(slots.next(0), Some(1));
    let (capacity, gaps) = footprint(&slots);
    assert!(capacity < 1_000 && gaps < 200, "{capacity} slots, {gaps} gaps");
}

#[test]
fn survivors_of_a_random_clearing_take_their_own_place_only() {
    let mut slots = Slots::<Slot>::default();
    (1..=64_000).for_each(|sequence| assert!(slots.insert(sequence, slot(sequence)).is_none()));
    (1..=64_000).filter(|n| n % 10 != 0).for_each(|sequence| assert!(slots.remove(sequence).is_some()));
    let (capacity, _) = footprint(&slots);
    assert_eq!(slots.len(), 6_400);
    assert!(capacity < 14_000, "{capacity}");
}

#[test]
fn numbers_that_jump_do_not_fill_the_ring_with_empty_places() {
    for chunks in [2, 3, 40, 64, 65, 200] {
        let mut slots = Slots::<Slot>::default();
        let numbers: Vec<u64> = (1..=300).map(|number| number * chunks * CHUNK).collect();
        for number in &numbers {
            slots.insert(*number, slot(*number));
            let (places, occupied) = (slots.ring.len(), slots.occupied);
            assert!(places <= 2 * occupied + GAP, "{chunks}: {places} places for {occupied}");
        }
        assert_eq!(positions(&slots), numbers.iter().map(|number| (*number, *number)).collect::<Vec<_>>());
        assert_eq!(slots.next(numbers[9] + 1), Some(numbers[10]), "{chunks}");
        assert!(numbers.iter().all(|number| slots.remove(*number).is_some()), "{chunks}");
        assert_eq!((slots.len(), slots.old.len()), (0, 0), "{chunks}");
    }
    // One after the other, each further away than all before, as far as the old ones reach.
    let mut slots = Slots::<Slot>::default();
    let mut number = CHUNK;
    for _ in 0..20 {
        slots.insert(number, slot(number));
        number = 2 * number + GAP as u64 * CHUNK;
    }
    assert!(slots.ring.len() <= 2 * slots.occupied + GAP, "{}", slots.ring.len());
}
