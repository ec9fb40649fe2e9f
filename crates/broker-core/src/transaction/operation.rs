//! Names of transactions, and refusals of their end.
//!
//! Invariant: nothing of a transaction that was not committed is done.

use crate::{EntityError, PublishError, SessionError, SettleError, TransactionError};

/// A transaction, named by its client's gateway. Unique within the client until it is discharged.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TransactionId(pub u64);

/// Reason for which a transaction was not declared, or not committed. Nothing of it was done.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CommitError {
    /// The transaction itself is the reason.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// A message cannot be enqueued any more.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A lock was lost before the commit, or a message cannot be read.
    #[error(transparent)]
    Settle(#[from] SettleError),
    /// A message that was to be cancelled waits no longer.
    #[error(transparent)]
    Cancel(#[from] EntityError),
    /// The state of a session cannot be set any more.
    #[error(transparent)]
    Session(#[from] SessionError),
}
