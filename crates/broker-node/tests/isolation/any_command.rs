//! Any command that there is, about the few entities, sessions, links and numbers that a namespace has here.

use std::time::Duration;

use broker_core::{
    AccessRight, AuthorizationRule, Command, DynamicNode, EntityKind, EntityPath, EntityQuery,
    EntitySettings, EntityStatus, KeyText, LifetimePolicy, LinkId, LockId, LockToken, Message, NodeKind,
    Outcome, PageStart, Properties, QueueId, ReceiveMode, Rule, SequenceNumber, SessionWanted, SubQueue,
    Subscriber, Ticket, Timestamp, TransactionId, UnsettledPolicy,
};
use bytes::Bytes;
use proptest::prelude::*;

use crate::tenant::{ENTITIES, session, settings};

/// A command and its ticket, where it has one.
pub(crate) type Asked = BoxedStrategy<Command>;

/// Any command; tokens are those of `tokens`.
pub(crate) fn any_command(tokens: Vec<LockToken>) -> Asked {
    let of_transaction =
        prop_oneof![2 => send(), 2 => settle(tokens.clone()), 1 => cancel(), 1 => set_state()];
    let plain = prop_oneof![
        6 => link(),
        6 => send(),
        4 => settlement(tokens),
        4 => of_messages(),
        3 => of_session(),
        4 => of_entity(),
        2 => of_rule(),
    ];
    let within = (of_transaction, any::<bool>()).prop_map(|(command, settled)| Command::Enlist {
        transaction: TRANSACTION,
        command: Box::new(command),
        settled,
    });
    let transaction = TRANSACTION;
    prop_oneof![
        20 => plain,
        2 => ticket().prop_map(move |ticket| Command::Declare { transaction, ticket }),
        3 => within,
        1 => Just(Command::FailTransaction { transaction }),
        2 => (any::<bool>(), prop::option::of(ticket()))
            .prop_map(move |(fail, ticket)| Command::Discharge { transaction, fail, ticket }),
    ]
    .boxed()
}

/// The name of the one transaction of each client.
pub(crate) const TRANSACTION: TransactionId = TransactionId(1);

/// The dynamic node of a namespace.
pub(crate) fn dynamic(lifetime: LifetimePolicy) -> DynamicNode {
    DynamicNode::queue(7, lifetime)
}

/// A receiver at the topic itself.
pub(crate) fn subscriber(shared: bool, temporary: bool) -> Subscriber {
    Subscriber {
        container: "container".into(),
        name: "reader".into(),
        owner: "owner".into(),
        filter: Rule::default_rule().filter,
        mode: ReceiveMode::PeekLock,
        shared,
        temporary,
    }
}

/// A rule that lets everything in.
pub(crate) fn rule(number: usize) -> Rule {
    Rule { name: format!("rule-{number}").into(), ..Rule::default_rule() }
}

fn ticket() -> impl Strategy<Value = Ticket> + Clone {
    (1_u64..1_000).prop_map(Ticket)
}

fn name() -> impl Strategy<Value = Box<str>> + Clone {
    let missing = ["missing", "news/Subscriptions/other", "news/Subscriptions/missing"];
    let dynamic = dynamic(LifetimePolicy::OnClose).name().to_owned();
    let names = ENTITIES.into_iter().chain(missing).map(Box::<str>::from).chain([dynamic.into()]);
    prop::sample::select(names.collect::<Vec<Box<str>>>())
}

fn path() -> impl Strategy<Value = EntityPath> + Clone {
    let sub_queue = prop_oneof![6 => Just(SubQueue::Main), 2 => Just(SubQueue::DeadLetter), 1 => Just(SubQueue::TransferDeadLetter)];
    (name(), sub_queue).prop_map(|(entity, sub_queue)| EntityPath { entity, sub_queue })
}

fn link_id() -> impl Strategy<Value = LinkId> + Clone {
    (1_u32..9).prop_map(LinkId)
}

fn sequence() -> impl Strategy<Value = SequenceNumber> + Clone {
    (0_u64..9).prop_map(SequenceNumber)
}

fn queue_id() -> impl Strategy<Value = QueueId> + Clone {
    (0_u32..24).prop_map(QueueId)
}

fn session_id() -> impl Strategy<Value = Box<str>> + Clone {
    (0_usize..3).prop_map(session)
}

