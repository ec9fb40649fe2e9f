//! Deleting in bulk (`service-bus-entities` 19).

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, Effect, EntityError, EntityPath, EntitySettings, Message, Outcome, ReceiveMode, SubQueue,
    Timestamp,
};

fn delete(broker: &mut Broker, path: EntityPath, count: u32, before: Timestamp) -> Result<u32, EntityError> {
    let ticket = broker.ticket();
    let told = broker.tell(ME, Command::DeleteMessages { path, session: None, count, before, ticket });
    match told.into_iter().next() {
        Some(Effect::Deleted { count, .. }) => Ok(count),
        Some(Effect::RequestRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_oldest_go_first_and_no_more_than_wanted() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b", "c", "d"]);
    let later = broker.now.after(Duration::from_millis(1));
    assert_eq!(delete(&mut broker, main_path("q"), 0, later), Ok(0));
    assert_eq!(delete(&mut broker, main_path("q"), 2, later), Ok(2));
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    assert_eq!(texts(&broker.lock(9)), ["c", "d"]);
    assert_eq!(delete(&mut broker, main_path("q"), 9, later), Ok(0), "locked ones stay");
    broker.check_liveness();
}

#[test]
fn only_what_was_enqueued_before_the_time_goes() {
    for (cut, deleted) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2)] {
        let mut broker = Broker::with_queue(EntitySettings::default());
        let start = broker.now;
        broker.publish(message("a"));
        broker.wait(1_000);
        broker.publish(message("b"));
        let before = start.after(Duration::from_millis(cut));
        assert_eq!(delete(&mut broker, main_path("q"), 9, before), Ok(deleted), "{cut}");
    }
}

#[test]
fn locked_deferred_and_scheduled_messages_stay() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["locked", "deferred", "returned", "active"]);
    let got = broker.lock(3);
    broker.settle(&got[1], Outcome::Defer(properties(&[]))).unwrap();
    broker.settle(&got[2], Outcome::Abandon(properties(&[]))).unwrap();
    broker.schedule(&["scheduled"], 1_000);
    assert_eq!(delete(&mut broker, main_path("q"), 9, Timestamp::MAX), Ok(2));
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.active, view.locked, view.deferred, view.scheduled), (1, 1, 1, 1));
    assert_eq!(broker.settle(&got[0], Outcome::Complete), Ok(()), "its lock went on");
}

#[test]
fn dead_letters_can_be_purged() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    for delivery in broker.lock(2) {
        broker.settle(&delivery, Outcome::DeadLetter(properties(&[]))).unwrap();
    }
    assert_eq!(delete(&mut broker, dead_letters("q"), 9, Timestamp::MAX), Ok(2));
    assert!(broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 1).is_empty());
    let nowhere = EntityPath { entity: "nowhere".into(), sub_queue: SubQueue::Main };
    let missing = delete(&mut broker, nowhere, 9, Timestamp::MAX);
    assert_eq!(missing, Err(EntityError::NotFound("nowhere".into())));
    broker.check_liveness();
}

#[test]
fn a_deletion_that_passes_over_many_messages_goes_on_where_it_stopped() {
    let mut broker =
        Broker::with_queue(EntitySettings { requires_session: true, ..EntitySettings::default() });
    let of = |session: &str| Message { session_id: Some(session.into()), ..message("m") };
    let queue = broker.queue("q");
    // More than one pump passes over, all of them set aside.
    for _ in 0..25 {
        let messages = (0..500).map(|_| of("aside")).collect();
        broker.tell(ME, Command::PublishBatch { queue, messages, ticket: None });
    }
    for slot in 1..=12_500 {
        broker.core.stores.get_mut(&queue).unwrap().set_state(slot, crate::slot::State::Deferred);
    }
    let messages = vec![of("a"), of("a")];
    broker.tell(ME, Command::PublishBatch { queue, messages, ticket: None });
    broker.journal.make_readable();
    let (ticket, path) = (broker.ticket(), main_path("q"));
    let command = Command::DeleteMessages { path, session: None, count: 9, before: Timestamp::MAX, ticket };
    broker.core.handle(broker.now, ME, command, &mut broker.journal);
    assert!(broker.core.pump(broker.now, &mut broker.journal), "it goes on");
    assert!(broker.take(ME).is_empty(), "not answered yet");
    broker.pump();
    let told = broker.take(ME);
    assert!(matches!(told[..], [Effect::Deleted { count: 2, .. }]), "{told:?}");
}
