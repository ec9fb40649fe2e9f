//! Each promise is broken here on purpose, and the model must notice.

mod deletions;

use std::fmt::Debug;

use super::*;
use RollbackEffect::{Held, Returned, Uncertain};

const NOW: u64 = 1_000;

/// Delivery of the only copy of a message, as a receiver sees it.
fn observed(id: Id, entity: EntityIndex) -> ObservedDelivery {
    ObservedDelivery {
        id,
        entity,
        location: Location::Home,
        incarnations: Incarnations { first: 0, last: Some(0) },
        dead_letter: false,
        by_number: false,
        expired: false,
        enqueued: NOW,
        handed_out: Some(NOW),
        session: None,
        sequence: id,
        origin: None,
        delivery_count: 0,
        locked_until: Some(NOW + 100),
        holder: 1,
        now: NOW,
    }
}

fn in_session(id: Id, holder: u64) -> ObservedDelivery {
    ObservedDelivery { session: Some(0), holder, ..observed(id, 0) }
}

/// A message that the broker has accepted, at these entities.
fn sent(model: &mut Model, entities: &[EntityIndex]) -> Id {
    let group = model.send_groups.begin();
    let entities: Vec<_> = entities.iter().map(|entity| (*entity, None, None)).collect();
    let id = model.sending(group, &entities, SendPath::default());
    model.accepted(group).expect("nothing was seen");
    id
}

/// Accepted messages of session 0 at entity 0, numbered from 1.
fn session_of(count: usize) -> Model {
    let mut model = Model::default();
    for _ in 0..count {
        let group = model.send_groups.begin();
        model.sending(group, &[(0, Some(0), None)], SendPath::default());
        model.accepted(group).expect("nothing was seen");
    }
    model
}

/// Received and completed.
fn taken(model: &mut Model, id: Id, entity: EntityIndex) {
    assert_eq!(model.delivered(observed(id, entity)), Ok(true));
    model.messages.settling((id, entity), 1, SettlementKind::Complete);
    model.messages.completed((id, entity));
}

fn assert_broken<T: Debug>(found: Result<T, Broken>, promise: &str) {
    let broken = found.expect_err(promise);
    assert!(broken.promise.contains(promise), "{broken}");
}

#[test]
fn a_message_without_a_copy_in_a_matching_subscription_is_missed() {
    let mut model = Model::default();
    let id = sent(&mut model, &[1, 2]);
    taken(&mut model, id, 1);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    taken(&mut model, id, 2);
    assert_eq!(model.check_drained(NOW), Ok(()));
}

#[test]
fn a_copy_where_no_rule_matches_is_noticed() {
    let mut model = Model::default();
    let id = sent(&mut model, &[1, 2]);
    assert_broken(model.delivered(observed(id, 3)), "only where it belongs");
}

#[test]
fn a_second_copy_is_noticed_before_and_after_the_first_is_completed() {
    let mut model = Model::default();
    let id = sent(&mut model, &[1]);
    assert_eq!(model.delivered(observed(id, 1)), Ok(true));
    model.messages.settling((id, 1), 1, SettlementKind::Return);
    let second = ObservedDelivery { sequence: 77, ..observed(id, 1) };
    assert_broken(model.delivered(second), "one copy at each place");
    model.messages.completed((id, 1));
    assert_broken(model.delivered(second), "settled stays settled");
}

#[test]
fn a_delivery_count_that_falls_is_noticed_and_one_that_stays_or_grows_is_not() {
    let mut model = Model::default();
    let id = sent(&mut model, &[1]);
    // Released, abandoned, and lost three times unseen; then one failure is forgotten.
    for (delivery_count, holds) in [(0, true), (0, true), (1, true), (4, true), (3, false)] {
        let found = model.delivered(ObservedDelivery { delivery_count, ..observed(id, 1) });
        if holds {
            assert_eq!(found, Ok(true), "{delivery_count}");
            model.messages.settling((id, 1), 1, SettlementKind::Return);
        } else {
            assert_broken(found, "delivery counts never fall");
        }
    }
}

#[test]
fn a_copy_that_shows_that_its_message_was_stored_demands_the_others() {
    let mut model = Model::default();
    let group = model.send_groups.begin();
    let id = model.sending(group, &[(1, None, None), (2, None, None)], SendPath::default());
    assert_eq!(model.check_drained(NOW), Ok(()), "nobody knows whether it was stored");
    taken(&mut model, id, 1);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
}

