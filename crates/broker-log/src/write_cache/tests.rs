use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::owner::Weights;

/// Appends `length` bytes of `fill` at `at`, as a record with an empty header.
fn append(recent: &mut WriteCache, at: u64, length: usize, fill: u8) -> u64 {
    let stored = length + RECORD_HEADER_LEN;
    if !recent.continues(at, stored) {
        recent.freeze();
        recent.begin(at, at, stored);
    }
    recent.push(Owner::default(), [fill; RECORD_HEADER_LEN], &[], &[&vec![fill; length]]);
    at + stored as u64
}

proptest! {
    #[test]
    fn every_living_record_from_the_first_that_is_held_is_found_at_its_position(
        records in prop::collection::vec((0_usize..60_000, 0_u64..3, any::<bool>(), 0_usize..20), 1..60),
        keep in 0_u64..500_000,
    ) {
        let mut recent = WriteCache::new(64);
        let mut at = 64;
        let mut placed = Vec::new();
        let mut dead = BTreeSet::new();
        for (number, (length, gap, freeze, dies)) in records.iter().enumerate() {
            at += gap * 64;
            let fill = u8::try_from(number).unwrap();
            placed.push((at, length + RECORD_HEADER_LEN, fill));
            at = append(&mut recent, at, *length, fill);
            if let Some((at, stored, _)) = placed.iter().rev().nth(*dies)
                && dead.insert(*at)
            {
                recent.release(*at, *stored as u64);
            }
            if *freeze {
                recent.freeze();
                recent.note_written(at);
                recent.shrink(keep, at, &Weights::default());
            }
        }
        recent.freeze();
        let start = recent.start;
        let held: u64 = recent.chunks.iter().flat_map(|chunk| &chunk.pieces).map(|piece| piece.bytes.len() as u64).sum();
        prop_assert!(recent.bytes() >= held);
        prop_assert!(recent.bytes() <= recent.chunks.len() as u64 * CHUNK_BYTES as u64);
        // In order, as readers go, and then back and forth.
        let again: Vec<_> = placed.iter().copied().rev().collect();
        for (at, stored, fill) in placed.into_iter().chain(again) {
            // Whatever is asked for: what is there, what is not, and more than there is.
            recent.prefetch([at, at + 1, at - 1, 0, u64::MAX].into_iter().map(|at| (at, stored)));
            recent.prefetch([(at, usize::MAX), (at, 0)].into_iter());
            match recent.holding(at) {
                Some((bytes, place)) if at >= start => {
                    prop_assert!(bytes[place..place + stored].iter().all(|byte| *byte == fill));
                }
                Some(_) => prop_assert!(false, "{} is before {}", at, start),
                None => prop_assert!(at < start || dead.contains(&at)),
            }
            match recent.piece_at_or_after(at) {
                Some(piece) if dead.contains(&at) => prop_assert!(at < piece.end()),
                Some(piece) => prop_assert!(piece.start <= at && at < piece.end()),
                None => prop_assert!(at < start || dead.contains(&at)),
            }
        }
    }
}

proptest! {
    #[test]
    fn chunks_are_found_however_long_each_is_and_wherever_it_begins(
        lengths in prop::collection::vec((1_u64..5, 0_u64..3), 0..40),
        looks in prop::collection::vec(0_u64..200, 20),
    ) {
        let mut recent = WriteCache::new(0);
        let mut at = 3;
        for (length, gap) in lengths {
            at += gap * 7;
            // Lengths that double and double again: the average says little of where one of them lies.
            let end = at + (1 << (4 * length));
            recent.chunks.push_back(Chunk { end, ..Chunk::begin(at) });
            at = end;
        }
        for look in looks {
            let at = at * look / 199;
            let expected = recent.chunks.iter().rposition(|chunk| chunk.start <= at);
            prop_assert_eq!(recent.chunk_around(at), expected, "{}", at);
        }
        prop_assert_eq!(recent.chunk_around(u64::MAX), recent.chunks.len().checked_sub(1));
    }
}

#[test]
fn unwritten_records_are_never_forgotten() {
    let mut recent = WriteCache::new(0);
    let mut at = 0;
    for _ in 0..100 {
        at = append(&mut recent, at, 10_000, 1);
    }
    recent.freeze();
    recent.shrink(0, 0, &Weights::default());
    assert_eq!(recent.bytes(), at);
    recent.shrink(0, at, &Weights::default());
    assert!(recent.bytes() <= CHUNK_BYTES as u64);
    assert!(recent.holding(0).is_none() && recent.piece_at_or_after(0).is_none());
}

