//! The whole life of a message in the core: enqueue, lock and deliver, complete, with all records.
//!
//! The journal here keeps the last records in memory and copies them once, as the real one does. Payloads have 16
//! bytes: copying larger ones is the journal's affair.

use std::{collections::VecDeque, hint::black_box};

use broker_core::{
    Batch, ClientId, Command, Core, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, LinkId,
    LockId, Message, Operation, Outcome, Output, Position, PublishTarget, QueueId, ReceiveMode,
    SequenceNumber, StorageError, StoredRecord, SubQueue, Ticket, Timestamp, TransactionId, UnsettledPolicy,
};
use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const CLIENT: ClientId = ClientId(1);
const LINK: LinkId = LinkId(1);
/// Commands of one batch.
const BATCH: u64 = 256;

/// A journal of which the last chunks are remembered; a chunk is what was committed together.
#[derive(Default)]
struct Recent {
    end: u64,
    open: BytesMut,
    chunks: VecDeque<(u64, Bytes)>,
    chunks_max: usize,
    delivered: Vec<(QueueId, SequenceNumber, LockId)>,
}

impl Recent {
    fn commit(&mut self) {
        if !self.open.is_empty() {
            let chunk = self.open.split().freeze();
            self.chunks.push_back((self.end - chunk.len() as u64, chunk));
        }
        if self.chunks.len() > self.chunks_max {
            self.chunks.pop_front();
        }
        if self.open.capacity() < 1 << 16 {
            self.open = BytesMut::with_capacity(1 << 20);
        }
    }
}

impl Output for Recent {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let at = self.end;
        let before = self.open.len();
        self.open.extend_from_slice(index);
        for part in rest {
            self.open.extend_from_slice(part);
        }
        let length = self.open.len() - before;
        self.end += length as u64;
        (Position(at), u32::try_from(length).unwrap_or(u32::MAX))
    }

    fn release(&mut self, at: Position, length: u32) {
        black_box((at, length));
    }

    fn effect(&mut self, _: ClientId, effect: Effect) {
        if let Effect::Delivery(delivery) = &effect {
            let lock = delivery.lock.map_or(LockId(0), |lock| lock.id);
            self.delivered.push((delivery.queue, delivery.sequence, lock));
        }
        drop(black_box(effect));
    }

    fn read(&mut self, at: Position, length: u32) -> Result<StoredRecord, StorageError> {
        let place = self.chunks.partition_point(|(start, _)| *start <= at.0);
        let read = place.checked_sub(1).and_then(|place| self.chunks.get(place)).map(|(start, chunk)| {
            let from = usize::try_from(at.0 - start).unwrap_or(usize::MAX);
            chunk.slice(from..from + length as usize)
        });
        read.ok_or_else(|| StorageError { at, reason: "not there".into() })
    }

    fn readable(&self) -> Position {
        Position(self.end - self.open.len() as u64)
    }

    fn storage_full(&self) -> bool {
        false
    }
}

struct Broker {
    core: Core,
    recent: Recent,
    now: Timestamp,
    queue: QueueId,
    tickets: u64,
}

impl Broker {
    /// With `backlog` messages in the queue that nobody has asked for yet.
    fn new(backlog: u64, mode: ReceiveMode) -> Self {
        let now = Timestamp::from_millis(1_763_000_000_000);
        let mut broker = Self {
            core: Core::new(CoreConfig { pump_bytes_max: u64::MAX, ..CoreConfig::default() }),
            recent: Recent {
                chunks_max: usize::try_from(backlog / BATCH).unwrap_or(0) + 64,
                ..Recent::default()
            },
            now,
            queue: QueueId(1),
            tickets: 0,
        };
        let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
        let unsettled = UnsettledPolicy::Release;
        broker.tell(vec![
            Command::Connect,
            Command::ByteBudget { limit: u64::MAX },
            Command::CreateEntity {
                name: "q".into(),
                kind: EntityKind::Queue,
                settings: Box::new(EntitySettings::default()),
                ticket: Ticket(0),
            },
        ]);
        for _ in 0..backlog / BATCH {
            let commands = broker.publications(BATCH);
            broker.tell(commands);
        }
        broker.tell(vec![
            Command::OpenConsumer {
                consumer: LINK,
                path,
                mode,
                unsettled,
                session: None,
                auto_create: false,
            },
            Command::Credit { consumer: LINK, limit: 0, drain: false },
        ]);
        broker
    }

    fn tell(&mut self, commands: Vec<Command>) {
        self.core.handle_batch(self.now, Batch { client: CLIENT, commands }, &mut self.recent);
        self.recent.commit();
    }

    fn publications(&mut self, count: u64) -> Vec<Command> {
        let payload = Bytes::from_static(b"sixteen bytes ..");
        let first = self.tickets;
        self.tickets += count;
        let publish = |ticket| Command::Publish {
            queue: self.queue,
            message: Message { payload: payload.clone(), ..Message::default() },
            ticket: Some(Ticket(ticket)),
        };
        (first..self.tickets).map(publish).collect()
    }

    /// One batch of messages in, one out, one settled.
    fn turn(&mut self, mut commands: Vec<Command>, consumed: u64) {
        self.now = Timestamp::from_millis(self.now.as_millis() + 1);
        commands.push(Command::Credit { consumer: LINK, limit: consumed, drain: false });
        self.tell(commands);
        while self.core.pump(self.now, &mut self.recent) {}
        self.recent.commit();
        let mut tickets = 1 << 40;
        let settle = |(queue, sequence, lock)| {
            tickets += 1;
            let ticket = Some(Ticket(tickets));
            Command::Settle { queue, sequence, lock, outcome: Outcome::Complete, ticket }
        };
        let commands: Vec<Command> = self.recent.delivered.drain(..).map(settle).collect();
        if commands.iter().any(|command| matches!(command, Command::Settle { lock: LockId(0), .. })) {
            return;
        }
        self.tell(commands);
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
        let mut broker = Broker::new(backlog, mode);
        let mut consumed = 0;
        group.bench_function(name, |bench| {
            bench.iter_batched(
                || (),
                |()| {
                    consumed += BATCH;
                    let commands = broker.publications(BATCH);
                    broker.turn(commands, consumed);
                },
                BatchSize::SmallInput,
            );
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
        let mut broker = Broker::new(0, ReceiveMode::ReceiveAndDelete);
        let mut consumed = 0;
        group.bench_function(name, |bench| {
            bench.iter(|| {
                consumed += IN_ONE;
                let commands = if transacted { broker.transaction() } else { broker.publications(IN_ONE) };
                broker.turn(commands, consumed);
            });
        });
    }
    group.finish();
}

impl Broker {
    /// Declares, sends ten messages, commits.
    fn transaction(&mut self) -> Vec<Command> {
        let transaction = TransactionId(self.tickets);
        let mut commands = vec![Command::Declare { transaction, ticket: Ticket(self.tickets) }];
        for publication in self.publications(IN_ONE) {
            let Command::Publish { queue, message, ticket } = publication else { continue };
            let target = PublishTarget::Queue(queue);
            let operation = Operation::Publish { target, messages: vec![message], ticket };
            commands.push(Command::Enlist { transaction, operation: Box::new(operation) });
        }
        commands.push(Command::Discharge { transaction, fail: false, ticket: Some(Ticket(self.tickets)) });
        commands
    }
}

criterion_group!(benches, life, transactions);
criterion_main!(benches);