#[test]
fn two_holders_of_a_session_are_noticed() {
    let mut model = session_of(1);
    assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
    assert_broken(model.sessions.granted((0, 0), 2, NOW + 150, NOW + 50), "one holder");
    assert_eq!(model.sessions.granted((0, 0), 2, NOW + 300, NOW + 200), Ok(()), "the first lock is over");
    assert_broken(model.delivered(in_session(1, 1)), "the holder of its session");
    model.released((0, 0), 2).unwrap();
    assert_eq!(model.sessions.granted((0, 0), 3, NOW + 400, NOW + 201), Ok(()));
}

#[test]
fn a_message_of_another_session_is_noticed() {
    let mut model = session_of(1);
    assert_eq!(model.sessions.granted((0, 4), 1, NOW + 100, NOW), Ok(()));
    assert_broken(
        model.delivered(ObservedDelivery { session: Some(4), ..in_session(1, 1) }),
        "comes with its session",
    );
}

#[test]
fn a_session_out_of_order_is_noticed() {
    let mut model = session_of(3);
    assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
    assert_eq!(model.delivered(in_session(2, 1)), Ok(true));
    assert_broken(model.delivered(in_session(1, 1)), "a session keeps its order");
}

#[test]
fn a_message_that_was_hidden_comes_after_those_behind_it() {
    let mut model = session_of(3);
    assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
    model.sessions.passing_hidden();
    assert_eq!(model.delivered(in_session(2, 1)), Ok(true));
    model.sessions.restarted();
    assert_eq!(model.sessions.granted((0, 0), 2, NOW + 100, NOW), Ok(()));
    assert_eq!(model.delivered(ObservedDelivery { holder: 2, ..in_session(1, 1) }), Ok(true));
}

#[test]
fn a_message_that_comes_again_behind_later_ones_is_noticed() {
    let mut model = session_of(2);
    assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
    assert_eq!(model.delivered(in_session(1, 1)), Ok(true));
    assert_eq!(model.delivered(in_session(2, 1)), Ok(true));
    model.released((0, 0), 1).unwrap();
    assert_eq!(model.sessions.granted((0, 0), 2, NOW + 100, NOW), Ok(()));
    assert_broken(model.delivered(in_session(2, 2)), "when messages come again");
}

#[test]
fn a_session_goes_on_where_it_was_when_its_earlier_messages_are_settled() {
    let mut model = session_of(3);
    assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
    assert_eq!(model.delivered(in_session(1, 1)), Ok(true));
    assert_eq!(model.delivered(in_session(2, 1)), Ok(true));
    model.messages.settling((1, 0), 1, SettlementKind::Complete);
    model.messages.settling((2, 0), 1, SettlementKind::DeadLetter);
    model.released((0, 0), 1).unwrap();
    assert_eq!(model.sessions.granted((0, 0), 2, NOW + 100, NOW), Ok(()));
    assert_eq!(model.delivered(in_session(3, 2)), Ok(true));
}

#[test]
fn a_lost_session_state_is_noticed() {
    let mut model = session_of(0);
    let session = (0, 0);
    assert_eq!(model.sessions.granted(session, 1, NOW + 100, NOW), Ok(()));
    model.sessions.setting_state(session, Some(7));
    model.sessions.state_set(session, 1, Some(7));
    model.restarted(NOW);
    assert_eq!(model.sessions.granted(session, 2, NOW + 100, NOW), Ok(()));
    assert_broken(model.sessions.state_told(session, 2, None), "the state of a session survives");
    assert_eq!(model.sessions.state_told(session, 2, Some(7)), Ok(()));
    model.sessions.setting_state(session, None);
    assert_eq!(model.sessions.state_told(session, 2, None), Ok(()), "nobody knows whether it was cleared");
    assert_broken(model.sessions.state_told(session, 2, Some(7)), "the state of a session survives");
    model.sessions.state_set(session, 1, Some(8));
    assert_eq!(model.sessions.state_told(session, 2, None), Ok(()), "the first holder's answer comes late");
}

