//! `ferrybus dead-message resubmit`.
//!
//! Invariant: a message is sent and its dead letter removed in one transaction, so it is neither lost nor doubled.

use broker_core::EntityKind;
use fe2o3_amqp::{
    Delivery, Receiver, Sender,
    transaction::{
        Controller, Transaction, TransactionDischarge as _, TransactionPosting as _,
        TransactionRetirement as _,
    },
};
use fe2o3_amqp_types::{
    messaging::{
        ApplicationProperties, Body, Header, Message, MessageAnnotations, MessageId, annotations::OwnedKey,
    },
    primitives::{OrderedMap, Symbol, Value},
};
use serde_json::json;
use tokio::time::timeout;

use super::{BATCH, DESCRIPTION, DeadLetterReceiver, REASON};
use crate::{
    arguments::DeadLetterArguments,
    client::{
        BrokerEndpoint, address,
        connect::{Client, GOODBYE, RESPONSE_TIMEOUT},
        fault::{refusal, too_slow},
        management::EntityRef,
        message::Received,
    },
    failure::Failure,
    output::{self, Progress},
};

/// Properties that the broker sets itself, or that hold for the dead letter only.
const BROKERS_OWN: [&str; 9] = [
    "x-opt-deadletter-source",
    "x-opt-enqueue-sequence-number",
    "x-opt-enqueued-time",
    "x-opt-lock-token",
    "x-opt-locked-until",
    "x-opt-message-state",
    "x-opt-partition-id",
    "x-opt-scheduled-enqueue-time",
    "x-opt-sequence-number",
];

/// Sends dead letters again.
pub(crate) async fn resubmit(
    target: BrokerEndpoint,
    arguments: &DeadLetterArguments,
    to: Option<&str>,
    new_id: bool,
) -> Result<(), Failure> {
    let origin = address(&arguments.queue, false);
    let to = destination(&origin, to)?;
    if !new_id {
        refuse_forgetful(&target, &to).await?;
    }
    let queue = address(&arguments.queue, true);
    let mut client = target.connect_for(&[&queue, &to]).await?;
    let sent = send_all(&mut client, (&queue, &to), arguments, new_id).await;
    client.close().await;
    let sent = sent?;
    if arguments.connect.json {
        return output::line(json!({ "resubmitted": sent, "to": to }));
    }
    let messages = if sent == 1 { "message" } else { "messages" };
    output::line(format_args!("resubmitted {sent} {messages} to `{to}`"))
}

/// Nobody can send to a subscription, and what is sent to its topic goes to its other subscriptions as well.
fn destination(origin: &str, to: Option<&str>) -> Result<String, Failure> {
    let topic = origin.to_ascii_lowercase().find("/subscriptions/").and_then(|at| origin.get(..at));
    match (to, topic) {
        (Some(to), _) => Ok(address(to, false)),
        (None, None) => Ok(origin.to_owned()),
        (None, Some(topic)) => Err(Failure::misuse(format_args!(
            "nobody can send to the subscription `{origin}` alone"
        ))
        .hint(format_args!(
            "`--to {topic}` sends to its topic, and so to all its subscriptions; `--to QUEUE` elsewhere"
        ))),
    }
}

/// A queue that detects duplicates may remember the ids, and would drop what is sent again without a word.
async fn refuse_forgetful(target: &BrokerEndpoint, to: &str) -> Result<(), Failure> {
    let mut management = target.management();
    for kind in [EntityKind::Queue, EntityKind::Topic] {
        // Without the Manage right the check is skipped; a missing entity is refused by the send.
        let Ok(Some(entity)) = management.find(&EntityRef::new(kind, to)).await else { continue };
        if entity.text("RequiresDuplicateDetection") == Some("true") {
            return Err(Failure::new(format_args!(
                "`{to}` detects duplicates, and would drop messages whose ids it remembers"
            ))
            .hint("`--new-id` gives each message an id of its own"));
        }
    }
    Ok(())
}

