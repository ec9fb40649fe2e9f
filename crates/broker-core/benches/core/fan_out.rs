//! One message to many subscriptions: finding the rules that match, and recording the copies.
//!
//! Correlation: of n subscriptions with a value each, one matches. SQL: the same, as an expression. Every: all match,
//! measured for each copy.

use std::time::Duration;

use broker_core::{Command, CoreConfig, EntityKind, EntitySettings, Message, QueueId, Rule};
use broker_filter::{CorrelationFilter, Filter, Parameters, PropertySet, SqlFilter, Value};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};

use crate::toolbox::{Broker, NOBODY};

/// A name, the filter of each subscription, and whether all of them match.
type Kind = (&'static str, fn(u64) -> Filter, bool);

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
fn topic(count: u64, filter: fn(u64) -> Filter) -> (Broker, QueueId) {
    let mut broker = Broker::new(CoreConfig { max_entities: 100_000, ..CoreConfig::default() }, 0);
    let topic = broker.create("t", EntityKind::Topic, EntitySettings::default());
    for number in 0..count {
        let rules = vec![Rule { name: "r".into(), filter: filter(number), action: None }];
        let (name, settings) = (format!("t/Subscriptions/s{number}").into(), Box::default());
        broker.tell(vec![Command::CreateSubscription { name, settings, rules, ticket: NOBODY }]);
    }
    (broker, topic)
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
            let mut made = None;
            group.bench_function(BenchmarkId::new(kind, count), |b| {
                let (broker, queue) = made.get_or_insert_with(|| topic(count, filter));
                let (queue, message) = (*queue, message());
                b.iter(|| {
                    broker.tell(vec![Command::Publish { queue, message: message.clone(), ticket: None }]);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, fan_out);