#[test]
fn a_delivery_of_a_message_with_a_renewed_lock_is_noticed() {
    let mut model = Model::default();
    let id = sent(&mut model, &[0]);
    assert_eq!(model.delivered(observed(id, 0)), Ok(true));
    model.messages.renewed((id, 0), 1, NOW + 5_000);
    let other =
        ObservedDelivery { holder: 2, now: NOW + 4_000, locked_until: Some(NOW + 9_000), ..observed(id, 0) };
    assert_broken(model.delivered(other), "two live locks");
    let later = ObservedDelivery { now: NOW + 5_000, ..other };
    assert_eq!(model.delivered(later), Ok(true));
}

#[test]
fn a_grant_of_a_session_with_a_renewed_lock_is_noticed() {
    let mut model = session_of(1);
    assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
    model.session_renewed((0, 0), 2, NOW + 900);
    model.session_renewed((0, 0), 1, NOW + 500);
    assert_broken(model.sessions.granted((0, 0), 2, NOW + 600, NOW + 400), "one holder");
    assert_eq!(model.sessions.granted((0, 0), 2, NOW + 700, NOW + 500), Ok(()));
}

/// A message that came too late is held all the same, where the session was renewed while it travelled.
#[test]
fn a_message_that_came_too_late_is_not_new_when_it_comes_again() {
    for came_before in [true, false] {
        let mut model = session_of(2);
        assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
        if came_before {
            let late = ObservedDelivery { locked_until: Some(NOW - 1), ..in_session(1, 1) };
            assert_eq!(model.delivered(late), Ok(false));
        }
        assert_eq!(model.delivered(in_session(2, 1)), Ok(true));
        let again = model.delivered(in_session(1, 1));
        if came_before {
            assert_eq!(again, Ok(true));
        } else {
            assert_broken(again, "a session keeps its order");
        }
    }
}

#[test]
fn a_receiver_whose_delivery_came_too_late_may_have_the_next_one_of_its_session() {
    for came_again in [true, false] {
        let mut model = session_of(2);
        assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
        assert_eq!(model.delivered(in_session(1, 1)), Ok(true));
        assert_eq!(model.released((0, 0), 1), Ok(()));
        assert_eq!(model.sessions.granted((0, 0), 2, NOW + 100, NOW), Ok(()));
        if came_again {
            let late = ObservedDelivery { locked_until: Some(NOW - 1), ..in_session(1, 2) };
            assert_eq!(model.delivered(late), Ok(false));
        }
        let next = model.delivered(in_session(2, 2));
        if came_again {
            assert_eq!(next, Ok(true));
        } else {
            assert_broken(next, "its order when messages come again");
        }
    }
}

#[test]
fn a_transaction_that_commits_without_its_session_is_noticed() {
    for told_before in [false, true] {
        let mut model = session_of(1);
        assert_eq!(model.sessions.granted((0, 0), 1, NOW + 100, NOW), Ok(()));
        assert_eq!(model.delivered(in_session(1, 1)), Ok(true));
        let group = model.send_groups.begin();
        assert_eq!(model.enlisting(group, (1, 0), 1, Uncertain), Ok(()));
        if told_before {
            model.ending(group);
        }
        assert_eq!(model.released((0, 0), 1), Ok(()));
        if told_before {
            assert_eq!(model.accepted(group), Ok(()), "it was told to commit before");
        } else {
            assert_broken(model.accepted(group), "lost a lock does not commit");
        }
    }
}

/// A transaction that sends a message to entity 1 and another to entity 2, and completes one at entity 0.
fn transaction(model: &mut Model) -> (SendGroupId, [Id; 3]) {
    let done = sent(model, &[0]);
    assert_eq!(model.delivered(observed(done, 0)), Ok(true));
    let group = model.send_groups.begin();
    let first = model.sending(group, &[(1, None, None)], SendPath::default());
    let second = model.sending(group, &[(2, None, None)], SendPath::default());
    assert_eq!(model.enlisting(group, (done, 0), 1, Uncertain), Ok(()));
    model.ending(group);
    (group, [first, second, done])
}

#[test]
fn a_committed_transaction_of_which_a_part_is_missing_is_noticed() {
    let mut model = Model::default();
    let (group, [first, second, done]) = transaction(&mut model);
    assert_eq!(model.accepted(group), Ok(()));
    taken(&mut model, first, 1);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    taken(&mut model, second, 2);
    assert_eq!(model.check_drained(NOW), Ok(()));
    assert_broken(model.delivered(observed(done, 0)), "settled stays settled");
}

