//! Entities that are switched off, wholly or in part (`docs/features/entity-status.md`).

use super::harness::*;
use crate::{
    AttachError, Command, CoreConfig, Effect, EntityError, EntityKind, EntitySettings, EntityStatus, LinkId,
    Message, Outcome, PublishError, ReceiveMode, SequenceNumber, SessionError, SessionWanted, SettleError,
    Timestamp, UnsettledPolicy,
};

fn with(status: EntityStatus) -> EntitySettings {
    EntitySettings { status, ..EntitySettings::default() }
}

/// Whether each of these was allowed: attach to send, publish, schedule, cancel, attach to receive, attach to receive
/// dead letters, peek, receive by number, delete, renew, settle by token.
fn allowed(broker: &mut Broker, scheduled: u64, token: crate::LockToken) -> Vec<bool> {
    let (ticket, path, queue) = (broker.ticket(), main_path("q"), broker.queue("q"));
    let (sequences, tokens) = (vec![SequenceNumber(scheduled)], vec![token]);
    let (mode, unsettled, auto_create) = (ReceiveMode::PeekLock, UnsettledPolicy::KeepLocks, false);
    let open = |link, path| Command::OpenConsumer {
        session: None,
        consumer: LinkId(link),
        path,
        mode,
        unsettled,
        auto_create,
    };
    let commands = vec![
        Command::OpenProducer { producer: LinkId(50), path: path.clone(), auto_create },
        Command::Publish { queue, message: message("m"), ticket: Some(ticket) },
        Command::Schedule { path: path.clone(), messages: vec![message("m")], ticket },
        Command::CancelScheduled { path: path.clone(), sequences: sequences.clone(), ticket },
        open(51, path.clone()),
        open(52, dead_letters("q")),
        Command::Peek {
            session: None,
            path: path.clone(),
            from: SequenceNumber(0),
            count: 1,
            bytes: 100,
            ticket,
        },
        Command::ReceiveDeferred {
            session: None,
            path: path.clone(),
            sequences: vec![SequenceNumber(2)],
            delete: true,
            bytes: 100,
            ticket,
        },
        Command::DeleteMessages {
            session: None,
            path: path.clone(),
            count: 1,
            before: Timestamp::MAX,
            ticket,
        },
        Command::RenewLocks { path: path.clone(), tokens: tokens.clone(), ticket },
        Command::SettleByToken { path, session: None, tokens, outcome: Outcome::Complete, ticket },
    ];
    let one = |command: Command| match broker.tell(ME, command).pop() {
        Some(
            Effect::AttachRefused { error: AttachError::Disabled(_), .. }
            | Effect::PublishRefused { error: PublishError::Disabled(_), .. }
            | Effect::RequestRefused { error: EntityError::Disabled(_), .. }
            | Effect::SettleRefused { error: SettleError::EntityDisabled, .. },
        ) => false,
        Some(
            Effect::ProducerOpened { .. }
            | Effect::ConsumerOpened { .. }
            | Effect::Published { .. }
            | Effect::Scheduled { .. }
            | Effect::Settled { .. }
            | Effect::Peeked { .. }
            | Effect::Fetched { .. }
            | Effect::Deleted { .. }
            | Effect::Renewed(_),
        ) => true,
        other => panic!("{other:?}"),
    };
    commands.into_iter().map(one).collect()
}

#[test]
fn a_status_permits_the_operations_of_its_row() {
    let cases = [
        // status, sends, receives
        (EntityStatus::Active, true, true),
        (EntityStatus::SendDisabled, false, true),
        (EntityStatus::ReceiveDisabled, true, false),
        (EntityStatus::Disabled, false, false),
    ];
    for (status, sends, receives) in cases {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.publish_all(&["locked", "deferred", "kept"]);
        let got = broker.lock(2);
        broker.settle(&got[1], Outcome::Defer(properties(&[]))).unwrap();
        let scheduled = broker.schedule(&["later"], 1_000)[0];
        broker.update("q", with(status));
        let mut expected = vec![sends; 4];
        expected.resize(11, receives);
        assert_eq!(allowed(&mut broker, scheduled, got[0].lock.unwrap().token), expected, "{status:?}");
        // Stored messages are there when it is switched on again, after a restart too.
        broker.restart();
        let told = broker.update("q", with(EntityStatus::Active));
        assert!(matches!(told.as_slice(), [Effect::EntityDone { .. }]), "{told:?}");
        let view = broker.core.entity("q").unwrap();
        if !receives {
            assert_eq!((view.active, view.deferred), (2 + 2 * u64::from(sends), 1), "{status:?}");
        }
    }
}