#[test]
fn memory_is_used_again_as_soon_as_nobody_reads_it() {
    let mut recent = WriteCache::new(0);
    let mut at = 0;
    for _ in 0..40 {
        at = append(&mut recent, at, 10_000, 1);
        recent.freeze();
    }
    let held = recent.holding(0).unwrap().0.clone();
    recent.shrink(0, at, &Weights::default());
    assert_eq!(recent.chunks.len(), 1, "the last stays");
    let kept = recent.unused.len();
    for _ in 1..kept {
        at = append(&mut recent, at, CHUNK_BYTES - RECORD_HEADER_LEN, 2);
    }
    assert_eq!(recent.unused.len(), 1, "the first is read");
    at = append(&mut recent, at, CHUNK_BYTES - RECORD_HEADER_LEN, 2);
    assert_eq!(recent.unused.len(), 1);
    assert!(held.iter().all(|byte| *byte == 1));
    let place = held.as_ptr();
    drop(held);
    append(&mut recent, at, CHUNK_BYTES - RECORD_HEADER_LEN, 3);
    assert!(recent.unused.is_empty());
    assert!(recent.open.as_ptr().addr().abs_diff(place.addr()) < BLOCK_BYTES);
}

/// Appends records that fill a chunk, each of which is frozen at once; says where they lie, and where the last one ends.
fn fill_chunk(recent: &mut WriteCache, at: u64) -> (Vec<u64>, u64) {
    const SIZE: usize = CHUNK_BYTES / 8 - RECORD_HEADER_LEN;
    let places = (0..8).map(|number| at + number * (CHUNK_BYTES / 8) as u64).collect();
    let mut end = at;
    for _ in 0..8 {
        end = append(recent, end, SIZE, 1);
        recent.freeze();
    }
    (places, end)
}

#[test]
fn dead_written_records_give_their_memory_back_before_they_are_forgotten() {
    const RECORD: u64 = (CHUNK_BYTES / 8) as u64;
    let mut recent = WriteCache::new(0);
    let (first, end) = fill_chunk(&mut recent, 0);
    let (second, end) = fill_chunk(&mut recent, end);
    let (third, end) = fill_chunk(&mut recent, end);
    assert_eq!(recent.bytes(), end);
    for at in second.iter().chain(&third) {
        recent.release(*at, RECORD);
    }
    assert_eq!(recent.bytes(), end, "the disk may still need it");
    recent.note_written(end);
    assert_eq!(recent.bytes(), 2 * CHUNK_BYTES as u64, "the second is dead, to the last more may come");
    assert_eq!(recent.unused.len(), 1);
    assert!(recent.is_held(0), "what lives is here");
    assert!(recent.holding(first[7]).is_some() && recent.holding(second[0]).is_none());
    assert_eq!(recent.piece_at_or_after(second[0]).map(|piece| piece.start), Some(third[0]));
    for at in &first {
        recent.release(*at, RECORD);
    }
    assert_eq!(recent.bytes(), CHUNK_BYTES as u64, "written before it died");
    assert_eq!(recent.unused.len(), 2);
    recent.forget_before(third[0]);
    assert_eq!((recent.chunks.len(), recent.bytes(), recent.given_back), (1, CHUNK_BYTES as u64, 0));
    assert!(!recent.is_held(first[7]) && recent.is_held(third[0]));
}

#[test]
fn one_living_record_keeps_its_chunk() {
    let mut recent = WriteCache::new(0);
    let (places, end) = fill_chunk(&mut recent, 0);
    let (_, end) = fill_chunk(&mut recent, end);
    recent.note_written(end);
    for at in places.iter().skip(1) {
        recent.release(*at, (CHUNK_BYTES / 8) as u64);
    }
    assert_eq!(recent.bytes(), end);
    assert!(recent.holding(places[0]).is_some());
}

#[test]
fn a_record_larger_than_a_chunk_gets_its_own_and_is_not_kept_for_use_again() {
    let mut recent = WriteCache::new(0);
    let at = append(&mut recent, 0, 1 << 20, 1);
    let end = append(&mut recent, at, 10, 2);
    recent.freeze();
    assert_eq!(recent.holding(0).unwrap().0.len(), (1 << 20) + RECORD_HEADER_LEN);
    recent.shrink(0, end, &Weights::default());
    assert!(recent.unused.is_empty());
    assert!(recent.holding(at).is_some());
}

#[test]
fn bytes_between_batches_count_as_memory() {
    let mut recent = WriteCache::new(0);
    let mut at = 128;
    for number in 0..1_000_u64 {
        let end = append(&mut recent, at, 36, 1);
        recent.freeze();
        assert_eq!(recent.bytes(), number * 128 + end - at);
        // The padding of this batch and the header of the next.
        at += 128;
    }
}
