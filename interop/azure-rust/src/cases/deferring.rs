//! Messages that are set aside and fetched by their numbers.

use azservicebus::ServiceBusReceiveMode;
use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;
use azservicebus::primitives::sub_queue::SubQueue;
use azservicebus::receiver::DeadLetterOptions;
use serde_amqp::Value;

use crate::Outcome;
use crate::setting::{Setting, assert_empty, many, one, text};

pub async fn peek_lock_defer(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["later", "now"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let deferred = one(&mut receiver).await?;
    receiver.defer_message(&deferred, None).await?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "now");
    receiver.complete_message(&message).await?;
    assert_empty(&mut receiver).await?;
    let peeked = receiver.peek_messages(5, Some(deferred.sequence_number())).await?;
    assert_eq!(peeked.len(), 1);
    assert_eq!(peeked[0].body()?, b"later");
    assert_eq!(peeked[0].state(), ServiceBusMessageState::Deferred);
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn deferred_by_number(setting: &Setting) -> Outcome {
    let bodies = ["complete", "abandon", "dead-letter", "renew"];
    let mut client = setting.client().await?;
    setting.send(&mut client, &bodies).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let mut numbers = Vec::new();
    for message in many(&mut receiver, bodies.len()).await? {
        numbers.push(message.sequence_number());
        let changes = [("deferred".to_owned(), Value::from("once"))].into_iter().collect();
        receiver.defer_message(&message, Some(changes)).await?;
    }
    assert_empty(&mut receiver).await?;
    let mut got = receiver.receive_deferred_messages(numbers.clone()).await?;
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), bodies);
    for message in &got {
        assert_eq!(message.state(), ServiceBusMessageState::Deferred);
        assert_eq!(message.delivery_count(), Some(2), "the deferral; this SDK counts the delivery itself");
        assert!(message.application_properties().is_some_and(|own| own.contains_key("deferred")));
    }
    assert!(receiver.receive_deferred_message(numbers[0]).await.is_err(), "it is locked");
    receiver.complete_message(&got[0]).await?;
    receiver.abandon_message(&got[1], None).await?;
    let why = DeadLetterOptions {
        dead_letter_reason: Some("looked at".into()),
        dead_letter_error_description: None,
        properties_to_modify: None,
    };
    receiver.dead_letter_message(&got[2], why).await?;
    let end = got[3].locked_until();
    receiver.renew_message_lock(&mut got[3]).await?;
    assert!(got[3].locked_until() > end);
    receiver.complete_message(&got[3]).await?;
    let again = receiver.receive_deferred_message(numbers[1]).await?.expect("it was abandoned");
    assert_eq!(again.delivery_count(), Some(3));
    receiver.complete_message(&again).await?;
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    let dead = one(&mut dead_letters).await?;
    assert_eq!((dead.sequence_number(), dead.dead_letter_reason()), (numbers[2], Some("looked at")));
    receiver.dispose().await?;
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn deferred_receive_and_delete(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["a", "b"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let mut numbers = Vec::new();
    for message in many(&mut receiver, 2).await? {
        numbers.push(message.sequence_number());
        receiver.defer_message(&message, None).await?;
    }
    let mode = ServiceBusReceiveMode::ReceiveAndDelete;
    let mut deleting = setting.receiver_with(&mut client, SubQueue::None, mode).await?;
    let got = deleting.receive_deferred_messages(numbers).await?;
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["a", "b"]);
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    receiver.dispose().await?;
    deleting.dispose().await?;
    Ok(client.dispose().await?)
}
