//! Sessions of a queue.

use std::time::{Duration, SystemTime};

use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;
use azservicebus::receiver::DeadLetterOptions;
use azservicebus::{ServiceBusMessage, ServiceBusSender};
use azure_core::Error;

use crate::Outcome;
use crate::setting::{Setting, assert_empty, assert_refused, one, text};

/// Sends messages in one batch; `a1` is of session `a`.
pub async fn send_to_sessions(sender: &mut ServiceBusSender, bodies: &[&str]) -> Result<(), Error> {
    let messages: Vec<ServiceBusMessage> = bodies
        .iter()
        .map(|body| {
            let mut message = ServiceBusMessage::new(*body);
            message.set_session_id(body[..1].to_owned()).expect("a short id");
            message
        })
        .collect();
    sender.send_messages(messages).await
}

/// While nothing waits in any session, the next one is refused when the time for it is over: the SDK
/// names no time, so that is the broker's own minute, which its clock skips.
async fn refused_when_there_is_none(setting: &Setting) -> Outcome {
    let mut impatient = setting.client().await?;
    let mut accept = std::pin::pin!(setting.next_session(&mut impatient));
    loop {
        tokio::select! {
            outcome = &mut accept => {
                assert_refused(outcome, "com.microsoft:timeout");
                return Ok(());
            }
            () = tokio::time::sleep(Duration::from_millis(200)) => {
                setting.control.advance_clock(Duration::from_secs(61))?;
            }
        }
    }
}

