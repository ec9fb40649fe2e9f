//! Outcomes of a locked message, and refusals of settlement.
//!
//! Invariant: a settlement that is refused has changed nothing, least of all the lock.

use crate::{Properties, TransactionError};

/// Outcome of a settlement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Processed: remove it.
    Complete,
    /// Give it back and count a failed delivery. The properties are merged into the stored message.
    Abandon(Properties),
    /// Give it back without counting. The properties are merged into the stored message.
    Release(Properties),
    /// Move it to the dead-letter store with these properties added (the reason among them).
    DeadLetter(Properties),
    /// Set it aside, to be fetched by sequence number only.
    Defer(Properties),
}

/// Reason for which a settlement or renewal was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SettleError {
    /// The entity's status does not permit it. The lock runs on.
    #[error("the entity is disabled for this operation")]
    EntityDisabled,
    /// The lock expired, was released, or never existed.
    #[error("the lock is lost")]
    LockLost,
    /// The lock of the session is lost, and with it those of its messages.
    #[error("the lock of the session is lost")]
    SessionLockLost,
    /// A message of a session has no lock of its own to be renewed.
    #[error("a message of a session is locked as long as its session, renew that")]
    LockedBySession,
    /// The entity does not exist any more.
    #[error("the entity is gone")]
    EntityGone,
    /// A message of a dead-letter store cannot be dead-lettered. The lock runs on.
    #[error("a dead-lettered message cannot be dead-lettered again")]
    AlreadyDeadLetter,
    /// The stored message could not be read back to be changed. The lock runs on.
    #[error("the broker's storage failed")]
    Storage,
    /// So many messages would be written anew in one step. The locks go on.
    #[error("the messages have more than {limit} bytes, which is the most that is written anew at once")]
    TooMuchAtOnce {
        /// Most bytes of all of them.
        limit: u64,
    },
    /// A transaction keeps the message, or does not take the settlement. The lock runs on.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}
