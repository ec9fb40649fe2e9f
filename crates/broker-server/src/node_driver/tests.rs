use broker_core::{
    CoreConfig, EntityKind, EntityPath, EntitySettings, LinkId, Message, ReceiveMode, SubQueue, Ticket,
    UnsettledPolicy,
};
use broker_log::JournalConfig;
use broker_node::NodeLimits;

use super::*;
use crate::effect_queue::IN_FLIGHT_MAX;

const CLIENT: ClientId = ClientId(7);

/// A node that hands a message to a client over a link that keeps its locks.
fn delivering() -> (NodeDriver, Arc<EffectQueue>) {
    let node = broker_node::in_memory(JournalConfig::default(), CoreConfig::default());
    let mut node_driver = NodeDriver::new(node, Arc::default(), None);
    let effect_queue = Arc::new(EffectQueue::default());
    node_driver
        .handle(now(), ExecutorItem::Register(CLIENT, NamespaceId::DEFAULT, Arc::clone(&effect_queue)));
    let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
    let consumer = LinkId(1);
    let commands = vec![
        Command::Connect,
        Command::ByteBudget { limit: u64::MAX, min_bytes: 0 },
        Command::CreateEntity {
            name: "q".into(),
            kind: EntityKind::Queue,
            settings: Box::new(EntitySettings::default()),
            ticket: Ticket(1),
        },
        Command::OpenConsumer {
            consumer,
            path: path.clone(),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            session: None,
            auto_create: false,
        },
        Command::Credit { consumer, limit: 1, drain: false },
        Command::PublishTo { path, messages: vec![Message::default()], auto_create: false, ticket: None },
    ];
    node_driver.handle(now(), ExecutorItem::Batch(Batch { client: CLIENT, commands }, 0));
    node_driver.node.work(now());
    assert_eq!(locked(&node_driver), 1);
    (node_driver, effect_queue)
}

fn now() -> Timestamp {
    Clock::default().utc()
}

fn locked(node_driver: &NodeDriver) -> u64 {
    node_driver.node.core().entity("q").map_or(0, |queue| queue.locked)
}

fn forget(node_driver: &mut NodeDriver) {
    let batch = Batch { client: CLIENT, commands: vec![Command::Disconnect] };
    node_driver.handle(now(), ExecutorItem::Batch(batch, 0));
    assert_eq!(locked(node_driver), 1, "the link keeps its locks");
    node_driver.handle(now(), ExecutorItem::Forget(CLIENT));
}

#[test]
fn deliveries_in_the_effect_queue_of_an_ended_connection_are_released() {
    let (mut node_driver, _mailbox) = delivering();
    assert!(!node_driver.release());
    forget(&mut node_driver);
    assert_eq!(locked(&node_driver), 0);
}

#[test]
fn deliveries_that_become_durable_after_their_connection_ended_are_released() {
    let (mut node_driver, _mailbox) = delivering();
    forget(&mut node_driver);
    assert_eq!(locked(&node_driver), 1);
    assert!(node_driver.release(), "the node has to look for another consumer");
    assert_eq!(locked(&node_driver), 0);
}

#[test]
fn deliveries_that_a_connection_took_stay_locked() {
    let (mut node_driver, effect_queue) = delivering();
    node_driver.release();
    assert_eq!(effect_queue.take().iter().filter(|e| matches!(e, Effect::Delivery(_))).count(), 1);
    forget(&mut node_driver);
    assert_eq!(locked(&node_driver), 1);
}

/// A runner whose node handles one command in a round, with one client, and the queue `q`.
fn one_by_one() -> (NodeDriver, Arc<EffectQueue>) {
    let limits = NodeLimits { round_bytes_max: 1, ..NodeLimits::default() };
    let node = broker_node::in_memory(JournalConfig::default(), CoreConfig::default()).with_limits(limits);
    let mut node_driver = NodeDriver::new(node, Arc::default(), None);
    let effect_queue = Arc::new(EffectQueue::default());
    let create = Command::CreateEntity {
        name: "q".into(),
        kind: EntityKind::Queue,
        settings: Box::default(),
        ticket: Ticket(1),
    };
    let commands = vec![Command::Connect, create];
    let items = [
        ExecutorItem::Register(CLIENT, NamespaceId::DEFAULT, Arc::clone(&effect_queue)),
        ExecutorItem::Batch(Batch { client: CLIENT, commands }, 0),
    ];
    steps(&mut node_driver, items.into());
    (node_driver, effect_queue)
}

fn steps(node_driver: &mut NodeDriver, mut items: Vec<ExecutorItem>) -> Option<Ended> {
    loop {
        let ended = node_driver.step(&mut items, Duration::ZERO, || true);
        if ended.is_some() || !node_driver.has_more() {
            return ended;
        }
    }
}

fn three_messages() -> ExecutorItem {
    let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
    let send = || Command::PublishTo {
        path: path.clone(),
        messages: vec![Message::default()],
        auto_create: false,
        ticket: None,
    };
    ExecutorItem::Batch(Batch { client: CLIENT, commands: vec![send(), send(), send()] }, IN_FLIGHT_MAX)
}

fn stored(node_driver: &NodeDriver) -> u64 {
    node_driver.node.core().entity("q").map_or(0, |queue| queue.active)
}

#[test]
fn a_client_reads_on_only_when_no_command_of_its_own_waits() {
    let (mut node_driver, effect_queue) = one_by_one();
    effect_queue.handed_over(IN_FLIGHT_MAX);
    let mut items = vec![three_messages()];
    for handled in 1..=3 {
        assert!(!effect_queue.may_read(), "{handled}");
        assert_eq!(node_driver.step(&mut items, Duration::ZERO, || true), None);
        assert_eq!(stored(&node_driver), handled.min(3));
    }
    assert!(effect_queue.may_read() && !node_driver.node.has_deferred());
}

#[test]
fn many_clients_whose_batches_are_deferred_get_their_credit_back() {
    const CLIENTS: usize = 200;
    let (mut node_driver, _mailbox) = one_by_one();
    let clients: Vec<_> = (0..CLIENTS as u64)
        .map(|number| (ClientId(100 + number), Arc::new(EffectQueue::default())))
        .collect();
    for (client, effect_queue) in &clients {
        node_driver
            .handle(now(), ExecutorItem::Register(*client, NamespaceId::DEFAULT, Arc::clone(effect_queue)));
        effect_queue.handed_over(IN_FLIGHT_MAX);
    }
    let batches = clients.iter().map(|(client, _)| {
        let ExecutorItem::Batch(batch, weight) = three_messages() else { unreachable!("it is one") };
        ExecutorItem::Batch(Batch { client: *client, ..batch }, weight)
    });
    let mut items: Vec<_> = batches.collect();
    node_driver.step(&mut items, Duration::ZERO, || true);
    steps(&mut node_driver, Vec::new());
    assert!(clients.iter().all(|(_, effect_queue)| effect_queue.may_read()));
    assert_eq!(stored(&node_driver), 3 * CLIENTS as u64);
}

#[test]
fn waiting_batches_are_handled_before_the_end() {
    let (mut node_driver, _mailbox) = one_by_one();
    assert_eq!(steps(&mut node_driver, vec![three_messages(), ExecutorItem::Shutdown]), Some(Ended::Stopped));
    assert_eq!(stored(&node_driver), 3);
}
