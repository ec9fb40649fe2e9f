//! `ferrybus dead-message`.
//!
//! Invariant: a dead letter that is not wanted keeps its place, its counts and its content.

use std::{collections::BTreeSet, time::Duration};

use fe2o3_amqp::{Delivery, Receiver, link::delivery::DeliveryInfo};
use fe2o3_amqp_types::{
    messaging::Body,
    primitives::{SimpleValue, Value},
};
use tokio::time::timeout;

use super::{
    BrokerEndpoint, address,
    connect::{Client, GOODBYE},
    fault::fault,
    message::{self, Received},
    peek::Peek,
    purge,
};
use crate::{
    arguments::DeadLetterArguments,
    failure::Failure,
    output::{self, Progress},
};

mod resubmit;

pub(crate) use resubmit::resubmit;

/// Reason that the broker or a receiver gave.
const REASON: &str = "DeadLetterReason";
/// The sentence with it.
const DESCRIPTION: &str = "DeadLetterErrorDescription";

impl DeadLetterArguments {
    fn wants(&self, message: &Received) -> bool {
        let properties = message.properties.as_ref();
        let id = || properties.and_then(|it| it.message_id.as_ref()).map(message::id_text);
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.reason, text_property(message, REASON))
            && is(&self.subject, properties.and_then(|it| it.subject.as_deref()))
            && (self.id.is_empty() || id().is_some_and(|id| self.id.contains(&id)))
    }

    const fn wants_all(&self) -> bool {
        self.reason.is_none() && self.subject.is_none() && self.id.is_empty()
    }
}

fn text_property<'m>(message: &'m Received, name: &str) -> Option<&'m str> {
    match message.application_properties.as_ref()?.0.get(name) {
        Some(SimpleValue::String(text)) => Some(text),
        _ => None,
    }
}

/// Prints dead letters.
pub(crate) async fn list(target: BrokerEndpoint, arguments: &DeadLetterArguments) -> Result<(), Failure> {
    let queue = address(&arguments.queue, true);
    let mut client = target.connect(&queue).await?;
    let mut peek = Peek::open(&mut client, &queue, 1).await?;
    let mut count = 0;
    'all: while let Some(messages) = peek.next(u64::MAX).await? {
        for message in messages.iter().filter(|message| arguments.wants(message)) {
            if count == arguments.max {
                break 'all;
            }
            count += 1;
            print(message, arguments.connect.json)?;
        }
    }
    peek.close().await;
    client.close().await;
    if count == 0 {
        output::note(format_args!("no such dead letter in `{queue}`"));
    }
    Ok(())
}

fn print(message: &Received, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let mut object = message::json(message);
        if let Some(object) = object.as_object_mut() {
            object.insert("dead_letter_reason".into(), text_property(message, REASON).into());
            object.insert("dead_letter_description".into(), text_property(message, DESCRIPTION).into());
        }
        return output::line(object);
    }
    output::line(message::text(message))
}

/// Removes dead letters.
pub(crate) async fn remove(target: BrokerEndpoint, arguments: &DeadLetterArguments) -> Result<(), Failure> {
    let queue = address(&arguments.queue, true);
    let mut client = target.connect(&queue).await?;
    let removed = if arguments.wants_all() {
        purge::remove_all(&mut client, &queue, None, arguments.max).await
    } else {
        remove_some(&mut client, &queue, arguments).await
    };
    client.close().await;
    purge::print_purged(&queue, removed?, arguments.connect.json)
}

async fn remove_some(
    client: &mut Client,
    queue: &str,
    arguments: &DeadLetterArguments,
) -> Result<u64, Failure> {
    let Some(mut dead_letters) = DeadLetterReceiver::open(client, queue, arguments).await? else {
        return Ok(0);
    };
    let mut progress = Progress::new("removed", Some(dead_letters.wanted));
    let mut removed = 0;
    let result = loop {
        match dead_letters.next(BATCH).await {
            Ok(messages) if messages.is_empty() => break Ok(removed),
            Ok(messages) => {
                for message in &messages {
                    let accepted = dead_letters.link.accept(message).await;
                    accepted
                        .map_err(|error| Failure::new(format_args!("cannot settle in `{queue}`: {error}")))?;
                    removed += 1;
                    progress.at(removed);
                }
            }
            Err(failure) => break Err(failure),
        }
    };
    dead_letters.close().await;
    result
}

