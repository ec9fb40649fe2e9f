//! Each promise is broken here on purpose, and the model must notice.

use super::*;

const NOW: u64 = 1_000;

/// An accepted send group of one message for each of these lists of entities.
fn sent(model: &mut CoreModel, new_messages: &[&[EntityIndex]]) -> (u64, Vec<Id>) {
    let group = model.new_send_group();
    let ids = new_messages.iter().map(|entities| model.put(group, entities, NOW)).collect();
    model.accepted(group);
    (group, ids)
}

/// A send group whose answer went with a crash; it completes a message at entity 0, too.
fn unanswered(model: &mut CoreModel) -> (Id, Id) {
    let (_, done) = sent(model, &[&[0]]);
    let done = done.first().copied().expect("one was sent");
    assert_eq!(model.delivered(done, 0, 1, NOW), Ok(()));
    let group = model.new_send_group();
    let id = model.put(group, &[1], NOW);
    model.completes(group, done, 0);
    model.unanswered(group);
    (id, done)
}

fn assert_broken(found: Result<(), Broken>, promise: &str) {
    let broken = found.expect_err(promise);
    assert!(broken.promise.contains(promise), "{broken}");
}

#[test]
fn a_place_that_a_message_missed_and_one_that_is_not_its_own_are_noticed() {
    let mut model = CoreModel::default();
    let (_, ids) = sent(&mut model, &[&[1, 2]]);
    assert_eq!(model.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(model.delivered(ids[0], 3, 1, NOW), "arrives where it belongs");
    assert_broken(model.check_drained(), "arrives at each of its places");
    assert_eq!(model.delivered(ids[0], 2, 1, NOW), Ok(()));
    assert_eq!(model.check_drained(), Ok(()));
}

#[test]
fn half_a_parcel_is_noticed() {
    let mut model = CoreModel::default();
    let group = model.new_send_group();
    let ids = [1, 2].map(|entity| model.put(group, &[entity], NOW));
    model.unanswered(group);
    assert_eq!(model.check_drained(), Ok(()), "nobody knows whether it was sent");
    assert_eq!(model.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(model.check_drained(), "whole or not at all");
}

#[test]
fn a_second_copy_and_one_after_the_end_are_noticed() {
    let mut model = CoreModel::default();
    let (_, ids) = sent(&mut model, &[&[1]]);
    assert_eq!(model.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(model.delivered(ids[0], 1, 2, NOW), "one copy");
    model.completed(ids[0], 1);
    assert_broken(model.delivered(ids[0], 1, 1, NOW), "never comes back");
}

#[test]
fn refused_cancelled_and_early_deliveries_are_noticed() {
    let mut model = CoreModel::default();
    let refused = model.new_send_group();
    let id = model.put(refused, &[1], NOW);
    assert_eq!(model.refused(refused), Ok(()));
    assert_broken(model.delivered(id, 1, 1, NOW), "does not exist");
    let (cancelled, ids) = sent(&mut model, &[&[1]]);
    assert_broken(model.delivered(ids[0], 1, 2, NOW - 1), "before it is due");
    model.cancelling(cancelled);
    assert_eq!(model.cancelled(cancelled), Ok(()));
    assert_broken(model.delivered(ids[0], 1, 2, NOW), "does not exist");
    let (fired, ids) = sent(&mut model, &[&[1]]);
    assert_eq!(model.delivered(ids[0], 1, 3, NOW), Ok(()));
    assert_broken(model.cancelled(fired), "cannot be cancelled");
}

#[test]
fn a_session_out_of_order_is_noticed() {
    let mut model = CoreModel::default();
    let (_, ids) = sent(&mut model, &[&[1], &[1]]);
    assert_eq!(model.in_session("s", ids[1], 1, 2), Ok(()));
    assert_broken(model.in_session("s", ids[0], 1, 1), "keeps its order");
    model.passing_hidden();
    assert_eq!(model.in_session("s", ids[0], 1, 1), Ok(()), "it was hidden");
}

#[test]
fn a_transaction_that_was_done_in_part_is_noticed() {
    // It arrived, and its completion did not happen.
    let mut model = CoreModel::default();
    let (id, done) = unanswered(&mut model);
    assert_eq!(model.delivered(done, 0, 1, NOW), Ok(()));
    assert_eq!(model.delivered(id, 1, 1, NOW), Ok(()));
    assert_broken(model.check_drained(), "has completed it");
    // It did not arrive, and its completion happened.
    let mut model = CoreModel::default();
    unanswered(&mut model);
    assert_broken(model.check_drained(), "has not completed it");
    // All of it, and nothing of it.
    let mut model = CoreModel::default();
    let (id, _) = unanswered(&mut model);
    assert_eq!(model.delivered(id, 1, 1, NOW), Ok(()));
    assert_eq!(model.check_drained(), Ok(()));
    let mut model = CoreModel::default();
    let (_, done) = unanswered(&mut model);
    assert_eq!(model.delivered(done, 0, 1, NOW), Ok(()));
    assert_eq!(model.check_drained(), Ok(()));
}
