//! Where the broker is, and clients that reach it.

use std::env::{VarError, var};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azservicebus::authorization::AzureNamedKeyCredential;
use azservicebus::primitives::service_bus_retry_options::ServiceBusRetryOptions;
use azservicebus::primitives::service_bus_transport_type::ServiceBusTransportType;
use azservicebus::primitives::sub_queue::SubQueue;
use azservicebus::{
    ServiceBusClient, ServiceBusClientOptions, ServiceBusReceiveMode, ServiceBusReceivedMessage,
    ServiceBusReceiver, ServiceBusReceiverOptions, ServiceBusSender, ServiceBusSenderOptions,
    ServiceBusSessionReceiver, ServiceBusSessionReceiverOptions,
};
use azure_core::Error;
use azure_core::credentials::TokenCredential;

use crate::control::Control;

/// How long a message that must come may take.
const WAIT: Duration = Duration::from_secs(30);
/// After how long a queue counts as empty.
const SILENCE: Duration = Duration::from_secs(1);

pub type Client = ServiceBusClient<azservicebus::core::BasicRetryPolicy>;

/// What `lib/external.py` says about the broker.
#[derive(Clone)]
pub struct Setting {
    authority: String,
    tls: bool,
    transport: ServiceBusTransportType,
    pub queue: String,
    pub control: Control,
    key_name: String,
    key: String,
}

impl Setting {
    pub fn from_environment() -> Result<Self, VarError> {
        Ok(Self {
            authority: format!("{}:{}", var("FERRYBUS_HOST")?, var("FERRYBUS_PORT")?),
            tls: var("FERRYBUS_TRANSPORT")? == "tls",
            transport: ServiceBusTransportType::AmqpTcp,
            queue: var("FERRYBUS_QUEUE")?,
            control: Control::from_environment()?,
            key_name: var("FERRYBUS_KEY_NAME")?,
            key: var("FERRYBUS_KEY")?,
        })
    }

    pub fn with_queue(&self, queue: &str) -> Self {
        Self { queue: queue.to_owned(), ..self.clone() }
    }

    /// The namespaces of the broker, in each of which the case's queue is.
    pub fn namespaces(&self) -> Result<Vec<Self>, VarError> {
        let port = var("FERRYBUS_PORT")?;
        let lines = var("FERRYBUS_NAMESPACES")?;
        let of = |line: &str| {
            let [_, host, key] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("no namespace: {line}") };
            Self { authority: format!("{host}:{port}"), key: key.to_owned(), ..self.clone() }
        };
        Ok(lines.lines().map(of).collect())
    }

    /// The same place with the key of another.
    pub fn with_key_of(&self, other: &Self) -> Self {
        Self { key: other.key.clone(), ..self.clone() }
    }

    pub fn over_web_socket(&self) -> Self {
        Self { transport: ServiceBusTransportType::AmqpWebSocket, ..self.clone() }
    }

    fn options(&self) -> ServiceBusClientOptions {
        ServiceBusClientOptions {
            retry_options: ServiceBusRetryOptions {
                max_retries: 0,
                try_timeout: Duration::from_secs(40),
                ..Default::default()
            },
            transport_type: self.transport,
            ..Default::default()
        }
    }

    pub async fn client(&self) -> Result<Client, Error> {
        self.client_with_key(&self.key).await
    }

    /// The constructors with a credential are the only ones that keep a port.
    pub async fn client_with_key(&self, key: &str) -> Result<Client, Error> {
        let credential = AzureNamedKeyCredential::new(self.key_name.clone(), key.to_owned());
        let (authority, options) = (self.authority.clone(), self.options());
        if self.tls {
            Client::new_from_named_key_credential(authority, credential, options).await
        } else {
            Client::unsecured().new_from_named_key_credential(authority, credential, options).await
        }
    }

    pub async fn client_with_token(&self, credential: Arc<dyn TokenCredential>) -> Result<Client, Error> {
        let (authority, options) = (self.authority.clone(), self.options());
        if self.tls {
            Client::new_from_token_credential(authority, credential, options).await
        } else {
            Client::unsecured().new_from_token_credential(authority, credential, options).await
        }
    }

    pub async fn sender(&self, client: &mut Client) -> Result<ServiceBusSender, Error> {
        client.create_sender(self.queue.clone(), ServiceBusSenderOptions::default()).await
    }

    /// A peek-lock receiver of the queue itself.
    pub async fn receiver(&self, client: &mut Client) -> Result<ServiceBusReceiver, Error> {
        self.receiver_with(client, SubQueue::None, ServiceBusReceiveMode::PeekLock).await
    }

    /// A peek-lock receiver of the dead-letter queue.
    pub async fn dead_letters(&self, client: &mut Client) -> Result<ServiceBusReceiver, Error> {
        self.receiver_with(client, SubQueue::DeadLetter, ServiceBusReceiveMode::PeekLock).await
    }

    pub async fn receiver_with(
        &self,
        client: &mut Client,
        sub_queue: SubQueue,
        receive_mode: ServiceBusReceiveMode,
    ) -> Result<ServiceBusReceiver, Error> {
        let options = ServiceBusReceiverOptions { sub_queue, receive_mode, ..Default::default() };
        client.create_receiver_for_queue(self.queue.clone(), options).await
    }

    /// A peek-lock receiver of a subscription of the case's topic.
    pub async fn subscription(&self, client: &mut Client, name: &str) -> Result<ServiceBusReceiver, Error> {
        let options = ServiceBusReceiverOptions::default();
        client.create_receiver_for_subscription(&self.queue, name, options).await
    }

    /// A peek-lock receiver of a subscription's dead-letter queue.
    pub async fn dead_letters_of(
        &self,
        client: &mut Client,
        name: &str,
    ) -> Result<ServiceBusReceiver, Error> {
        let options = ServiceBusReceiverOptions { sub_queue: SubQueue::DeadLetter, ..Default::default() };
        client.create_receiver_for_subscription(&self.queue, name, options).await
    }

    /// The session `id` of the case's queue.
    pub async fn session(&self, client: &mut Client, id: &str) -> Result<ServiceBusSessionReceiver, Error> {
        client.accept_session_for_queue(&self.queue, id, ServiceBusSessionReceiverOptions::default()).await
    }

    /// Whichever session of the case's queue is next.
    pub async fn next_session(&self, client: &mut Client) -> Result<ServiceBusSessionReceiver, Error> {
        client.accept_next_session_for_queue(&self.queue, ServiceBusSessionReceiverOptions::default()).await
    }

    /// Sends each body as one message.
    pub async fn send(&self, client: &mut Client, bodies: &[&str]) -> Result<(), Error> {
        let mut sender = self.sender(client).await?;
        for body in bodies {
            sender.send_message(*body).await?;
        }
        sender.dispose().await
    }
}