#[test]
fn a_part_of_a_transaction_that_was_rolled_back_is_noticed() {
    let mut model = Model::default();
    let (group, [first, _, done]) = transaction(&mut model);
    assert_eq!(model.undone(group), Ok(()));
    assert_broken(model.delivered(observed(first, 1)), "refused, rolled back or cancelled");
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    taken(&mut model, done, 0);
    assert_eq!(model.check_drained(NOW), Ok(()));
}

#[test]
fn half_of_a_transaction_whose_end_nobody_saw_is_noticed() {
    // One message arrived, and the other did not.
    let mut model = Model::default();
    let (_, [first, ..]) = transaction(&mut model);
    taken(&mut model, first, 1);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    // A sent message arrived, and the completed one is there.
    let mut model = Model::default();
    let (_, [first, _, done]) = transaction(&mut model);
    taken(&mut model, first, 1);
    assert_broken(model.delivered(observed(done, 0)), "settled stays settled");
    // The completed message is there, and a sent one arrived.
    let mut model = Model::default();
    let (_, [first, _, done]) = transaction(&mut model);
    taken(&mut model, done, 0);
    assert_broken(model.delivered(observed(first, 1)), "refused, rolled back or cancelled");
    // The completed message is gone, and no sent one arrived.
    let mut model = Model::default();
    transaction(&mut model);
    assert_broken(model.check_drained(NOW), "has completed nothing");
}

#[test]
fn a_transaction_whose_message_may_have_expired_can_have_committed() {
    let mut model = Model::default();
    let done = sent(&mut model, &[0]);
    assert_eq!(model.delivered(observed(done, 0)), Ok(true));
    let group = model.send_groups.begin();
    model.sending(
        group,
        &[(1, None, Some(Lifetime { since: NOW, ttl: 10, dead_letters: false }))],
        SendPath::default(),
    );
    assert_eq!(model.enlisting(group, (done, 0), 1, Uncertain), Ok(()));
    assert_broken(model.check_drained(NOW + 9), "has completed nothing");
    assert_eq!(model.check_drained(NOW + 10), Ok(()));
}

#[test]
fn a_receiver_keeps_its_message_when_the_transaction_ends_that_had_it() {
    let mut model = Model::default();
    let done = sent(&mut model, &[0]);
    assert_eq!(model.delivered(observed(done, 0)), Ok(true));
    let (early, late) = (model.send_groups.begin(), model.send_groups.begin());
    assert_eq!(model.enlisting(early, (done, 0), 1, Uncertain), Ok(()));
    let after = NOW + 100;
    let got =
        ObservedDelivery { holder: 2, locked_until: Some(after + 100), now: after, ..observed(done, 0) };
    assert_eq!(model.delivered(got), Ok(true));
    model.ending(early);
    assert_eq!(model.enlisting(late, (done, 0), 2, Uncertain), Ok(()));
    assert_eq!(model.accepted(late), Ok(()), "it has the lock");
    assert_broken(model.accepted(early), "does not commit");
}

#[test]
fn a_commit_without_the_lock_is_noticed() {
    let mut model = Model::default();
    let (group, [_, _, done]) = transaction(&mut model);
    assert_eq!(model.delivered(ObservedDelivery { holder: 2, ..observed(done, 0) }), Ok(true));
    assert_broken(model.accepted(group), "does not commit");
}

/// An operation that is refused later undoes all before it: whose messages are free then, and who loses them.
#[test]
fn messages_in_a_transaction_may_come_again_and_then_it_does_not_commit() {
    for rollback in [Returned, Uncertain, Held] {
        let mut model = Model::default();
        let done = sent(&mut model, &[0]);
        assert_eq!(model.delivered(observed(done, 0)), Ok(true));
        let group = model.send_groups.begin();
        assert_eq!(model.enlisting(group, (done, 0), 1, rollback), Ok(()));
        let again = model.delivered(observed(done, 0));
        if rollback == Returned {
            assert_eq!(again, Ok(true), "its message is free at once");
            assert_broken(model.accepted(group), "does not commit");
        } else {
            assert_broken(again, "two live locks");
        }
    }
}

