//! Where messages end up: duplicates, forwarding, partitions.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;
use azservicebus::primitives::sub_queue::SubQueue;
use azservicebus::receiver::DeadLetterOptions;
use azservicebus::{ServiceBusMessage, ServiceBusReceiveMode};

use crate::Outcome;
use crate::setting::{Setting, all, assert_empty, assert_refused, many, one, text, texts};

fn because(reason: &str) -> DeadLetterOptions {
    DeadLetterOptions {
        dead_letter_reason: Some(reason.to_owned()),
        dead_letter_error_description: None,
        properties_to_modify: None,
    }
}

fn with_id(id: &str, body: &str) -> ServiceBusMessage {
    let mut message = ServiceBusMessage::new(body);
    message.set_message_id(id.to_owned()).expect("a short id");
    message
}

fn in_an_hour() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3_600)
}

pub async fn duplicate_detection(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    sender.send_message(with_id("one", "first")).await?;
    sender.send_message(with_id("one", "again")).await?;
    let batch = [("two", "a"), ("two", "b"), ("one", "c"), ("three", "d")];
    sender.send_messages(batch.map(|(id, body)| with_id(id, body))).await?;
    sender.schedule_message(with_id("three", "scheduled"), in_an_hour().into()).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    assert_eq!(texts(&all(&mut receiver, 3).await?), ["first", "a", "d"]);
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    sender.send_message(with_id("one", "completed before")).await?;
    assert_empty(&mut receiver).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn forwarding(setting: &Setting) -> Outcome {
    let target = setting.with_queue(&format!("{}-target", setting.queue));
    let mut client = setting.client().await?;
    target.send(&mut client, &["straight"]).await?;
    setting.send(&mut client, &["a", "b"]).await?;
    let mut receiver = target.receiver(&mut client).await?;
    let taken = all(&mut receiver, 3).await?;
    let seen: Vec<_> = taken
        .iter()
        .map(|message| (text(message), message.sequence_number(), message.enqueued_sequence_number()))
        .collect();
    assert_eq!(seen, [("straight", 1, 0), ("a", 2, 1), ("b", 3, 2)]);
    receiver.dispose().await?;
    client.dispose().await?;
    let mut client = setting.client().await?;
    assert_refused(setting.receiver(&mut client).await, "forwards its messages");
    Ok(())
}

pub async fn forwarding_of_dead_letters(setting: &Setting) -> Outcome {
    let morgue = setting.with_queue(&format!("{}-morgue", setting.queue));
    let mut client = setting.client().await?;
    setting.send(&mut client, &["bad"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let bad = one(&mut receiver).await?;
    receiver.dead_letter_message(&bad, because("unreadable")).await?;
    let mut there = morgue.receiver(&mut client).await?;
    let taken = all(&mut there, 1).await?;
    assert_eq!(taken[0].dead_letter_reason(), Some("unreadable"));
    assert_eq!(taken[0].dead_letter_source(), Some(setting.queue.as_str()));
    receiver.dispose().await?;
    there.dispose().await?;
    Ok(client.dispose().await?)
}

/// The queue's dead letters go to one that takes none.
pub async fn transfer_dead_letters(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["bad", "good"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let bad = one(&mut receiver).await?;
    receiver.dead_letter_message(&bad, because("unreadable")).await?;
    let mode = ServiceBusReceiveMode::PeekLock;
    let mut kept = setting.receiver_with(&mut client, SubQueue::TransferDeadLetter, mode).await?;
    let message = one(&mut kept).await?;
    assert_eq!(text(&message), "bad");
    assert_eq!(message.dead_letter_reason(), Some("MessagingEntityDisabledException"));
    let why = message.dead_letter_error_description().expect("a description");
    assert!(why.contains("unreadable"), "{why}");
    kept.complete_message(&message).await?;
    assert_empty(&mut kept).await?;
    assert_eq!(texts(&all(&mut receiver, 1).await?), ["good"]);
    receiver.dispose().await?;
    kept.dispose().await?;
    Ok(client.dispose().await?)
}

fn keyed(key: &str, body: &str) -> ServiceBusMessage {
    let mut message = ServiceBusMessage::new(body);
    message.set_partition_key(key.to_owned()).expect("a short key");
    message
}

/// Partition and count of a number.
fn place(number: i64) -> (i64, i64) {
    (number >> 48, number & ((1 << 48) - 1))
}

pub async fn partitions(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    for (key, body) in [("a", "a0"), ("a", "a1"), ("b", "b0"), ("a", "a2"), ("b", "b1")] {
        sender.send_message(keyed(key, body)).await?;
    }
    sender.send_messages(["c0", "c1"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let taken = many(&mut receiver, 7).await?;
    let places: HashMap<&str, (i64, i64)> =
        taken.iter().map(|message| (text(message), place(message.sequence_number()))).collect();
    for (name, count) in [("a", 3), ("b", 2), ("c", 2)] {
        let mine: Vec<(i64, i64)> =
            (0..count).map(|number| places[format!("{name}{number}").as_str()]).collect();
        let expected: Vec<(i64, i64)> = (1..=count).map(|number| (mine[0].0, number)).collect();
        assert_eq!(mine, expected, "one partition with its own numbers");
        let order: Vec<&str> = texts(&taken).into_iter().filter(|body| body.starts_with(name)).collect();
        assert!(order.is_sorted(), "{order:?}");
    }
    let dead = taken.iter().find(|message| text(message) == "a1").expect("it was sent");
    assert_eq!(dead.partition_key(), Some("a"));
    receiver.dead_letter_message(dead, because("seen")).await?;
    for message in taken.iter().filter(|message| text(message) != "a1") {
        receiver.complete_message(message).await?;
    }
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    let letter = one(&mut dead_letters).await?;
    assert_eq!(letter.sequence_number(), dead.sequence_number(), "a dead letter keeps its number");
    dead_letters.complete_message(&letter).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn partitions_by_number(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    sender.send_message(keyed("b", "now")).await?;
    let later = ["a", "b"].map(|key| keyed(key, key));
    let numbers = sender.schedule_messages(later, in_an_hour().into()).await?;
    assert_ne!(place(numbers[0]).0, place(numbers[1]).0, "{numbers:?}");
    sender.cancel_scheduled_message(numbers[0]).await?;
    assert_refused(sender.cancel_scheduled_message(numbers[0]).await, "404");
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    receiver.defer_message(&message, None).await?;
    let peeked = receiver.peek_messages(9, Some(message.sequence_number())).await?;
    let states: Vec<_> = peeked.iter().map(|shown| shown.state()).collect();
    assert_eq!(states, [ServiceBusMessageState::Deferred, ServiceBusMessageState::Scheduled]);
    let deferred =
        receiver.receive_deferred_message(message.sequence_number()).await?.expect("it is deferred");
    assert_eq!(text(&deferred), "now");
    receiver.complete_message(&deferred).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn partition_keys_refused(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    assert_refused(sender.send_messages(["a", "b"].map(|key| keyed(key, key))).await, "partition key");
    let mut message = ServiceBusMessage::new("s");
    message.set_session_id("s".to_owned())?;
    message.set_partition_key("s".to_owned())?;
    sender.send_message(message).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    assert_eq!(texts(&all(&mut receiver, 1).await?), ["s"]);
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}
