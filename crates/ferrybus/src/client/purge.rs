//! `ferrybus purge`, and `dead-letter purge` of all there are.
//!
//! Invariant: the count that is printed is the sum of what the broker says it has removed.

use fe2o3_amqp_types::{
    messaging::ApplicationProperties,
    primitives::{OrderedMap, Timestamp, Value},
};
use serde_json::json;

use super::{BrokerEndpoint, address, connect::Client};
use crate::{
    arguments::PurgeArguments,
    failure::Failure,
    output::{self, Progress},
};

/// Removes the messages of a queue.
pub(crate) async fn purge(target: BrokerEndpoint, arguments: &PurgeArguments) -> Result<(), Failure> {
    let queue = address(&arguments.queue, false);
    let mut client = target.connect(&queue).await?;
    let before = arguments.before.map(|moment| moment.millis(super::now_millis()));
    let purged = remove_all(&mut client, &queue, before, u64::MAX).await;
    client.close().await;
    print_purged(&queue, purged?, arguments.connect.json)
}

/// Says how many are gone.
pub(super) fn print_purged(queue: &str, count: u64, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::line(json!({ "removed": count }));
    }
    let messages = if count == 1 { "message" } else { "messages" };
    output::line(format_args!("removed {count} {messages} from `{queue}`"))
}

/// Asks until nothing is left, or `max` are gone.
pub(super) async fn remove_all(
    client: &mut Client,
    queue: &str,
    before_millis: Option<i64>,
    max: u64,
) -> Result<u64, Failure> {
    let mut management = client.requester(&format!("{queue}/$management")).await?;
    let mut progress = Progress::new("removed", None);
    let mut removed = 0;
    while removed < max {
        let properties = ApplicationProperties::builder()
            .insert("operation", "com.microsoft:batch-delete-messages")
            .build();
        let count = i32::try_from(max - removed).unwrap_or(i32::MAX).min(BATCH);
        let answer = management.ask(properties, question(count, before_millis)).await?;
        if !answer.is_good() {
            return Err(Failure::new(format_args!("cannot purge `{queue}`: {}", answer.error_text())));
        }
        let gone = match &answer.body {
            Value::Map(map) => map.get(&Value::String("message-count".into())),
            _ => None,
        };
        let Some(Value::Int(gone @ 1..)) = gone else { break };
        removed += u64::from(gone.unsigned_abs());
        progress.at(removed);
    }
    management.close().await;
    Ok(removed)
}

fn question(count: i32, before_millis: Option<i64>) -> Value {
    let mut map = OrderedMap::new();
    map.insert(Value::String("message-count".into()), Value::Int(count));
    if let Some(millis) = before_millis {
        map.insert(
            Value::String("enqueued-time-utc".into()),
            Value::Timestamp(Timestamp::from_milliseconds(millis)),
        );
    }
    Value::Map(map)
}

/// Messages in one question.
const BATCH: i32 = 4_000;
