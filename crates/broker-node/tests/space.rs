//! The journal's space comes back under any order of settlement, and one message that stays does not hold the rest.

use broker_core::{
    Batch, ClientId, Command, CoreConfig, Delivery, Effect, EntityKind, EntityPath, EntitySettings, LinkId,
    LockId, Message, Outcome, Properties, QueueId, ReceiveMode, SequenceNumber, SubQueue, Ticket, Timestamp,
    UnsettledPolicy,
};
use broker_log::{Disk as _, DiskWorker, JournalConfig, MemDisk};
use broker_node::{NamespaceId, Node, recover};
use bytes::Bytes;
use proptest::prelude::*;

const CLIENT: ClientId = ClientId(7);
const MAIN: LinkId = LinkId(1);
const DEAD: LinkId = LinkId(2);
const SEGMENT: u64 = 16 << 10;
/// Larger than a segment: such a message has one of its own.
const BODY_MAX: usize = 20_000;
/// Before anything else, so often five messages of so many bytes come: far more than may be left in the end.
const BASE: (usize, usize) = (60, 1_500);

#[derive(Clone, Copy, Debug)]
enum How {
    Complete,
    Abandon,
    Release,
    DeadLetter,
    Defer,
}

#[derive(Clone, Debug)]
enum Step {
    Publish { messages: usize, bytes: usize },
    Settle { nth: usize, how: How },
    FetchDeferred,
    Pass { millis: u64 },
}

/// In which order the messages that are left are completed.
#[derive(Clone, Copy, Debug)]
enum Order {
    Forward,
    Backward,
    /// Every second one, then the others.
    EverySecond,
    /// As the seed says.
    Random(u64),
}

/// A message that somebody has a lock on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct DurabilityQueue {
    queue: QueueId,
    sequence: SequenceNumber,
    lock: LockId,
    dead: bool,
    /// It was fetched by its number, and given back it waits to be fetched again.
    fetched: bool,
}

struct World {
    node: Node,
    disk: MemDisk,
    now: u64,
    /// Id of the queue itself, once a message of it came.
    main: QueueId,
    held: Vec<DurabilityQueue>,
    deferred: Vec<SequenceNumber>,
}

fn journal() -> JournalConfig {
    JournalConfig {
        segment_bytes: SEGMENT,
        reserve_bytes: 0,
        cache_bytes: 64 << 10,
        ..JournalConfig::default()
    }
}

fn path(sub_queue: SubQueue) -> EntityPath {
    EntityPath { entity: "orders".into(), sub_queue }
}

