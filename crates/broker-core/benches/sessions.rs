//! What a message of a session costs in the core, and that the number of sessions does not matter: enqueue, hand out to
//! the holder, complete; and the same with a session accepted and given up for each message.

use std::hint::black_box;

use broker_core::{
    Batch, ClientId, Command, Core, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, LinkId,
    LockId, Message, Outcome, Output, Position, QueueId, ReceiveMode, SequenceNumber, SessionWanted,
    StorageError, StoredRecord, SubQueue, Ticket, Timestamp, UnsettledPolicy,
};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const CLIENT: ClientId = ClientId(1);
/// Messages of one turn.
const TURN: u32 = 100;
const NOW: Timestamp = Timestamp::from_millis(1_763_000_000_000);

/// Records that the journal remembers: more than are appended while a message lives.
const REMEMBERED: u64 = 1 << 18;

/// A journal that remembers its last records.
#[derive(Default)]
struct Recent {
    records: Vec<Bytes>,
    end: u64,
    delivered: Vec<(QueueId, SequenceNumber, LockId)>,
    accepted: Vec<Box<str>>,
}

impl Output for Recent {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let record: Bytes = [&[index], rest].concat().concat().into();
        let (at, length) = (self.end, u32::try_from(record.len()).unwrap_or(u32::MAX));
        self.end += 1;
        match self.records.get_mut(place(Position(at))) {
            Some(place) => *place = record,
            None => self.records.push(record),
        }
        (Position(at), length)
    }

    fn release(&mut self, at: Position, length: u32) {
        black_box((at, length));
    }

    fn readable(&self) -> Position {
        Position(self.end)
    }

    fn effect(&mut self, _: ClientId, effect: Effect) {
        match &effect {
            Effect::Delivery(delivery) => {
                let lock = delivery.lock.map_or(LockId(0), |lock| lock.id);
                self.delivered.push((delivery.queue, delivery.sequence, lock));
            }
            Effect::ConsumerOpened { session: Some(grant), .. } => self.accepted.push(grant.id.clone()),
            _ => {}
        }
        drop(black_box(effect));
    }

    fn read(&mut self, at: Position, _: u32) -> Result<StoredRecord, StorageError> {
        self.records.get(place(at)).cloned().ok_or_else(|| StorageError { at, reason: "not there".into() })
    }

    fn storage_full(&self) -> bool {
        false
    }
}

/// Where a record lies in memory.
fn place(at: Position) -> usize {
    usize::try_from(at.0 % REMEMBERED).unwrap_or_default()
}

struct Broker {
    core: Core,
    recent: Recent,
    sessions: u32,
    next: u32,
    taken: u64,
}

impl Broker {
    fn new(sessions: u32) -> Self {
        let config = CoreConfig { max_links_per_client: u64::MAX, ..CoreConfig::default() };
        let config = CoreConfig { max_consumers_per_entity: u64::MAX, ..config };
        let mut broker =
            Self { core: Core::new(config), recent: Recent::default(), sessions, next: 0, taken: 0 };
        let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
        broker.tell(vec![
            Command::Connect,
            Command::ByteBudget { limit: u64::MAX },
            Command::CreateEntity {
                name: "q".into(),
                kind: EntityKind::Queue,
                settings: Box::new(settings),
                ticket: Ticket(0),
            },
        ]);
        broker
    }

    fn tell(&mut self, commands: Vec<Command>) {
        self.core.handle_batch(NOW, Batch { client: CLIENT, commands }, &mut self.recent);
        while self.core.pump(NOW, &mut self.recent) {}
    }

    fn open(link: u32, session: SessionWanted) -> Command {
        Command::OpenConsumer {
            consumer: LinkId(link),
            path: EntityPath { entity: "q".into(), sub_queue: SubQueue::Main },
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            session: Some(session),
            auto_create: false,
        }
    }

    fn publish(session: &str) -> Command {
        let payload = Bytes::from_static(b"sixteen bytes ..");
        let message = Message { payload, session_id: Some(session.into()), ..Message::default() };
        Command::Publish { queue: QueueId(1), message, ticket: None }
    }

    fn complete(&mut self) {
        let settle = |(queue, sequence, lock)| {
            let ticket = None;
            Command::Settle { queue, sequence, lock, outcome: Outcome::Complete, ticket }
        };
        let commands = self.recent.delivered.drain(..).map(settle).collect();
        self.tell(commands);
    }

    /// One message for each of the next sessions, all of which are held.
    fn turn_of_holders(&mut self) {
        let names = (0..TURN).map(|step| (self.next + step) % self.sessions);
        let commands = names.map(|name| Self::publish(&format!("session-{name}"))).collect();
        self.next = (self.next + TURN) % self.sessions;
        self.tell(commands);
        self.taken += self.recent.delivered.len() as u64;
        self.complete();
    }

    /// The next session is accepted, its message taken and completed, the session given up; it gets a new message.
    fn turn_of_acceptors(&mut self) {
        for _ in 0..TURN {
            let credit = Command::Credit { consumer: LinkId(1), limit: 1, drain: false };
            let next = SessionWanted::Next { patience: std::time::Duration::ZERO };
            self.tell(vec![Self::open(1, next), credit]);
            self.taken += self.recent.delivered.len() as u64;
            self.complete();
            let session = self.recent.accepted.pop().unwrap_or_default();
            self.tell(vec![Command::CloseConsumer { consumer: LinkId(1) }, Self::publish(&session)]);
        }
    }
}

fn sessions(c: &mut Criterion) {
    let mut group = c.benchmark_group("a message of a session");
    group.throughput(Throughput::Elements(TURN.into()));
    for sessions in [100, 10_000] {
        let mut broker = Broker::new(sessions);
        for link in 0..sessions {
            let credit = Command::Credit { consumer: LinkId(link), limit: u64::MAX, drain: false };
            let named = SessionWanted::Named(format!("session-{link}").into());
            broker.tell(vec![Broker::open(link, named), credit]);
        }
        group.bench_function(format!("held, {sessions} sessions"), |bench| {
            bench.iter(|| broker.turn_of_holders());
        });
        let mut broker = Broker::new(sessions);
        for session in 0..sessions {
            broker.tell(vec![Broker::publish(&format!("session-{session}"))]);
        }
        group.bench_function(format!("accepted for it, {sessions} sessions"), |bench| {
            bench.iter(|| broker.turn_of_acceptors());
        });
        assert!(broker.taken > 0, "messages are handed out");
    }
    group.finish();
}

criterion_group!(benches, sessions);
criterion_main!(benches);
