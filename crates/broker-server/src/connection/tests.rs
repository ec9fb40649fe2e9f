use std::{
    collections::VecDeque,
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
    CoreConfig, EntityKind, EntityPath, EntitySettings, LinkId, ReceiveMode, SubQueue, Ticket,
    UnsettledPolicy,
};
use broker_log::JournalConfig;
use testkit::Script;
use tokio::io::ReadBuf;

use super::*;
use crate::{meters::Transport, runner::Runner};

/// The broker's end of a connection; the test is the network.
#[derive(Clone, Debug, Default)]
struct Socket(Arc<Mutex<Network>>);

#[derive(Debug, Default)]
struct Network {
    input: VecDeque<u8>,
    /// What the broker has sent.
    output: Vec<u8>,
    /// Nothing is taken from the broker.
    full: bool,
    broken: bool,
    ended: bool,
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

fn bring(inbox: &Inbox, commands: Vec<Command>) {
    inbox.push(Item::Batch(Batch { client: OTHER, commands }, 0));
}

/// A node with the queue `q`, whose locks last long, and the other's mailbox.
fn begun(clock: &Arc<Clock>) -> (Arc<Inbox>, Arc<Mailbox>) {
    let inbox = Arc::new(Inbox::new(Arc::clone(clock)));
    let node = broker_node::in_memory(JournalConfig::default(), CoreConfig::default());
    inbox.begin(Runner::new(node, Arc::clone(clock), None));
    let mailbox = Arc::new(Mailbox::default());
    inbox.push(Item::Register(OTHER, Arc::clone(&mailbox)));
    let settings =
        Box::new(EntitySettings { lock_duration: Duration::from_secs(300), ..EntitySettings::default() });
    let create =
        Command::CreateEntity { name: "q".into(), kind: EntityKind::Queue, settings, ticket: Ticket(0) };
    bring(&inbox, vec![Command::Connect, Command::ByteBudget { limit: u64::MAX }, create]);
    (inbox, mailbox)
}

fn publish(inbox: &Inbox, count: usize) {
    let messages = vec![Message::default(); count];
    bring(inbox, vec![Command::PublishTo { path: q(), messages, auto_create: false, ticket: None }]);
}

/// How many messages the other gets, and how often at most they were delivered before.
fn left(inbox: &Inbox, mailbox: &Mailbox) -> (usize, u32) {
    let consumer = LinkId(1);
    let open = Command::OpenConsumer {
        consumer,
        path: q(),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    mailbox.take();
    bring(inbox, vec![open, Command::Credit { consumer, limit: 100, drain: false }]);
    let effects = mailbox.take();
    let deliveries = effects.iter().filter_map(|effect| match effect {
        Effect::Delivery(delivery) => Some(delivery.stored.delivery_count),
        _ => None,
    });
    let counts: Vec<u32> = deliveries.collect();
    (counts.len(), counts.into_iter().max().unwrap_or(0))
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

fn driver(
    socket: &Socket,
    inbox: &Arc<Inbox>,
    clock: &Arc<Clock>,
    stop: &watch::Sender<Stop>,
) -> Driver<Socket> {
    let gateway = Gateway::new(
        Arc::new(GatewayConfig::default()),
        Arc::new(Authority::new(Credentials::development(Anonymous::Deny))),
        ClientId(1),
        PeerFacts { tls: false, certificate_subject: None, loopback: true },
        7,
        clock.now(),
    );
    let (clock, inbox) = (Arc::clone(clock), Arc::clone(inbox));
    let seat = Seat::take(Arc::clone(inbox.meters()), Transport::Plain);
    Driver::new(socket.clone(), gateway, (ClientId(1), seat), clock, inbox, stop.subscribe(), None)
}

type Running = Pin<Box<dyn Future<Output = io::Result<()>>>>;

fn poll(running: &mut Running) -> Poll<io::Result<()>> {
    running.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn what_did_not_leave_before_a_connection_ended_is_there_for_others_at_once() {
    type Happening = fn(&Inbox, &Socket, Running);
    let cases: [(&str, Happening, usize); 5] = [
        (
            "the socket fails while deliveries wait in the mailbox",
            |inbox, socket, mut running| {
                publish(inbox, 3);
                socket.network().broken = true;
                assert!(matches!(poll(&mut running), Poll::Ready(Err(_))));
            },
            3,
        ),
        (
            "the socket fails while it is to take earlier output; that may have arrived",
            |inbox, socket, mut running| {
                socket.network().full = true;
                publish(inbox, 1);
                assert!(poll(&mut running).is_pending());
                publish(inbox, 2);
                socket.network().broken = true;
                assert!(matches!(poll(&mut running), Poll::Ready(Err(_))));
            },
            2,
        ),
        (
            "the stream ends",
            |inbox, socket, mut running| {
                socket.network().full = true;
                publish(inbox, 1);
                assert!(poll(&mut running).is_pending());
                publish(inbox, 2);
                socket.network().ended = true;
                assert!(poll(&mut running).is_ready());
            },
            2,
        ),
        (
            "nobody runs the connection any more",
            |inbox, _, running| {
                publish(inbox, 3);
                drop(running);
            },
            3,
        ),
        (
            "nobody runs it any more, and deliveries wait for earlier output",
            |inbox, socket, mut running| {
                socket.network().full = true;
                publish(inbox, 1);
                assert!(poll(&mut running).is_pending());
                publish(inbox, 2);
                assert!(poll(&mut running).is_pending());
                drop(running);
            },
            2,
        ),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    for (case, happening, expected) in cases {
        let (clock, socket, stop) = (Arc::default(), Socket::default(), watch::Sender::new(Stop::No));
        let (inbox, other) = begun(&clock);
        let mut running: Running = Box::pin(driver(&socket, &inbox, &clock, &stop).run());
        socket.network().input.extend(receiver().take_output());
        assert!(poll(&mut running).is_pending(), "{case}");
        happening(&inbox, &socket, running);
        assert_eq!(left(&inbox, &other), (expected, 0), "{case}");
    }
}