async fn send_all(
    client: &mut Client,
    (queue, to): (&str, &str),
    arguments: &DeadLetterArguments,
    new_id: bool,
) -> Result<u64, Failure> {
    let Some(mut dead_letters) = DeadLetterReceiver::open(client, queue, arguments).await? else {
        return Ok(0);
    };
    let mut resubmitter = Resubmitter {
        sender: client.sender(to, false).await?,
        controller: client.controller().await?,
        new_id,
    };
    let mut progress = Progress::new("resubmitted", Some(dead_letters.wanted));
    let mut sent = 0;
    let result = loop {
        match dead_letters.next(BATCH).await {
            Ok(messages) if messages.is_empty() => break Ok(sent),
            Ok(messages) => match resubmitter.send(&mut dead_letters.link, &messages, to).await {
                Ok(()) => {
                    sent += messages.len() as u64;
                    progress.at(sent);
                }
                Err(failure) => {
                    dead_letters.keep(&messages);
                    break Err(failure);
                }
            },
            Err(failure) => break Err(failure),
        }
    };
    drop(progress);
    dead_letters.close().await;
    resubmitter.close().await;
    if let (Err(_), 1..) = (&result, sent) {
        output::note(format_args!("{sent} were resubmitted before"));
    }
    result
}

/// Sender of resubmitted dead letters.
struct Resubmitter {
    sender: Sender,
    controller: Controller,
    new_id: bool,
}

impl Resubmitter {
    /// All of them, or none.
    async fn send(
        &mut self,
        link: &mut Receiver,
        messages: &[Delivery<Body<Value>>],
        to: &str,
    ) -> Result<(), Failure> {
        let what = format!("cannot send to `{to}`");
        let work = async {
            let failed = |error: &dyn std::fmt::Display| Failure::new(format_args!("{what}: {error}"));
            let transaction =
                Transaction::declare(&self.controller, None).await.map_err(|error| failed(&error))?;
            let mut answers = Vec::with_capacity(messages.len());
            for message in messages {
                let message = again(message.message(), self.new_id);
                let posted = transaction.post_batchable(&mut self.sender, message).await;
                answers.push(posted.map_err(|error| failed(&error))?);
            }
            for answer in answers {
                let outcome = answer.await.map_err(|error| failed(&error))?;
                if let Some(reason) = refusal(&outcome) {
                    drop(transaction.rollback().await);
                    return Err(failed(&reason));
                }
            }
            for message in messages {
                transaction.accept(link, message).await.map_err(|error| failed(&error))?;
            }
            transaction.commit().await.map_err(|error| failed(&error))
        };
        timeout(RESPONSE_TIMEOUT, work).await.map_err(|_| too_slow(&what))?
    }

    async fn close(self) {
        drop(timeout(GOODBYE, self.sender.close()).await);
        drop(timeout(GOODBYE, self.controller.close()).await);
    }
}

/// The message as it was sent at first, but for what it has been through.
fn again(message: &Received, new_id: bool) -> Message<Body<Value>> {
    let mut message = message.clone();
    message.delivery_annotations = None;
    message.header =
        message.header.map(|header| Header { first_acquirer: false, delivery_count: 0, ..header });
    let is_brokers = |key: &OwnedKey| match key {
        OwnedKey::Symbol(Symbol(name)) => BROKERS_OWN.contains(&name.as_str()),
        OwnedKey::Ulong(_) => false,
    };
    message.message_annotations = message.message_annotations.and_then(|annotations| {
        let kept: OrderedMap<_, _> = annotations.0.into_iter().filter(|(key, _)| !is_brokers(key)).collect();
        (!kept.is_empty()).then_some(MessageAnnotations(kept))
    });
    message.application_properties = message.application_properties.and_then(|properties| {
        let is_own = |key: &String| key != REASON && key != DESCRIPTION;
        let kept: OrderedMap<_, _> = properties.0.into_iter().filter(|(key, _)| is_own(key)).collect();
        (!kept.is_empty()).then_some(ApplicationProperties(kept))
    });
    if new_id {
        let mut properties = message.properties.unwrap_or_default();
        properties.message_id = Some(MessageId::String(fresh_id()));
        message.properties = Some(properties);
    }
    message
}

/// Different for each message: the time, the process and a count.
fn fresh_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("resubmitted-{}-{}-{count}", crate::client::now_millis(), std::process::id())
}

#[cfg(test)]
mod tests;
