//! The cases, one function each.

mod entities;
mod faults;
mod login;
mod places;
mod sessions;
mod times;
mod topics;

use std::time::{Duration, SystemTime};

use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;
use azservicebus::primitives::sub_queue::SubQueue;
use azservicebus::receiver::DeadLetterOptions;
use azservicebus::sender::service_bus_message_batch::CreateMessageBatchOptions;
use azservicebus::{ServiceBusMessage, ServiceBusReceiveMode};
use serde_amqp::Value;

use crate::Outcome;
use crate::setting::{Setting, assert_empty, many, one, text};

pub async fn play(name: &str, setting: &Setting) -> Outcome {
    match name {
        "send-one" => send_one(setting).await,
        "send-batch" => send_batch(setting).await,
        "peek-lock-complete" => peek_lock_complete(setting).await,
        "peek-lock-abandon" => peek_lock_abandon(setting).await,
        "peek-lock-dead-letter" => peek_lock_dead_letter(setting).await,
        "peek-lock-defer" => peek_lock_defer(setting).await,
        "deferred-by-number" => deferred_by_number(setting).await,
        "deferred-receive-and-delete" => deferred_receive_and_delete(setting).await,
        "receive-and-delete" => receive_and_delete(setting).await,
        "lock-renewal" => lock_renewal(setting).await,
        "lock-loss" => lock_loss(setting).await,
        "delivery-count-to-dead-letter" => delivery_count_to_dead_letter(setting).await,
        "peek" => peek(setting).await,
        "two-competing-receivers" => two_competing_receivers(setting).await,
        "wrong-key" => wrong_key(setting).await,
        "missing-queue" => missing_queue(setting).await,
        "oversized-message" => oversized_message(setting).await,
        "large-message" => large_message(setting).await,
        "receive-time-out-on-empty-queue" => time_out_on_empty_queue(setting).await,
        "annotations-and-header" => annotations_and_header(setting).await,
        "round-trip" => round_trip(setting).await,
        "link-close-and-reopen" => link_close_and_reopen(setting).await,
        "restart-before" => restart_before(setting).await,
        "restart-between" => restart_between(setting).await,
        "restart-after" => restart_after(setting).await,
        other => play_more(other, setting).await,
    }
}

/// Those that have a file of their own, by subject.
async fn play_more(name: &str, setting: &Setting) -> Outcome {
    match name {
        "schedule-and-cancel" => times::schedule_and_cancel(setting).await,
        "schedule-by-property" => times::schedule_by_property(setting).await,
        "expiry" => times::expiry(setting).await,
        "clock-advance" => times::clock_advance(setting).await,
        "session-accept" => sessions::accept(setting).await,
        "session-order" => sessions::order(setting).await,
        "session-state" => sessions::state(setting).await,
        "session-deferred" => sessions::deferred(setting).await,
        "session-lost" => sessions::lost(setting).await,
        "fault-server-busy" => faults::server_busy(setting).await,
        "fault-lose-lock" => faults::lose_lock(setting).await,
        "fault-lose-session" => faults::lose_session(setting).await,
        "web-socket" => login::web_socket(setting).await,
        "token-credential" => login::token_credential(setting).await,
        "duplicate-detection" => places::duplicate_detection(setting).await,
        "forwarding" => places::forwarding(setting).await,
        "forwarding-of-dead-letters" => places::forwarding_of_dead_letters(setting).await,
        "transfer-dead-letters" => places::transfer_dead_letters(setting).await,
        "partitions" => places::partitions(setting).await,
        "partitions-by-number" => places::partitions_by_number(setting).await,
        "partition-keys-refused" => places::partition_keys_refused(setting).await,
        "entity-status" => entities::status(setting).await,
        "entity-full" => entities::full(setting).await,
        "topics/duplicate-detection" => entities::duplicates(setting).await,
        "topics/shorter-lifetime" => entities::shorter_lifetime(setting).await,
        "topics/forwarding" => entities::forwarding(setting).await,
        other => match other.strip_prefix("topics/") {
            Some(case) => topics::play(case, setting).await,
            None => Err(format!("no case named `{other}`").into()),
        },
    }
}