pub async fn accept(setting: &Setting) -> Outcome {
    refused_when_there_is_none(setting).await?;
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    send_to_sessions(&mut sender, &["b1", "a2", "c3"]).await?;
    let mut first = setting.next_session(&mut client).await?;
    assert_eq!(first.session_id(), "b");
    let mut other = setting.client().await?;
    assert_refused(setting.session(&mut other, "b").await, "session-cannot-be-locked");
    let mut named = setting.session(&mut client, "c").await?;
    let message = one(&mut named).await?;
    assert_eq!((text(&message), message.session_id()), ("c3", Some("c")));
    named.complete_message(&message).await?;
    named.dispose().await?;
    let message = one(&mut first).await?;
    assert_eq!((text(&message), message.session_id()), ("b1", Some("b")));
    first.dispose().await?;
    // Given up with a message unsettled: it is free, and the message does not count as failed.
    let mut again = setting.session(&mut client, "b").await?;
    let message = one(&mut again).await?;
    assert_eq!(
        (text(&message), message.delivery_count()),
        ("b1", Some(1)),
        "this SDK counts the delivery itself"
    );
    again.complete_message(&message).await?;
    let mut empty = setting.session(&mut client, "nobody's").await?;
    assert_empty(&mut empty).await?;
    let mut plain = setting.client().await?;
    assert_refused(setting.receiver(&mut plain).await, "NotAllowed");
    assert_refused(sender.send_message("of no session").await, "session");
    again.dispose().await?;
    empty.dispose().await?;
    sender.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn order(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let bodies: Vec<String> =
        (0..20).flat_map(|number| ["a", "b", "c"].map(|session| format!("{session}{number}"))).collect();
    let slices: Vec<&str> = bodies.iter().map(String::as_str).collect();
    send_to_sessions(&mut sender, &slices).await?;
    for session in ["a", "b", "c"] {
        let mut receiver = setting.session(&mut client, session).await?;
        let mut seen = Vec::new();
        while seen.len() < 20 {
            let message = one(&mut receiver).await?;
            if seen.len() % 5 == 2 && message.delivery_count() == Some(1) {
                receiver.abandon_message(&message, None).await?;
                continue;
            }
            seen.push(text(&message).to_owned());
            receiver.complete_message(&message).await?;
        }
        let expected: Vec<String> = (0..20).map(|number| format!("{session}{number}")).collect();
        assert_eq!(seen, expected);
        receiver.dispose().await?;
    }
    sender.dispose().await?;
    Ok(client.dispose().await?)
}

/// The SDK cannot read a state that was never set, nor take one away.
pub async fn state(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut receiver = setting.session(&mut client, "s").await?;
    let long = b"\x00\xff".repeat(1_000);
    // A state of no bytes is none, which this SDK cannot read.
    for state in [b"one".to_vec(), long.clone()] {
        receiver.set_session_state(state.clone()).await?;
        assert_eq!(receiver.session_state().await?, state);
    }
    // It does not read the end of the lock that comes with the session, but that of a renewed one.
    let mut ends = Vec::new();
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(100)).await; // so that the second ends later
        receiver.renew_session_lock().await?;
        ends.push(SystemTime::from(receiver.session_locked_until()));
    }
    assert!(ends[0] > SystemTime::now() && ends[1] > ends[0], "{ends:?}");
    receiver.dispose().await?;
    let mut again = setting.session(&mut client, "s").await?;
    assert_eq!(again.session_state().await?, long);
    again.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn deferred(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    send_to_sessions(&mut sender, &["s1", "t2", "s3", "s4"]).await?;
    let mut receiver = setting.session(&mut client, "s").await?;
    let first = one(&mut receiver).await?;
    receiver.defer_message(&first, None).await?;
    let second = one(&mut receiver).await?;
    assert_eq!(text(&second), "s3");
    let late = DeadLetterOptions {
        dead_letter_reason: Some("late".into()),
        dead_letter_error_description: None,
        properties_to_modify: None,
    };
    receiver.dead_letter_message(&second, late).await?;
    let peeked = receiver.peek_messages(9, Some(1)).await?;
    let states: Vec<_> =
        peeked.iter().map(|message| (message.body().expect("data"), message.state())).collect();
    assert_eq!(
        states,
        [(&b"s1"[..], ServiceBusMessageState::Deferred), (&b"s4"[..], ServiceBusMessageState::Active)]
    );
    let deferred = receiver.receive_deferred_message(first.sequence_number()).await?.expect("it is deferred");
    assert_eq!(text(&deferred), "s1");
    receiver.complete_message(&deferred).await?;
    let last = one(&mut receiver).await?;
    assert_eq!(text(&last), "s4");
    receiver.complete_message(&last).await?;
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    let dead = one(&mut dead_letters).await?;
    assert_eq!((text(&dead), dead.session_id(), dead.dead_letter_reason()), ("s3", Some("s"), Some("late")));
    dead_letters.complete_message(&dead).await?;
    receiver.dispose().await?;
    dead_letters.dispose().await?;
    sender.dispose().await?;
    Ok(client.dispose().await?)
}

/// The broker is the case's own: its clock is moved past the session's lock.
pub async fn lost(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    send_to_sessions(&mut sender, &["s1"]).await?;
    let mut receiver = setting.session(&mut client, "s").await?;
    let message = one(&mut receiver).await?;
    receiver.set_session_state(b"begun".to_vec()).await?;
    setting.control.advance_clock(Duration::from_secs(60))?;
    assert_refused(receiver.renew_session_lock().await, "410");
    assert_refused(receiver.set_session_state(b"too late".to_vec()).await, "410");
    // The SDK reports a settlement as done whatever the broker answers; receiving tells why the link is gone.
    receiver.complete_message(&message).await?;
    assert_refused(
        receiver.receive_message_with_max_wait_time(Duration::from_secs(30)).await,
        "session-lock-lost",
    );
    let mut other = setting.client().await?;
    let mut again = setting.session(&mut other, "s").await?;
    let message = one(&mut again).await?;
    assert_eq!((text(&message), message.delivery_count()), ("s1", Some(2)));
    assert_eq!(again.session_state().await?, b"begun");
    again.complete_message(&message).await?;
    again.dispose().await?;
    Ok(other.dispose().await?)
}
