//! Cost of a message of a session in the core, which must not depend on the number of sessions: enqueue, deliver to
//! the holder, complete; and the same with a session accepted and given up for each message.

use std::time::Duration;

use broker_core::{
    Command, CoreConfig, EntityKind, EntitySettings, LinkId, Message, QueueId, ReceiveMode, SessionWanted,
    UnsettledPolicy,
};
use criterion::{Criterion, Throughput, criterion_group};

use crate::toolbox::{Broker, JOURNAL_BYTES, message, path};

/// Messages of one turn.
const TURN: u32 = 100;

struct Queue {
    broker: Broker,
    id: QueueId,
    names: Vec<Box<str>>,
    next: usize,
    taken: usize,
}

impl Queue {
    fn new(sessions: u32) -> Self {
        let config = CoreConfig { max_links_per_client: u64::MAX, ..CoreConfig::default() };
        let config = CoreConfig { max_consumers_per_entity: u64::MAX, ..config };
        // A message of the acceptors waits for a turn of all sessions.
        let mut broker = Broker::new(config, u64::from(sessions) * JOURNAL_BYTES);
        let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
        let id = broker.create("q", EntityKind::Queue, settings);
        let names = (0..sessions).map(|number| format!("session-{number}").into()).collect();
        Self { broker, id, names, next: 0, taken: 0 }
    }

    fn open(link: u32, session: SessionWanted) -> Command {
        Command::OpenConsumer {
            consumer: LinkId(link),
            path: path("q"),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            session: Some(session),
            auto_create: false,
        }
    }

    fn publish(&self, session: Box<str>) -> Command {
        let message = Message { session_id: Some(session), ..message() };
        Command::Publish { queue: self.id, message, ticket: None }
    }

    /// Each session has a holder.
    fn held(sessions: u32) -> Self {
        let mut queue = Self::new(sessions);
        for (link, name) in (0..).zip(queue.names.clone()) {
            let credit = Command::Credit { consumer: LinkId(link), limit: u64::MAX, drain: false };
            queue.broker.tell(vec![Self::open(link, SessionWanted::Named(name)), credit]);
        }
        queue
    }

    /// Each session has a message.
    fn filled(sessions: u32) -> Self {
        let mut queue = Self::new(sessions);
        for name in queue.names.clone() {
            let publish = queue.publish(name);
            queue.broker.tell(vec![publish]);
        }
        queue
    }

    /// One message for each of the next sessions, all of which are held.
    fn turn_of_holders(&mut self) {
        let places = (0..TURN as usize).map(|step| (self.next + step) % self.names.len());
        let names = places.filter_map(|place| self.names.get(place).cloned());
        let commands = names.map(|name| self.publish(name)).collect();
        self.next = (self.next + TURN as usize) % self.names.len();
        self.broker.tell(commands);
        self.broker.deliver_all();
        self.taken += self.broker.complete();
    }

    /// The next session is accepted, its message taken and completed, the session given up; it gets a new message.
    fn turn_of_acceptors(&mut self) {
        for _ in 0..TURN {
            let credit = Command::Credit { consumer: LinkId(1), limit: 1, drain: false };
            let next = SessionWanted::Next { patience: Duration::ZERO };
            self.broker.tell(vec![Self::open(1, next), credit]);
            self.broker.deliver_all();
            self.taken += self.broker.complete();
            let session = self.broker.recent.accepted.pop().unwrap_or_default();
            let publish = self.publish(session);
            self.broker.tell(vec![Command::CloseConsumer { consumer: LinkId(1) }, publish]);
        }
    }
}

fn sessions(c: &mut Criterion) {
    let mut group = c.benchmark_group("a message of a session");
    group.throughput(Throughput::Elements(TURN.into()));
    for sessions in [100, 10_000] {
        let mut queue = None;
        group.bench_function(format!("held, {sessions} sessions"), |bench| {
            let queue = queue.get_or_insert_with(|| Queue::held(sessions));
            bench.iter(|| queue.turn_of_holders());
            assert!(queue.taken > 0, "messages are handed out");
        });
        let mut queue = None;
        group.bench_function(format!("accepted for it, {sessions} sessions"), |bench| {
            let queue = queue.get_or_insert_with(|| Queue::filled(sessions));
            bench.iter(|| queue.turn_of_acceptors());
            assert!(queue.taken > 0, "messages are handed out");
        });
    }
    group.finish();
}

criterion_group!(benches, sessions);