/// What hands out messages: a receiver of a queue or subscription, or of one of its sessions.
#[async_trait(?Send)]
pub trait Inbox {
    async fn take(&mut self, count: u32, wait: Duration) -> Result<Vec<ServiceBusReceivedMessage>, Error>;
}

#[async_trait(?Send)]
impl Inbox for ServiceBusReceiver {
    async fn take(&mut self, count: u32, wait: Duration) -> Result<Vec<ServiceBusReceivedMessage>, Error> {
        self.receive_messages_with_max_wait_time(count, wait).await
    }
}

#[async_trait(?Send)]
impl Inbox for ServiceBusSessionReceiver {
    async fn take(&mut self, count: u32, wait: Duration) -> Result<Vec<ServiceBusReceivedMessage>, Error> {
        self.receive_messages_with_max_wait_time(count, wait).await
    }
}

/// The next message, which must come.
pub async fn one(inbox: &mut impl Inbox) -> Result<ServiceBusReceivedMessage, Error> {
    Ok(inbox.take(1, WAIT).await?.pop().expect("a message must come"))
}

/// The next `count` messages, which must come.
pub async fn many(inbox: &mut impl Inbox, count: usize) -> Result<Vec<ServiceBusReceivedMessage>, Error> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let missing = u32::try_from(count - taken.len()).expect("a small count");
        let more = inbox.take(missing, WAIT).await?;
        assert!(!more.is_empty(), "{} of {count} messages came", taken.len());
        taken.extend(more);
    }
    Ok(taken)
}

pub async fn assert_empty(inbox: &mut impl Inbox) -> Result<(), Error> {
    let left = inbox.take(1, SILENCE).await?;
    assert!(left.is_empty(), "unexpected message {left:?}");
    Ok(())
}

/// Receives and completes `count` messages, behind which nothing is left.
pub async fn all(
    receiver: &mut ServiceBusReceiver,
    count: usize,
) -> Result<Vec<ServiceBusReceivedMessage>, Error> {
    let taken = many(receiver, count).await?;
    for message in &taken {
        receiver.complete_message(message).await?;
    }
    assert_empty(receiver).await?;
    Ok(taken)
}

/// The body of a message as text.
pub fn text(message: &ServiceBusReceivedMessage) -> &str {
    std::str::from_utf8(message.body().expect("one data section")).expect("UTF-8")
}

pub fn texts(messages: &[ServiceBusReceivedMessage]) -> Vec<&str> {
    messages.iter().map(text).collect()
}

/// The call was refused, and the error says `why`.
#[track_caller]
pub fn assert_refused<T>(outcome: Result<T, impl Debug>, why: &str) {
    let Err(error) = outcome else { panic!("not refused, though `{why}`") };
    let said = format!("{error:?}");
    assert!(said.contains(why), "no `{why}` in {said}");
}