#[test]
fn switching_off_closes_the_links_that_are_forbidden_and_no_others() {
    let cases = [
        (EntityStatus::Active, vec![]),
        (EntityStatus::SendDisabled, vec![1]),
        (EntityStatus::ReceiveDisabled, vec![2, 3]),
        (EntityStatus::Disabled, vec![1, 2, 3]),
    ];
    for (status, closed) in cases {
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.create("other", EntitySettings::default());
        let open = Command::OpenProducer { producer: LinkId(1), path: main_path("q"), auto_create: false };
        broker.tell(OTHER, open);
        broker.open(OTHER, 2, main_path("q"), ReceiveMode::PeekLock);
        broker.open(OTHER, 3, dead_letters("q"), ReceiveMode::PeekLock);
        broker.open(OTHER, 4, main_path("other"), ReceiveMode::PeekLock);
        broker.credit(OTHER, 2, 10);
        broker.publish(message("locked"));
        let got = broker.received(OTHER).pop().unwrap();
        broker.update("q", with(status));
        let mut told: Vec<u32> = Vec::new();
        for effect in broker.take(OTHER) {
            let Effect::EntityDisabled { link } = effect else { panic!("{effect:?}") };
            told.push(link.0);
        }
        told.sort_unstable();
        assert_eq!(told, closed, "{status:?}");
        assert_eq!(broker.core.entity("q").unwrap().links, 3 - closed.len() as u64, "{status:?}");
        // The lock went on: its holder keeps locks when a link closes.
        broker.update("q", with(EntityStatus::Active));
        assert_eq!(broker.settle(&got, Outcome::Complete), Ok(()), "{status:?}");
        if closed.contains(&2) {
            broker.publish(message("next"));
            assert!(broker.received(OTHER).is_empty(), "a closed link gets nothing");
        }
    }
}

#[test]
fn a_scheduled_message_comes_due_while_sends_are_off() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.schedule(&["a"], 1_000);
    broker.update("q", with(EntityStatus::Disabled));
    broker.wait(1_000);
    broker.update("q", with(EntityStatus::Active));
    assert_eq!(texts(&broker.lock(1)), ["a"]);
}

#[test]
fn a_status_that_means_nothing_for_a_kind_is_refused() {
    let cases = [
        ("t", EntityKind::Topic, EntityStatus::Disabled, true),
        ("t", EntityKind::Topic, EntityStatus::SendDisabled, true),
        ("t", EntityKind::Topic, EntityStatus::ReceiveDisabled, false),
        ("t/Subscriptions/s", EntityKind::Subscription, EntityStatus::Disabled, true),
        ("t/Subscriptions/s", EntityKind::Subscription, EntityStatus::ReceiveDisabled, true),
        ("t/Subscriptions/s", EntityKind::Subscription, EntityStatus::SendDisabled, false),
    ];
    for (name, kind, status, taken) in cases {
        let mut broker = Broker::new();
        let mut create = |name: &str, kind, status| {
            let (ticket, settings) = (broker.ticket(), Box::new(with(status)));
            broker.tell(ME, Command::CreateEntity { name: name.into(), kind, settings, ticket }).pop()
        };
        if kind == EntityKind::Subscription {
            create("t", EntityKind::Topic, EntityStatus::Active);
        }
        let done = match create(name, kind, status) {
            Some(Effect::EntityDone { .. }) => true,
            Some(Effect::RequestRefused {
                error: EntityError::OutOfRange { property: "Status", .. },
                ..
            }) => false,
            other => panic!("{other:?}"),
        };
        assert_eq!(done, taken, "{name} {status:?}");
    }
}

