//! The life of a scheduled message in the core, with few and with a million others waiting: it is scheduled for a
//! moment anywhere among theirs, comes due, and is taken.
//!
//! Each turn is a millisecond: as many messages come due in it as are scheduled in it, so the number of waiting ones
//! stays.

use std::time::Duration;

use broker_core::{Command, CoreConfig, EntityKind, EntitySettings, Message, QueueId, Ticket, Timestamp};
use criterion::{Criterion, Throughput, criterion_group};

use crate::toolbox::{Broker, JOURNAL_BYTES, NOBODY, message, path};

/// Messages scheduled, and on average activated, in one millisecond.
const RATE: u64 = 100;

struct Schedule {
    broker: Broker,
    queue: QueueId,
    /// Messages are scheduled at most so many milliseconds ahead.
    window: u64,
    /// For delays that look random and are the same each time.
    random: u64,
}

impl Schedule {
    /// With about `waiting` messages scheduled.
    fn new(waiting: u64) -> Self {
        // With delays spread evenly over the window, a message waits for half of it.
        let window = 2 * waiting / RATE;
        let mut broker = Broker::new(CoreConfig::default(), waiting * JOURNAL_BYTES);
        let queue = broker.create("q", EntityKind::Queue, EntitySettings::default());
        let mut schedule = Self { broker, queue, window, random: 1 };
        for _ in 0..window {
            schedule.turn();
        }
        schedule
    }

    fn delay(&mut self) -> Duration {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(1 + (self.random >> 33) % self.window)
    }

    /// A millisecond passes: what is due comes, is taken, and as many are scheduled.
    fn turn(&mut self) {
        self.broker.tick();
        let publish = |ticket| {
            let due = self.broker.now.after(self.delay());
            let message = Message { scheduled_enqueue_time: Some(due), ..message() };
            Command::Publish { queue: self.queue, message, ticket: Some(Ticket(ticket)) }
        };
        let mut commands: Vec<Command> = (0..RATE).map(publish).collect();
        commands.push(Command::DeleteMessages {
            session: None,
            path: path("q"),
            count: u32::MAX,
            before: Timestamp::MAX,
            ticket: NOBODY,
        });
        self.broker.tell(commands);
    }
}

fn scheduled(c: &mut Criterion) {
    let mut group = c.benchmark_group("life of a scheduled message");
    group.throughput(Throughput::Elements(RATE));
    for waiting in [1_000, 1_000_000] {
        let mut schedule = None;
        group.bench_function(format!("{waiting} waiting"), |bench| {
            let schedule = schedule.get_or_insert_with(|| Schedule::new(waiting));
            bench.iter(|| schedule.turn());
            let left = schedule.broker.core.entity("q").map_or(0, |view| view.scheduled);
            assert!(left > waiting / 2, "{left} of {waiting} wait");
        });
    }
    group.finish();
}

criterion_group!(benches, scheduled);
