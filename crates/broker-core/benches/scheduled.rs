//! The life of a scheduled message in the core, with few and with a million others waiting: it is scheduled for a
//! moment anywhere among theirs, comes due, and is taken.
//!
//! Each turn is a millisecond: as many messages come due in it as are scheduled in it, so the number of waiting ones
//! stays. Payloads have 16 bytes; the journal here keeps what may still be read in memory.

use std::{collections::VecDeque, hint::black_box, time::Duration};

use broker_core::{
    Batch, ClientId, Command, Core, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, Message,
    Output, Position, QueueId, SequenceNumber, StorageError, StoredRecord, SubQueue, Ticket, Timestamp,
};
use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const CLIENT: ClientId = ClientId(1);
/// Messages scheduled, and on average activated, in one millisecond.
const RATE: u64 = 100;

/// A journal in memory; a chunk is what was committed together.
#[derive(Default)]
struct Recent {
    end: u64,
    open: BytesMut,
    chunks: VecDeque<(u64, Bytes)>,
    chunks_max: usize,
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
    /// Messages are scheduled at most so many milliseconds ahead.
    window: u64,
    /// For delays that look random and are the same each time.
    random: u64,
}

impl Broker {
    /// With about `waiting` messages scheduled.
    fn new(waiting: u64) -> Self {
        // With delays spread evenly over the window, a message waits for half of it.
        let window = 2 * waiting / RATE;
        let chunks_max = usize::try_from(3 * window).unwrap_or(usize::MAX);
        let mut broker = Self {
            core: Core::new(CoreConfig::default()),
            recent: Recent { chunks_max, ..Recent::default() },
            now: Timestamp::from_millis(1_763_000_000_000),
            window,
            random: 1,
        };
        broker.tell(vec![
            Command::Connect,
            Command::CreateEntity {
                name: "q".into(),
                kind: EntityKind::Queue,
                settings: Box::new(EntitySettings::default()),
                ticket: Ticket(0),
            },
        ]);
        for _ in 0..window {
            broker.turn();
        }
        broker
    }

    fn tell(&mut self, commands: Vec<Command>) {
        self.core.handle_batch(self.now, Batch { client: CLIENT, commands }, &mut self.recent);
        self.recent.commit();
    }

    fn delay(&mut self) -> Duration {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(1 + (self.random >> 33) % self.window)
    }

    /// A millisecond passes: what is due comes, is taken, and as many are scheduled.
    fn turn(&mut self) {
        self.now = Timestamp::from_millis(self.now.as_millis() + 1);
        while self.core.handle_deadline(self.now, &mut self.recent) {}
        self.recent.commit();
        let payload = Bytes::from_static(b"sixteen bytes ..");
        let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
        let mut commands: Vec<Command> = (0..RATE)
            .map(|ticket| Command::Publish {
                queue: QueueId(1),
                message: Message {
                    payload: payload.clone(),
                    scheduled_enqueue_time: Some(self.now.after(self.delay())),
                    ..Message::default()
                },
                ticket: Some(Ticket(ticket)),
            })
            .collect();
        commands.push(Command::DeleteMessages {
            session: None,
            path,
            count: u32::MAX,
            before: Timestamp::MAX,
            ticket: Ticket(1 << 40),
        });
        self.tell(commands);
    }
}

fn scheduled(c: &mut Criterion) {
    let mut group = c.benchmark_group("life of a scheduled message");
    group.throughput(Throughput::Elements(RATE));
    for waiting in [1_000, 1_000_000] {
        let mut broker = Broker::new(waiting);
        group.bench_function(format!("{waiting} waiting"), |bench| bench.iter(|| broker.turn()));
        black_box(SequenceNumber(broker.core.entity("q").map_or(0, |view| view.scheduled)));
    }
    group.finish();
}

criterion_group!(benches, scheduled);
criterion_main!(benches);
