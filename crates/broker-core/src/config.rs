//! Configuration of the core.
//!
//! Invariant: every limit has a name, a unit and a default.

use std::time::Duration;

use bytes::Bytes;

use crate::{EntitySettings, Message, Profile, Timestamp, settle::token::LockTokenCipher};

/// Reads what a stored payload says of its message, as if it arrived at that time.
pub type Describe = fn(Timestamp, &Bytes) -> Message;

/// Most bytes of the properties that are added to one message, as recorded: four bytes and the name, five and the value.
pub const PROPERTIES_BYTES_MAX: usize = 64 << 10;

/// Limits and the token key.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Key of the lock tokens: random, and new for each start of the process, so that tokens of an earlier start
    /// prove nothing.
    pub token_key: [u8; 16],
    /// Largest message of all queues, in bytes as sent. Default 100 MiB.
    pub max_message_bytes: u64,
    /// Largest message that a sender within the limits of the tier ([`LimitScope::Tier`](crate::LimitScope)) may bring to an entity
    /// that has no limit of its own, in bytes as sent. Default 1 MiB.
    pub tier_message_bytes: u64,
    /// Most entities: queues, topics and subscriptions. Default 10,000.
    pub max_entities: u64,
    /// Tier, which limits the properties of entities. Default [`Profile::STANDARD`].
    pub profile: Profile,
    /// Most rules of all subscriptions of one topic. Default 100,000.
    pub max_rules_per_topic: u64,
    /// Most subscriptions of one topic that receivers from the topic itself were given. Default 1,000.
    pub max_subscribers_per_topic: u64,
    /// Most receivers with a selector of one entity's store: each message is matched for each of them. Default 1,000.
    pub max_selectors_per_entity: u64,
    /// Most copies that the messages of one send to a topic may have, one for each of its rules. Default 1,000,000.
    pub max_copies_per_send: u64,
    /// Most bytes that one send, or one transaction by what it sends, may bring: its messages, and the copies that
    /// topics make of them. All of it is one journal batch, so this is far below 4 GiB. A single message fits in any
    /// case, where no topic makes copies of it. Default 128 MiB.
    pub max_send_bytes: u64,
    /// Most bytes of messages that one settlement by tokens may write anew; a single message fits in any case. Default
    /// 256 MiB.
    pub max_rewritten_bytes: u64,
    /// Most producers and consumers of one client. Default 5,000.
    pub max_links_per_client: u64,
    /// Most consumers of one entity's store. Default 100,000.
    pub max_consumers_per_entity: u64,
    /// Most bytes of broker-added properties of one message. Default [`PROPERTIES_BYTES_MAX`].
    pub max_properties_bytes: usize,
    /// Most messages that one call of `deliver` delivers or shows, and that one call of `handle_deadline` treats.
    /// Default 1,024.
    pub deliver_messages_max: u32,
    /// Payload bytes after which one call of `deliver` stops. Default 1 MiB.
    pub deliver_bytes_max: u64,
    /// Most message ids that are remembered to detect duplicates, in all entities together; each costs about a
    /// hundred bytes of memory. A message that would exceed it is refused. Default 10,000,000.
    pub max_history_ids: u64,
    /// Most transactions of one client that are declared and not discharged. Default 1,000.
    pub max_transactions_per_client: u64,
    /// Most messages within the limits of the tier sent in one transaction (Microsoft Learn, "Service Bus quotas"); for others only
    /// bytes count. Default 100.
    pub max_transaction_messages: u64,
    /// Most settlements in one transaction. Default 10,000.
    pub max_transaction_settlements: u64,
    /// Most bytes of all open transactions of one client: messages, and what their settlements write anew. A commit
    /// is one journal batch, so this is far below 4 GiB. Default 128 MiB.
    pub max_transaction_bytes: u64,
    /// Most bytes of the open transactions of all clients. Default 1 GiB.
    pub max_all_transactions_bytes: u64,
    /// Time from the first operation of a transaction until it is rolled back. Default 2 minutes.
    pub transaction_time_out: Duration,
    /// Properties of a queue that is created because a client attached to it.
    pub auto_create: EntitySettings,
    /// Reads the sections of a stored payload: when a scheduled message is activated, when a message is forwarded, and where
    /// selectors and rules need properties that the command did not bring. Default: the payload alone.
    pub describe: Describe,
}

impl CoreConfig {
    /// The same for another namespace of the shard: lock tokens of one core prove nothing to another. `number` differs
    /// between the namespaces of one start.
    #[must_use]
    pub fn of_namespace(&self, number: u64) -> Self {
        Self { token_key: LockTokenCipher::new(self.token_key).key(number), ..self.clone() }
    }

    /// Most bytes of one send: [`Self::max_send_bytes`], and never less than the largest message.
    pub fn send_bytes_max(&self) -> u64 {
        self.max_send_bytes.max(self.record_bytes_max())
    }

    /// The longest record that the core appends under these limits, in bytes. Messages stored under larger limits
    /// of an earlier start are still moved whole.
    pub fn record_bytes_max(&self) -> u64 {
        // A message's index, or a record that is all index: a definition, a removal.
        const INDEX_BYTES_MAX: u64 = 8 << 10;
        self.max_message_bytes
            .saturating_add(self.max_properties_bytes as u64)
            .saturating_add(INDEX_BYTES_MAX)
    }
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            token_key: [0; 16],
            max_message_bytes: 100 << 20,
            tier_message_bytes: 1 << 20,
            max_entities: 10_000,
            profile: Profile::STANDARD,
            max_rules_per_topic: 100_000,
            max_subscribers_per_topic: 1_000,
            max_selectors_per_entity: 1_000,
            max_copies_per_send: 1_000_000,
            max_send_bytes: 128 << 20,
            max_rewritten_bytes: 256 << 20,
            max_links_per_client: 5_000,
            max_consumers_per_entity: 100_000,
            max_properties_bytes: PROPERTIES_BYTES_MAX,
            deliver_messages_max: 1_024,
            deliver_bytes_max: 1 << 20,
            max_history_ids: 10_000_000,
            max_transactions_per_client: 1_000,
            max_transaction_messages: 100,
            max_transaction_settlements: 10_000,
            max_transaction_bytes: 128 << 20,
            max_all_transactions_bytes: 1 << 30,
            transaction_time_out: Duration::from_secs(120),
            auto_create: EntitySettings::default(),
            describe: |_, payload| Message { payload: payload.clone(), ..Message::default() },
        }
    }
}
