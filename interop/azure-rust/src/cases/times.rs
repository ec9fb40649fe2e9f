//! What happens at a time: schedules, lifetimes, the broker's clock. Each case has a broker of its own,
//! whose clock it moves.

use std::time::{Duration, SystemTime};

use azservicebus::ServiceBusMessage;
use azservicebus::primitives::service_bus_message_state::ServiceBusMessageState;

use crate::Outcome;
use crate::setting::{Setting, assert_empty, assert_refused, many, one, text};

/// Ten minutes from now, in whole seconds: a schedule is kept in milliseconds.
fn in_ten_minutes() -> SystemTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs() + 600)
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

pub async fn schedule_and_cancel(setting: &Setting) -> Outcome {
    let due = in_ten_minutes();
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let numbers = sender.schedule_messages(["cancelled 1", "cancelled 2"], due.into()).await?;
    let single = sender.schedule_message("due", due.into()).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let peeked = receiver.peek_messages(9, Some(1)).await?;
    let found: Vec<i64> = peeked.iter().map(|message| message.sequence_number()).collect();
    assert_eq!(found, [numbers[0], numbers[1], single]);
    for message in &peeked {
        assert_eq!(message.state(), ServiceBusMessageState::Scheduled);
        assert_eq!(SystemTime::from(message.scheduled_enqueue_time()), due);
    }
    assert_empty(&mut receiver).await?;
    sender.cancel_scheduled_messages(numbers.clone()).await?;
    assert_refused(sender.cancel_scheduled_message(numbers[0]).await, "404");
    setting.control.advance_clock(TEN_MINUTES)?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "due");
    assert_eq!(message.state(), ServiceBusMessageState::Active);
    assert!(message.sequence_number() > single, "a new number");
    assert!(SystemTime::from(message.enqueued_time()) >= due);
    assert_refused(sender.cancel_scheduled_message(single).await, "404");
    receiver.complete_message(&message).await?;
    // The SDK does not wait for the answer to a settlement; peeking looks behind it.
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub async fn schedule_by_property(setting: &Setting) -> Outcome {
    let due = in_ten_minutes();
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let mut scheduled = ServiceBusMessage::new("due");
    scheduled.set_scheduled_enqueue_time(due.into());
    sender.send_messages([scheduled, ServiceBusMessage::new("now")]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "now");
    receiver.complete_message(&message).await?;
    assert_empty(&mut receiver).await?;
    setting.control.advance_clock(TEN_MINUTES)?;
    let message = one(&mut receiver).await?;
    assert_eq!(text(&message), "due");
    assert!(SystemTime::from(message.enqueued_time()) >= due);
    assert_eq!(SystemTime::from(message.scheduled_enqueue_time()), due);
    receiver.complete_message(&message).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

/// The queue's default is 200 s, its locks outlive them all, and what expires is dead-lettered.
pub async fn expiry(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    for (body, lifetime) in [("capped", Some(600)), ("default", None), ("short", Some(150))] {
        let mut message = ServiceBusMessage::new(body);
        if let Some(seconds) = lifetime {
            message.set_time_to_live(Duration::from_secs(seconds))?;
        }
        sender.send_message(message).await?;
    }
    let mut receiver = setting.receiver(&mut client).await?;
    let peeked = receiver.peek_messages(9, Some(1)).await?;
    let lifetimes: Vec<_> =
        peeked.iter().map(|message| message.time_to_live().map(|time| time.as_secs())).collect();
    assert_eq!(lifetimes, [Some(200), None, Some(150)], "the queue's default shows when it is received");
    let held = one(&mut receiver).await?;
    assert_eq!((text(&held), held.time_to_live()), ("capped", Some(Duration::from_secs(200))));
    setting.control.advance_clock(Duration::from_secs(210))?;
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    // In the order of their numbers, whichever expired first.
    for expected in ["default", "short"] {
        let message = one(&mut dead_letters).await?;
        assert_eq!(text(&message), expected);
        assert_eq!(message.dead_letter_reason(), Some("TTLExpiredException"));
        dead_letters.complete_message(&message).await?;
    }
    // What is locked does not expire.
    receiver.complete_message(&held).await?;
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    assert_empty(&mut receiver).await?;
    assert_empty(&mut dead_letters).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

/// The queue's locks last five minutes.
pub async fn clock_advance(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["tea"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let mut message = one(&mut receiver).await?;
    setting.control.advance_clock(Duration::from_secs(301))?;
    let again = one(&mut receiver).await?;
    assert_eq!((text(&again), again.delivery_count()), ("tea", Some(2)));
    assert_refused(receiver.renew_message_lock(&mut message).await, "410");
    receiver.complete_message(&again).await?;
    let mut sender = setting.sender(&mut client).await?;
    let month = Duration::from_secs(30 * 24 * 3_600);
    for (body, lifetime) in [("stale", month), ("fresh", month + month / 2)] {
        let mut message = ServiceBusMessage::new(body);
        message.set_time_to_live(lifetime)?;
        sender.send_message(message).await?;
    }
    setting.control.advance_clock(month)?;
    let left = many(&mut receiver, 1).await?;
    assert_eq!(text(&left[0]), "fresh");
    receiver.complete_message(&left[0]).await?;
    assert_empty(&mut receiver).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}
