use broker_core::{
    CoreConfig, EntityKind, EntityPath, EntitySettings, LinkId, Message, ReceiveMode, SubQueue, Ticket,
    UnsettledPolicy,
};
use broker_log::JournalConfig;
use broker_node::NodeLimits;

use super::*;
use crate::mailbox::IN_FLIGHT_MAX;

const CLIENT: ClientId = ClientId(7);

/// A node that hands a message to a client over a link that keeps its locks.
fn delivering() -> (Runner, Arc<Mailbox>) {
    let node = broker_node::in_memory(JournalConfig::default(), CoreConfig::default());
    let mut runner = Runner::new(node, Arc::default(), None);
    let mailbox = Arc::new(Mailbox::default());
    runner.handle(now(), Item::Register(CLIENT, Arc::clone(&mailbox)));
    let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
    let consumer = LinkId(1);
    let commands = vec![
        Command::Connect,
        Command::ByteBudget { limit: u64::MAX, least: 0 },
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
    runner.handle(now(), Item::Batch(Batch { client: CLIENT, commands }, 0));
    runner.node.work(now());
    assert_eq!(locked(&runner), 1);
    (runner, mailbox)
}

fn now() -> Timestamp {
    Clock::default().utc()
}

fn locked(runner: &Runner) -> u64 {
    runner.node.core().entity("q").map_or(0, |queue| queue.locked)
}

fn forget(runner: &mut Runner) {
    let batch = Batch { client: CLIENT, commands: vec![Command::Disconnect] };
    runner.handle(now(), Item::Batch(batch, 0));
    assert_eq!(locked(runner), 1, "the link keeps its locks");
    runner.handle(now(), Item::Forget(CLIENT));
}

#[test]
fn what_a_mailbox_holds_when_its_connection_ends_is_given_back() {
    let (mut runner, _mailbox) = delivering();
    assert!(!runner.release());
    forget(&mut runner);
    assert_eq!(locked(&runner), 0);
}

#[test]
fn what_becomes_durable_after_its_connection_has_ended_is_given_back() {
    let (mut runner, _mailbox) = delivering();
    forget(&mut runner);
    assert_eq!(locked(&runner), 1);
    assert!(runner.release(), "the node has to look for another consumer");
    assert_eq!(locked(&runner), 0);
}

#[test]
fn what_a_connection_took_stays_locked() {
    let (mut runner, mailbox) = delivering();
    runner.release();
    assert_eq!(mailbox.take().iter().filter(|e| matches!(e, Effect::Delivery(_))).count(), 1);
    forget(&mut runner);
    assert_eq!(locked(&runner), 1);
}

/// A runner whose node handles one command in a round, with one client, and the queue `q`.
fn one_by_one() -> (Runner, Arc<Mailbox>) {
    let limits = NodeLimits { round_bytes_max: 1, ..NodeLimits::default() };
    let node = broker_node::in_memory(JournalConfig::default(), CoreConfig::default()).with_limits(limits);
    let mut runner = Runner::new(node, Arc::default(), None);
    let mailbox = Arc::new(Mailbox::default());
    let create = Command::CreateEntity {
        name: "q".into(),
        kind: EntityKind::Queue,
        settings: Box::default(),
        ticket: Ticket(1),
    };
    let commands = vec![Command::Connect, create];
    let items =
        [Item::Register(CLIENT, Arc::clone(&mailbox)), Item::Batch(Batch { client: CLIENT, commands }, 0)];
    turns(&mut runner, items.into());
    (runner, mailbox)
}

fn turns(runner: &mut Runner, mut items: Vec<Item>) -> Option<Ended> {
    loop {
        let ended = runner.turn(&mut items, Duration::ZERO, || true);
        if ended.is_some() || !runner.has_more() {
            return ended;
        }
    }
}

fn three_messages() -> Item {
    let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
    let send = || Command::PublishTo {
        path: path.clone(),
        messages: vec![Message::default()],
        auto_create: false,
        ticket: None,
    };
    Item::Batch(Batch { client: CLIENT, commands: vec![send(), send(), send()] }, IN_FLIGHT_MAX)
}

fn stored(runner: &Runner) -> u64 {
    runner.node.core().entity("q").map_or(0, |queue| queue.active)
}

#[test]
fn a_client_reads_on_only_when_no_command_of_its_own_waits() {
    let (mut runner, mailbox) = one_by_one();
    mailbox.handed_over(IN_FLIGHT_MAX);
    let mut items = vec![three_messages()];
    for handled in 1..=3 {
        assert!(!mailbox.may_read(), "{handled}");
        assert_eq!(runner.turn(&mut items, Duration::ZERO, || true), None);
        assert_eq!(stored(&runner), handled.min(3));
    }
    assert!(mailbox.may_read() && !runner.node.has_waiting());
}

#[test]
fn what_many_clients_wait_for_is_looked_at_once_in_a_turn() {
    const CLIENTS: usize = 200;
    let (mut runner, _mailbox) = one_by_one();
    let clients: Vec<_> =
        (0..CLIENTS as u64).map(|number| (ClientId(100 + number), Arc::new(Mailbox::default()))).collect();
    for (client, mailbox) in &clients {
        runner.handle(now(), Item::Register(*client, Arc::clone(mailbox)));
        mailbox.handed_over(IN_FLIGHT_MAX);
    }
    let batches = clients.iter().map(|(client, _)| {
        let Item::Batch(batch, weight) = three_messages() else { unreachable!("it is one") };
        Item::Batch(Batch { client: *client, ..batch }, weight)
    });
    let mut items: Vec<_> = batches.collect();
    runner.looked_at = 0;
    runner.turn(&mut items, Duration::ZERO, || true);
    assert!(runner.looked_at <= 2 * CLIENTS, "{} looks for {CLIENTS} clients", runner.looked_at);
    turns(&mut runner, Vec::new());
    assert!(clients.iter().all(|(_, mailbox)| mailbox.may_read()));
    assert_eq!(stored(&runner), 3 * CLIENTS as u64);
}

#[test]
fn what_waits_is_handled_before_the_end() {
    let (mut runner, _mailbox) = one_by_one();
    assert_eq!(turns(&mut runner, vec![three_messages(), Item::Stop]), Some(Ended::Stopped));
    assert_eq!(stored(&runner), 3);
}
