//! What entities permit, drop, cap and pass on: status, size, and what a topic does before it copies.

use std::time::{Duration, SystemTime};

use azservicebus::ServiceBusMessage;
use azservicebus::receiver::DeadLetterOptions;
use serde_amqp::Value;

use crate::Outcome;
use crate::setting::{Setting, all, assert_empty, assert_refused, one, text, texts};

/// The refusal of an entity that is switched off.
const DISABLED: &str = "entity-disabled";

fn with_id(id: &str, body: &str) -> ServiceBusMessage {
    let mut message = ServiceBusMessage::new(body);
    message.set_message_id(id.to_owned()).expect("a short id");
    message
}

/// Sends to what takes messages; what does not refuses the sender.
async fn send(there: &Setting, takes: bool) -> Outcome {
    let mut client = there.client().await?;
    if takes {
        there.send(&mut client, &["m"]).await?;
        return Ok(client.dispose().await?);
    }
    assert_refused(there.sender(&mut client).await, DISABLED);
    Ok(())
}

/// Receives all `count` messages from what gives them; what does not refuses the receiver.
async fn receive(there: &Setting, subscription: Option<&str>, count: Option<usize>) -> Outcome {
    let mut client = there.client().await?;
    let receiver = match subscription {
        Some(name) => there.subscription(&mut client, name).await,
        None => there.receiver(&mut client).await,
    };
    let Some(count) = count else {
        assert_refused(receiver, DISABLED);
        return Ok(());
    };
    let mut receiver = receiver?;
    assert_eq!(all(&mut receiver, count).await?.len(), count);
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

/// Beside the case's queue, which is open, there are queues and topics of each status.
pub async fn status(setting: &Setting) -> Outcome {
    let beside = |name: &str| setting.with_queue(&format!("{}-{name}", setting.queue));
    let cases = [
        (setting.clone(), true, Some(1)),
        (beside("send"), false, Some(0)),
        (beside("receive"), true, None),
        (beside("off"), false, None),
    ];
    for (there, takes, gives) in cases {
        send(&there, takes).await?;
        receive(&there, None, gives).await?;
    }
    let (shut, news) = (beside("shut"), beside("news"));
    send(&shut, false).await?;
    receive(&shut, Some("s"), Some(0)).await?;
    send(&news, true).await?;
    for (subscription, gives) in [("off", None), ("shut", None), ("on", Some(1))] {
        receive(&news, Some(subscription), gives).await?;
    }
    Ok(())
}

/// The queue holds 20,000 bytes.
pub async fn full(setting: &Setting) -> Outcome {
    let half = "x".repeat(12_000);
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    sender.send_message(half.as_str()).await?;
    // Its own name of `amqp:resource-limit-exceeded`.
    let refusal = "ResourceLimitExceeded";
    assert_refused(sender.send_message(half.as_str()).await, refusal);
    assert_refused(sender.send_messages(["small", half.as_str()]).await, refusal);
    // What fits is taken all the same, and there is room again when something has gone.
    sender.send_message("small").await?;
    let mut receiver = setting.receiver(&mut client).await?;
    assert_eq!(texts(&all(&mut receiver, 2).await?), [half.as_str(), "small"]);
    sender.send_message(half.as_str()).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

/// The topic detects duplicates, and has the subscriptions `a` and `b`.
pub async fn duplicates(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    sender.send_message(with_id("one", "first")).await?;
    sender.send_message(with_id("one", "again")).await?;
    let batch = [("two", "a"), ("two", "b"), ("one", "c"), ("three", "d")];
    sender.send_messages(batch.map(|(id, body)| with_id(id, body))).await?;
    let later = SystemTime::now() + Duration::from_secs(3_600);
    sender.schedule_message(with_id("three", "scheduled"), later.into()).await?;
    for name in ["a", "b"] {
        let mut receiver = setting.subscription(&mut client, name).await?;
        assert_eq!(texts(&all(&mut receiver, 3).await?), ["first", "a", "d"], "{name}");
        receiver.dispose().await?;
    }
    // The copies are gone, the id is known still.
    sender.send_message(with_id("one", "completed before")).await?;
    let mut receiver = setting.subscription(&mut client, "a").await?;
    assert_empty(&mut receiver).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

/// Messages live 200 s in the topic, 100 s in `brief`, an hour in `long`. The clock is the case's own.
pub async fn shorter_lifetime(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    let mut message = ServiceBusMessage::new("m");
    message.set_time_to_live(Duration::from_secs(86_400))?;
    sender.send_message(message).await?;
    let mut receiver = setting.subscription(&mut client, "long").await?;
    let peeked = receiver.peek_messages(9, Some(1)).await?;
    let lifetimes: Vec<_> =
        peeked.iter().map(|message| message.time_to_live().map(|time| time.as_secs())).collect();
    assert_eq!(lifetimes, [Some(200)], "the topic's is smaller than the subscription's");
    for (name, seconds) in [("brief", 110), ("long", 100)] {
        assert_eq!(receiver.peek_messages(9, Some(1)).await?.len(), 1);
        setting.control.advance_clock(Duration::from_secs(seconds))?;
        let mut dead_letters = setting.dead_letters_of(&mut client, name).await?;
        let dead = all(&mut dead_letters, 1).await?;
        assert_eq!((text(&dead[0]), dead[0].dead_letter_reason()), ("m", Some("TTLExpiredException")));
        dead_letters.dispose().await?;
    }
    assert!(receiver.peek_message(Some(1)).await?.is_none());
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

/// The subscription `on` takes `n = 1`, changes it and passes it on; the dead letters of `dead` are passed on.
pub async fn forwarding(setting: &Setting) -> Outcome {
    let beside = |name: &str| setting.with_queue(&format!("{}-{name}", setting.queue));
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    for (number, body) in [(0, "zero"), (1, "one")] {
        let mut message = ServiceBusMessage::new(body);
        let own = message.application_properties_mut().get_or_insert_default();
        own.insert("n".to_owned(), Value::Int(number).try_into().expect("a simple value"));
        sender.send_message(message).await?;
    }
    let mut work = beside("work").receiver(&mut client).await?;
    let forwarded = all(&mut work, 1).await?;
    assert_eq!((text(&forwarded[0]), forwarded[0].enqueued_sequence_number()), ("one", 2));
    let properties = forwarded[0].application_properties().expect("what the rule added");
    assert!(properties.contains_key("seen") && properties.contains_key("RuleName"), "{properties:?}");
    let mut receiver = setting.subscription(&mut client, "dead").await?;
    let bad = one(&mut receiver).await?;
    let why = DeadLetterOptions {
        dead_letter_reason: Some("unreadable".to_owned()),
        dead_letter_error_description: None,
        properties_to_modify: None,
    };
    receiver.dead_letter_message(&bad, why).await?;
    let mut morgue = beside("morgue").receiver(&mut client).await?;
    let letters = all(&mut morgue, 1).await?;
    assert_eq!((text(&letters[0]), letters[0].dead_letter_reason()), ("zero", Some("unreadable")));
    let source = format!("{}/Subscriptions/dead", setting.queue);
    assert_eq!(letters[0].dead_letter_source(), Some(source.as_str()));
    sender.dispose().await?;
    work.dispose().await?;
    receiver.dispose().await?;
    morgue.dispose().await?;
    Ok(client.dispose().await?)
}