async fn send_one(setting: &Setting) -> Outcome {
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

async fn send_batch(setting: &Setting) -> Outcome {
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

async fn peek_lock_complete(setting: &Setting) -> Outcome {
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

async fn peek_lock_abandon(setting: &Setting) -> Outcome {
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

async fn peek_lock_dead_letter(setting: &Setting) -> Outcome {
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

async fn peek_lock_defer(setting: &Setting) -> Outcome {
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

async fn receive_and_delete(setting: &Setting) -> Outcome {
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

/// Waits out a lock that ends at `end`.
async fn wait_past(end: SystemTime) {
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(left + Duration::from_millis(300)).await;
}

async fn deferred_by_number(setting: &Setting) -> Outcome {
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
        assert_eq!(message.delivery_count(), Some(1), "this SDK counts the delivery itself");
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
    assert_eq!(again.delivery_count(), Some(2));
    receiver.complete_message(&again).await?;
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    let dead = one(&mut dead_letters).await?;
    assert_eq!((dead.sequence_number(), dead.dead_letter_reason()), (numbers[2], Some("looked at")));
    receiver.dispose().await?;
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

async fn deferred_receive_and_delete(setting: &Setting) -> Outcome {
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

async fn lock_renewal(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["long work"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let mut message = one(&mut receiver).await?;
    let first_end: SystemTime = message.locked_until().expect("a lock").into();
    tokio::time::sleep(Duration::from_secs(5)).await; // so that the renewed lock outlives the first
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

async fn lock_loss(setting: &Setting) -> Outcome {
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

async fn delivery_count_to_dead_letter(setting: &Setting) -> Outcome {
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

async fn peek(setting: &Setting) -> Outcome {
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

async fn two_competing_receivers(setting: &Setting) -> Outcome {
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

async fn wrong_key(setting: &Setting) -> Outcome {
    let mut client = setting.client_with_key("WRONG_KEY").await?;
    let Err(error) = setting.sender(&mut client).await else { panic!("a sender with a wrong key") };
    assert!(format!("{error:?}").contains("401"), "{error:?}");
    let Err(error) = setting.receiver(&mut client).await else { panic!("a receiver with a wrong key") };
    assert!(format!("{error:?}").contains("401"), "{error:?}");
    Ok(())
}

async fn missing_queue(setting: &Setting) -> Outcome {
    let nowhere = setting.with_queue("no-such-queue");
    let mut client = setting.client().await?;
    let Err(error) = nowhere.sender(&mut client).await else { panic!("a sender to a missing queue") };
    assert!(format!("{error:?}").contains("NotFound"), "{error:?}");
    let Err(error) = nowhere.receiver(&mut client).await else { panic!("a receiver of a missing queue") };
    assert!(format!("{error:?}").contains("NotFound"), "{error:?}");
    // The connection outlives the refusals.
    setting.send(&mut client, &["still here"]).await?;
    Ok(client.dispose().await?)
}

async fn oversized_message(setting: &Setting) -> Outcome {
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

async fn large_message(setting: &Setting) -> Outcome {
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

async fn time_out_on_empty_queue(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut receiver = setting.receiver(&mut client).await?;
    assert_empty(&mut receiver).await?;
    setting.send(&mut client, &["after the silence"]).await?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "after the silence");
    receiver.complete_message(&message).await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

async fn annotations_and_header(setting: &Setting) -> Outcome {
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

async fn round_trip(setting: &Setting) -> Outcome {
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

async fn link_close_and_reopen(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    for round in 0..3 {
        let body = format!("round {round}");
        setting.send(&mut client, &[&body]).await?;
        let mut receiver = setting.receiver(&mut client).await?;
        let message = one(&mut receiver).await?;
        assert_eq!(text(&message), body);
        receiver.complete_message(&message).await?;
        receiver.dispose().await?;
    }
    Ok(client.dispose().await?)
}

async fn restart_before(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["before the crash"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    one(&mut receiver).await?; // locked when the broker dies
    Ok(())
}

async fn restart_between(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["after the crash"]).await?;
    Ok(client.dispose().await?)
}

async fn restart_after(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut receiver = setting.receiver(&mut client).await?;
    for expected in ["before the crash", "after the crash"] {
        let message = one(&mut receiver).await?;
        assert_eq!(text(&message), expected);
        receiver.complete_message(&message).await?;
    }
    assert_empty(&mut receiver).await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}
