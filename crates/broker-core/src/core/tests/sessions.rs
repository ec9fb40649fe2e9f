//! Sessions: locks, their end, and the order of messages (`docs/features/sessions.md`).

use std::time::Duration;

use super::{harness::*, transacting::*};
use crate::{
    AttachError, ClientId, Command, CommitError, CoreConfig, Delivery, Effect, EntityPath, EntitySettings,
    LinkId, Message, Outcome, Properties, PublishError, ReceiveMode, SessionGrant, SessionWanted,
    SettleError, SubQueue, UnsettledPolicy,
};

const LOCK: u64 = 10_000;

fn settings() -> EntitySettings {
    EntitySettings {
        requires_session: true,
        lock_duration: Duration::from_millis(LOCK),
        ..EntitySettings::default()
    }
}

fn broker() -> Broker {
    Broker::with_queue(settings())
}

/// Messages of sessions: `a1` is of session `a`.
fn of_session(text: &str) -> Message {
    Message { session_id: Some(text[..1].into()), ..message(text) }
}

fn with(texts: &[&str]) -> Broker {
    let mut broker = broker();
    publish_to_sessions(&mut broker, texts);
    broker
}

fn publish_to_sessions(broker: &mut Broker, texts: &[&str]) {
    for text in texts {
        broker.publish(of_session(text));
    }
}

fn named(id: &str) -> SessionWanted {
    SessionWanted::Named(id.into())
}

fn next(millis: u64) -> SessionWanted {
    SessionWanted::Next { patience: Duration::from_millis(millis) }
}

fn open(path: EntityPath, link: u32, mode: ReceiveMode, session: Option<SessionWanted>) -> Command {
    let unsettled = UnsettledPolicy::KeepLocks;
    Command::OpenConsumer { consumer: LinkId(link), path, mode, unsettled, session, auto_create: false }
}

/// The answer to an attach, if it has one yet.
fn answer(told: &[Effect]) -> Option<Result<Option<SessionGrant>, AttachError>> {
    told.iter().find_map(|effect| match effect {
        Effect::ConsumerOpened { session, .. } => Some(Ok(session.clone())),
        Effect::AttachRefused { error, .. } => Some(Err(error.clone())),
        _ => None,
    })
}

fn accept_as(
    broker: &mut Broker,
    client: ClientId,
    link: u32,
    session: SessionWanted,
) -> Option<Result<Option<SessionGrant>, AttachError>> {
    answer(&broker.tell(client, open(main_path("q"), link, ReceiveMode::PeekLock, Some(session))))
}

/// Accepts a session and says its id.
fn accept(broker: &mut Broker, link: u32, session: SessionWanted) -> Result<String, AttachError> {
    let answer = accept_as(broker, ME, link, session).expect("an answer");
    answer.map(|grant| grant.expect("a session").id.into())
}

fn close(broker: &mut Broker, link: u32) {
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(link) });
}

/// Accepts a session, takes up to ten messages and keeps it.
fn take(broker: &mut Broker, link: u32, id: &str) -> Vec<Delivery> {
    assert_eq!(accept(broker, link, named(id)).as_deref(), Ok(id));
    broker.credit(ME, link, 10)
}

/// Everything that the next holder is given, with its delivery count.
fn seen_by_next(broker: &mut Broker, id: &str) -> Vec<(String, u32)> {
    let got = take(broker, 900, id);
    let seen = got.iter().map(|delivery| (text(delivery), delivery.stored.delivery_count)).collect();
    close(broker, 900);
    seen
}

