//! The whole life of a message in the core: enqueue, lock and deliver, complete, with all records.

use broker_core::{
    Command, CoreConfig, EntityKind, EntitySettings, LinkId, Message, QueueId, ReceiveMode, Ticket,
    TransactionId, UnsettledPolicy,
};
use criterion::{Criterion, Throughput, criterion_group};

use crate::toolbox::{Broker, JOURNAL_BYTES, message, path};

const LINK: LinkId = LinkId(1);
/// Commands of one batch.
const BATCH: u64 = 256;

/// A queue with one consumer.
struct Queue {
    broker: Broker,
    id: QueueId,
    tickets: u64,
    consumed: u64,
}

impl Queue {
    /// With `backlog` messages that nobody has asked for yet.
    fn new(backlog: u64, mode: ReceiveMode) -> Self {
        let config = CoreConfig { deliver_bytes_max: u64::MAX, ..CoreConfig::default() };
        let mut broker = Broker::new(config, backlog * JOURNAL_BYTES);
        let id = broker.create("q", EntityKind::Queue, EntitySettings::default());
        let mut queue = Self { broker, id, tickets: 0, consumed: 0 };
        for _ in 0..backlog / BATCH {
            let commands = queue.publications(BATCH);
            queue.broker.tell(commands);
        }
        let unsettled = UnsettledPolicy::Release;
        queue.broker.tell(vec![Command::OpenConsumer {
            consumer: LINK,
            path: path("q"),
            mode,
            unsettled,
            session: None,
            auto_create: false,
        }]);
        queue
    }

    fn messages(&mut self, count: u64) -> impl Iterator<Item = (Message, Option<Ticket>)> + use<> {
        let first = self.tickets;
        self.tickets += count;
        (first..self.tickets).map(|ticket| (message(), Some(Ticket(ticket))))
    }

    fn publications(&mut self, count: u64) -> Vec<Command> {
        let queue = self.id;
        self.messages(count).map(|(message, ticket)| Command::Publish { queue, message, ticket }).collect()
    }

    /// Declares, sends ten messages, commits.
    fn transaction(&mut self) -> Vec<Command> {
        let (transaction, ticket) = (TransactionId(self.tickets), Ticket(self.tickets));
        let mut commands = vec![Command::Declare { transaction, ticket }];
        for (message, ticket) in self.messages(IN_ONE) {
            let queue = self.id;
            let command = Command::PublishBatch { queue, messages: vec![message], ticket };
            commands.push(command.within(transaction));
        }
        commands.push(Command::Discharge { transaction, fail: false, ticket: Some(Ticket(self.tickets)) });
        commands
    }

    /// Messages in, as many out, all settled.
    fn turn(&mut self, mut commands: Vec<Command>, count: u64) {
        self.consumed += count;
        self.broker.tick();
        commands.push(Command::Credit { consumer: LINK, limit: self.consumed, drain: false });
        self.broker.tell(commands);
        self.broker.deliver_all();
        self.broker.complete();
    }
}

fn life(c: &mut Criterion) {
    let mut group = c.benchmark_group("life of a message");
    group.throughput(Throughput::Elements(BATCH));
    let cases = [
        ("peek-lock", 0, ReceiveMode::PeekLock),
        ("peek-lock, 1000000 queued", 1_000_000, ReceiveMode::PeekLock),
        ("receive and delete", 0, ReceiveMode::ReceiveAndDelete),
    ];
    for (name, backlog, mode) in cases {
        let mut queue = None;
        group.bench_function(name, |bench| {
            let queue = queue.get_or_insert_with(|| Queue::new(backlog, mode));
            bench.iter(|| {
                let commands = queue.publications(BATCH);
                queue.turn(commands, BATCH);
            });
        });
    }
    group.finish();
}

/// Messages of one transaction.
const IN_ONE: u64 = 10;

/// Ten sends in a transaction, and each by itself: what being in a transaction costs. They are received and deleted, so
/// that the queue does not grow.
fn transactions(c: &mut Criterion) {
    let mut group = c.benchmark_group("ten messages");
    group.throughput(Throughput::Elements(IN_ONE));
    for (name, transacted) in [("in a transaction", true), ("each by itself", false)] {
        let mut queue = None;
        group.bench_function(name, |bench| {
            let queue = queue.get_or_insert_with(|| Queue::new(0, ReceiveMode::ReceiveAndDelete));
            bench.iter(|| {
                let commands = if transacted { queue.transaction() } else { queue.publications(IN_ONE) };
                queue.turn(commands, IN_ONE);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, life, transactions);
