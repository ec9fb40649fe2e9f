use proptest::prelude::*;

use super::*;

/// Appends `length` bytes of `fill` at `at`, as a record with an empty header.
fn append(recent: &mut Recent, at: u64, length: usize, fill: u8) -> u64 {
    let stored = length + RECORD_HEADER_LEN;
    if !recent.continues(at, stored) {
        recent.freeze();
        recent.begin(at, stored);
    }
    recent.push([fill; RECORD_HEADER_LEN], &[], &[&vec![fill; length]]);
    at + stored as u64
}

proptest! {
    #[test]
    fn every_record_from_the_first_that_is_held_is_found_at_its_position(
        records in prop::collection::vec((0_usize..60_000, 0_u64..3, any::<bool>()), 1..60),
        keep in 0_u64..500_000,
    ) {
        let mut recent = Recent::new(64);
        let mut at = 64;
        let mut placed = Vec::new();
        for (number, (length, gap, freeze)) in records.iter().enumerate() {
            at += gap * 64;
            let fill = u8::try_from(number).unwrap();
            placed.push((at, length + RECORD_HEADER_LEN, fill));
            at = append(&mut recent, at, *length, fill);
            if *freeze {
                recent.freeze();
                recent.shrink(keep, at);
            }
        }
        recent.freeze();
        let start = recent.start;
        // In order, as readers go, and then back and forth.
        let again: Vec<_> = placed.iter().copied().rev().collect();
        for (at, stored, fill) in placed.into_iter().chain(again) {
            // Whatever is asked for: what is there, what is not, and more than there is.
            recent.fetch([at, at + 1, at - 1, 0, u64::MAX].into_iter().map(|at| (at, stored)));
            recent.fetch([(at, usize::MAX), (at, 0)].into_iter());
            match recent.holding(at) {
                Some((bytes, place)) if at >= start => {
                    prop_assert!(bytes[place..place + stored].iter().all(|byte| *byte == fill));
                }
                Some(_) => prop_assert!(false, "{} is before {}", at, start),
                None => prop_assert!(at < start),
            }
            match recent.piece_at_or_after(at) {
                Some(piece) => prop_assert!(piece.start <= at && at < piece.end()),
                None => prop_assert!(at < start),
            }
        }
    }
}

#[test]
fn unwritten_records_are_never_forgotten() {
    let mut recent = Recent::new(0);
    let mut at = 0;
    for _ in 0..100 {
        at = append(&mut recent, at, 10_000, 1);
    }
    recent.freeze();
    recent.shrink(0, 0);
    assert_eq!(recent.bytes(), at);
    recent.shrink(0, at);
    assert!(recent.bytes() <= CHUNK_BYTES as u64);
    assert!(recent.holding(0).is_none() && recent.piece_at_or_after(0).is_none());
}

#[test]
fn buffers_are_used_again_unless_somebody_reads_them() {
    let mut recent = Recent::new(0);
    let mut at = 0;
    for _ in 0..40 {
        at = append(&mut recent, at, 10_000, 1);
        recent.freeze();
    }
    let held = recent.holding(0).unwrap().0.clone();
    let chunks = recent.chunks.len();
    recent.shrink(0, at);
    assert_eq!(recent.unused.len(), chunks - 2, "the last stays, the first is held");
    assert!(recent.unused.iter().all(BytesMut::is_empty));
    append(&mut recent, at, CHUNK_BYTES / 2, 2);
    append(&mut recent, at, CHUNK_BYTES / 2, 2);
    assert!(held.iter().all(|byte| *byte == 1));
}

#[test]
fn a_record_larger_than_a_chunk_gets_its_own_and_is_not_kept_for_use_again() {
    let mut recent = Recent::new(0);
    let at = append(&mut recent, 0, 1 << 20, 1);
    let end = append(&mut recent, at, 10, 2);
    recent.freeze();
    assert_eq!(recent.holding(0).unwrap().0.len(), (1 << 20) + RECORD_HEADER_LEN);
    recent.shrink(0, end);
    assert!(recent.unused.is_empty());
    assert!(recent.holding(at).is_some());
}
