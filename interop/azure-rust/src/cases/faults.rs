//! Faults that are ordered at the broker.

use crate::Outcome;
use crate::cases::sessions::send_to_sessions;
use crate::setting::{Setting, assert_empty, assert_refused, one, text};

pub async fn server_busy(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    setting.control.order_fault("server-busy", &setting.queue)?;
    assert_refused(sender.send_message("too much").await, "server-busy");
    sender.send_message("tea").await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "tea", "what was refused is not there");
    receiver.complete_message(&message).await?;
    assert_empty(&mut receiver).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

/// The SDK reports a settlement as done whatever the broker answers: only the message shows that it was not.
pub async fn lose_lock(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["tea"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    setting.control.order_fault("lose-lock", &setting.queue)?;
    receiver.complete_message(&message).await?;
    let again = one(&mut receiver).await?;
    assert_eq!((text(&again), again.delivery_count()), ("tea", Some(2)));
    receiver.complete_message(&again).await?;
    assert_empty(&mut receiver).await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn lose_session(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    send_to_sessions(&mut sender, &["s1", "s2"]).await?;
    let mut receiver = setting.session(&mut client, "s").await?;
    let message = one(&mut receiver).await?;
    setting.control.order_fault("lose-lock", &setting.queue)?;
    receiver.complete_message(&message).await?;
    assert_refused(receiver.renew_session_lock().await, "410");
    let mut other = setting.client().await?;
    let mut again = setting.session(&mut other, "s").await?;
    for (expected, count) in [("s1", 2), ("s2", 1)] {
        let message = one(&mut again).await?;
        assert_eq!((text(&message), message.delivery_count()), (expected, Some(count)));
        again.complete_message(&message).await?;
    }
    again.dispose().await?;
    Ok(other.dispose().await?)
}