#[test]
fn a_rollback_that_takes_a_message_from_the_client_that_has_not_settled_it_is_noticed() {
    for (rollback, noticed) in [(Returned, false), (Uncertain, false), (Held, true)] {
        let mut model = Model::default();
        let done = sent(&mut model, &[0]);
        assert_eq!(model.delivered(observed(done, 0)), Ok(true));
        let group = model.send_groups.begin();
        assert_eq!(model.enlisting(group, (done, 0), 1, rollback), Ok(()));
        model.ending(group);
        assert_eq!(model.undone(group), Ok(()));
        let again = model.delivered(ObservedDelivery { holder: 2, ..observed(done, 0) });
        if noticed {
            assert_broken(again, "two live locks");
        } else {
            assert_eq!(again, Ok(true), "{rollback:?}");
        }
    }
}

#[test]
fn messages_that_a_rollback_leaves_are_settled_like_any_other() {
    let mut model = Model::default();
    let done = sent(&mut model, &[0]);
    assert_eq!(model.delivered(observed(done, 0)), Ok(true));
    let group = model.send_groups.begin();
    assert_eq!(model.enlisting(group, (done, 0), 1, Held), Ok(()));
    model.ending(group);
    assert_eq!(model.undone(group), Ok(()));
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    model.messages.settling((done, 0), 1, SettlementKind::Complete);
    model.messages.completed((done, 0));
    assert_eq!(model.check_drained(NOW), Ok(()));
    assert_broken(model.delivered(observed(done, 0)), "settled stays settled");
}

/// A schedule of two messages at entity 1, due at the time of `NOW`.
fn schedule(model: &mut Model) -> (SendGroupId, [Id; 2]) {
    let group = model.send_groups.begin();
    model.send_groups.scheduling(group, NOW);
    let ids = [(); 2].map(|()| model.sending(group, &[(1, None, None)], SendPath::default()));
    (group, ids)
}

#[test]
fn a_schedule_that_fires_early_is_noticed() {
    let mut model = Model::default();
    let (_, [first, _]) = schedule(&mut model);
    assert_broken(
        model.delivered(ObservedDelivery { now: NOW - 1, ..observed(first, 1) }),
        "before it is due",
    );
    assert_eq!(model.delivered(observed(first, 1)), Ok(true));
}

#[test]
fn a_cancelled_schedule_that_fires_is_noticed() {
    let mut model = Model::default();
    let (group, [first, _]) = schedule(&mut model);
    assert_eq!(model.accepted(group), Ok(()));
    model.send_groups.cancelling(group);
    assert_eq!(model.send_groups.cancelled(group), Ok(()));
    assert_eq!(model.check_drained(NOW), Ok(()), "nothing has to arrive");
    assert_broken(model.delivered(observed(first, 1)), "refused, rolled back or cancelled");
}

#[test]
fn cancelling_a_message_that_has_fired_is_noticed_and_so_is_half_a_cancellation() {
    let mut model = Model::default();
    let (group, [first, _]) = schedule(&mut model);
    assert_eq!(model.accepted(group), Ok(()));
    model.send_groups.cancelling(group);
    assert_eq!(model.check_drained(NOW), Ok(()), "nobody knows whether it was cancelled");
    taken(&mut model, first, 1);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    assert_broken(model.send_groups.cancelled(group), "what has fired cannot be cancelled");
}

#[test]
fn a_schedule_that_was_not_cancelled_and_never_fires_is_noticed() {
    let mut model = Model::default();
    let (group, _) = schedule(&mut model);
    assert_eq!(model.accepted(group), Ok(()));
    model.send_groups.cancelling(group);
    model.send_groups.not_cancelled(group);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
}

#[test]
fn a_duplicate_inside_the_window_is_noticed() {
    let mut model = Model::default();
    let group = model.send_groups.begin();
    let id = model.sending(group, &[(1, None, None)], SendPath::default());
    model.accepted(group).expect("nothing was seen");
    assert!(model.send_groups.sending_again(group));
    assert_eq!(model.undone(group), Ok(()), "a refusal of the second says nothing of the first");
    taken(&mut model, id, 1);
    assert_broken(
        model.delivered(ObservedDelivery { sequence: 77, ..observed(id, 1) }),
        "settled stays settled",
    );
}

