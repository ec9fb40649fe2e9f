//! What is sent comes as it was, or is refused.

use std::time::{Duration, SystemTime};

use azservicebus::ServiceBusMessage;
use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;
use azservicebus::sender::service_bus_message_batch::CreateMessageBatchOptions;

use crate::Outcome;
use crate::setting::{Setting, assert_empty, many, one, text};

pub async fn send_one(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["hello"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "hello");
    receiver.complete_message(&message).await?;
    assert_empty(&mut receiver).await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn send_batch(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let mut batch = sender.create_message_batch(CreateMessageBatchOptions::default())?;
    for number in 0..50 {
        batch.try_add_message(format!("batch {number}")).expect("50 small messages fit");
    }
    sender.send_message_batch(batch).await?;
    sender.send_messages(["not alone", "with a friend"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let taken = many(&mut receiver, 52).await?;
    let first = taken[0].sequence_number();
    for (number, message) in (0..).zip(&taken) {
        match number {
            50 => assert_eq!(text(message), "not alone"),
            51 => assert_eq!(text(message), "with a friend"),
            _ => assert_eq!(text(message), format!("batch {number}")),
        }
        assert_eq!(message.sequence_number(), first + number);
        receiver.complete_message(message).await?;
    }
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn oversized_message(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let error = sender.send_message(vec![b'x'; 2 << 20]).await.expect_err("2 MiB are too much");
    let said = format!("{error:?}");
    assert!(said.contains("MessageSizeExceeded") || said.contains("TooLarge"), "{said}");
    let mut client = setting.client().await?;
    setting.send(&mut client, &["fits"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "fits");
    Ok(receiver.complete_message(&message).await?)
}

pub async fn large_message(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let body: Vec<u8> = (0..=250).cycle().take(900 * 1024).collect();
    let mut sender = setting.sender(&mut client).await?;
    sender.send_message(body.clone()).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    assert!(message.body()? == body, "the body changed on its way");
    receiver.complete_message(&message).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn annotations_and_header(setting: &Setting) -> Outcome {
    let before = SystemTime::now();
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let mut message = ServiceBusMessage::new("annotated");
    message.set_partition_key("pk".to_owned())?;
    message.set_time_to_live(Duration::from_secs(60))?;
    sender.send_message(message).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    assert!(message.sequence_number() >= 1);
    let enqueued: SystemTime = message.enqueued_time().into();
    let skew = enqueued.duration_since(before).unwrap_or_else(|early| early.duration());
    assert!(skew < Duration::from_secs(60), "{skew:?}");
    let lock = message.locked_until().expect("a lock") - message.enqueued_time();
    assert!(lock >= Duration::from_secs(5) && lock < Duration::from_secs(60), "{lock}");
    let id = message.message_id().expect("the broker gives an id to a message without one");
    assert!(id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    assert_eq!(message.partition_key(), Some("pk"));
    assert_eq!(message.time_to_live(), Some(Duration::from_secs(60)));
    assert_eq!(message.expires_at() - message.enqueued_time(), Duration::from_secs(60));
    assert_eq!(message.state(), ServiceBusMessageState::Active);
    assert_eq!(message.delivery_count(), Some(1));
    receiver.complete_message(&message).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn round_trip(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let mut sent = ServiceBusMessage::new(vec![0, 1, 2, 255]);
    sent.set_message_id("id-1")?;
    sent.set_session_id("group".to_owned())?;
    sent.set_reply_to_session_id("answers".to_owned())?;
    sent.set_correlation_id("corr-1".to_owned());
    sent.set_subject("the subject".to_owned());
    sent.set_to("there".to_owned());
    sent.set_content_type("text/plain".to_owned());
    sent.set_reply_to("back".to_owned());
    let properties = sent.application_properties_mut().get_or_insert_default();
    properties.insert("int".into(), 7_i32.into());
    properties.insert("long".into(), (1_i64 << 40).into());
    properties.insert("ubyte".into(), 200_u8.into());
    properties.insert("float".into(), 1.25_f32.into());
    properties.insert("double".into(), 2.5_f64.into());
    properties.insert("yes".into(), true.into());
    properties.insert("text".into(), "grüße ✓".to_owned().into());
    let expected = properties.clone();
    sender.send_message(sent).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    assert_eq!(message.body()?, [0, 1, 2, 255]);
    assert_eq!(message.message_id().as_deref(), Some("id-1"));
    assert_eq!(message.session_id(), Some("group"));
    assert_eq!(message.reply_to_session_id(), Some("answers"));
    assert_eq!(message.correlation_id().as_deref(), Some("corr-1"));
    assert_eq!(message.subject(), Some("the subject"));
    assert_eq!(message.to(), Some("there"));
    assert_eq!(message.content_type(), Some("text/plain"));
    assert_eq!(message.reply_to(), Some("back"));
    assert_eq!(message.application_properties(), Some(&expected));
    receiver.complete_message(&message).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}