#[test]
fn a_disabled_topic_takes_nothing_and_its_subscription_still_gives() {
    let mut broker = Broker::new();
    for (name, kind, status) in [
        ("t", EntityKind::Topic, EntityStatus::Disabled),
        ("t/Subscriptions/s", EntityKind::Subscription, EntityStatus::Active),
    ] {
        let (ticket, settings) = (broker.ticket(), Box::new(with(status)));
        broker.tell(ME, Command::CreateEntity { name: name.into(), kind, settings, ticket });
    }
    let (path, auto_create) = (main_path("t"), false);
    let told = broker.tell(ME, Command::OpenProducer { producer: LinkId(1), path, auto_create });
    let refused = Effect::AttachRefused { link: LinkId(1), error: AttachError::Disabled("t".into()) };
    assert_eq!(format!("{told:?}"), format!("{:?}", [refused]));
    broker.open(ME, 2, main_path("t/Subscriptions/s"), ReceiveMode::PeekLock);
}

#[test]
fn consumers_of_one_entity_are_limited() {
    let mut broker = Broker::with(CoreConfig { max_consumers_per_entity: 2, ..CoreConfig::default() });
    broker.create("q", EntitySettings::default());
    broker.create("p", EntitySettings::default());
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::Browse);
    let open = |link| Command::OpenConsumer {
        session: None,
        consumer: LinkId(link),
        path: main_path("q"),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::Release,
        auto_create: false,
    };
    let told = broker.tell(ME, open(2)).pop();
    let limit = AttachError::LimitReached { what: "receivers per entity", limit: 2 };
    assert!(matches!(&told, Some(Effect::AttachRefused { error, .. }) if *error == limit), "{told:?}");
    broker.open(ME, 3, main_path("p"), ReceiveMode::PeekLock);
    broker.open(ME, 4, dead_letters("q"), ReceiveMode::PeekLock);
    broker.tell(OTHER, Command::Disconnect);
    assert!(matches!(broker.tell(ME, open(2)).pop(), Some(Effect::ConsumerOpened { .. })));
}

#[test]
fn requests_about_sessions_count_as_receiving() {
    let cases = [
        (EntityStatus::Active, true),
        (EntityStatus::SendDisabled, true),
        (EntityStatus::ReceiveDisabled, false),
        (EntityStatus::Disabled, false),
    ];
    for (status, receives) in cases {
        let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
        let mut broker = Broker::with_queue(settings.clone());
        broker.publish(Message { session_id: Some("s".into()), ..message("m") });
        let open = Command::OpenConsumer {
            consumer: LinkId(1),
            path: main_path("q"),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            session: Some(SessionWanted::Named("s".into())),
            auto_create: false,
        };
        let told = broker.tell(ME, open);
        assert!(matches!(told[..], [Effect::ConsumerOpened { .. }]), "{told:?}");
        broker.update("q", EntitySettings { status, ..settings });
        let (path, session, ticket) = (main_path("q"), Box::from("s"), broker.ticket());
        let state = Some("state".into());
        let requests = [
            Command::SetSessionState { path: path.clone(), session: Box::clone(&session), state, ticket },
            Command::GetSessionState {
                path: path.clone(),
                session: Box::clone(&session),
                looks_on: false,
                ticket,
            },
            Command::RenewSession { path: path.clone(), session, ticket },
            Command::ListSessions { path, updated_after: None, after: None, skip: 0, top: 9, ticket },
        ];
        for request in requests {
            let what = format!("{status:?} {request:?}");
            let allowed = match broker.tell(ME, request).pop() {
                Some(Effect::SessionRefused { error: SessionError::Disabled(name), .. }) => {
                    assert_eq!(&*name, "q", "{what}");
                    false
                }
                Some(
                    Effect::Settled { .. }
                    | Effect::SessionState { .. }
                    | Effect::SessionRenewed { .. }
                    | Effect::SessionList { .. },
                ) => true,
                other => panic!("{what}: {other:?}"),
            };
            assert_eq!(allowed, receives, "{what}");
        }
    }
}