#[test]
fn a_deferred_message_in_the_order_is_noticed() {
    let mut model = Model::default();
    let id = sent(&mut model, &[1]);
    assert_eq!(model.delivered(observed(id, 1)), Ok(true));
    model.messages.settling((id, 1), 1, SettlementKind::Defer);
    model.messages.deferred((id, 1), 1);
    assert_broken(model.delivered(observed(id, 1)), "by its number only");
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    assert_eq!(model.to_fetch(1), [((id, 1), id)]);
    assert_eq!(
        model.delivered(ObservedDelivery { by_number: true, locked_until: None, ..observed(id, 1) }),
        Ok(true)
    );
    assert_eq!(model.check_drained(NOW), Ok(()));
}

#[test]
fn a_deferral_that_is_confirmed_late_says_nothing_of_the_next_holder() {
    let mut model = Model::default();
    let id = sent(&mut model, &[1]);
    for holder in [1, 2] {
        assert_eq!(model.delivered(ObservedDelivery { holder, ..observed(id, 1) }), Ok(true));
        model.messages.settling((id, 1), holder, SettlementKind::Defer);
    }
    model.messages.deferred((id, 1), 1);
    assert_eq!(model.delivered(ObservedDelivery { holder: 3, ..observed(id, 1) }), Ok(true));
    model.messages.settling((id, 1), 3, SettlementKind::Defer);
    model.messages.deferred((id, 1), 3);
    assert_broken(model.delivered(observed(id, 1)), "by its number only");
}

#[test]
fn a_message_of_the_order_that_comes_by_its_number_is_noticed() {
    let mut model = Model::default();
    let id = sent(&mut model, &[1]);
    assert_broken(
        model.delivered(ObservedDelivery { by_number: true, ..observed(id, 1) }),
        "only a deferred message",
    );
}

#[test]
fn a_deferred_message_that_was_not_there_is_missed_unless_somebody_else_completes_it_meanwhile() {
    for completed in [false, true] {
        let mut model = Model::default();
        let id = sent(&mut model, &[1]);
        assert_eq!(model.delivered(observed(id, 1)), Ok(true));
        model.messages.settling((id, 1), 1, SettlementKind::Defer);
        let visits = model.messages.taking((id, 1)).expect("it is there to be asked for");
        assert_eq!(model.check_drained(NOW), Ok(()), "the answer may be lost");
        if completed {
            model.messages.settling((id, 1), 2, SettlementKind::Complete);
        }
        model.messages.not_taken((id, 1), visits);
        if completed {
            assert_eq!(model.check_drained(NOW), Ok(()));
        } else {
            assert_broken(model.check_drained(NOW), "an accepted message survives");
        }
    }
}

/// A message with so many milliseconds to live from `NOW` on, at entity 1.
fn ttl_percent(model: &mut Model, ttl: u64, dead_letters: bool) -> Id {
    let group = model.send_groups.begin();
    let id = model.sending(
        group,
        &[(1, None, Some(Lifetime { since: NOW, ttl, dead_letters }))],
        SendPath::default(),
    );
    model.accepted(group).expect("nothing was seen");
    id
}

/// A message with a key, as it is seen with a number of this partition.
fn of_partition(model: &mut Model, key: Session, partition: u64) -> ObservedDelivery {
    let id = sent(model, &[0]);
    model.messages.keyed(id, key);
    ObservedDelivery { sequence: partition << 48 | id, ..observed(id, 0) }
}

#[test]
fn a_number_outside_of_its_partition_is_noticed() {
    let partitioned = || Model::new(BTreeMap::new(), [0].into());
    for (partition, fits) in [(0, false), (1, true), (16, true), (17, false)] {
        let mut model = partitioned();
        let observed = of_partition(&mut model, 1, partition);
        assert_eq!(model.delivered(observed).is_ok(), fits, "partition {partition}");
    }
    let mut model = partitioned();
    let observed = of_partition(&mut model, 1, 5);
    assert_eq!(model.delivered(observed), Ok(true));
    model.restarted(NOW);
    let observed = of_partition(&mut model, 1, 6);
    assert_broken(model.delivered(observed), "one key, one partition");
    let observed = of_partition(&mut model, 2, 6);
    assert_eq!(model.delivered(observed), Ok(true), "another key");
}

