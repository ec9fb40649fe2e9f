//! Refusals of messages.
//!
//! Invariant: a send that is answered with an error has stored nothing.

use crate::{EntityError, NodeKind, QuotaError, TransactionError};

/// Reason for which a publish was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PublishError {
    /// The entity's status does not allow it.
    #[error("the messaging entity `{0}` is disabled for this operation")]
    Disabled(Box<str>),
    /// The entity is missing, or was deleted while the message travelled.
    #[error("the messaging entity `{0}` could not be found")]
    NotFound(Box<str>),
    /// The entity is not what the client asked for.
    #[error("`{entity}` is not {asked}, which the client asks for")]
    WrongKind { entity: Box<str>, asked: NodeKind },
    /// The message is larger than the entity takes.
    #[error("the message has {bytes} bytes, `{entity}` takes at most {limit}")]
    TooLarge { entity: Box<str>, bytes: u64, limit: u64 },
    /// There is no room: sends wait until some is freed.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaError),
    /// A batch for a topic with so many rules that its copies are more than one send may have.
    #[error("{messages} messages may have {copies} copies at `{entity}`, at most {limit} are made at once")]
    TooManyCopies {
        entity: Box<str>,
        /// The messages of the send.
        messages: u64,
        /// As many copies as they may have.
        copies: u64,
        limit: u64,
    },
    /// A send that would bring more bytes than are written in one step: its messages, and the copies of a topic.
    #[error(
        "{messages} messages, with the copies that are made of them, would bring more than {limit} bytes into `{entity}`, \
         which is the most that is written at once"
    )]
    TooMuchAtOnce {
        entity: Box<str>,
        /// The messages of the send.
        messages: u64,
        limit: u64,
    },
    /// No more message ids can be remembered: sends wait until some are forgotten.
    #[error("`{entity}` detects duplicates, and the broker remembers at most {limit} message ids at a time")]
    HistoryFull {
        entity: Box<str>,
        /// Most message-ids that the broker keeps.
        limit: u64,
    },
    /// The entity has sessions, and the message belongs to none.
    #[error("`{0}` requires sessions: every message needs a session id")]
    SessionRequired(Box<str>),
    #[error("the session id has {chars} characters, allowed are {limit}")]
    SessionIdTooLong { chars: u64, limit: u64 },
    /// A dead-letter store takes no sends.
    #[error("messages cannot be sent to the sub-queue of `{0}`")]
    SubQueueSend(Box<str>),
    /// A subscription gets its messages from its topic.
    #[error("messages cannot be sent to the subscription `{0}`, only to its topic")]
    SubscriptionSend(Box<str>),
    /// The entity has partitions, and the keys of the messages do not say one.
    #[error(transparent)]
    PartitionKey(#[from] PartitionKeyError),
    /// The transaction that it was to be part of does not take it.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

impl PublishError {
    /// The refusal of a message whose entity is missing and was not created for this reason.
    pub(crate) fn not_created(entity: &str, reason: EntityError) -> Self {
        match reason {
            EntityError::QuotaExceeded(error) => Self::QuotaExceeded(error),
            _ => Self::NotFound(entity.into()),
        }
    }
}

/// Reason for which the keys of messages are refused by an entity with partitions (`docs/features/partitions.md`).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PartitionKeyError {
    /// A message has a session and another partition key.
    #[error("`{0}` has partitions: the partition key of a message with a session id must be equal to it")]
    NotTheSession(Box<str>),
    /// Messages that are sent together belong to several partition keys, or only some of them to one.
    #[error(
        "`{0}` has partitions: all messages of a batch or a transaction must have the same partition key"
    )]
    SeveralKeys(Box<str>),
    /// A message of a transaction belongs to no partition key.
    #[error("`{0}` has partitions: a message that is sent in a transaction must have a partition key")]
    Missing(Box<str>),
}