fn check(broker: &Broker) {
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

fn nothing() -> Properties {
    Properties::default()
}

#[test]
fn every_message_of_such_an_entity_has_a_session() {
    let longest = "é".repeat(128);
    let cases = [
        (Some("s"), Ok(())),
        (Some(""), Ok(())),
        (Some(&*longest), Ok(())),
        (Some(&*"s".repeat(129)), Err(PublishError::SessionIdTooLong { chars: 129, limit: 128 })),
        (None, Err(PublishError::SessionRequired("q".into()))),
    ]
    .map(|(session, expected)| (session.map(Box::from), expected));
    for (session_id, expected) in cases {
        let mut broker = broker();
        let (queue, ticket) = (broker.queue("q"), Some(broker.ticket()));
        let good = of_session("a1");
        let other = Message { session_id: session_id.clone(), ..message("m") };
        // A batch is taken whole or not at all.
        let messages = vec![good, other.clone()];
        let publish = [
            Command::PublishBatch { queue, messages: messages.clone(), ticket },
            Command::Publish { queue, message: other, ticket },
            Command::PublishTo { path: main_path("q"), messages, auto_create: false, ticket },
        ];
        for (command, stored) in publish.into_iter().zip([2, 1, 2]) {
            let before = broker.active();
            let told = broker.tell(ME, command);
            let found = match told.as_slice() {
                [Effect::Published { .. }] => Ok(()),
                [Effect::PublishRefused { error, .. }] => Err(error.clone()),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{session_id:?}");
            assert_eq!(broker.active() - before, if expected.is_ok() { stored } else { 0 });
        }
        check(&broker);
    }
}

#[test]
fn sessions_are_received_from_by_session_and_nothing_else_is() {
    use ReceiveMode::{Browse, PeekLock, ReceiveAndDelete};
    let required = || Err(AttachError::SessionRequired("q".into()));
    let none = |name: &str| Err(AttachError::NoSessions(name.into()));
    let sub_queue = |name: &str| Err(AttachError::SubQueueSession(name.into()));
    let too_long = || Err(AttachError::SessionIdTooLong { chars: 129, limit: 128 });
    let dead = SubQueue::DeadLetter;
    let main = SubQueue::Main;
    let cases = [
        ("q", main, PeekLock, None, required()),
        ("q", main, ReceiveAndDelete, None, required()),
        ("q", main, Browse, None, Ok(())),
        ("q", main, PeekLock, Some(named("s")), Ok(())),
        ("q", main, ReceiveAndDelete, Some(named("s")), Ok(())),
        ("q", main, Browse, Some(named("s")), none("q")),
        ("q", main, PeekLock, Some(named("")), Ok(())),
        ("q", main, PeekLock, Some(named(&"é".repeat(128))), Ok(())),
        ("q", main, PeekLock, Some(named(&"s".repeat(129))), too_long()),
        ("q", main, PeekLock, Some(next(0)), Err(AttachError::SessionTimeout)),
        ("q", dead, PeekLock, None, Ok(())),
        ("q", dead, PeekLock, Some(named("s")), sub_queue("q")),
        ("q", dead, PeekLock, Some(next(0)), sub_queue("q")),
        ("q", SubQueue::TransferDeadLetter, PeekLock, Some(next(0)), sub_queue("q")),
        ("plain", main, PeekLock, None, Ok(())),
        ("plain", main, PeekLock, Some(named("s")), none("plain")),
        ("plain", main, PeekLock, Some(next(0)), none("plain")),
        ("plain", dead, PeekLock, Some(named("s")), sub_queue("plain")),
    ];
    for (entity, sub_queue, mode, session, expected) in cases {
        let mut broker = broker();
        broker.create("plain", EntitySettings::default());
        let path = EntityPath { entity: entity.into(), sub_queue };
        let told = broker.tell(ME, open(path, 1, mode, session.clone()));
        let found = answer(&told).map(|answer| answer.map(drop));
        assert_eq!(found, Some(expected), "{entity} {sub_queue:?} {mode:?} {session:?}");
    }
}

#[test]
fn the_next_session_is_the_one_with_the_oldest_deliverable_message() {
    let mut broker = with(&["b1", "a2", "b3", "c4", "d5"]);
    // Only a state, only a deferred message: neither counts.
    let b = take(&mut broker, 1, "b");
    broker.settle(&b[0], Outcome::Defer(nothing())).unwrap();
    broker.settle(&b[1], Outcome::Defer(nothing())).unwrap();
    close(&mut broker, 1);
    let c = take(&mut broker, 2, "c");
    let ticket = broker.ticket();
    let (path, state) = (main_path("q"), Some("s".into()));
    broker.tell(ME, Command::SetSessionState { path, session: "c".into(), state, ticket });
    broker.settle(&c[0], Outcome::Complete).unwrap();
    close(&mut broker, 2);
    assert_eq!(accept(&mut broker, 3, next(0)).as_deref(), Ok("a"));
    assert_eq!(accept(&mut broker, 4, next(0)).as_deref(), Ok("d"));
    assert_eq!(accept(&mut broker, 5, next(0)), Err(AttachError::SessionTimeout));
    publish_to_sessions(&mut broker, &["b6"]);
    assert_eq!(accept(&mut broker, 6, next(0)).as_deref(), Ok("b"));
    check(&broker);
}

#[test]
fn a_session_has_one_holder_at_most() {
    let mut broker = with(&["a1"]);
    assert_eq!(take(&mut broker, 1, "a").len(), 1);
    let locked = Some(Err(AttachError::SessionLocked("a".into())));
    assert_eq!(accept_as(&mut broker, OTHER, 1, named("a")), locked);
    assert_eq!(accept_as(&mut broker, ME, 2, named("a")), locked);
    assert_eq!(accept(&mut broker, 3, next(0)), Err(AttachError::SessionTimeout));
    // It has all future messages of the session as well.
    publish_to_sessions(&mut broker, &["a2"]);
    assert_eq!(texts(&broker.received(ME)), ["a2"]);
    close(&mut broker, 1);
    let grant = accept_as(&mut broker, OTHER, 1, named("a")).unwrap().unwrap().unwrap();
    assert_eq!((&*grant.id, grant.until), ("a", broker.now.after(Duration::from_millis(LOCK))));
}

#[test]
fn a_session_may_be_accepted_before_it_has_messages() {
    let mut broker = broker();
    assert_eq!(take(&mut broker, 1, "a").len(), 0);
    publish_to_sessions(&mut broker, &["b1", "a2"]);
    assert_eq!(texts(&broker.received(ME)), ["a2"]);
    check(&broker);
}

#[test]
fn waiting_acceptors_get_sessions_in_order_of_arrival() {
    let mut broker = broker();
    for link in 1..=3 {
        assert_eq!(accept_as(&mut broker, ME, link, next(5_000)), None);
    }
    // Credit that is granted meanwhile counts from the start.
    broker.tell(ME, Command::Credit { consumer: LinkId(2), limit: 1, drain: false });
    publish_to_sessions(&mut broker, &["a1", "a2", "b3"]);
    let told = broker.take(ME);
    let opened: Vec<_> = told
        .iter()
        .filter_map(|effect| match effect {
            Effect::ConsumerOpened { consumer, session, .. } => {
                Some((consumer.0, session.as_ref().unwrap().id.to_string()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(opened, [(1, "a".to_owned()), (2, "b".to_owned())]);
    assert_eq!(texts(&deliveries(told)), ["b3"]);
    let told = broker.tell(ME, Command::CloseConsumer { consumer: LinkId(1) });
    assert_eq!(&*answer(&told).unwrap().unwrap().unwrap().id, "a", "the third had waited for it");
    assert_eq!(accept(&mut broker, 4, next(0)), Err(AttachError::SessionTimeout));
}

#[test]
fn a_released_session_goes_to_a_waiting_acceptor() {
    let mut broker = with(&["a1"]);
    take(&mut broker, 1, "a");
    assert_eq!(accept_as(&mut broker, OTHER, 1, next(5_000)), None);
    close(&mut broker, 1);
    let told = broker.take(OTHER);
    assert_eq!(&*answer(&told).unwrap().unwrap().unwrap().id, "a");
}

#[test]
fn nobody_waits_longer_than_it_said() {
    let mut broker = broker();
    assert_eq!(accept_as(&mut broker, ME, 1, next(5_000)), None);
    assert_eq!(accept_as(&mut broker, ME, 2, next(3_000)), None);
    broker.wait(2_999);
    assert_eq!(answer(&broker.take(ME)), None);
    broker.wait(1);
    let told = broker.take(ME);
    assert!(
        matches!(&told[..], [Effect::AttachRefused { link: LinkId(2), error: AttachError::SessionTimeout }]),
        "{told:?}"
    );
    close(&mut broker, 1);
    broker.wait(5_000);
    assert_eq!(answer(&broker.take(ME)), None, "who has gone is told nothing");
    publish_to_sessions(&mut broker, &["a1"]);
    assert_eq!(accept(&mut broker, 3, next(0)).as_deref(), Ok("a"), "and is given nothing");
    assert_eq!(broker.core.entity("q").unwrap().links, 1);
}

#[test]
fn an_acceptor_that_waits_at_a_deleted_entity_is_refused() {
    let mut broker = with(&["a1"]);
    take(&mut broker, 1, "a");
    assert_eq!(accept_as(&mut broker, OTHER, 7, next(5_000)), None);
    let ticket = broker.ticket();
    let told = broker.tell(ME, Command::DeleteEntity { name: "q".into(), expected: None, ticket });
    assert!(matches!(told[0], Effect::EntityDeleted { link: LinkId(1) }));
    assert_eq!(answer(&broker.take(OTHER)), Some(Err(AttachError::NotFound("q".into()))));
    broker.check_liveness();
}

#[test]
fn a_lock_that_ends_by_itself_counts_and_is_told() {
    let mut broker = with(&["a1", "a2", "a3"]);
    assert_eq!(accept(&mut broker, 1, named("a")).as_deref(), Ok("a"));
    let got = broker.credit(ME, 1, 2);
    broker.wait(LOCK - 1);
    assert!(broker.take(ME).is_empty());
    broker.wait(1);
    let told = broker.take(ME);
    assert!(matches!(&told[..], [Effect::SessionLost { consumer: LinkId(1) }]), "{told:?}");
    for delivery in &got {
        assert_eq!(broker.settle(delivery, Outcome::Complete), Err(SettleError::SessionLockLost));
    }
    let seen = [("a1", 1), ("a2", 1), ("a3", 0)].map(|(text, count)| (text.to_owned(), count));
    assert_eq!(seen_by_next(&mut broker, "a"), seen);
    check(&broker);
}

#[test]
fn the_end_of_a_lock_counts_whether_or_not_its_deadline_was_treated() {
    let mut broker = with(&["a1"]);
    let got = take(&mut broker, 1, "a");
    broker.now = broker.now.after(Duration::from_millis(LOCK));
    assert_eq!(broker.settle(&got[0], Outcome::Complete), Err(SettleError::SessionLockLost));
    let told = broker.take(ME);
    assert!(matches!(&told[..], [Effect::SessionLost { consumer: LinkId(1) }]), "{told:?}");
    publish_to_sessions(&mut broker, &["a2"]);
    assert!(broker.received(ME).is_empty(), "nothing more goes to the late holder");
    // A receiver that asks for it by name gets it.
    let grant = accept_as(&mut broker, OTHER, 2, named("a")).unwrap().unwrap().unwrap();
    assert_eq!(&*grant.id, "a");
    assert!(broker.take(ME).is_empty(), "it is told once");
    let told = broker.tell(OTHER, Command::Credit { consumer: LinkId(2), limit: 5, drain: false });
    let counts: Vec<_> = deliveries(told).iter().map(|it| (text(it), it.stored.delivery_count)).collect();
    assert_eq!(counts, [("a1".to_owned(), 1), ("a2".to_owned(), 0)]);
}

#[test]
fn a_close_after_the_end_of_the_lock_is_too_late_not_to_count() {
    let mut broker = with(&["a1"]);
    take(&mut broker, 1, "a");
    broker.now = broker.now.after(Duration::from_millis(LOCK));
    close(&mut broker, 1);
    assert_eq!(seen_by_next(&mut broker, "a"), [("a1".to_owned(), 1)]);
    check(&broker);
}

#[test]
fn a_session_given_up_returns_its_messages_uncounted_at_once() {
    let mut broker = with(&["a1", "a2", "a3"]);
    let got = take(&mut broker, 1, "a");
    broker.settle(&got[1], Outcome::Complete).unwrap();
    close(&mut broker, 1);
    let seen = [("a1", 0), ("a3", 0)].map(|(text, count)| (text.to_owned(), count));
    assert_eq!(seen_by_next(&mut broker, "a"), seen);
    assert_eq!(broker.settle(&got[0], Outcome::Complete), Err(SettleError::SessionLockLost));
    check(&broker);
}

#[test]
fn the_lock_of_a_lost_client_runs_on() {
    let mut broker = with(&["a1", "a2"]);
    assert_eq!(accept_as(&mut broker, OTHER, 1, named("a")).unwrap().unwrap().unwrap().id, "a".into());
    broker.tell(OTHER, Command::Credit { consumer: LinkId(1), limit: 1, drain: false });
    broker.tell(OTHER, Command::Disconnect);
    assert_eq!(accept(&mut broker, 2, named("a")), Err(AttachError::SessionLocked("a".into())));
    broker.wait(LOCK - 1);
    assert_eq!(accept(&mut broker, 2, named("a")), Err(AttachError::SessionLocked("a".into())));
    broker.wait(1);
    let seen = [("a1", 1), ("a2", 0)].map(|(text, count)| (text.to_owned(), count));
    assert_eq!(seen_by_next(&mut broker, "a"), seen);
    check(&broker);
}

#[test]
fn messages_of_a_session_come_in_order_after_every_outcome_of_earlier_ones() {
    let mut broker = with(&["a1", "a2", "a3", "a4", "a5"]);
    assert_eq!(accept(&mut broker, 1, named("a")).as_deref(), Ok("a"));
    let got = broker.credit(ME, 1, 3);
    assert_eq!(texts(&got), ["a1", "a2", "a3"], "several may be unsettled");
    broker.settle(&got[1], Outcome::Abandon(nothing())).unwrap();
    broker.settle(&got[0], Outcome::Abandon(nothing())).unwrap();
    let again = broker.credit(ME, 1, 5);
    assert_eq!(texts(&again), ["a1", "a2"], "what was given back comes next");
    broker.settle(&again[0], Outcome::Defer(nothing())).unwrap();
    broker.settle(&again[1], Outcome::DeadLetter(nothing())).unwrap();
    broker.settle(&got[2], Outcome::Release(nothing())).unwrap();
    assert_eq!(texts(&broker.credit(ME, 1, 9)), ["a3", "a4", "a5"]);
    assert_eq!(broker.dead().len(), 1);
    check(&broker);
}

#[test]
fn a_message_that_failed_too_often_leaves_its_session() {
    let mut broker = Broker::with_queue(EntitySettings { max_delivery_count: 2, ..settings() });
    publish_to_sessions(&mut broker, &["a1", "a2"]);
    for _ in 0..2 {
        take(&mut broker, 1, "a");
        broker.wait(LOCK);
    }
    broker.take(ME);
    let dead = broker.dead();
    let dead: Vec<_> = dead.iter().map(|(text, reason)| (text.as_str(), reason.as_deref())).collect();
    assert_eq!(dead, [("a1", Some("MaxDeliveryCountExceeded")), ("a2", Some("MaxDeliveryCountExceeded"))]);
    assert_eq!(accept(&mut broker, 2, next(0)), Err(AttachError::SessionTimeout));
    // Dead letters are received like any others.
    let got = broker.receive(dead_letters("q"), ReceiveMode::PeekLock, 5);
    assert_eq!(texts(&got), ["a1", "a2"]);
    assert_eq!(broker.settle(&got[0], Outcome::Complete), Ok(()));
    check(&broker);
}

#[test]
fn received_and_deleted_is_gone_under_a_session_lock_as_well() {
    let mut broker = with(&["a1", "b2", "a3"]);
    let command = open(main_path("q"), 1, ReceiveMode::ReceiveAndDelete, Some(named("a")));
    assert!(answer(&broker.tell(ME, command)).unwrap().is_ok());
    let got = broker.credit(ME, 1, 9);
    assert_eq!(texts(&got), ["a1", "a3"]);
    assert!(got.iter().all(|delivery| delivery.lock.is_none()));
    assert_eq!(broker.active(), 1);
    assert_eq!(
        accept_as(&mut broker, OTHER, 1, named("a")),
        Some(Err(AttachError::SessionLocked("a".into())))
    );
    check(&broker);
}

#[test]
fn the_lock_of_who_receives_and_deletes_goes_on_while_messages_are_taken() {
    let mut broker = with(&["a1", "a2"]);
    let command = open(main_path("q"), 1, ReceiveMode::ReceiveAndDelete, Some(named("a")));
    assert!(answer(&broker.tell(ME, command)).unwrap().is_ok());
    let is_lost = |broker: &mut Broker| {
        broker.wait(LOCK);
        broker.take(ME).iter().any(|effect| matches!(effect, Effect::SessionLost { .. }))
    };
    // Credit for one more than there are: the receiver waits.
    assert_eq!(texts(&broker.credit(ME, 1, 3)), ["a1", "a2"]);
    assert!(!is_lost(&mut broker) && !is_lost(&mut broker));
    let locked = Some(Err(AttachError::SessionLocked("a".into())));
    assert_eq!(accept_as(&mut broker, OTHER, 1, named("a")), locked);
    publish_to_sessions(&mut broker, &["a3"]);
    let got = broker.take(ME);
    assert_eq!(texts(&deliveries(got)), ["a3"]);
    // It has taken one during the lock, and then neither takes nor waits.
    assert!(!is_lost(&mut broker));
    check(&broker);
    assert!(is_lost(&mut broker));
    assert!(accept_as(&mut broker, OTHER, 1, named("a")).unwrap().is_ok());
    check(&broker);
}

#[test]
fn holders_share_the_pump_and_keep_to_their_sessions() {
    let mut broker = with(&["a1", "b2", "a3", "c4", "b5"]);
    for (link, id) in [(1, "a"), (2, "b"), (3, "c")] {
        assert_eq!(accept(&mut broker, link, named(id)).as_deref(), Ok(id));
    }
    let credit = |link| Command::Credit { consumer: LinkId(link), limit: 5, drain: false };
    let told = broker.tell_all(ME, vec![credit(1), credit(2), credit(3)]);
    let got: Vec<_> = deliveries(told).iter().map(|it| (it.consumer.0, text(it))).collect();
    let expected = [(1, "a1"), (2, "b2"), (3, "c4"), (1, "a3"), (2, "b5")];
    assert_eq!(got, expected.map(|(link, text)| (link, text.to_owned())));
}

#[test]
fn tokens_prove_locks_from_anywhere_while_the_session_is_held() {
    let mut broker = with(&["a1", "a2"]);
    let got = take(&mut broker, 1, "a");
    let tokens: Vec<_> = got.iter().map(|delivery| delivery.lock.unwrap().token).collect();
    let settle = |broker: &mut Broker, token| {
        let (path, tokens, ticket) = (main_path("q"), vec![token], broker.ticket());
        match broker
            .tell(
                OTHER,
                Command::SettleByToken { path, session: None, tokens, outcome: Outcome::Complete, ticket },
            )
            .pop()
        {
            Some(Effect::Settled { .. }) => Ok(()),
            Some(Effect::SettleRefused { error, .. }) => Err(error),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(settle(&mut broker, tokens[0]), Ok(()));
    assert_eq!(broker.settle(&got[1], Outcome::Abandon(nothing())), Ok(()));
    // The session is held, but not this message any more.
    assert_eq!(settle(&mut broker, tokens[1]), Err(SettleError::LockLost));
    // Of a message that is gone only its receiver knows the session, and may say another.
    let settle_in = |broker: &mut Broker, session: Option<&str>| {
        let (path, tokens, ticket) = (main_path("q"), vec![tokens[0]], broker.ticket());
        let (session, outcome) = (session.map(Into::into), Outcome::Complete);
        match broker.tell(OTHER, Command::SettleByToken { path, session, tokens, outcome, ticket }).pop() {
            Some(Effect::SettleRefused { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(settle_in(&mut broker, Some("a")), SettleError::LockLost);
    assert_eq!(settle_in(&mut broker, Some("b")), SettleError::SessionLockLost);
    assert_eq!(settle_in(&mut broker, None), SettleError::SessionLockLost);
    close(&mut broker, 1);
    take(&mut broker, 2, "a");
    assert_eq!(settle(&mut broker, tokens[1]), Err(SettleError::SessionLockLost), "an earlier holder's");
}

#[test]
fn a_message_has_no_lock_of_its_own_to_renew() {
    let mut broker = with(&["a1"]);
    let got = take(&mut broker, 1, "a");
    let lock = got[0].lock.unwrap();
    assert_eq!(lock.until, broker.now.after(Duration::from_millis(LOCK)), "it says when the session's ends");
    let (path, tokens, ticket) = (main_path("q"), vec![lock.token], broker.ticket());
    let told = broker.tell(ME, Command::RenewLocks { path, tokens, ticket });
    assert!(
        matches!(&told[..], [Effect::SettleRefused { error: SettleError::LockedBySession, .. }]),
        "{told:?}"
    );
}

#[test]
fn a_scheduled_message_joins_its_session_when_it_is_due() {
    let mut broker = with(&["a1"]);
    let due = broker.now.after(Duration::from_millis(100));
    broker.publish(Message { scheduled_enqueue_time: Some(due), ..of_session("a2") });
    broker.publish(Message { scheduled_enqueue_time: Some(due), ..of_session("b3") });
    assert_eq!(texts(&take(&mut broker, 1, "a")), ["a1"]);
    assert_eq!(accept(&mut broker, 2, next(0)), Err(AttachError::SessionTimeout));
    check(&broker);
    broker.wait(100);
    assert_eq!(texts(&broker.received(ME)), ["a2"]);
    assert_eq!(accept(&mut broker, 2, next(0)).as_deref(), Ok("b"));
    check(&broker);
}

#[test]
fn an_expired_message_makes_no_session_available() {
    let mut broker = broker();
    broker.publish(Message { session_id: Some("a".into()), ..message_for("a1", 50) });
    publish_to_sessions(&mut broker, &["b2", "a3"]);
    // Its deadline has not been treated yet.
    broker.now = broker.now.after(Duration::from_millis(50));
    assert_eq!(accept(&mut broker, 1, next(0)).as_deref(), Ok("b"));
    assert_eq!(texts(&take(&mut broker, 2, "a")), ["a3"]);
    broker.wait(0);
    assert_eq!(broker.active(), 2);
    check(&broker);
}

#[test]
fn a_message_that_cannot_be_read_does_not_hold_up_its_session() {
    let mut broker = with(&["a1", "a2"]);
    let first = *broker.journal.records.keys().nth(1).unwrap();
    broker.journal.broken.push(first);
    assert_eq!(texts(&take(&mut broker, 1, "a")), ["a2"]);
    assert_eq!(broker.core.entity("q").unwrap().damaged, 1);
}

#[test]
fn draining_gives_up_credit_that_the_session_cannot_fill() {
    let mut broker = with(&["a1", "b2"]);
    assert_eq!(accept(&mut broker, 1, named("a")).as_deref(), Ok("a"));
    let told = broker.tell(ME, Command::Credit { consumer: LinkId(1), limit: 5, drain: true });
    assert!(
        matches!(&told[..], [Effect::Delivery(_), Effect::Drained { consumer: LinkId(1), count: 5 }]),
        "{told:?}"
    );
}

#[test]
fn a_client_without_budget_is_passed_over_and_comes_back() {
    let mut broker = with(&["a1", "b2"]);
    broker.tell(ME, Command::ByteBudget { limit: 2, min_bytes: 0 });
    for (link, id) in [(1, "a"), (2, "b")] {
        assert_eq!(accept(&mut broker, link, named(id)).as_deref(), Ok(id));
    }
    assert_eq!(texts(&broker.credit(ME, 1, 5)), ["a1"]);
    assert!(broker.credit(ME, 2, 5).is_empty());
    let told = broker.tell(ME, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
    assert_eq!(texts(&deliveries(told)), ["b2"]);
}

#[test]
fn the_end_of_a_large_session_is_cut_into_pieces_and_stays_whole() {
    let mut broker =
        Broker::with(CoreConfig { token_key: [7; 16], deliver_messages_max: 2, ..CoreConfig::default() });
    broker.create("q", settings());
    publish_to_sessions(&mut broker, &["a1", "a2", "a3", "a4", "a5"]);
    assert_eq!(take(&mut broker, 1, "a").len(), 5);
    assert_eq!(accept_as(&mut broker, OTHER, 1, next(5_000)), None);
    close(&mut broker, 1);
    // Until the last message is back, nobody gets it: the first ones would come too late.
    assert_eq!(accept(&mut broker, 2, named("a")), Err(AttachError::SessionLocked("a".into())));
    assert_eq!(answer(&broker.take(OTHER)), None);
    broker.wait(0);
    assert!(answer(&broker.take(OTHER)).is_some());
    let told = broker.tell(OTHER, Command::Credit { consumer: LinkId(1), limit: 9, drain: false });
    assert_eq!(texts(&deliveries(told)), ["a1", "a2", "a3", "a4", "a5"]);
}

#[test]
fn a_large_session_that_is_left_to_a_transaction_is_cut_into_pieces_too() {
    let mut broker =
        Broker::with(CoreConfig { token_key: [7; 16], deliver_messages_max: 2, ..CoreConfig::default() });
    broker.create("q", settings());
    publish_to_sessions(&mut broker, &["a1", "a2", "a3", "a4", "a5"]);
    let taken = take(&mut broker, 1, "a");
    broker.declare(TX);
    for delivery in &taken {
        assert_eq!(broker.settle_in(TX, delivery, Outcome::Complete), Answered::Done);
    }
    close(&mut broker, 1);
    assert!(broker.core.state.lock_releases.has_work(), "two of five in one call");
    broker.wait(0);
    assert!(!broker.core.state.lock_releases.has_work());
    assert_eq!(accept(&mut broker, 2, named("a")), Err(AttachError::SessionLocked("a".into())));
    let lost = Answered::Transaction(CommitError::Settle(SettleError::SessionLockLost));
    assert_eq!(broker.commit(TX), lost);
    broker.wait(0);
    assert_eq!(accept(&mut broker, 2, named("a")).as_deref(), Ok("a"));
    let again = broker.credit(ME, 2, 9);
    assert_eq!(texts(&again), ["a1", "a2", "a3", "a4", "a5"]);
    assert!(again.iter().all(|delivery| delivery.stored.delivery_count == 0), "it was given up, not lost");
}

#[test]
fn many_locks_that_end_at_once_end_in_bounded_pieces() {
    let mut broker =
        Broker::with(CoreConfig { token_key: [7; 16], deliver_messages_max: 3, ..CoreConfig::default() });
    broker.create("q", settings());
    for link in 0..10 {
        accept_as(&mut broker, ME, link, named(&format!("s{link}")));
    }
    broker.now = broker.now.after(Duration::from_millis(LOCK));
    broker.journal.make_readable();
    assert!(broker.core.handle_deadline(broker.now, &mut broker.journal), "there is more");
    assert_eq!(broker.take(ME).len(), 3);
    broker.run_deadlines();
    assert_eq!(broker.take(ME).len(), 7);
}

/// So many are looked at ahead.
#[test]
fn each_of_many_holders_gets_the_messages_of_its_session() {
    const SESSIONS: u32 = 600;
    let config = CoreConfig { max_consumers_per_entity: 1_000, ..CoreConfig::default() };
    let mut broker = Broker::with(CoreConfig { max_links_per_client: 1_000, ..config });
    broker.create("q", settings());
    let queue = broker.queue("q");
    let publish = |session: u32, text: &str| {
        let session_id = Some(format!("s{session}").into());
        Command::Publish { queue, message: Message { session_id, ..message(text) }, ticket: None }
    };
    for link in 0..SESSIONS {
        accept_as(&mut broker, ME, link, named(&format!("s{link}")));
        broker.tell(ME, Command::Credit { consumer: LinkId(link), limit: 9, drain: false });
    }
    // In an order of their own, with a session that nobody has in between.
    let order: Vec<u32> = (0..SESSIONS).map(|n| n * 7 % SESSIONS).collect();
    let mut commands: Vec<Command> = order.iter().map(|n| publish(*n, &n.to_string())).collect();
    commands.insert(20, publish(SESSIONS, "nobody's"));
    let got = deliveries(broker.tell_all(ME, commands));
    let links: Vec<u32> = got.iter().map(|delivery| delivery.consumer.0).collect();
    assert_eq!(links, order);
    assert!(got.iter().all(|delivery| text(delivery) == delivery.consumer.0.to_string()));
    let settle = |delivery: &Delivery| Command::Settle {
        queue,
        sequence: delivery.sequence,
        lock: delivery.lock.unwrap().id,
        outcome: Outcome::Complete,
        ticket: None,
    };
    let again = broker.tell_all(ME, got.iter().map(settle).chain([publish(3, "one more")]).collect());
    assert_eq!(texts(&deliveries(again)), ["one more"]);
    assert_eq!(broker.active(), 2, "that one, and nobody's");
    check(&broker);
}

#[test]
fn a_restart_frees_all_sessions_and_keeps_their_messages() {
    let mut broker = with(&["a1", "b2", "a3"]);
    let got = take(&mut broker, 1, "a");
    broker.settle(&got[0], Outcome::Complete).unwrap();
    broker.restart();
    assert_eq!(seen_by_next(&mut broker, "a"), [("a3".to_owned(), 0)]);
    assert_eq!(accept(&mut broker, 1, next(0)).as_deref(), Ok("b"));
    check(&broker);
}

#[test]
fn browsing_sees_all_sessions_and_touches_none() {
    let mut broker = with(&["a1", "b2"]);
    take(&mut broker, 1, "a");
    broker.open(ME, 5, main_path("q"), ReceiveMode::Browse);
    assert_eq!(texts(&broker.credit(ME, 5, 9)), ["a1", "b2"]);
}

#[test]
fn a_session_that_is_lost_fails_the_commit_and_comes_back_whole() {
    use crate::TransactionId;
    for (expires, count) in [(true, 1), (false, 0)] {
        let mut broker = with(&["a1", "a2"]);
        let got = take(&mut broker, 1, "a");
        let (transaction, ticket) = (TransactionId(1), broker.ticket());
        broker.tell(ME, Command::Declare { transaction, ticket });
        let command = Command::Settle {
            queue: got[0].queue,
            sequence: got[0].sequence,
            lock: got[0].lock.unwrap().id,
            outcome: Outcome::Complete,
            ticket: None,
        };
        broker.tell(ME, command.within(transaction));
        if expires {
            broker.wait(LOCK);
        } else {
            close(&mut broker, 1);
        }
        // The message waits for its transaction, and the next holder for the message.
        let locked = Err(AttachError::SessionLocked("a".into()));
        assert_eq!(accept(&mut broker, 2, named("a")), locked, "expires: {expires}");
        let told = broker.tell(ME, Command::Discharge { transaction, fail: false, ticket: Some(ticket) });
        assert!(told.iter().any(|it| matches!(it, Effect::TransactionRefused { .. })), "{told:?}");
        let seen = ["a1", "a2"].map(|text| (text.to_owned(), count));
        assert_eq!(seen_by_next(&mut broker, "a"), seen, "expires: {expires}");
        check(&broker);
    }
}
