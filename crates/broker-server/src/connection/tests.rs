use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard},
    task::Waker,
};

use amqp_codec::{
    performative::{Attach, Source, Target},
    raw::{AnnotationValue, RawMap},
    types::Role,
};
use amqp_gateway::GatewayConfig;
use broker_auth::{Anonymous, Authority, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, PeerFacts};
use broker_core::{
    Batch, Command, CoreConfig, Delivery, Effect, EntityKind, EntityPath, EntitySettings, LinkId, Message,
    NamespaceDefinition, NamespaceSlot, ReceiveMode, SubQueue, Ticket, UnsettledPolicy,
};
use broker_log::JournalConfig;
use testkit::Script;
use tokio::io::ReadBuf;

use broker_node::NamespaceId;

use super::*;
use crate::{
    connection_limit::ConnectionLimit,
    executor::Executor,
    in_flight_limit::InFlightLimit,
    namespaces::{NamespaceDirectory, directory::DirectoryConfig},
};
use crate::{metrics::Transport, node_driver::NodeDriver};

mod send_rate;
mod turns;

/// The broker's end of a connection; the test is the network.
#[derive(Clone, Debug, Default)]
struct Socket(Arc<Mutex<Network>>);

#[derive(Debug, Default)]
struct Network {
    input: VecDeque<u8>,
    /// Bytes that the broker has sent.
    output: Vec<u8>,
    /// Nothing is taken from the broker.
    full: bool,
    broken: bool,
    ended: bool,
    /// Time that the system takes for a write.
    write_time: Duration,
}

impl Socket {
    fn network(&self) -> MutexGuard<'_, Network> {
        self.0.lock().unwrap()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut network = self.network();
        if network.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if network.input.is_empty() && !network.ended {
            return Poll::Pending;
        }
        let count = network.input.len().min(buffer.remaining());
        buffer.put_slice(&network.input.drain(..count).collect::<Vec<u8>>());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut network = self.network();
        if network.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if network.full {
            return Poll::Pending;
        }
        let taken_at = clock::instant() + network.write_time;
        while clock::instant() < taken_at {}
        network.output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Somebody else: makes the queue `q`, fills it, and says what is left in it.
const OTHER: ClientId = ClientId(9);

fn q() -> EntityPath {
    EntityPath { entity: "q".into(), sub_queue: SubQueue::Main }
}

fn submit_item(executor: &Executor, commands: Vec<Command>) {
    executor.push(ExecutorItem::Batch(Batch { client: OTHER, commands }, 0));
}

/// A node with the queue `q`, whose locks last long, and the other's effect queue.
fn begun(clock: &Arc<Clock>) -> (Arc<Executor>, Arc<EffectQueue>) {
    let executor = Arc::new(Executor::new(0, Arc::clone(clock), Arc::default()));
    let other = begin(&executor, clock);
    (executor, other)
}

fn begin(executor: &Executor, clock: &Arc<Clock>) -> Arc<EffectQueue> {
    let node = broker_node::in_memory(JournalConfig::default(), CoreConfig::default());
    executor.begin(NodeDriver::new(node, Arc::clone(clock), None));
    let effect_queue = Arc::new(EffectQueue::default());
    executor.push(ExecutorItem::Register(OTHER, NamespaceId::DEFAULT, Arc::clone(&effect_queue)));
    let settings =
        Box::new(EntitySettings { lock_duration: Duration::from_secs(300), ..EntitySettings::default() });
    let create =
        Command::CreateEntity { name: "q".into(), kind: EntityKind::Queue, settings, ticket: Ticket(0) };
    submit_item(
        executor,
        vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }, create],
    );
    effect_queue
}

fn publish(executor: &Executor, count: usize) {
    let messages = vec![Message::default(); count];
    submit_item(executor, vec![Command::PublishTo { path: q(), messages, auto_create: false, ticket: None }]);
}

