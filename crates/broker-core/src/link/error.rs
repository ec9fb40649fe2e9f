//! Refusals of attach requests.
//!
//! Invariant: a link for which an error was answered does not exist.

use crate::{EntityError, NodeKind};

/// Reason for which a link was not opened.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AttachError {
    /// The entity's status does not allow it.
    #[error("the messaging entity `{0}` is disabled for this operation")]
    Disabled(Box<str>),
    /// No such entity.
    #[error("the messaging entity `{0}` could not be found")]
    NotFound(Box<str>),
    /// The name cannot be an entity's.
    #[error("`{0}` is not a valid entity name")]
    InvalidName(Box<str>),
    /// A dead-letter store takes no sends.
    #[error("messages cannot be sent to the sub-queue of `{0}`")]
    SubQueueSend(Box<str>),
    /// A subscription gets its messages from its topic.
    #[error("messages cannot be sent to the subscription `{0}`, only to its topic")]
    SubscriptionSend(Box<str>),
    /// A topic gives its messages to its subscriptions.
    #[error("messages cannot be received from the topic `{0}`, only from its subscriptions")]
    TopicReceive(Box<str>),
    /// The entity is not what the client asked for.
    #[error("`{entity}` is not {asked}, which the client asks for")]
    WrongKind { entity: Box<str>, asked: NodeKind },
    /// There is no such entity, and it cannot be created.
    #[error("{0}")]
    NotCreated(EntityError),
    /// Another consumer receives from the subscriber's subscription, which is not shared or is wanted otherwise.
    #[error("the subscription of `{0}` is in use")]
    SubscriptionInUse(Box<str>),
    /// The subscriber's subscription cannot be made or deleted.
    #[error("{0}")]
    Subscription(EntityError),
    /// All messages of this store go to another entity.
    #[error("`{0}` forwards its messages, so they cannot be received from it")]
    Forwards(Box<str>),
    /// The entity has sessions, and the consumer named none.
    /// The text is the service's: tests of SDKs look for it.
    #[error(
        "it is not possible for an entity that requires sessions to create a non-sessionful message receiver. The entity is `{0}`"
    )]
    SessionRequired(Box<str>),
    /// The consumer named a session, and the entity has none.
    #[error("`{0}` does not require sessions: it cannot be received from by session")]
    NoSessions(Box<str>),
    /// The consumer named a session of a dead-letter store.
    #[error("a session cannot be accepted from the sub-queue of `{0}`")]
    SubQueueSession(Box<str>),
    /// The session is locked.
    #[error("the requested session `{0}` cannot be accepted, it may be locked by another receiver")]
    SessionLocked(Box<str>),
    /// No session was available for as long as the consumer would wait.
    #[error("no session became available in time")]
    SessionTimeout,
    #[error("the id of the session has {chars} characters, allowed are {limit}")]
    SessionIdTooLong { chars: u64, limit: u64 },
    /// A dynamic node of another connection.
    #[error("only the connection that created the dynamic node `{0}` can receive from it")]
    NotOwner(Box<str>),
    /// A limit of the broker.
    #[error("the limit of {limit} {what} is reached")]
    LimitReached { what: &'static str, limit: u64 },
}