#[test]
fn a_number_of_a_partition_where_there_is_none_is_noticed() {
    let mut model = Model::default();
    let observed = of_partition(&mut model, 1, 1);
    assert_broken(model.delivered(observed), "only where there are some");
}

/// A model in which the dead letters of entities 0 and 1 are forwarded to entity 2.
fn with_grave() -> Model {
    Model::new([(0, 2), (1, 2)].into(), BTreeSet::new())
}

/// A message of entity 0 as it is seen where its dead letters go.
fn buried(id: Id) -> ObservedDelivery {
    ObservedDelivery { location: Location::DeadLetterTarget(2), sequence: 40 + id, ..observed(id, 0) }
}

#[test]
fn a_dead_letter_that_is_where_it_was_and_where_it_was_forwarded_to_is_noticed() {
    let transfer =
        |id| ObservedDelivery { location: Location::Transfer, dead_letter: true, ..observed(id, 0) };
    let second: [fn(Id) -> ObservedDelivery; 4] = [
        |id| observed(id, 0),
        |id| ObservedDelivery { dead_letter: true, ..observed(id, 0) },
        transfer,
        |id| ObservedDelivery { sequence: 77, ..buried(id) },
    ];
    for (row, second) in second.into_iter().enumerate() {
        let mut model = with_grave();
        let id = sent(&mut model, &[0]);
        assert_eq!(model.delivered(observed(id, 0)), Ok(true));
        model.messages.settling((id, 0), 1, SettlementKind::DeadLetter);
        assert_eq!(model.home(id, 2), (0, Location::DeadLetterTarget(2)));
        assert_eq!(model.delivered(buried(id)), Ok(true));
        model.messages.settling((id, 0), 1, SettlementKind::Return);
        let promise = if row < 3 { "a message is in one place" } else { "one copy at each place" };
        assert_broken(model.delivered(second(id)), promise);
        model.messages.completed((id, 0));
        assert_broken(model.delivered(second(id)), "settled stays settled");
    }
}

#[test]
fn a_dead_letter_that_was_forwarded_and_is_not_there_is_missed() {
    let mut model = with_grave();
    let id = sent(&mut model, &[0]);
    assert_eq!(model.delivered(observed(id, 0)), Ok(true));
    model.messages.settling((id, 0), 1, SettlementKind::DeadLetter);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    assert_eq!(model.delivered(ObservedDelivery { locked_until: None, ..buried(id) }), Ok(true));
    assert_eq!(model.check_drained(NOW), Ok(()));
}

#[test]
fn a_dead_letter_is_told_apart_from_messages_sent_to_the_same_entity() {
    let mut model = with_grave();
    let [own, forwarded] = [2, 1].map(|entity| sent(&mut model, &[entity]));
    assert_eq!(model.home(own, 2), (2, Location::Home));
    assert_eq!(model.home(forwarded, 2), (1, Location::DeadLetterTarget(2)));
    assert_eq!(model.home(forwarded, 1), (1, Location::Home));
    let there = ObservedDelivery { location: Location::DeadLetterTarget(2), ..observed(forwarded, 1) };
    assert_eq!(model.delivered(ObservedDelivery { sequence: 5, ..there }), Ok(true));
    assert_broken(model.delivered(ObservedDelivery { sequence: 5, ..observed(own, 2) }), "never repeat");
}

#[test]
fn a_dead_letter_that_is_forwarded_under_lock_is_noticed() {
    let mut model = with_grave();
    let id = sent(&mut model, &[0]);
    assert_eq!(model.delivered(observed(id, 0)), Ok(true));
    assert_broken(model.delivered(buried(id)), "two live locks");
}

#[test]
fn a_dead_letter_that_forgets_its_first_number_is_noticed() {
    let mut model = with_grave();
    let id = sent(&mut model, &[0]);
    assert_eq!(model.delivered(ObservedDelivery { origin: Some(id), ..observed(id, 0) }), Ok(true));
    model.messages.settling((id, 0), 1, SettlementKind::DeadLetter);
    let forgets = ObservedDelivery { origin: Some(40 + id), ..buried(id) };
    assert_broken(model.delivered(forgets), "keeps its first number");
    assert_eq!(model.delivered(ObservedDelivery { origin: Some(id), ..buried(id) }), Ok(true));
}