/// Deliveries that the other client gets from `q`.
fn received(executor: &Executor, effect_queue: &EffectQueue) -> Vec<Delivery> {
    let consumer = LinkId(1);
    let open = Command::OpenConsumer {
        consumer,
        path: q(),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    effect_queue.take();
    submit_item(executor, vec![open, Command::Credit { consumer, limit: 10_000, drain: false }]);
    taken(effect_queue)
}

/// Deliveries that have come.
fn taken(effect_queue: &EffectQueue) -> Vec<Delivery> {
    let effects = effect_queue.take().into_iter();
    effects
        .filter_map(|effect| match effect {
            Effect::Delivery(delivery) => Some(delivery),
            _ => None,
        })
        .collect()
}

/// Number of messages that the other client gets, and their largest delivery count.
fn left(executor: &Executor, effect_queue: &EffectQueue) -> (usize, u32) {
    let deliveries = received(executor, effect_queue);
    let counts = deliveries.iter().map(|delivery| delivery.stored.delivery_count);
    (deliveries.len(), counts.max().unwrap_or(0))
}

/// A client whose locks outlive its connection, ready to receive from `q`.
fn receiver() -> Script {
    let mut attach = Attach::new("receiver", 1, Role::Receiver);
    attach.properties =
        Some(RawMap::with_symbol_keys(&[("com.microsoft:timeout", AnnotationValue::Str("1"))]));
    attach.source = Some(Source::new("q"));
    attach.target = Some(Target::new("here"));
    let mut script = Script::new();
    script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("client").begin(0).attach(0, attach);
    script.credit(0, 1, 0, 100, false);
    script
}

/// The default namespace, whose connections together may have so many bytes in flight.
fn directory(executor: &Arc<Executor>, max_in_flight_bytes: usize) -> Arc<NamespaceDirectory> {
    directory_with(GatewayConfig::default(), executor, max_in_flight_bytes)
}

/// The same, with connections of this configuration, which create queues.
fn directory_with(
    gateway: GatewayConfig,
    executor: &Arc<Executor>,
    max_in_flight_bytes: usize,
) -> Arc<NamespaceDirectory> {
    let config = DirectoryConfig {
        gateway: Arc::new(GatewayConfig { auto_create: true, ..gateway }),
        in_flight_limit: Arc::new(InFlightLimit::new(max_in_flight_bytes)),
        lost_keys: watch::Sender::new(()),
        default_authority: Arc::new(Authority::new(Credentials::development(Anonymous::Deny))),
        authorities: BTreeMap::new(),
        created: Credentials::development(Anonymous::Deny),
        strict: false,
    };
    Arc::new(NamespaceDirectory::new(config, Arc::clone(executor)))
}

fn driver(
    client: ClientId,
    socket: &Socket,
    directory: &Arc<NamespaceDirectory>,
    clock: &Arc<Clock>,
    stop: &watch::Sender<Shutdown>,
) -> Driver<Socket> {
    driver_to(None, client, socket, directory, clock, stop)
}

/// A connection that came to this host name.
fn driver_to(
    host: Option<&str>,
    client: ClientId,
    socket: &Socket,
    directory: &Arc<NamespaceDirectory>,
    clock: &Arc<Clock>,
    stop: &watch::Sender<Shutdown>,
) -> Driver<Socket> {
    let limit = Arc::new(ConnectionLimit::new(usize::MAX));
    let placer = Placer::new(Arc::clone(directory), limit, host.map(Box::from));
    let first = placer.first();
    let gateway = Gateway::new(
        Arc::clone(&first.gateway),
        Arc::clone(&first.authority),
        client,
        PeerFacts { tls: false, certificate_subject: None, loopback: true },
        7,
        clock.now(),
    );
    let connection_gauge =
        ConnectionGauge::take(Arc::default(), Transport::Plain, "127.0.0.1:1".parse().unwrap());
    let clock = Arc::clone(clock);
    Driver::new(socket.clone(), (gateway, placer), (client, connection_gauge), clock, stop.subscribe(), None)
}

type Running = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// Runs a connection until it waits for something.
fn poll(running: &mut Running) -> Poll<io::Result<()>> {
    loop {
        let (polled, wants_more) = turns::turn(running);
        if polled.is_ready() || !wants_more {
            return polled;
        }
    }
}

#[test]
fn unsent_deliveries_of_an_ended_connection_are_there_for_others_at_once() {
    type Happening = fn(&Executor, &Socket, Running);
    let cases: [(&str, Happening, usize); 5] = [
        (
            "the socket fails while deliveries wait in the mailbox",
            |executor, socket, mut running| {
                publish(executor, 3);
                socket.network().broken = true;
                assert!(matches!(poll(&mut running), Poll::Ready(Err(_))));
            },
            3,
        ),
        (
            "the socket fails while it is to take earlier output; that may have arrived",
            |executor, socket, mut running| {
                socket.network().full = true;
                publish(executor, 1);
                assert!(poll(&mut running).is_pending());
                publish(executor, 2);
                socket.network().broken = true;
                assert!(matches!(poll(&mut running), Poll::Ready(Err(_))));
            },
            2,
        ),
        (
            "the stream ends",
            |executor, socket, mut running| {
                socket.network().full = true;
                publish(executor, 1);
                assert!(poll(&mut running).is_pending());
                publish(executor, 2);
                socket.network().ended = true;
                assert!(poll(&mut running).is_ready());
            },
            2,
        ),
        (
            "nobody runs the connection any more",
            |executor, _, running| {
                publish(executor, 3);
                drop(running);
            },
            3,
        ),
        (
            "nobody runs it any more, and deliveries wait for earlier output",
            |executor, socket, mut running| {
                socket.network().full = true;
                publish(executor, 1);
                assert!(poll(&mut running).is_pending());
                publish(executor, 2);
                assert!(poll(&mut running).is_pending());
                drop(running);
            },
            2,
        ),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    for (case, happening, expected) in cases {
        let (clock, socket, stop) = (Arc::default(), Socket::default(), watch::Sender::new(Shutdown::No));
        let (executor, other) = begun(&clock);
        let directory = directory(&executor, usize::MAX);
        let mut running: Running = Box::pin(driver(ClientId(1), &socket, &directory, &clock, &stop).run());
        socket.network().input.extend(receiver().take_output());
        assert!(poll(&mut running).is_pending(), "{case}");
        happening(&executor, &socket, running);
        assert_eq!(left(&executor, &other), (expected, 0), "{case}");
    }
}

/// Messages of one sender.
const MESSAGES: u32 = 200;
/// The text of a message begins with its sender's name and its number.
const TEXT: usize = 8;

/// A client that sends its messages to `q`.
fn sender(name: char) -> Script {
    let mut script = Script::new();
    script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("client").begin(0);
    script.attach_sender(0, 1, "sender", Some("q"));
    for number in 0..MESSAGES {
        let body = format!("{name}{number:07}{}", ".".repeat(4 << 10));
        script.transfer(0, 1, number, false, &testkit::data(body.as_bytes()));
    }
    script
}

#[test]
fn while_the_node_is_busy_all_connections_together_hand_over_so_much_and_nothing_is_lost() {
    const LIMIT: usize = 100_000;
    const NAMES: [char; 3] = ['a', 'b', 'c'];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let (clock, stop) = (Arc::default(), watch::Sender::new(Shutdown::No));
    let executor = Arc::new(Executor::new(0, Arc::clone(&clock), Arc::default()));
    let directory = directory(&executor, LIMIT);
    let (sockets, mut running): (Vec<Socket>, Vec<Running>) = NAMES
        .iter()
        .zip(1..)
        .map(|(name, number)| {
            let socket = Socket::default();
            socket.network().input.extend(sender(*name).take_output());
            let driver = driver(ClientId(number), &socket, &directory, &clock, &stop);
            (socket, Box::pin(driver.run()) as Running)
        })
        .unzip();
    let unread =
        |sockets: &[Socket]| sockets.iter().map(|socket| socket.network().input.len()).collect::<Vec<_>>();
    let all = unread(&sockets);
    // Nobody runs the node yet: whatever is handed over waits.
    for _ in 0..3 {
        for running in &mut running {
            assert!(poll(running).is_pending());
        }
    }
    let waits = unread(&sockets);
    assert!(waits[0] < all[0] && waits[0] > 0, "the first has read, and stopped: {waits:?} of {all:?}");
    assert_eq!(waits[1..], all[1..], "the others have not begun");
    let other = begin(&executor, &clock);
    let mut deliveries = received(&executor, &other);
    // Turns of connections and of the node end by time: on a busy machine everything takes more of them.
    for _ in 0..100_000 {
        for running in &mut running {
            assert!(poll(running).is_pending());
        }
        executor.push(ExecutorItem::MemoryFull(false));
        deliveries.extend(taken(&other));
        if deliveries.len() == NAMES.len() * MESSAGES as usize {
            break;
        }
    }
    assert_eq!(unread(&sockets), [0; 3]);
    let mut numbers = BTreeMap::new();
    for delivery in deliveries {
        let payload = &delivery.stored.payload;
        let at = payload.len() - (TEXT + (4 << 10));
        let text = String::from_utf8(payload[at..at + TEXT].to_vec()).unwrap();
        let (name, number) = text.split_at(1);
        numbers.entry(name.to_owned()).or_insert_with(Vec::new).push(number.parse::<u32>().unwrap());
    }
    let expected: Vec<u32> = (0..MESSAGES).collect();
    assert_eq!(numbers.len(), NAMES.len());
    assert!(numbers.values().all(|numbers| *numbers == expected), "in their order");
}

#[test]
fn a_namespace_with_little_in_flight_is_read_while_another_one_has_its_share() {
    const LIMIT: usize = 4 << 20;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let (clock, stop) = (Arc::default(), watch::Sender::new(Shutdown::No));
    // Nobody runs the node: whatever is handed over waits.
    let executor = Arc::new(Executor::new(0, Arc::clone(&clock), Arc::default()));
    let directory = directory(&executor, LIMIT);
    let definition =
        NamespaceDefinition { uid: 1, ..NamespaceDefinition::unknown(NamespaceSlot(1), "team".into()) };
    let team = directory.apply(definition, &executor).unwrap();
    let connect = |number, host| {
        let socket = Socket::default();
        socket.network().input.extend(sender('a').take_output());
        let driver = driver_to(host, ClientId(number), &socket, &directory, &clock, &stop);
        (socket, Box::pin(driver.run()) as Running)
    };
    let (sockets, mut running): (Vec<Socket>, Vec<Running>) =
        (10..16).map(|number| connect(number, None)).unzip();
    for running in &mut running {
        assert!(poll(running).is_pending());
    }
    assert!(sockets.iter().any(|socket| !socket.network().input.is_empty()), "some wait");
    let full = directory.of_default().ingress_credit.bytes();
    let (share, one_read) = (LIMIT * 9 / 10, 300 << 10);
    assert!((share..share + one_read).contains(&full), "{full} of {LIMIT}");
    let (_socket, mut of_team) = connect(20, Some("team"));
    assert!(poll(&mut of_team).is_pending());
    assert!(team.ingress_credit.bytes() > 0);
}

#[test]
fn submitted_batches_count_as_traffic_for_the_scrape_throttle() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let (clock, socket, stop) = (Arc::default(), Socket::default(), watch::Sender::new(Shutdown::No));
    let (executor, other) = begun(&clock);
    let directory = directory(&executor, usize::MAX);
    let mut running: Running = Box::pin(driver(ClientId(1), &socket, &directory, &clock, &stop).run());
    let mut script = Script::new();
    script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("client").begin(0);
    script.attach_sender(0, 1, "sender", Some("q"));
    socket.network().input.extend(script.take_output());
    assert!(poll(&mut running).is_pending());
    let attached = executor.traffic();
    // It is polled, and nothing has come.
    assert!(poll(&mut running).is_pending());
    assert_eq!(executor.traffic(), attached);
    script.transfer(0, 1, 0, false, &testkit::data(b"a message"));
    socket.network().input.extend(script.take_output());
    assert!(poll(&mut running).is_pending());
    assert!(executor.traffic() > attached);
    // Batches of clients that are no AMQP connection are not counted.
    let sent = executor.traffic();
    assert_eq!(received(&executor, &other).len(), 1);
    assert_eq!(executor.traffic(), sent);
}