fn outcome() -> impl Strategy<Value = Outcome> + Clone {
    let none = Properties::default;
    prop_oneof![
        Just(Outcome::Complete),
        Just(Outcome::Abandon(none())),
        Just(Outcome::Release(none())),
        Just(Outcome::DeadLetter(none())),
        Just(Outcome::Defer(none())),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> + Clone {
    prop_oneof![Just(0_u64), 1_000_000_u64..1_200_000, Just(u64::MAX)].prop_map(Timestamp::from_millis)
}

fn message() -> impl Strategy<Value = Message> + Clone {
    let due = prop::option::weighted(0.2, time());
    let ttl = prop::option::weighted(0.2, 0_u64..2_000);
    let session = prop::option::weighted(0.6, session_id());
    (8_usize..1_500, ttl, session, due).prop_map(|(bytes, ttl, session_id, scheduled_enqueue_time)| Message {
        payload: Bytes::from(vec![9; bytes]),
        time_to_live: ttl.map(Duration::from_millis),
        session_id,
        scheduled_enqueue_time,
        ..Message::default()
    })
}

fn messages() -> impl Strategy<Value = Vec<Message>> + Clone {
    prop::collection::vec(message(), 1..4)
}

fn entity_settings() -> impl Strategy<Value = Box<EntitySettings>> + Clone {
    let status = prop_oneof![
        4 => Just(EntityStatus::Active),
        1 => Just(EntityStatus::Disabled),
        1 => Just(EntityStatus::SendDisabled),
        1 => Just(EntityStatus::ReceiveDisabled),
    ];
    let target = || prop::option::weighted(0.2, name());
    (0..ENTITIES.len(), status, target(), target(), 1_u64..90_000, any::<bool>()).prop_map(
        |(place, status, forward_to, forward_dead_lettered_to, lock_ms, has_key)| {
            let key = AuthorizationRule {
                name: "key".into(),
                rights: vec![AccessRight::Send],
                primary: KeyText::new("k".repeat(44)),
                secondary: None,
                created_at: Timestamp::default(),
                modified_at: Timestamp::default(),
            };
            Box::new(EntitySettings {
                status,
                forward_to,
                forward_dead_lettered_to,
                lock_duration: Duration::from_millis(lock_ms),
                dead_letter_on_expiration: lock_ms % 2 == 0,
                requires_duplicate_detection: lock_ms % 16 == 0,
                enable_partitioning: lock_ms % 16 == 1,
                authorization: has_key.then_some(key).into_iter().collect(),
                ..settings(place)
            })
        },
    )
}

fn open_producer() -> impl Strategy<Value = Command> + Clone {
    (link_id(), path(), any::<bool>()).prop_map(|(producer, path, auto_create)| Command::OpenProducer {
        producer,
        path,
        auto_create,
    })
}

fn open_consumer() -> impl Strategy<Value = Command> + Clone {
    let mode = prop_oneof![
        3 => Just(ReceiveMode::PeekLock),
        1 => Just(ReceiveMode::ReceiveAndDelete),
        1 => Just(ReceiveMode::Browse),
    ];
    let unsettled = prop_oneof![
        Just(UnsettledPolicy::KeepLocks),
        Just(UnsettledPolicy::Release),
        Just(UnsettledPolicy::Fail)
    ];
    let next = Just(SessionWanted::Next { patience: Duration::from_millis(50) });
    let wanted = prop::option::of(prop_oneof![3 => session_id().prop_map(SessionWanted::Named), 1 => next]);
    (link_id(), path(), mode, unsettled, wanted, any::<bool>()).prop_map(
        |(consumer, path, mode, unsettled, session, auto_create)| Command::OpenConsumer {
            consumer,
            path,
            mode,
            unsettled,
            session,
            auto_create,
        },
    )
}

fn link() -> Asked {
    let lifetime = prop::sample::select(LifetimePolicy::ALL.to_vec());
    let of_kind = prop::sample::select(vec![NodeKind::Queue, NodeKind::Topic, NodeKind::TemporaryQueue]);
    let dynamic_path =
        || EntityPath { entity: dynamic(LifetimePolicy::OnClose).name().into(), sub_queue: SubQueue::Main };
    let subscribe = (link_id(), path(), any::<bool>(), any::<bool>());
    let limit = prop_oneof![0_u64..4, Just(u64::MAX)];
    prop_oneof![
        2 => Just(Command::Connect),
        1 => Just(Command::Disconnect),
        2 => open_producer(),
        1 => (link_id(), path(), path()).prop_map(|(producer, path, via)| {
            Command::OpenProducerVia { producer, path, via, auto_create: false }
        }),
        1 => (of_kind, prop_oneof![open_producer(), open_consumer()])
            .prop_map(|(kind, open)| Command::OfKind(kind, Box::new(open))),
        1 => (link_id(), lifetime).prop_map(move |(producer, lifetime)| {
            let open = Command::OpenProducer { producer, path: dynamic_path(), auto_create: false };
            Command::OpenDynamicNode { node: Box::new(dynamic(lifetime)), open: Box::new(open) }
        }),
        1 => name().prop_map(|name| Command::ReleaseDynamicNode { name }),
        1 => link_id().prop_map(|producer| Command::CloseProducer { producer }),
        8 => open_consumer(),
        1 => subscribe.prop_map(|(consumer, path, shared, temporary)| Command::OpenSubscriber {
            consumer,
            path,
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::Release,
            subscriber: Box::new(subscriber(shared, temporary)),
            auto_create: false,
        }),
        1 => link_id().prop_map(|link| {
            let Subscriber { container, name, .. } = subscriber(false, false);
            Command::FindSubscriber { link, container, name }
        }),
        1 => name().prop_map(|subscription| Command::Unsubscribe { subscription }),
        1 => link_id().prop_map(|consumer| Command::CloseConsumer { consumer }),
        1 => link_id().prop_map(|consumer| Command::LeaveConsumer { consumer }),
        4 => (link_id(), limit.clone(), any::<bool>())
            .prop_map(|(consumer, limit, drain)| Command::Credit { consumer, limit, drain }),
        1 => limit.prop_map(|limit| Command::ByteBudget { limit: limit.saturating_mul(400), min_bytes: 9 }),
    ]
    .boxed()
}

fn send() -> Asked {
    let to = || (path(), messages(), prop::option::of(ticket()));
    prop_oneof![
        1 => (queue_id(), message(), prop::option::of(ticket()))
            .prop_map(|(queue, message, ticket)| Command::Publish { queue, message, ticket }),
        1 => (queue_id(), messages(), prop::option::of(ticket()))
            .prop_map(|(queue, messages, ticket)| Command::PublishBatch { queue, messages, ticket }),
        4 => (to(), any::<bool>()).prop_map(|((path, messages, ticket), auto_create)| {
            Command::PublishTo { path, messages, auto_create, ticket }
        }),
        1 => (to(), path())
            .prop_map(|((path, messages, ticket), via)| Command::PublishVia { path, via, messages, ticket }),
        2 => (path(), messages(), ticket())
            .prop_map(|(path, messages, ticket)| Command::Schedule { path, messages, ticket }),
    ]
    .boxed()
}

fn settle(tokens: Vec<LockToken>) -> Asked {
    let lock = (queue_id(), sequence(), (0_u32..24).prop_map(LockId));
    let by_token = (path(), prop::option::of(session_id()), some_of(tokens), outcome(), ticket());
    prop_oneof![
        3 => (lock, outcome(), prop::option::of(ticket())).prop_map(
            |((queue, sequence, lock), outcome, ticket)| {
                Command::Settle { queue, sequence, lock, outcome, ticket }
            }
        ),
        2 => by_token.prop_map(|(path, session, tokens, outcome, ticket)| {
            Command::SettleByToken { path, session, tokens, outcome, ticket }
        }),
    ]
    .boxed()
}

fn settlement(tokens: Vec<LockToken>) -> Asked {
    let renewal = (path(), some_of(tokens.clone()), ticket())
        .prop_map(|(path, tokens, ticket)| Command::RenewLocks { path, tokens, ticket });
    prop_oneof![5 => settle(tokens), 1 => renewal].boxed()
}

fn some_of(tokens: Vec<LockToken>) -> impl Strategy<Value = Vec<LockToken>> {
    prop::collection::vec(prop::sample::select(tokens), 1..3)
}

fn cancel() -> Asked {
    (path(), prop::collection::vec(sequence(), 1..3), ticket())
        .prop_map(|(path, sequences, ticket)| Command::CancelScheduled { path, sequences, ticket })
        .boxed()
}

fn set_state() -> Asked {
    let state = prop::option::of((0_usize..900).prop_map(|bytes| Bytes::from(vec![8; bytes])));
    (path(), session_id(), state, ticket())
        .prop_map(|(path, session, state, ticket)| Command::SetSessionState { path, session, state, ticket })
        .boxed()
}

fn of_messages() -> Asked {
    let numbers = || prop::collection::vec(sequence(), 1..3);
    let look = (path(), prop::option::of(session_id()), sequence(), 1_u32..20, ticket());
    let fetch = (path(), prop::option::of(session_id()), numbers(), any::<bool>(), ticket());
    let delete = (path(), prop::option::of(session_id()), 0_u32..5, time(), ticket());
    prop_oneof![
        look.prop_map(|(path, session, from, count, ticket)| {
            Command::Peek { path, session, from, count, bytes: u64::MAX, ticket }
        }),
        cancel(),
        fetch.prop_map(|(path, session, sequences, delete, ticket)| Command::ReceiveDeferred {
            path,
            session,
            sequences,
            delete,
            bytes: 9_000,
            ticket,
        }),
        delete.prop_map(|(path, session, count, before, ticket)| Command::DeleteMessages {
            path,
            session,
            count,
            before,
            ticket,
        }),
    ]
    .boxed()
}

fn of_session() -> Asked {
    prop_oneof![
        (path(), session_id(), ticket()).prop_map(|(path, session, ticket)| Command::RenewSession {
            path,
            session,
            ticket
        }),
        set_state(),
        (path(), session_id(), any::<bool>(), ticket()).prop_map(|(path, session, looks_on, ticket)| {
            Command::GetSessionState { path, session, looks_on, ticket }
        }),
        (path(), prop::option::of(time()), ticket()).prop_map(|(path, updated_after, ticket)| {
            Command::ListSessions { path, updated_after, after: None, skip: 0, top: 9, ticket }
        }),
    ]
    .boxed()
}

fn of_entity() -> Asked {
    let kind = prop::sample::select(vec![EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription]);
    let query = prop_oneof![
        name().prop_map(|name| EntityQuery::One { name }),
        Just(EntityQuery::All { after: "".into(), top: 99 }),
        name().prop_map(|topic| EntityQuery::Subscriptions { topic, start: PageStart::Skip(0), top: 9 }),
    ];
    prop_oneof![
        4 => (name(), kind, entity_settings(), ticket()).prop_map(|(name, kind, mut settings, ticket)| {
            // Sessions mean nothing for a topic.
            settings.requires_session &= kind != EntityKind::Topic;
            Command::CreateEntity { name, kind, settings, ticket }
        }),
        2 => (name(), entity_settings(), ticket()).prop_map(|(name, settings, ticket)| {
            Command::CreateSubscription { name, settings, rules: vec![rule(0)], ticket }
        }),
        4 => (name(), entity_settings(), ticket()).prop_map(|(name, settings, ticket)| {
            Command::UpdateEntity { name, settings, expected: None, ticket }
        }),
        1 => (path(), any::<bool>(), ticket()).prop_map(|(path, or_below, ticket)| {
            Command::FindEntity { path, or_below, auto_create: false, ticket }
        }),
        1 => Just(Command::WatchKeys),
        1 => (query, ticket()).prop_map(|(query, ticket)| Command::Describe { query, ticket }),
        2 => (name(), ticket())
            .prop_map(|(name, ticket)| Command::DeleteEntity { name, expected: None, ticket }),
    ]
    .boxed()
}

fn of_rule() -> Asked {
    let number = || 0_usize..3;
    prop_oneof![
        (path(), number(), ticket()).prop_map(|(path, number, ticket)| Command::AddRule {
            path,
            rule: Box::new(rule(number)),
            ticket
        }),
        (path(), number(), ticket()).prop_map(|(path, number, ticket)| {
            Command::UpdateRule { path, rule: Box::new(rule(number)), expected: None, ticket }
        }),
        (path(), number(), ticket()).prop_map(|(path, number, ticket)| {
            Command::RemoveRule { path, name: rule(number).name, expected: None, ticket }
        }),
        (path(), number(), ticket()).prop_map(|(path, number, ticket)| Command::ShowRule {
            path,
            name: rule(number).name,
            ticket
        }),
        (path(), ticket()).prop_map(|(path, ticket)| Command::ListRules { path, skip: 0, top: 9, ticket }),
    ]
    .boxed()
}
