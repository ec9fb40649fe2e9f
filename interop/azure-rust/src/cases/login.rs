//! Other ways in: a WebSocket, and tokens of an identity provider.

use std::env::var;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use azservicebus::receiver::DeadLetterOptions;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};

use crate::Outcome;
use crate::setting::{Setting, assert_empty, assert_refused, many, one, text};

pub async fn web_socket(setting: &Setting) -> Outcome {
    let setting = setting.over_web_socket();
    let mut client = setting.client().await?;
    let mut sender = setting.sender(&mut client).await?;
    sender.send_messages((0..100).map(|number| number.to_string())).await?;
    sender.send_message(vec![b'x'; 200_000]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    for (number, message) in many(&mut receiver, 100).await?.iter().enumerate() {
        assert_eq!(text(message), number.to_string());
        receiver.complete_message(message).await?;
    }
    let mut large = one(&mut receiver).await?;
    assert_eq!(large.body()?, vec![b'x'; 200_000]);
    receiver.renew_message_lock(&mut large).await?;
    let why = DeadLetterOptions {
        dead_letter_reason: Some("large".into()),
        dead_letter_error_description: None,
        properties_to_modify: None,
    };
    receiver.dead_letter_message(&large, why).await?;
    assert_empty(&mut receiver).await?;
    let mut dead_letters = setting.dead_letters(&mut client).await?;
    let dead = one(&mut dead_letters).await?;
    assert_eq!(dead.dead_letter_reason(), Some("large"));
    dead_letters.complete_message(&dead).await?;
    sender.dispose().await?;
    receiver.dispose().await?;
    dead_letters.dispose().await?;
    Ok(client.dispose().await?)
}

/// A client of each of three namespaces, all at the same time: each finds in its queue what it has sent, and nothing else.
pub async fn namespaces(setting: &Setting) -> Outcome {
    let namespaces = setting.namespaces()?;
    assert_eq!(namespaces.len(), 3);
    let mut clients = Vec::new();
    for (namespace, number) in namespaces.iter().zip(0..) {
        let mut client = namespace.client().await?;
        namespace.send(&mut client, &[&format!("for {number}")]).await?;
        clients.push(client);
    }
    for ((client, namespace), number) in clients.iter_mut().zip(&namespaces).zip(0..) {
        let mut receiver = namespace.receiver(client).await?;
        let message = one(&mut receiver).await?;
        assert_eq!(text(&message), format!("for {number}"));
        receiver.complete_message(&message).await?;
        assert_empty(&mut receiver).await?;
        receiver.dispose().await?;
    }
    let stranger = namespaces[1].with_key_of(&namespaces[2]);
    assert_refused(stranger_sends(&stranger).await, "StatusCode(401)");
    Ok(())
}

async fn stranger_sends(stranger: &Setting) -> Result<(), azure_core::Error> {
    let mut client = stranger.client().await?;
    stranger.send(&mut client, &["never"]).await
}

/// A credential that always has the same token.
#[derive(Debug)]
struct Fixed(String);

#[async_trait]
impl TokenCredential for Fixed {
    async fn get_token(
        &self,
        scopes: &[&str],
        _: Option<TokenRequestOptions>,
    ) -> azure_core::Result<AccessToken> {
        assert_eq!(scopes, ["https://servicebus.azure.net/.default"]);
        let end = SystemTime::now() + Duration::from_secs(3_600);
        Ok(AccessToken::new(self.0.clone(), end.into()))
    }
}

/// The suite hands over a token with the right claims and three without.
pub async fn token_credential(setting: &Setting) -> Outcome {
    let credential = |name: &str| var(name).map(|token| Arc::new(Fixed(token)));
    let mut client = setting.client_with_token(credential("FERRYBUS_TOKEN_CLERK")?).await?;
    setting.send(&mut client, &["by token"]).await?;
    let mut receiver = setting.receiver(&mut client).await?;
    let mut message = one(&mut receiver).await?;
    assert_eq!(text(&message), "by token");
    receiver.renew_message_lock(&mut message).await?;
    receiver.complete_message(&message).await?;
    receiver.dispose().await?;
    client.dispose().await?;
    for refused in ["FERRYBUS_TOKEN_GUEST", "FERRYBUS_TOKEN_EXPIRED", "FERRYBUS_TOKEN_FORGED"] {
        let mut client = setting.client_with_token(credential(refused)?).await?;
        assert_refused(setting.sender(&mut client).await, "401");
    }
    Ok(())
}
