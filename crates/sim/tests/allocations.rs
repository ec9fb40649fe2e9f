//! Allocations of messages on their whole way: frames of a sender, gateway, core, journal, gateway, frames of a
//! receiver, its settlement, and both answers. Everything is real but the sockets.
//!
//! Nothing is allocated for a message. What is allocated belongs to a batch: the commands of a read, the effects of a
//! round, a write of the journal. So batches of two sizes are counted, and the larger one may cost little more.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that panics has failed, as it should, and its figures are worth a look"
)]

use std::{path::PathBuf, sync::Arc, time::Instant};

use allocation_counter::measure;
use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Flow},
    types::ReceiverSettleMode,
};
use amqp_gateway::{Gateway, GatewayConfig, GatewayNamespace, Now};
use broker_auth::{Anonymous, Authority, Credentials, PeerFacts};
use broker_core::{Batch, ClientId, Command, CoreConfig, EntityKind, EntitySettings, Ticket, Timestamp};
use broker_log::{DiskWorker, JournalConfig, RealDisk};
use broker_node::{NamespaceId, Node};
use bytes::{Bytes, BytesMut};
use testkit::Script;

/// Messages that lie in one read.
const SMALL: u32 = 64;
const LARGE: u32 = 512;
/// Batches of each size that are counted, and before that passed to warm up.
const ROUNDS: u32 = 40;
const BODY: usize = 1_024;
/// For each message that a batch has more, in allocations. A share belongs to buffers that hold many: one of the
/// journal's for each 256 KiB, and vectors that grow.
const EACH_MAX: f64 = 0.25;
/// For a batch of the small size, in allocations.
const BATCH_MAX: f64 = 40.0;

/// One client and its gateway.
struct Line {
    script: Script,
    gateway: Gateway,
    namespace: GatewayNamespace,
    out: BytesMut,
    written: usize,
}

/// A broker with a sender and a receiver.
struct World {
    node: Node,
    worker: Option<DiskWorker<RealDisk>>,
    lines: [Line; 2],
    now: Now,
    /// Messages so far.
    count: u32,
    counted: u64,
}

const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn client(number: usize) -> ClientId {
    ClientId(number as u64 + 1)
}

fn line(number: usize, now: Now) -> Line {
    let authority = Arc::new(Authority::new(Credentials::development(Anonymous::Allow)));
    let peer = PeerFacts { tls: false, loopback: true, certificate_subject: None };
    let id = client(number);
    let config = Arc::new(GatewayConfig { deliver_window_bytes: 4 << 20, ..GatewayConfig::default() });
    let namespace = GatewayNamespace { name: "default".into(), authority, config };
    let (authority, config) = (Arc::clone(&namespace.authority), Arc::clone(&namespace.config));
    Line {
        script: Script::new(),
        gateway: Gateway::new(config, authority, id, peer, id.0, now),
        namespace,
        out: BytesMut::with_capacity(1 << 20),
        written: 0,
    }
}

impl World {
    fn new(mut node: Node, worker: Option<DiskWorker<RealDisk>>, mode: Option<ReceiverSettleMode>) -> Self {
        let utc = Timestamp::from_millis(1_795_000_000_000);
        let now = Now { instant: Instant::now(), utc, wall: utc };
        let create = Command::CreateEntity {
            name: "q".into(),
            kind: EntityKind::Queue,
            settings: Box::new(EntitySettings::default()),
            ticket: Ticket(1),
        };
        node.handle_batch(
            utc,
            NamespaceId::DEFAULT,
            Batch { client: ClientId(0), commands: vec![Command::Connect, create] },
        );
        let lines = [line(SENDER, now), line(RECEIVER, now)];
        let mut world = Self { node, worker, lines, now, count: 0, counted: 0 };
        world.turn();
        for number in [SENDER, RECEIVER] {
            let script = &mut world.lines[number].script;
            script.sasl("ANONYMOUS", None).open("client").begin(0);
            if number == SENDER {
                script.attach_sender(0, 0, "out", Some("q"));
            } else {
                script.attach_receiver(0, 0, "in", "q", mode);
            }
            world.hear(number);
        }
        world
    }

    /// The broker reads what a client has said, and does all that follows.
    fn hear(&mut self, number: usize) {
        let input = self.lines[number].script.take_output();
        let now = self.now;
        let count = measure(|| {
            let Line { gateway, namespace, .. } = &mut self.lines[number];
            gateway.handle_input(now, input);
            gateway.place_in(now, namespace);
            while self.turn() {}
        });
        self.counted += count.count_total;
    }

