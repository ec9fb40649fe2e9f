//! One message to many subscriptions: finding the rules that match, and recording the copies.
//!
//! Correlation: of n subscriptions with a value each, one matches. SQL: the same, as an expression. Every: all match,
//! measured for each copy.

use std::{hint::black_box, time::Duration};

use broker_core::{
    ClientId, Command, Core, CoreConfig, Effect, EntityKind, Message, Output, Position, QueueId, Rule,
    StorageError, StoredRecord, Ticket, Timestamp,
};
use broker_filter::{CorrelationFilter, Filter, Parameters, PropertySet, SqlFilter, Value};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Counts what it is given and forgets it.
#[derive(Default)]
struct Sink {
    end: u64,
}

impl Output for Sink {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let length = index.len() + rest.iter().map(|part| part.len()).sum::<usize>();
        let at = Position(self.end);
        self.end += length as u64;
        (at, u32::try_from(length).unwrap_or(u32::MAX))
    }

    fn release(&mut self, at: Position, length: u32) {
        black_box((at, length));
    }

    fn effect(&mut self, _: ClientId, effect: Effect) {
        drop(black_box(effect));
    }

    fn read(&mut self, at: Position, _: u32) -> Result<StoredRecord, StorageError> {
        Err(StorageError { at, reason: "nothing is kept".into() })
    }

    fn storage_full(&self) -> bool {
        false
    }

    fn readable(&self) -> Position {
        Position(self.end)
    }
}

/// A name, the filter of each subscription, and whether all of them match.
type Kind = (&'static str, fn(u64) -> Filter, bool);

const CLIENT: ClientId = ClientId(1);
const NOW: Timestamp = Timestamp::from_millis(1_750_000_000_000);

fn correlation(number: u64) -> Filter {
    let mut filter = CorrelationFilter::new();
    filter.user("region", Value::from(format!("r{number}").as_str()));
    Filter::Correlation(filter)
}

fn sql(number: u64) -> Filter {
    let text = format!("region = 'r{number}' AND amount > 10");
    SqlFilter::parse(&text, Parameters::new()).map_or(Filter::False, Filter::Sql)
}

/// A topic with `count` subscriptions of one rule each.
fn topic(count: u64, filter: fn(u64) -> Filter) -> (Core, Sink, QueueId) {
    let config = CoreConfig { max_entities: 100_000, ..CoreConfig::default() };
    let (mut core, mut out) = (Core::new(config), Sink::default());
    let mut tell = |command| core.handle(NOW, CLIENT, command, &mut out);
    let (settings, ticket) = (Box::default(), Ticket(1));
    tell(Command::CreateEntity { name: "t".into(), kind: EntityKind::Topic, settings, ticket });
    for number in 0..count {
        let rules = vec![Rule { name: "r".into(), filter: filter(number), action: None }];
        let name = format!("t/Subscriptions/s{number}").into();
        tell(Command::CreateSubscription { name, settings: Box::default(), rules, ticket });
    }
    let queue = core.entity("t").map_or(QueueId(0), |view| view.queue);
    (core, out, queue)
}

fn message() -> Message {
    let mut properties = PropertySet::new();
    properties.extend_user([("region".into(), Value::from("r0")), ("amount".into(), Value::Int(500))]);
    Message {
        payload: Bytes::from_static(&[7; 1_024]),
        properties: Some(Box::new(properties)),
        ..Message::default()
    }
}

fn fan_out(c: &mut Criterion) {
    let mut group = c.benchmark_group("fan_out");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(10);
    let kinds: [Kind; 3] =
        [("correlation", correlation, false), ("sql", sql, false), ("every", |_| Filter::True, true)];
    for (kind, filter, all) in kinds {
        for count in [1u64, 10, 100, 10_000] {
            group.throughput(Throughput::Elements(if all { count } else { 1 }));
            let (mut core, mut out, queue) = topic(count, filter);
            let message = message();
            group.bench_function(BenchmarkId::new(kind, count), |b| {
                b.iter(|| {
                    let command = Command::Publish { queue, message: message.clone(), ticket: None };
                    core.handle(NOW, CLIENT, command, &mut out);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, fan_out);
criterion_main!(benches);
