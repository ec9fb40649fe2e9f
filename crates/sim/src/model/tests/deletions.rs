//! Each promise about deleted entities is broken here on purpose, and the model must notice.

use super::*;

/// As one sees it who has found the entity after so many deletions.
fn seen_after(deletions: Incarnation, id: Id, entity: EntityIndex) -> ObservedDelivery {
    let incarnations = Incarnations { first: deletions, last: Some(deletions) };
    ObservedDelivery {
        incarnations,
        now: NOW + 1_000 * u64::from(deletions),
        ..lasting(observed(id, entity))
    }
}

fn lasting(observed: ObservedDelivery) -> ObservedDelivery {
    ObservedDelivery { locked_until: Some(NOW + 100_000), ..observed }
}

/// Deletes an entity and creates it again.
fn replace(model: &mut Model, entity: EntityIndex) {
    model.lifetimes.deleting(entity);
    model.lifetimes.deleted(entity);
    model.lifetimes.created(entity);
}

#[test]
fn a_message_that_comes_out_of_the_successor_of_its_entity_is_noticed() {
    let mut model = Model::default();
    let id = sent(&mut model, &[0]);
    model.lifetimes.deleting(0);
    let meanwhile = model.lifetimes.incarnations_since(0, model.lifetimes.first_incarnation(0));
    let early = ObservedDelivery { incarnations: meanwhile, locked_until: Some(NOW), ..observed(id, 0) };
    assert_eq!(model.delivered(early), Ok(false), "nobody knows whether it is deleted");
    model.lifetimes.deleted(0);
    assert_broken(model.delivered(seen_after(1, id, 0)), "nothing of a deleted entity");
}

#[test]
fn only_messages_sent_after_the_last_deletion_have_to_be_there() {
    let mut model = Model::default();
    sent(&mut model, &[0]);
    model.lifetimes.deleting(0);
    sent(&mut model, &[0]);
    assert_eq!(model.check_drained(NOW), Ok(()), "both may have been deleted");
    model.lifetimes.deleted(0);
    model.lifetimes.created(0);
    let late = sent(&mut model, &[0]);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
    assert_eq!(model.delivered(seen_after(1, late, 0)), Ok(true));
    model.messages.completed((late, 0));
    assert_eq!(model.check_drained(NOW), Ok(()));
}

#[test]
fn a_message_on_a_link_of_a_deleted_entity_need_not_come_and_must_not() {
    let mut model = Model::default();
    let link = model.lifetimes.incarnations_since(0, model.lifetimes.first_incarnation(0));
    replace(&mut model, 0);
    let group = model.send_groups.begin();
    let send_path = SendPath { link: Some(link), ..SendPath::default() };
    let id = model.sending(group, &[(0, None, None)], send_path);
    assert_eq!(model.accepted(group), Ok(()));
    assert_eq!(model.check_drained(NOW), Ok(()));
    assert_broken(model.delivered(seen_after(1, id, 0)), "nothing of a deleted entity");
}

#[test]
fn a_message_on_a_link_that_may_be_of_a_deleted_entity_need_not_come() {
    for late in [false, true] {
        let mut model = Model::default();
        model.lifetimes.deleting(0);
        let first = model.lifetimes.first_incarnation(0);
        if !late {
            model.lifetimes.deleted(0);
        }
        let link = model
            .lifetimes
            .incarnations_since(0, if late { first } else { model.lifetimes.first_incarnation(0) });
        model.lifetimes.deleted(0);
        model.lifetimes.created(0);
        let group = model.send_groups.begin();
        let send_path = SendPath { link: Some(link), ..SendPath::default() };
        model.sending(group, &[(0, None, None)], send_path);
        assert_eq!(model.accepted(group), Ok(()));
        assert_eq!(model.check_drained(NOW).is_err(), !late, "the link began before the answer: {late}");
    }
}

#[test]
fn numbers_begin_anew_only_with_a_new_entity() {
    let mut model = Model::default();
    let [first, second] = [(); 2].map(|()| sent(&mut model, &[0]));
    assert_eq!(model.delivered(observed(first, 0)), Ok(true));
    let same = ObservedDelivery { sequence: first, ..observed(second, 0) };
    assert_broken(model.delivered(same), "sequence numbers never repeat");
    replace(&mut model, 0);
    let third = sent(&mut model, &[0]);
    assert_eq!(model.delivered(ObservedDelivery { sequence: first, ..seen_after(1, third, 0) }), Ok(true));
}

#[test]
fn a_link_that_goes_before_its_entity_is_noticed_and_one_that_stays_longer() {
    let mut model = Model::default();
    let link = model.lifetimes.incarnations_since(0, model.lifetimes.first_incarnation(0));
    assert_broken(model.lifetimes.check_left(0, link), "as long as its entity");
    model.lifetimes.deleting(0);
    assert_eq!(model.lifetimes.check_left(0, link), Ok(()));
    assert_eq!(model.lifetimes.check_link(0, link), Ok(()));
    model.lifetimes.deleted(0);
    assert_broken(model.lifetimes.check_link(0, link), "goes with its entity");
}