    /// One round of everybody; false when nothing was to be done.
    fn turn(&mut self) -> bool {
        let utc = self.now.utc;
        let mut busy = false;
        for (number, line) in self.lines.iter_mut().enumerate() {
            let commands = line.gateway.take_commands();
            if !commands.is_empty() {
                busy = true;
                self.node.handle_batch(utc, NamespaceId::DEFAULT, Batch { client: client(number), commands });
            }
        }
        while self.node.work(utc) {}
        while let Some(request) = self.node.poll_io() {
            let worker = self.worker.as_mut().expect("a disk");
            busy |= request.is_read();
            self.node.handle_io(worker.perform(request));
        }
        while let Some(released) = self.node.poll_effects() {
            busy = true;
            let line = self.lines.iter_mut().zip(0..).find(|(_, number)| client(*number) == released.client);
            if let Some((line, _)) = line {
                line.gateway.handle_effects(self.now, released.effects);
            }
        }
        for line in &mut self.lines {
            loop {
                line.out.clear();
                line.gateway.poll_output(self.now, &mut line.out, 256 << 10);
                if line.out.is_empty() {
                    break;
                }
                line.gateway.output_written(line.out.len());
                line.written += line.out.len();
                busy = true;
            }
            line.gateway.compact_queued();
        }
        busy
    }

    /// Messages in one read go in, come out, and are settled with one disposition.
    fn pass(&mut self, messages: u32, message: &Bytes, settles: bool) -> u64 {
        (self.counted, self.lines[SENDER].written, self.lines[RECEIVER].written) = (0, 0, 0);
        let flow = Flow {
            next_incoming_id: Some(self.count),
            incoming_window: 1 << 20,
            outgoing_window: 1 << 20,
            handle: Some(0),
            delivery_count: Some(self.count),
            link_credit: Some(messages),
            ..Flow::default()
        };
        self.lines[RECEIVER].script.flow(0, flow);
        self.hear(RECEIVER);
        for id in self.count..self.count + messages {
            self.lines[SENDER].script.transfer(0, 0, id, false, message);
        }
        self.hear(SENDER);
        let (first, last) = (self.count, self.count + messages - 1);
        self.count += messages;
        if settles {
            self.lines[RECEIVER].script.disposition(0, first, last, true, Some(DeliveryState::Accepted));
            self.hear(RECEIVER);
        }
        assert!(self.lines[SENDER].written > 20, "the sender has its answer");
        assert!(self.lines[RECEIVER].written > messages as usize * BODY, "the receiver has its messages");
        assert_eq!(self.node.core().entity("q").expect("the queue").active, 0, "all is settled");
        self.counted
    }

    /// The mean cost of a batch.
    fn cost(&mut self, messages: u32, settles: bool) -> f64 {
        let message = MessageBuilder::new().message_id("0123456789").data(&[7; BODY]).build();
        for _ in 0..ROUNDS {
            self.pass(messages, &message, settles);
        }
        let sum: u64 = (0..ROUNDS).map(|_| self.pass(messages, &message, settles)).sum();
        f64::from(u32::try_from(sum).expect("few")) / f64::from(ROUNDS)
    }
}

fn check(name: &str, node: Node, worker: Option<DiskWorker<RealDisk>>, mode: Option<ReceiverSettleMode>) {
    let mut world = World::new(node, worker, mode);
    let (small, large) = (world.cost(SMALL, mode.is_some()), world.cost(LARGE, mode.is_some()));
    let each = (large - small) / f64::from(LARGE - SMALL);
    println!("{name}: {small} for {SMALL} messages, {large} for {LARGE}: {each} for each");
    assert!(each < EACH_MAX, "{name}: {each} for each message");
    assert!(small < BATCH_MAX, "{name}: {small} for a batch of {SMALL}");
}

/// Peek-lock, and receive-and-delete.
const MODES: [Option<ReceiverSettleMode>; 2] = [Some(ReceiverSettleMode::First), None];

#[test]
fn a_message_in_memory_costs_no_allocation_on_its_whole_way() {
    for mode in MODES {
        let node = broker_node::in_memory(JournalConfig::default(), CoreConfig::default());
        check(&format!("in memory, {mode:?}"), node, None, mode);
    }
}

#[test]
fn a_durable_message_costs_no_allocation_on_its_whole_way() {
    for mode in MODES {
        let folder = Folder::new("allocations");
        let disk = RealDisk::open(folder.0.clone()).expect("a journal's folder");
        let journal = JournalConfig { reserve_bytes: 0, ..JournalConfig::default() };
        let node =
            broker_node::recover(disk.clone(), journal, CoreConfig::default()).expect("an empty journal");
        check(&format!("durable, {mode:?}"), node, Some(DiskWorker::new(disk)), mode);
    }
}
