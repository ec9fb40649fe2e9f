//! Messages under a lock, and what ends it; receiving without one; looking only.

use std::time::{Duration, SystemTime};

use azservicebus::ServiceBusReceiveMode;
use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;
use azservicebus::primitives::sub_queue::SubQueue;
use azservicebus::receiver::DeadLetterOptions;
use serde_amqp::Value;

use crate::Outcome;
use crate::setting::{Setting, assert_empty, many, one, text};

pub async fn peek_lock_complete(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["one", "two"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    for expected in ["one", "two"] {
        let message = one(&mut receiver).await?;
        assert_eq!(text(&message), expected);
        assert_eq!(message.delivery_count(), Some(1), "this SDK counts the delivery itself");
        receiver.complete_message(&message).await?;
    }
    assert_empty(&mut receiver).await?;
    // The SDK does not wait for the answer to a settlement; peeking looks behind it.
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn peek_lock_abandon(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["one", "two"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let first = one(&mut receiver).await?;
    let changes = [("tried".to_owned(), Value::from("once"))].into_iter().collect();
    receiver.abandon_message(&first, Some(changes)).await?;
    let again = one(&mut receiver).await?;
    assert_eq!(text(&again), "one", "an abandoned message keeps its place");
    assert_eq!(again.sequence_number(), first.sequence_number());
    assert_eq!(again.delivery_count(), Some(2));
    assert_ne!(again.lock_token(), first.lock_token());
    let properties = again.application_properties().expect("the change that came with abandon");
    assert!(properties.contains_key("tried"), "{properties:?}");
    receiver.complete_message(&again).await?;
    let message = one(&mut receiver).await?;
    receiver.complete_message(&message).await?;
    assert_empty(&mut receiver).await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn peek_lock_dead_letter(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["bad", "worse"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    let why = DeadLetterOptions {
        dead_letter_reason: Some("unreadable".into()),
        dead_letter_error_description: Some("the total is not a number".into()),
        properties_to_modify: Some([("line".to_owned(), Value::Int(5))].into_iter().collect()),
    };
    receiver.dead_letter_message(&message, why).await?;
    let message = one(&mut receiver).await?;
    let no_reason = DeadLetterOptions {
        dead_letter_reason: None,
        dead_letter_error_description: None,
        properties_to_modify: None,
    };
    receiver.dead_letter_message(&message, no_reason).await?;
    assert_empty(&mut receiver).await?;
    receiver.dispose().await?;
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    let bad = one(&mut dead_letters).await?;
    assert_eq!(text(&bad), "bad");
    assert_eq!(bad.dead_letter_reason(), Some("unreadable"));
    assert_eq!(bad.dead_letter_error_description(), Some("the total is not a number"));
    assert!(bad.application_properties().is_some_and(|own| own.contains_key("line")), "{bad:?}");
    dead_letters.complete_message(&bad).await?;
    let worse = one(&mut dead_letters).await?;
    assert_eq!(text(&worse), "worse");
    assert_eq!(worse.dead_letter_reason(), None);
    dead_letters.complete_message(&worse).await?;
    assert_empty(&mut dead_letters).await?;
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn receive_and_delete(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["a", "b", "c"]).await?;
    let mut receiver =
        setting.receiver_with(&mut client, SubQueue::None, ServiceBusReceiveMode::ReceiveAndDelete).await?;
    let taken = many(&mut receiver, 3).await?;
    assert_eq!(taken.iter().map(text).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_empty(&mut receiver).await?;
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn lock_renewal(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["long work"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let mut message = one(&mut receiver).await?;
    let first_end: SystemTime = message.locked_until().expect("a lock").into();
    tokio::time::sleep(Duration::from_secs(7)).await; // so that the renewed lock outlives the first
    receiver.renew_message_lock(&mut message).await?;
    let renewed: SystemTime = message.locked_until().expect("a lock").into();
    let gained = renewed.duration_since(first_end)?;
    assert!(gained >= Duration::from_millis(4_500), "{gained:?}");
    wait_past(first_end).await;
    let mut other = setting.receiver(&mut client).await?;
    assert_empty(&mut other).await?;
    receiver.complete_message(&message).await?;
    assert_empty(&mut receiver).await?;
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    other.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn lock_loss(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["too slow"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let mut message = one(&mut receiver).await?;
    wait_past(message.locked_until().expect("a lock").into()).await;
    let error = receiver.renew_message_lock(&mut message).await.expect_err("the lock is lost");
    assert!(format!("{error:?}").contains("410"), "{error:?}");
    // The SDK reports this settlement as done whatever the broker answers.
    receiver.complete_message(&message).await?;
    let again = one(&mut receiver).await?;
    assert_eq!(text(&again), "too slow", "a lost lock completes nothing");
    assert_eq!(again.delivery_count(), Some(2));
    receiver.complete_message(&again).await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn delivery_count_to_dead_letter(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["poison"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    for delivery in 1..=3 {
        let message = one(&mut receiver).await?;
        assert_eq!(message.delivery_count(), Some(delivery));
        receiver.abandon_message(&message, None).await?;
    }
    assert_empty(&mut receiver).await?;
    receiver.dispose().await?;
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    let message = one(&mut dead_letters).await?;
    assert_eq!(text(&message), "poison");
    assert_eq!(message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    assert!(message.dead_letter_error_description().is_some());
    dead_letters.complete_message(&message).await?;
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn peek(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let bodies: Vec<String> = (0..10).map(|number| format!("p{number}")).collect();
    let slices: Vec<&str> = bodies.iter().map(String::as_str).collect();
    setting.send(&mut client, &slices).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let held = one(&mut receiver).await?;
    let mut seen = Vec::new();
    let mut from = held.sequence_number();
    while seen.len() < 10 {
        let more = receiver.peek_messages(4, Some(from)).await?;
        from = more.last().expect("ten messages are there").sequence_number() + 1;
        seen.extend(more);
    }
    for (message, body) in seen.iter().zip(&bodies) {
        assert_eq!(message.body()?, body.as_bytes());
        assert_eq!(message.state(), ServiceBusMessageState::Active);
    }
    assert!(receiver.peek_messages(1, Some(from)).await?.is_empty());
    receiver.complete_message(&held).await?;
    for message in many(&mut receiver, 9).await? {
        assert_eq!(message.delivery_count(), Some(1), "peeking is not delivering");
        receiver.complete_message(&message).await?;
    }
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn two_competing_receivers(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut other_client = setting.client().await?;
    let bodies: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let slices: Vec<&str> = bodies.iter().map(String::as_str).collect();
    setting.send(&mut client, &slices).await?;
    let mut left = setting.receiver(&mut client).await?;
    let mut right = setting.receiver(&mut other_client).await?;
    let mine = many(&mut left, 5).await?;
    let theirs = many(&mut right, 5).await?;
    let mut seen: Vec<&str> = mine.iter().chain(&theirs).map(text).collect();
    seen.sort_unstable();
    assert_eq!(seen, bodies, "delivered twice or not at all");
    for message in &mine {
        left.complete_message(message).await?;
    }
    for message in &theirs {
        right.complete_message(message).await?;
    }
    assert_empty(&mut left).await?;
    left.dispose().await?;
    right.dispose().await?;
    client.dispose().await?;
    Ok(other_client.dispose().await?)
}

/// Waits out a lock that ends at `end`.
async fn wait_past(end: SystemTime) {
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(left + Duration::from_millis(300)).await;
}
