//! Each promise is broken here on purpose, and the send groups must notice.

use super::*;

const NOW: u64 = 1_000;

/// An accepted send group of one message for each of these lists of entities.
fn sent(groups: &mut CoreModel, new_messages: &[&[EntityIndex]]) -> (u64, Vec<Id>) {
    let group = groups.new_send_group();
    let ids = new_messages.iter().map(|entities| groups.put(group, entities, NOW)).collect();
    groups.accepted(group);
    (group, ids)
}

/// A send group whose answer went with a crash; it completes a message at entity 0, too.
fn unanswered(groups: &mut CoreModel) -> (Id, Id) {
    let (_, done) = sent(groups, &[&[0]]);
    let done = done.first().copied().expect("one was sent");
    assert_eq!(groups.delivered(done, 0, 1, NOW), Ok(()));
    let group = groups.new_send_group();
    let id = groups.put(group, &[1], NOW);
    groups.completes(group, done, 0);
    groups.unanswered(group);
    (id, done)
}

fn assert_broken(found: Result<(), Broken>, promise: &str) {
    let broken = found.expect_err(promise);
    assert!(broken.promise.contains(promise), "{broken}");
}

#[test]
fn a_place_that_a_message_missed_and_one_that_is_not_its_own_are_noticed() {
    let mut groups = CoreModel::default();
    let (_, ids) = sent(&mut groups, &[&[1, 2]]);
    assert_eq!(groups.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(groups.delivered(ids[0], 3, 1, NOW), "arrives where it belongs");
    assert_broken(groups.check_drained(), "arrives at each of its places");
    assert_eq!(groups.delivered(ids[0], 2, 1, NOW), Ok(()));
    assert_eq!(groups.check_drained(), Ok(()));
}

#[test]
fn half_a_parcel_is_noticed() {
    let mut groups = CoreModel::default();
    let group = groups.new_send_group();
    let ids = [1, 2].map(|entity| groups.put(group, &[entity], NOW));
    groups.unanswered(group);
    assert_eq!(groups.check_drained(), Ok(()), "nobody knows whether it was sent");
    assert_eq!(groups.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(groups.check_drained(), "whole or not at all");
}

#[test]
fn a_second_copy_and_one_after_the_end_are_noticed() {
    let mut groups = CoreModel::default();
    let (_, ids) = sent(&mut groups, &[&[1]]);
    assert_eq!(groups.delivered(ids[0], 1, 1, NOW), Ok(()));
    assert_broken(groups.delivered(ids[0], 1, 2, NOW), "one copy");
    groups.completed(ids[0], 1);
    assert_broken(groups.delivered(ids[0], 1, 1, NOW), "never comes back");
}

#[test]
fn refused_cancelled_and_early_deliveries_are_noticed() {
    let mut groups = CoreModel::default();
    let refused = groups.new_send_group();
    let id = groups.put(refused, &[1], NOW);
    groups.refused(refused);
    assert_broken(groups.delivered(id, 1, 1, NOW), "never arrives");
    let (cancelled, ids) = sent(&mut groups, &[&[1]]);
    assert_broken(groups.delivered(ids[0], 1, 2, NOW - 1), "before it is due");
    groups.cancelling(cancelled);
    assert_eq!(groups.cancelled(cancelled), Ok(()));
    assert_broken(groups.delivered(ids[0], 1, 2, NOW), "never arrives");
    let (fired, ids) = sent(&mut groups, &[&[1]]);
    assert_eq!(groups.delivered(ids[0], 1, 3, NOW), Ok(()));
    assert_broken(groups.cancelled(fired), "cannot be cancelled");
}

#[test]
fn a_session_out_of_order_is_noticed() {
    let mut groups = CoreModel::default();
    let (_, ids) = sent(&mut groups, &[&[1], &[1]]);
    assert_eq!(groups.in_session("s", ids[1], 1, 2), Ok(()));
    assert_broken(groups.in_session("s", ids[0], 1, 1), "keeps its order");
}

#[test]
fn a_transaction_that_was_done_in_part_is_noticed() {
    // It arrived, and its completion did not happen.
    let mut groups = CoreModel::default();
    let (id, done) = unanswered(&mut groups);
    assert_eq!(groups.delivered(done, 0, 1, NOW), Ok(()));
    assert_eq!(groups.delivered(id, 1, 1, NOW), Ok(()));
    assert_broken(groups.check_drained(), "has completed it");
    // It did not arrive, and its completion happened.
    let mut groups = CoreModel::default();
    unanswered(&mut groups);
    assert_broken(groups.check_drained(), "has not completed it");
    // All of it, and nothing of it.
    let mut groups = CoreModel::default();
    let (id, _) = unanswered(&mut groups);
    assert_eq!(groups.delivered(id, 1, 1, NOW), Ok(()));
    assert_eq!(groups.check_drained(), Ok(()));
    let mut groups = CoreModel::default();
    let (_, done) = unanswered(&mut groups);
    assert_eq!(groups.delivered(done, 0, 1, NOW), Ok(()));
    assert_eq!(groups.check_drained(), Ok(()));
}
