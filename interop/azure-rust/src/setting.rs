//! Where the broker is, and clients that reach it.

use std::env::{VarError, var};
use std::time::Duration;

use azservicebus::authorization::AzureNamedKeyCredential;
use azservicebus::primitives::service_bus_retry_options::ServiceBusRetryOptions;
use azservicebus::primitives::sub_queue::SubQueue;
use azservicebus::{
    ServiceBusClient, ServiceBusClientOptions, ServiceBusReceiveMode, ServiceBusReceivedMessage,
    ServiceBusReceiver, ServiceBusReceiverOptions, ServiceBusSender, ServiceBusSenderOptions,
};
use azure_core::Error;

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
    pub queue: String,
    key_name: String,
    key: String,
}

impl Setting {
    pub fn from_environment() -> Result<Self, VarError> {
        Ok(Self {
            authority: format!("{}:{}", var("FERRYBUS_HOST")?, var("FERRYBUS_PORT")?),
            tls: var("FERRYBUS_TRANSPORT")? == "tls",
            queue: var("FERRYBUS_QUEUE")?,
            key_name: var("FERRYBUS_KEY_NAME")?,
            key: var("FERRYBUS_KEY")?,
        })
    }

    pub fn with_queue(&self, queue: &str) -> Self {
        Self { queue: queue.to_owned(), ..self.clone() }
    }

    pub async fn client(&self) -> Result<Client, Error> {
        self.client_with_key(&self.key).await
    }

    /// The constructor with a named key is the only one that keeps a port.
    pub async fn client_with_key(&self, key: &str) -> Result<Client, Error> {
        let credential = AzureNamedKeyCredential::new(self.key_name.clone(), key.to_owned());
        let options = ServiceBusClientOptions {
            retry_options: ServiceBusRetryOptions {
                max_retries: 0,
                try_timeout: Duration::from_secs(40),
                ..Default::default()
            },
            ..Default::default()
        };
        let authority = self.authority.clone();
        if self.tls {
            Client::new_from_named_key_credential(authority, credential, options).await
        } else {
            Client::unsecured().new_from_named_key_credential(authority, credential, options).await
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

    /// Sends each body as one message.
    pub async fn send(&self, client: &mut Client, bodies: &[&str]) -> Result<(), Error> {
        let mut sender = self.sender(client).await?;
        for body in bodies {
            sender.send_message(*body).await?;
        }
        sender.dispose().await
    }
}

/// The next message, which must come.
pub async fn one(receiver: &mut ServiceBusReceiver) -> Result<ServiceBusReceivedMessage, Error> {
    let message = receiver.receive_message_with_max_wait_time(WAIT).await?;
    Ok(message.expect("a message must come"))
}

/// The next `count` messages, which must come.
pub async fn many(
    receiver: &mut ServiceBusReceiver,
    count: usize,
) -> Result<Vec<ServiceBusReceivedMessage>, Error> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let missing = u32::try_from(count - taken.len()).expect("a small count");
        let more = receiver.receive_messages_with_max_wait_time(missing, WAIT).await?;
        assert!(!more.is_empty(), "{} of {count} messages came", taken.len());
        taken.extend(more);
    }
    Ok(taken)
}

pub async fn assert_empty(receiver: &mut ServiceBusReceiver) -> Result<(), Error> {
    let left = receiver.receive_message_with_max_wait_time(SILENCE).await?;
    assert!(left.is_none(), "unexpected message {left:?}");
    Ok(())
}

/// The body of a message as text.
pub fn text(message: &ServiceBusReceivedMessage) -> &str {
    std::str::from_utf8(message.body().expect("one data section")).expect("UTF-8")
}
