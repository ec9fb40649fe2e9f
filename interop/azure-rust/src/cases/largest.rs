//! A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it.

use std::error::Error;
use std::process::Command;

use azservicebus::primitives::sub_queue::SubQueue;
use azservicebus::receiver::DeadLetterOptions;
use azservicebus::sender::service_bus_message_batch::CreateMessageBatchOptions;
use azservicebus::{
    ServiceBusMessage, ServiceBusReceiveMode, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender,
};

use crate::Outcome;
use crate::setting::{Setting, assert_empty, one};

const LIMIT: usize = 256 << 10;
const LOWERED: usize = 1 << 10;
/// Characters of the longest texts that a client may give when it dead-letters.
const TEXT_MAX: usize = 4_096;

fn pattern(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

fn filled(length: usize) -> Result<ServiceBusMessage, Box<dyn Error>> {
    let mut message = ServiceBusMessage::new(pattern(length));
    message.set_message_id("largest")?;
    message.set_subject("the subject".to_owned());
    message.set_correlation_id("corr".to_owned());
    let properties = message.application_properties_mut().get_or_insert_with(Default::default);
    properties.insert("number".into(), 7.into());
    properties.insert("text".into(), "grüße ✓".to_owned().into());
    Ok(message)
}

/// The body with which a message has exactly the size of the limit, measured by the SDK's own encoder: a batch grows by the
/// size of each message behind the first.
fn body_of_limit(sender: &ServiceBusSender) -> Result<usize, Box<dyn Error>> {
    let half = LIMIT / 2;
    let mut batch = sender.create_message_batch(CreateMessageBatchOptions::default())?;
    batch.try_add_message("first").map_err(|error| format!("{error:?}"))?;
    let before = batch.size_in_bytes();
    batch.try_add_message(filled(half)?).map_err(|error| format!("{error:?}"))?;
    let overhead = usize::try_from(batch.size_in_bytes() - before)? - half;
    Ok(LIMIT - overhead)
}

/// Nothing was lost on the way, and it comes for the first time: no link was closed for its size.
async fn next_whole(
    receiver: &mut ServiceBusReceiver,
    length: usize,
) -> Result<ServiceBusReceivedMessage, Box<dyn Error>> {
    let message = one(receiver).await?;
    assert!(message.body()? == pattern(length), "the body changed on its way");
    assert_eq!(message.message_id().as_deref(), Some("largest"));
    assert_eq!(message.subject().as_deref(), Some("the subject"));
    assert_eq!(message.correlation_id().as_deref(), Some("corr"));
    assert!(message.delivery_count().is_none_or(|count| count <= 1), "{:?}", message.delivery_count());
    let properties = message.application_properties().expect("those that it was sent with");
    assert_eq!(properties.get("number"), Some(&7.into()));
    assert_eq!(properties.get("text"), Some(&"grüße ✓".to_owned().into()));
    Ok(message)
}

async fn next_dead_letter(
    receiver: &mut ServiceBusReceiver,
    length: usize,
) -> Result<ServiceBusReceivedMessage, Box<dyn Error>> {
    let letter = next_whole(receiver, length).await?;
    assert_eq!(letter.dead_letter_reason(), Some(&*"r".repeat(TEXT_MAX)));
    assert_eq!(letter.dead_letter_error_description(), Some(&*"d".repeat(TEXT_MAX)));
    Ok(letter)
}

/// Changes the largest message that a queue takes, as an operator does.
fn limit_messages(queue: &str, most: usize) -> Outcome {
    let mut command = Command::new(std::env::var("FERRYBUS_BIN")?);
    command.args(["queue", "update", queue, "--max-message-bytes", &most.to_string()]);
    let status = command.status()?;
    assert!(status.success(), "queue update: {status}");
    Ok(())
}

/// What the attach said.
fn announced(sender: &ServiceBusSender) -> Result<u64, Box<dyn Error>> {
    Ok(sender.create_message_batch(CreateMessageBatchOptions::default())?.max_size_in_bytes())
}

pub async fn largest_message(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let delete = ServiceBusReceiveMode::ReceiveAndDelete;
    let mut locking = setting.receiver(&mut client).await?;
    let mut dead = setting.dead_letters(&mut client).await?;
    let mut deleting = setting.receiver_with(&mut client, SubQueue::None, delete.clone()).await?;
    let mut deleting_dead = setting.receiver_with(&mut client, SubQueue::DeadLetter, delete).await?;
    let mut sender = setting.sender(&mut client).await?;
    assert_eq!(announced(&sender)?, LIMIT as u64);
    // One byte more is not sent: the SDK's AMQP library cuts a message that is too large into two deliveries.
    let length = body_of_limit(&sender)?;
    for is_lowered in [false, true] {
        for _ in 0..4 {
            sender.send_message(filled(length)?).await?;
        }
        if is_lowered {
            limit_messages(&setting.queue, LOWERED)?;
            let later = setting.sender(&mut client).await?;
            assert_eq!(announced(&later)?, LOWERED as u64);
            later.dispose().await?;
        }
        next_whole(&mut deleting, length).await?;
        let locked = next_whole(&mut locking, length).await?;
        locking.complete_message(&locked).await?;
        for _ in 0..2 {
            let bad = next_whole(&mut locking, length).await?;
            let why = DeadLetterOptions {
                dead_letter_reason: Some("r".repeat(TEXT_MAX)),
                dead_letter_error_description: Some("d".repeat(TEXT_MAX)),
                properties_to_modify: None,
            };
            locking.dead_letter_message(&bad, why).await?;
        }
        next_dead_letter(&mut deleting_dead, length).await?;
        let letter = next_dead_letter(&mut dead, length).await?;
        dead.complete_message(&letter).await?;
    }
    assert_empty(&mut locking).await?;
    assert_empty(&mut dead).await?;
    Ok(client.dispose().await?)
}
