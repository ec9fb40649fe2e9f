//! `ferrybus peek`.
//!
//! Invariant: nothing in the queue changes, neither locks nor counts.

use fe2o3_amqp_types::{
    messaging::{ApplicationProperties, Body, message::DecodeIntoMessage as _},
    primitives::{OrderedMap, Value},
};
use serde_amqp::read::SliceReader;

use super::{
    BrokerEndpoint, address,
    connect::Client,
    message::{self, Received},
    request::Requester,
};
use crate::{arguments::PeekArguments, failure::Failure, output};

/// Asks `$management` for messages and prints them.
pub(crate) async fn peek(target: BrokerEndpoint, arguments: &PeekArguments) -> Result<(), Failure> {
    let queue = address(&arguments.queue, arguments.dead_letter);
    let mut client = target.connect(&queue).await?;
    let mut peek = Peek::open(&mut client, &queue, arguments.from).await?;
    let mut left = arguments.count;
    while left > 0 {
        let Some(messages) = peek.next(left).await? else { break };
        for message in messages.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            left -= 1;
            if arguments.connect.json {
                output::line(message::json(message))?;
            } else {
                output::line(message::text(message))?;
            }
        }
    }
    if left == arguments.count && left > 0 {
        output::note(format_args!("no message in `{queue}` from number {}", arguments.from));
    }
    peek.close().await;
    client.close().await;
    Ok(())
}

/// Reads a queue from one sequence number on, page by page.
pub(super) struct Peek {
    management: Requester,
    queue: String,
    from: i64,
}

impl Peek {
    pub(super) async fn open(client: &mut Client, queue: &str, from: i64) -> Result<Self, Failure> {
        let management = client.requester(&format!("{queue}/$management")).await?;
        Ok(Self { management, queue: queue.to_owned(), from })
    }

    /// The next messages, at most about `count`; `None` at the end.
    pub(super) async fn next(&mut self, count: u64) -> Result<Option<Vec<Received>>, Failure> {
        let queue = &self.queue;
        let properties =
            ApplicationProperties::builder().insert("operation", "com.microsoft:peek-message").build();
        let answer = self.management.ask(properties, question(self.from, count)).await?;
        if !answer.is_good() {
            return Err(Failure::new(format_args!("cannot peek into `{queue}`: {}", answer.error_text())));
        }
        let messages = if answer.is_empty() { Vec::new() } else { messages(answer.body, queue)? };
        let Some(last) = messages.last().and_then(message::sequence_number) else { return Ok(None) };
        self.from = last.saturating_add(1);
        Ok(Some(messages))
    }

    pub(super) async fn close(self) {
        self.management.close().await;
    }
}

fn question(from: i64, count: u64) -> Value {
    let count = i32::try_from(count).unwrap_or(i32::MAX).min(BATCH);
    let mut map = OrderedMap::new();
    map.insert(Value::String("from-sequence-number".into()), Value::Long(from));
    map.insert(Value::String("message-count".into()), Value::Int(count));
    Value::Map(map)
}

/// `messages`: a list of maps, each with an encoded `message`.
fn messages(body: Value, queue: &str) -> Result<Vec<Received>, Failure> {
    let bad =
        || Failure::new(format_args!("cannot peek into `{queue}`: the answer has another form than agreed"));
    let Value::Map(map) = body else { return Err(bad()) };
    let Some(Value::List(list)) = map.get(&Value::String("messages".into())) else { return Err(bad()) };
    list.iter()
        .map(|entry| {
            let Value::Map(entry) = entry else { return Err(bad()) };
            let Some(Value::Binary(bytes)) = entry.get(&Value::String("message".into())) else {
                return Err(bad());
            };
            Body::<Value>::decode_message_from_reader(SliceReader::new(bytes)).map_err(|_| bad())
        })
        .collect()
}

/// Messages in one question.
const BATCH: i32 = 100;
