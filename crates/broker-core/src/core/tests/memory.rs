//! Commands while the memory of the process is full (`docs/operations.md`, "Limits").

use super::harness::*;
use crate::{
    AttachError, Command, Delivery, Effect, EntityError, EntityKind, EntitySettings, LinkId, NodeKind,
    Outcome, PublishError, QuotaError, ReceiveMode, Rule, SequenceNumber, Subscriber, Timestamp,
    TransactionId, UnsettledPolicy,
};
use broker_filter::Filter;

/// Whether the memory is the reason of a refusal. Another refusal fails the test.
fn is_refused(told: &[Effect]) -> bool {
    told.iter().any(|effect| match effect {
        Effect::PublishRefused { error: PublishError::QuotaExceeded(QuotaError::Memory), .. }
        | Effect::RequestRefused { error: EntityError::QuotaExceeded(QuotaError::Memory), .. }
        | Effect::AttachRefused {
            error:
                AttachError::NotCreated(EntityError::QuotaExceeded(QuotaError::Memory))
                | AttachError::Subscription(EntityError::QuotaExceeded(QuotaError::Memory)),
            ..
        } => true,
        Effect::PublishRefused { .. }
        | Effect::RequestRefused { .. }
        | Effect::AttachRefused { .. }
        | Effect::SettleRefused { .. }
        | Effect::TransactionRefused { .. } => panic!("{effect:?}"),
        _ => false,
    })
}

/// A topic with a subscription and a rule, and a queue with messages, one of which is locked.
fn broker() -> (Broker, Delivery) {
    let mut broker = Broker::with_topic(EntitySettings::default());
    broker.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    let ticket = broker.ticket();
    let path = subscription("s");
    assert_eq!(
        broker.ask(Command::AddRule { path, rule: Box::new(rule("r", "x = 1", None)), ticket }),
        Ok(())
    );
    broker.create("q", EntitySettings::default());
    broker.create("gone", EntitySettings::default());
    broker.publish_all(&["a", "b", "c", "d"]);
    let delivery = broker.lock_one();
    (broker, delivery)
}

fn entity(name: &str, kind: EntityKind, broker: &mut Broker) -> Command {
    let ticket = broker.ticket();
    Command::CreateEntity { name: name.into(), kind, settings: Box::default(), ticket }
}

fn subscriber(name: &str, filter: Filter) -> Command {
    Command::OpenSubscriber {
        consumer: LinkId(40),
        path: main_path("t"),
        mode: ReceiveMode::Browse,
        unsettled: UnsettledPolicy::Release,
        subscriber: Box::new(Subscriber {
            container: "c".into(),
            name: name.into(),
            owner: "me".into(),
            filter,
            mode: ReceiveMode::PeekLock,
            shared: false,
            temporary: false,
        }),
        auto_create: false,
    }
}

fn send(name: &str, broker: &mut Broker) -> Command {
    Command::Publish { queue: broker.queue(name), message: message("n"), ticket: Some(broker.ticket()) }
}

fn send_to(name: &str, broker: &mut Broker) -> Command {
    let (path, ticket) = (main_path(name), Some(broker.ticket()));
    Command::PublishTo { path, messages: vec![message("n")], auto_create: true, ticket }
}

fn producer(name: &str) -> Command {
    Command::OpenProducer { producer: LinkId(41), path: main_path(name), auto_create: true }
}

fn consumer(name: &str) -> Command {
    Command::OpenConsumer {
        consumer: LinkId(42),
        path: main_path(name),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: true,
    }
}

type Make = fn(&mut Broker, &Delivery) -> Command;

/// Sends.
const SENDS: [(&str, Make); 6] = [
    ("one message", |it, _| send("q", it)),
    ("a message to a topic", |it, _| send("t", it)),
    ("a batch", |it, _| {
        let (queue, messages) = (it.queue("q"), vec![message("n")]);
        Command::PublishBatch { queue, messages, ticket: Some(it.ticket()) }
    }),
    ("a message to a path", |it, _| send_to("q", it)),
    ("a message to a missing queue", |it, _| send_to("new", it)),
    ("a scheduled message", |it, _| {
        let (path, messages) = (main_path("q"), vec![message("n")]);
        Command::Schedule { path, messages, ticket: it.ticket() }
    }),
];

/// Commands that make entities and rules.
const CREATIONS: [(&str, Make); 8] = [
    ("a queue", |it, _| entity("new", EntityKind::Queue, it)),
    ("a topic", |it, _| entity("new", EntityKind::Topic, it)),
    ("a subscription", |it, _| entity("t/Subscriptions/new", EntityKind::Subscription, it)),
    ("a rule", |it, _| {
        let rule = Box::new(rule("new", "x = 2", None));
        Command::AddRule { path: subscription("s"), rule, ticket: it.ticket() }
    }),
    ("a sender to a missing queue", |_, _| producer("new")),
    ("a receiver from a missing queue", |_, _| consumer("new")),
    ("a temporary queue", |_, _| Command::OfKind(NodeKind::TemporaryQueue, Box::new(producer("new")))),
    ("a durable subscriber", |_, _| subscriber("new", Filter::True)),
];