/// Dead letters under their locks: those that are wanted, some at a time. The others that came with them are held, so
/// that they do not come again, and given back at the end.
struct DeadLetterReceiver<'a> {
    link: Receiver,
    what: String,
    arguments: &'a DeadLetterArguments,
    /// Number of selected messages.
    wanted: u64,
    /// Number of the last one that is wanted: nothing behind it has to be looked at.
    last: i64,
    left: u64,
    credit: u32,
    seen: BTreeSet<i64>,
    held: Vec<DeliveryInfo>,
    is_over: bool,
}

impl<'a> DeadLetterReceiver<'a> {
    /// `None` if there is none to take.
    async fn open(
        client: &mut Client,
        queue: &str,
        arguments: &'a DeadLetterArguments,
    ) -> Result<Option<Self>, Failure> {
        let (mut wanted, mut last) = (0, 0);
        let mut peek = Peek::open(client, queue, 1).await?;
        while let Some(messages) = peek.next(u64::MAX).await? {
            for message in messages.iter().filter(|message| arguments.wants(message)) {
                if wanted < arguments.max {
                    wanted += 1;
                    last = message::sequence_number(message).unwrap_or(last);
                }
            }
        }
        peek.close().await;
        if wanted == 0 {
            return Ok(None);
        }
        let link = client.receiver(queue, false).await?;
        Ok(Some(Self {
            link,
            what: format!("cannot receive from `{queue}`"),
            arguments,
            wanted,
            last,
            left: wanted,
            credit: 0,
            seen: BTreeSet::new(),
            held: Vec::new(),
            is_over: false,
        }))
    }

    /// The next ones; none when all were taken, or others have them.
    async fn next(&mut self, most: usize) -> Result<Vec<Delivery<Body<Value>>>, Failure> {
        let mut batch = Vec::new();
        while batch.len() < most && self.left > 0 && !self.is_over {
            if self.credit == 0 {
                // Unused credit has to be drained.
                self.credit = u32::try_from(self.left).unwrap_or(CREDIT).min(CREDIT);
                let granted = self.link.set_credit(self.credit).await;
                granted.map_err(|error| Failure::new(format_args!("{}: {error}", self.what)))?;
            }
            let Ok(delivery) = timeout(EMPTY_AFTER, self.link.recv::<Body<Value>>()).await else {
                self.is_over = true;
                break;
            };
            let delivery = delivery.map_err(|error| fault(&self.what, &error))?;
            self.credit -= 1;
            let number = message::sequence_number(delivery.message()).unwrap_or(i64::MAX);
            // A message that comes again was released before: everything was visited once.
            let is_new = self.seen.insert(number);
            self.is_over = !is_new || number >= self.last;
            if is_new && number <= self.last && self.arguments.wants(delivery.message()) {
                self.left -= 1;
                batch.push(delivery);
            } else {
                self.held.push(DeliveryInfo::from(&delivery));
            }
        }
        Ok(batch)
    }

    /// Gives these back with the others.
    fn keep(&mut self, messages: &[Delivery<Body<Value>>]) {
        self.held.extend(messages.iter().map(DeliveryInfo::from));
    }

    /// Gives back what is not wanted, what is still on its way included: a lock would outlive the link.
    async fn close(mut self) {
        if self.credit > 0 && self.link.drain().await.is_ok() {
            while let Ok(Ok(delivery)) = timeout(DRAIN, self.link.recv::<Body<Value>>()).await {
                self.held.push(DeliveryInfo::from(&delivery));
            }
        }
        for info in self.held {
            drop(timeout(GOODBYE, self.link.release(info)).await);
        }
        drop(timeout(GOODBYE, self.link.close()).await);
    }
}

/// Messages settled together.
const BATCH: usize = 50;
const CREDIT: u32 = 50;
/// Time for what was on its way when the credit was taken back.
const DRAIN: Duration = Duration::from_millis(200);
/// Time without a message after which the queue counts as empty.
const EMPTY_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