#[test]
fn a_transaction_that_commits_without_the_entity_of_a_message_is_noticed() {
    for told_before in [false, true] {
        let mut model = Model::default();
        let id = sent(&mut model, &[0]);
        assert_eq!(model.delivered(observed(id, 0)), Ok(true));
        let group = model.send_groups.begin();
        assert_eq!(model.enlisting(group, (id, 0), 1, Uncertain), Ok(()));
        if told_before {
            model.ending(group);
        }
        model.lifetimes.deleting(0);
        assert_eq!(model.detached_by_deletion(0, Incarnations::default(), 1), Ok(()));
        if told_before {
            assert_eq!(model.accepted(group), Ok(()), "it was told to commit before");
        } else {
            assert_broken(model.accepted(group), "does not commit");
        }
    }
}

#[test]
fn half_of_a_transaction_is_missed_unless_its_entity_was_deleted() {
    for deleted in [false, true] {
        let mut model = Model::default();
        let group = model.send_groups.begin();
        let recreated = model.sending(group, &[(0, None, None)], SendPath::default());
        let steady = model.sending(group, &[(1, None, None)], SendPath::default());
        assert_eq!(model.accepted(group), Ok(()));
        taken(&mut model, steady, 1);
        if deleted {
            replace(&mut model, 0);
            assert_eq!(model.check_drained(NOW), Ok(()));
        } else {
            assert_broken(model.check_drained(NOW), "an accepted message survives");
            taken(&mut model, recreated, 0);
        }
    }
}

#[test]
fn a_copy_for_a_subscription_is_missed_unless_there_was_none() {
    for missing in [false, true] {
        let mut model = Model::default();
        model.lifetimes.deleting(0);
        model.lifetimes.deleted(0);
        if !missing {
            model.lifetimes.created(0);
        }
        let group = model.send_groups.begin();
        model.sending(group, &[(0, None, None)], SendPath { copies: true, ..SendPath::default() });
        assert_eq!(model.accepted(group), Ok(()));
        model.lifetimes.created(0);
        assert_eq!(model.check_drained(NOW).is_err(), !missing, "missing: {missing}");
    }
}

#[test]
fn a_message_forwarded_to_a_deleted_entity_is_kept_in_one_place() {
    for kept in [true, false] {
        let mut model = Model::default();
        model.lifetimes.deleting(0);
        model.lifetimes.deleted(0);
        let group = model.send_groups.begin();
        let id = model.sending(group, &[(0, None, None)], SendPath { late: true, ..SendPath::default() });
        assert_eq!(model.accepted(group), Ok(()));
        model.lifetimes.created(0);
        assert_broken(model.check_drained(NOW), "an accepted message survives");
        let there = seen_after(1, id, 0);
        let kept_back = ObservedDelivery {
            location: Location::FailedForward(0),
            dead_letter: true,
            ..lasting(observed(id, 0))
        };
        let (first, second) = if kept { (kept_back, there) } else { (there, kept_back) };
        assert_eq!(model.delivered(first), Ok(true));
        model.messages.settling((id, 0), 1, SettlementKind::Return);
        assert_broken(model.delivered(second), "a message is in one place");
        model.messages.completed((id, 0));
        assert_eq!(model.check_drained(NOW), Ok(()));
    }
}

#[test]
fn a_message_kept_back_is_not_deleted_with_its_destination() {
    let mut model = Model::default();
    let group = model.send_groups.begin();
    let id = model.sending(group, &[(0, None, None)], SendPath { late: true, ..SendPath::default() });
    assert_eq!(model.accepted(group), Ok(()));
    let kept =
        ObservedDelivery { location: Location::FailedForward(0), dead_letter: true, ..observed(id, 0) };
    assert_eq!(model.delivered(kept), Ok(true));
    replace(&mut model, 0);
    assert_broken(model.check_drained(NOW), "an accepted message survives");
}

#[test]
fn a_deletion_whose_answer_is_lost_may_have_happened_or_not() {
    let mut model = Model::default();
    let early = sent(&mut model, &[0]);
    model.lifetimes.deleting(0);
    model.restarted(NOW);
    model.lifetimes.created(0);
    assert!(model.lifetimes.is_deleting(0) && model.lifetimes.is_missing(0), "it is to be asked for again");
    let meanwhile = model.lifetimes.incarnations_since(0, model.lifetimes.first_incarnation(0));
    let late = sent(&mut model, &[0]);
    for id in [early, late] {
        assert_eq!(
            model.delivered(ObservedDelivery { incarnations: meanwhile, ..observed(id, 0) }),
            Ok(true)
        );
    }
    model.lifetimes.deleting(0);
    model.lifetimes.deleted(0);
    assert_eq!(model.check_drained(NOW), Ok(()), "it was asked for again");
}
