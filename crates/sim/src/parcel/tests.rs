//! Each promise is broken here on purpose, and the parcels must notice.

use super::*;

const NOW: u64 = 1_000;

/// An accepted parcel of one message for each of these lists of places.
fn sent(parcels: &mut Parcels, letters: &[&[Place]]) -> (u64, Vec<Id>) {
    let parcel = parcels.new_parcel();
    let ids = letters.iter().map(|places| parcels.put(parcel, places, NOW)).collect();
    parcels.accepted(parcel);
    (parcel, ids)
}

/// A parcel whose answer went with a crash; it completes a message at place 0, too.
fn unanswered(parcels: &mut Parcels) -> (Id, Id) {
    let (_, done) = sent(parcels, &[&[0]]);
    let done = done.first().copied().expect("one was sent");
    assert_eq!(parcels.delivered(done, 0, 1, NOW), Ok(()));
    let parcel = parcels.new_parcel();
    let id = parcels.put(parcel, &[1], NOW);
    parcels.completes(parcel, done, 0);
    parcels.unanswered(parcel);
    (id, done)
}

fn assert_broken(found: Result<(), Broken>, promise: &str) {
    let broken = found.expect_err(promise);
    assert!(broken.promise.contains(promise), "{broken}");
}

#[test]
fn a_place_that_a_message_missed_and_one_that_is_not_its_own_are_noticed() {
    let mut parcels = Parcels::default();
    let (_, ids) = sent(&mut parcels, &[&[1, 2]]);
    assert_eq!(parcels.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(parcels.delivered(ids[0], 3, 1, NOW), "arrives where it belongs");
    assert_broken(parcels.check_drained(), "arrives at each of its places");
    assert_eq!(parcels.delivered(ids[0], 2, 1, NOW), Ok(()));
    assert_eq!(parcels.check_drained(), Ok(()));
}

#[test]
fn half_a_parcel_is_noticed() {
    let mut parcels = Parcels::default();
    let parcel = parcels.new_parcel();
    let ids = [1, 2].map(|place| parcels.put(parcel, &[place], NOW));
    parcels.unanswered(parcel);
    assert_eq!(parcels.check_drained(), Ok(()), "nobody knows whether it was sent");
    assert_eq!(parcels.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(parcels.check_drained(), "whole or not at all");
}

#[test]
fn a_second_copy_and_one_after_the_end_are_noticed() {
    let mut parcels = Parcels::default();
    let (_, ids) = sent(&mut parcels, &[&[1]]);
    assert_eq!(parcels.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(parcels.delivered(ids[0], 1, 2, NOW), "one copy");
    parcels.completed(ids[0], 1);
    assert_broken(parcels.delivered(ids[0], 1, 1, NOW), "never comes back");
}

#[test]
fn what_was_refused_or_cancelled_and_what_comes_early_is_noticed() {
    let mut parcels = Parcels::default();
    let refused = parcels.new_parcel();
    let id = parcels.put(refused, &[1], NOW);
    parcels.refused(refused);
    assert_broken(parcels.delivered(id, 1, 1, NOW), "never arrives");
    let (cancelled, ids) = sent(&mut parcels, &[&[1]]);
    assert_broken(parcels.delivered(ids[0], 1, 2, NOW - 1), "before it is due");
    parcels.cancelling(cancelled);
    assert_eq!(parcels.cancelled(cancelled), Ok(()));
    assert_broken(parcels.delivered(ids[0], 1, 2, NOW), "never arrives");
    let (fired, ids) = sent(&mut parcels, &[&[1]]);
    assert_eq!(parcels.delivered(ids[0], 1, 3, NOW), Ok(()));
    assert_broken(parcels.cancelled(fired), "cannot be cancelled");
}

#[test]
fn a_session_out_of_order_is_noticed() {
    let mut parcels = Parcels::default();
    let (_, ids) = sent(&mut parcels, &[&[1], &[1]]);
    assert_eq!(parcels.in_session("s", ids[1], 1, 2), Ok(()));
    assert_broken(parcels.in_session("s", ids[0], 1, 1), "keeps its order");
}

#[test]
fn a_transaction_that_was_done_in_part_is_noticed() {
    // It arrived, and its completion did not happen.
    let mut parcels = Parcels::default();
    let (id, done) = unanswered(&mut parcels);
    assert_eq!(parcels.delivered(done, 0, 1, NOW), Ok(()));
    assert_eq!(parcels.delivered(id, 1, 1, NOW), Ok(()));
    assert_broken(parcels.check_drained(), "has completed it");
    // It did not arrive, and its completion happened.
    let mut parcels = Parcels::default();
    unanswered(&mut parcels);
    assert_broken(parcels.check_drained(), "has not completed it");
    // All of it, and nothing of it.
    let mut parcels = Parcels::default();
    let (id, _) = unanswered(&mut parcels);
    assert_eq!(parcels.delivered(id, 1, 1, NOW), Ok(()));
    assert_eq!(parcels.check_drained(), Ok(()));
    let mut parcels = Parcels::default();
    let (_, done) = unanswered(&mut parcels);
    assert_eq!(parcels.delivered(done, 0, 1, NOW), Ok(()));
    assert_eq!(parcels.check_drained(), Ok(()));
}
