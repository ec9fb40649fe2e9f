//! Refusals of requests about entities and their messages.
//!
//! Invariant: a request that is answered with an error has changed nothing.

use crate::{EntityKind, QuotaError, SequenceNumber};

/// Name of the limit of subscriptions of a topic in [`EntityError::LimitReached`].
pub const SUBSCRIPTIONS_PER_TOPIC: &str = "subscriptions per topic";
/// Name of the limit of rules of a topic's subscriptions in [`EntityError::LimitReached`].
pub const RULES_PER_TOPIC: &str = "rules per topic";

/// Reason for which a request about an entity or its messages was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EntityError {
    /// The entity's status does not allow it.
    #[error("the messaging entity `{0}` is disabled for this operation")]
    Disabled(Box<str>),
    /// The entity has sessions, and the request named none.
    #[error(
        "`{0}` requires sessions: the request needs a session id, or the name of a link that holds a session"
    )]
    SessionRequired(Box<str>),
    /// This client does not hold the session, or no longer.
    #[error("the lock of the session is lost")]
    SessionLockLost,
    /// Messages of an entity with partitions are not deleted in bulk.
    #[error("`{0}` has partitions: its messages cannot be deleted in bulk")]
    HasPartitions(Box<str>),
    /// No such entity.
    #[error("the messaging entity `{0}` could not be found")]
    NotFound(Box<str>),
    /// Messages cannot be forwarded there.
    #[error("`{property}` names `{target}`: {why}")]
    ForwardTarget {
        property: &'static str,
        target: Box<str>,
        /// Explanation, for the text of the error.
        why: &'static str,
    },
    /// There is nothing that messages could be forwarded to.
    #[error("`{property}` names `{target}`: it does not exist")]
    ForwardTargetMissing { property: &'static str, target: Box<str> },
    /// The subscription has no such rule.
    #[error("the rule `{0}` could not be found")]
    RuleNotFound(Box<str>),
    /// The subscription has a rule of that name.
    #[error("the rule `{0}` already exists")]
    RuleExists(Box<str>),
    /// The entity or rule is not what the request took it for any more.
    #[error("`{0}` has been changed in the meantime")]
    Changed(Box<str>),
    /// The entity is no subscription.
    #[error("`{0}` is not a subscription")]
    NotASubscription(Box<str>),
    /// A property that is fixed at creation. The text is the service's: tests of SDKs look for it.
    #[error("the value for the {property} property of an existing {kind:?} cannot be changed")]
    Immutable { property: &'static str, kind: EntityKind },
    /// The tier that the broker behaves as has no such thing.
    #[error("`{what}` is not available in the {profile} profile")]
    NotInProfile { what: &'static str, profile: &'static str },
    #[error("the messaging entity `{0}` already exists")]
    AlreadyExists(Box<str>),
    /// The name cannot be an entity's.
    #[error("`{0}` is not a valid entity name")]
    InvalidName(Box<str>),
    /// A property is out of its range.
    #[error("`{property}` is {value}, allowed is {allowed}")]
    OutOfRange { property: &'static str, value: Box<str>, allowed: &'static str },
    /// No message of this number stands as the request wants it: unknown, locked, activated, or never set aside.
    #[error(
        "no deferred or scheduled message with the sequence number {sequence} is available in `{entity}`"
    )]
    MessageNotFound { entity: Box<str>, sequence: SequenceNumber },
    /// The answer would be larger than wanted.
    #[error("the messages have {bytes} bytes, at most {limit} are given at once")]
    AnswerTooLarge { bytes: u64, limit: u64 },
    /// Stored bytes could not be read back.
    #[error("the broker's storage failed")]
    Storage,
    /// The broker has no room for another entity or rule.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaError),
    /// A limit of the broker.
    #[error("the limit of {limit} {what} is reached")]
    LimitReached { what: &'static str, limit: u64 },
}