#[test]
fn a_dead_letter_is_gone_with_where_it_went_and_not_with_where_it_came_from() {
    for (deleted, missed) in [(0, true), (2, false)] {
        let mut model = with_grave();
        let id = sent(&mut model, &[0]);
        assert_eq!(model.delivered(buried(id)), Ok(true));
        model.messages.settling((id, 0), 1, SettlementKind::Return);
        model.lifetimes.deleting(deleted);
        model.lifetimes.deleted(deleted);
        assert_eq!(model.check_drained(NOW).is_err(), missed, "place {deleted}");
    }
}

#[test]
fn a_dead_letter_that_comes_out_of_a_deleted_place_is_noticed() {
    let mut model = with_grave();
    let id = sent(&mut model, &[0]);
    assert_eq!(model.delivered(buried(id)), Ok(true));
    model.messages.settling((id, 0), 1, SettlementKind::Return);
    model.lifetimes.deleting(2);
    model.lifetimes.deleted(2);
    let again = ObservedDelivery { incarnations: Incarnations { first: 1, last: Some(1) }, ..buried(id) };
    assert_broken(model.delivered(again), "nothing of a deleted entity");
}

#[test]
fn a_message_that_is_handed_out_after_its_time_is_noticed() {
    let mut model = Model::default();
    let id = ttl_percent(&mut model, 10, true);
    let after = |past| ObservedDelivery { handed_out: Some(NOW + past), ..observed(id, 1) };
    assert_broken(model.delivered(after(10)), "nothing comes after its time");
    assert_eq!(model.delivered(after(9)), Ok(true));
}

#[test]
fn a_message_that_expires_before_its_time_is_noticed() {
    let mut model = Model::default();
    let id = ttl_percent(&mut model, 10, true);
    let dead = ObservedDelivery { dead_letter: true, expired: true, ..observed(id, 1) };
    assert_broken(model.delivered(ObservedDelivery { now: NOW + 9, ..dead }), "before its time");
    assert_eq!(model.delivered(ObservedDelivery { now: NOW + 10, ..dead }), Ok(true));
}

#[test]
fn a_message_that_expired_is_missed_among_the_dead_letters() {
    for (dead_letters, missed) in [(true, true), (false, false)] {
        let mut model = Model::default();
        ttl_percent(&mut model, 10, dead_letters);
        assert!(model.check_drained(NOW + 9).is_err());
        assert_eq!(model.check_drained(NOW + 10).is_err(), missed, "dead letters: {dead_letters}");
    }
}

#[test]
fn a_held_message_that_a_crash_has_counted_is_noticed() {
    let held = |until: u64| {
        let mut model = Model::default();
        let id = sent(&mut model, &[0]);
        let first = ObservedDelivery { delivery_count: 2, locked_until: Some(until), ..observed(id, 0) };
        assert_eq!(model.delivered(first), Ok(true));
        model.restarted(NOW);
        (model, ObservedDelivery { delivery_count: 2, holder: 2, ..observed(id, 0) })
    };
    let counted = |again: ObservedDelivery| ObservedDelivery { delivery_count: 3, ..again };
    let promise = "with the count that it had";
    let (mut model, again) = held(u64::MAX);
    assert_broken(model.delivered(counted(again)), promise);
    let (mut model, again) = held(u64::MAX);
    assert_eq!(model.delivered(again), Ok(true));
    // A second delivery is one after another receiver: its count is the other's.
    let (mut model, again) = held(u64::MAX);
    assert_eq!(model.delivered(ObservedDelivery { locked_until: Some(NOW + 1), ..again }), Ok(true));
    assert_eq!(model.delivered(ObservedDelivery { now: NOW + 2, ..counted(again) }), Ok(true));
    let (mut model, again) = held(NOW + 100);
    assert_eq!(model.delivered(counted(again)), Ok(true), "its lock may have run out");
    let (mut model, again) = held(u64::MAX);
    let later = NOW + crate::plan::LOCK_DURATION_MIN_MS;
    let late = ObservedDelivery { now: later, locked_until: Some(later + 100), ..counted(again) };
    assert_eq!(model.delivered(late), Ok(true), "the lock of a delivery that nobody saw may have run out");
}
