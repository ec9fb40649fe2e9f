//! Links that are refused, wait, come back, and meet a broker that was restarted.

use crate::Outcome;
use crate::setting::{Setting, assert_empty, one, text};

pub async fn wrong_key(setting: &Setting) -> Outcome {
    let mut client = setting.client_with_key("WRONG_KEY").await?;
    let Err(error) = setting.sender(&mut client).await else { panic!("a sender with a wrong key") };
    assert!(format!("{error:?}").contains("401"), "{error:?}");
    let Err(error) = setting.receiver(&mut client).await else { panic!("a receiver with a wrong key") };
    assert!(format!("{error:?}").contains("401"), "{error:?}");
    Ok(())
}

pub async fn missing_queue(setting: &Setting) -> Outcome {
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

pub async fn time_out_on_empty_queue(setting: &Setting) -> Outcome {
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

pub async fn link_close_and_reopen(setting: &Setting) -> Outcome {
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

pub async fn restart_before(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["before the crash"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    one(&mut receiver).await?; // locked when the broker dies
    Ok(())
}

pub async fn restart_between(setting: &Setting) -> Outcome {
    let mut client = setting.client().await?;
    setting.send(&mut client, &["after the crash"]).await?;
    Ok(client.dispose().await?)
}

pub async fn restart_after(setting: &Setting) -> Outcome {
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