/// Commands that take no more memory, or give some back.
const OTHERS: [(&str, Make); 10] = [
    ("a sender", |_, _| producer("q")),
    ("a receiver", |_, _| consumer("q")),
    ("a delivery", |_, _| Command::Credit { consumer: LinkId(42), limit: 1, drain: false }),
    ("a peek", |it, _| {
        let (path, from) = (main_path("q"), SequenceNumber(0));
        Command::Peek { path, session: None, from, count: 9, bytes: u64::MAX, ticket: it.ticket() }
    }),
    ("a dead letter", |it, delivery| Command::Settle {
        queue: delivery.queue,
        sequence: delivery.sequence,
        lock: delivery.lock.unwrap().id,
        outcome: Outcome::DeadLetter(properties(&[])),
        ticket: Some(it.ticket()),
    }),
    ("new properties", |it, _| {
        let ticket = it.ticket();
        Command::UpdateEntity { name: "q".into(), settings: Box::default(), expected: None, ticket }
    }),
    ("a changed rule", |it, _| {
        let (path, rule) = (subscription("s"), Box::new(rule("r", "x = 3", None)));
        Command::UpdateRule { path, rule, expected: None, ticket: it.ticket() }
    }),
    ("a removed rule", |it, _| {
        let (path, ticket) = (subscription("s"), it.ticket());
        Command::RemoveRule { path, name: "r".into(), expected: None, ticket }
    }),
    ("deleted messages", |it, _| {
        let (path, ticket) = (main_path("q"), it.ticket());
        Command::DeleteMessages { path, session: None, count: 9, before: Timestamp::MAX, ticket }
    }),
    ("a deleted queue", |it, _| Command::DeleteEntity {
        name: "gone".into(),
        expected: None,
        ticket: it.ticket(),
    }),
];

#[test]
fn full_memory_refuses_what_is_new_and_nothing_else() {
    let (mut broker, delivery) = broker();
    broker.journal.memory_full = true;
    let before = (broker.core.entity_count(), broker.active());
    for (case, make) in SENDS.into_iter().chain(CREATIONS) {
        let command = make(&mut broker, &delivery);
        let told = broker.tell(ME, command);
        assert!(is_refused(&told), "{case}: {told:?}");
        assert_eq!((broker.core.entity_count(), broker.active()), before, "{case}");
    }
    for (case, make) in OTHERS {
        let command = make(&mut broker, &delivery);
        let told = broker.tell(ME, command);
        assert!(!told.is_empty() && !is_refused(&told), "{case}: {told:?}");
    }
    assert_eq!(broker.active(), 1, "the receiver has one, the others are deleted or dead letters");
    broker.check_liveness();
    broker.journal.memory_full = false;
    for (case, make) in SENDS {
        let command = make(&mut broker, &delivery);
        assert!(!is_refused(&broker.tell(ME, command)), "{case}");
    }
}

#[test]
fn a_send_in_a_transaction_is_refused_as_well() {
    let (mut broker, _) = broker();
    let (transaction, ticket) = (TransactionId(1), broker.ticket());
    broker.tell(ME, Command::Declare { transaction, ticket });
    broker.journal.memory_full = true;
    for name in ["q", "new"] {
        let (path, ticket) = (main_path(name), Some(broker.ticket()));
        let send = Command::PublishTo { path, messages: vec![message("n")], auto_create: true, ticket };
        let told = broker.tell(ME, send.within(transaction));
        assert!(is_refused(&told), "{name}: {told:?}");
        let ticket = Some(broker.ticket());
        broker.tell(ME, Command::Discharge { transaction, fail: true, ticket });
        let ticket = broker.ticket();
        broker.tell(ME, Command::Declare { transaction, ticket });
    }
}

#[test]
fn a_durable_subscriber_with_another_filter_keeps_its_subscription_while_the_memory_is_full() {
    let (mut broker, _) = broker();
    let opened = broker.tell(ME, subscriber("s", Filter::True));
    assert!(matches!(opened.last(), Some(Effect::ConsumerOpened { .. })), "{opened:?}");
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(40) });
    broker.send(vec![message("kept")]);
    let before = broker.core.entity_count();
    broker.journal.memory_full = true;
    let Rule { filter, .. } = rule("f", "x = 9", None);
    assert!(is_refused(&broker.tell(ME, subscriber("s", filter))));
    assert_eq!(broker.core.entity_count(), before);
    broker.tell(ME, subscriber("s", Filter::True));
    assert_eq!(texts(&broker.credit(ME, 40, 5)), ["kept"]);
}