fn receive(consumer: LinkId, sub_queue: SubQueue) -> [Command; 2] {
    let open = Command::OpenConsumer {
        consumer,
        path: path(sub_queue),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    [open, Command::Credit { consumer, limit: u64::MAX, drain: false }]
}

impl World {
    fn new() -> Self {
        let disk = MemDisk::new();
        let node = recover(disk.clone(), journal(), CoreConfig::default()).expect("an empty journal");
        let (held, deferred) = (Vec::new(), Vec::new());
        let mut world = Self { node, disk, now: 1_000_000, main: QueueId(0), held, deferred };
        let create = Command::CreateEntity {
            name: "orders".into(),
            kind: EntityKind::Queue,
            settings: Box::new(EntitySettings::default()),
            ticket: Ticket(1),
        };
        world.ask(vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }, create]);
        world.ask([receive(MAIN, SubQueue::Main), receive(DEAD, SubQueue::DeadLetter)].concat());
        world
    }

    /// The broker does what is asked, and all that there is to do then.
    fn ask(&mut self, commands: Vec<Command>) {
        let now = Timestamp::from_millis(self.now);
        self.node.handle_batch(now, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
        self.turns();
    }

    fn turns(&mut self) {
        let now = Timestamp::from_millis(self.now);
        let mut worker = DiskWorker::new(self.disk.clone());
        loop {
            let mut busy = self.node.work(now);
            while let Some(request) = self.node.poll_io() {
                busy = true;
                let done = worker.perform(request);
                self.node.handle_io(done);
            }
            while let Some(released) = self.node.poll_effects() {
                busy = true;
                released.effects.into_iter().for_each(|effect| self.take(effect));
            }
            if !busy {
                return;
            }
        }
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Delivery(Delivery { consumer, queue, sequence, lock, .. }) => {
                let (lock, dead) = (lock.expect("a lock").id, consumer == DEAD);
                if !dead {
                    self.main = queue;
                }
                self.held.push(DurabilityQueue { queue, sequence, lock, dead, fetched: false });
            }
            Effect::Fetched { messages, .. } => {
                let queue = self.main;
                self.held.extend(messages.into_iter().map(|message| {
                    let lock = message.lock.expect("a lock").id;
                    DurabilityQueue { queue, sequence: message.sequence, lock, dead: false, fetched: true }
                }));
            }
            Effect::SettleRefused { error, .. } => panic!("{error:?}"),
            _ => {}
        }
    }

    fn publish(&mut self, messages: usize, bytes: usize) {
        let message = Message { payload: Bytes::from(vec![7; bytes]), ..Message::default() };
        let messages = vec![message; messages];
        self.ask(vec![Command::PublishTo {
            path: path(SubQueue::Main),
            messages,
            auto_create: false,
            ticket: Some(Ticket(2)),
        }]);
    }

    fn settle(&mut self, held: &[DurabilityQueue], how: How) {
        let mut commands = Vec::new();
        for DurabilityQueue { queue, sequence, lock, dead, fetched } in held.iter().copied() {
            let outcome = match how {
                How::Complete => Outcome::Complete,
                // A dead letter stays one, and is not set aside here.
                How::DeadLetter if !dead => Outcome::DeadLetter(Properties::default()),
                How::Defer if !dead => Outcome::Defer(Properties::default()),
                How::Abandon if !fetched => Outcome::Abandon(Properties::default()),
                _ => Outcome::Release(Properties::default()),
            };
            if matches!(outcome, Outcome::Defer(_)) || fetched && matches!(outcome, Outcome::Release(_)) {
                self.deferred.push(sequence);
            }
            commands.push(Command::Settle { queue, sequence, lock, outcome, ticket: Some(Ticket(3)) });
        }
        self.ask(commands);
    }

    fn fetch_deferred(&mut self) {
        let sequences = std::mem::take(&mut self.deferred);
        if !sequences.is_empty() {
            self.ask(vec![Command::ReceiveDeferred {
                path: path(SubQueue::Main),
                session: None,
                sequences,
                delete: false,
                bytes: u64::MAX,
                ticket: Ticket(4),
            }]);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Publish { messages, bytes } => self.publish(messages, bytes),
            Step::Settle { nth, how } if !self.held.is_empty() => {
                let held = self.held.swap_remove(nth % self.held.len());
                self.settle(&[held], how);
            }
            Step::Settle { .. } => {}
            Step::FetchDeferred => self.fetch_deferred(),
            Step::Pass { millis } => {
                self.now += millis;
                self.turns();
            }
        }
    }

    /// Completes everything in this order, but for the messages that stay.
    fn complete(&mut self, order: Order, stay: usize) {
        self.fetch_deferred();
        self.held.sort_by_key(|held| (held.sequence, held.dead));
        let mut held = std::mem::take(&mut self.held);
        let kept = held.len().min(stay);
        // From the middle: what is oldest and what is newest goes.
        let from = (held.len() - kept) / 2;
        held.drain(from..from + kept);
        arrange(&mut held, order);
        for some in held.chunks(7) {
            self.settle(some, How::Complete);
        }
        assert_eq!(self.held, [], "nothing comes back");
        let view = self.node.core().entity("orders").expect("the queue");
        let left = [view.active, view.deferred, view.dead_letter].iter().sum::<u64>();
        assert_eq!(left, kept as u64, "{view:?}");
        // Unawaited records are written after a while.
        self.now += 1_000;
        self.turns();
    }

    /// The bound of `docs/operations.md`, where the records that are needed take `live_max` bytes.
    fn check_space(&self, live_max: u64) {
        let stats = self.node.journal().stats();
        let core = self.node.core();
        let (live, view) = (core.live_records().collect::<Vec<_>>(), core.entity("orders"));
        assert!(stats.live_bytes <= live_max, "at most {live_max} live: {stats:?} {live:?} {view:?}");
        let files = self.disk.list().expect("a disk in memory");
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let used = (2 * live_max).max(live_max + 3 * SEGMENT);
        // One is being filled, two are ready, and the last unit of each may lie across its end.
        let bound = (used + 3 * SEGMENT) / 4 * 5;
        assert!(bytes <= bound, "{bytes} bytes on disk, at most {bound}: {files:?} {stats:?}");
    }
}

/// Records of the queue and its stores.
const DEFINITIONS: u64 = 2_000;

fn arrange(held: &mut Vec<DurabilityQueue>, order: Order) {
    match order {
        Order::Forward => {}
        Order::Backward => held.reverse(),
        Order::EverySecond => {
            let (even, odd): (Vec<_>, Vec<_>) =
                held.iter().enumerate().partition(|(place, _)| place % 2 == 0);
            *held = even.into_iter().chain(odd).map(|(_, held)| *held).collect();
        }
        Order::Random(seed) => {
            let mixed = |held: &DurabilityQueue| {
                (held.sequence.0 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            };
            held.sort_by_key(mixed);
        }
    }
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        4 => Just(How::Complete),
        2 => Just(How::Abandon),
        1 => Just(How::Release),
        2 => Just(How::DeadLetter),
        2 => Just(How::Defer),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_usize..5, prop_oneof![4 => 0_usize..3_000, 1 => 3_000..BODY_MAX])
            .prop_map(|(messages, bytes)| Step::Publish { messages, bytes }),
        8 => (any::<usize>(), how()).prop_map(|(nth, how)| Step::Settle { nth, how }),
        1 => Just(Step::FetchDeferred),
        1 => (1_u64..50).prop_map(|millis| Step::Pass { millis }),
    ]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::Forward),
        Just(Order::Backward),
        Just(Order::EverySecond),
        any::<u64>().prop_map(Order::Random),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn space_is_reclaimed_in_any_order_of_settlements(
        steps in prop::collection::vec(step(), 0..120),
        order in order(),
        stay in 0_usize..3,
    ) {
        let mut world = World::new();
        (0..BASE.0).for_each(|_| world.publish(5, BASE.1));
        for step in &steps {
            world.step(step);
        }
        world.complete(order, stay);
        let live_max = DEFINITIONS + stay as u64 * (BODY_MAX as u64 + 100);
        world.check_space(live_max);
        // And after a restart.
        world.node = recover(world.disk.clone(), journal(), CoreConfig::default()).expect("a sound journal");
        world.ask(vec![Command::Connect]);
        world.check_space(live_max);
    }
}
