//! Refusals of operations in a transaction.
//!
//! Invariant: an operation refused for one of these reasons has changed nothing but its transaction.

/// Reason for which an operation cannot be part of a transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TransactionError {
    /// Never declared, or discharged already.
    #[error("the transaction does not exist")]
    Unknown,
    /// The gateway used a name twice. A bug of ours.
    #[error("the transaction is declared already")]
    AlreadyDeclared,
    /// Its time was over before it was discharged: nothing of it was done.
    #[error("the transaction timed out and was rolled back")]
    TimedOut,
    /// One of its operations was refused: nothing of it is done.
    #[error("the transaction was rolled back, because an operation in it was refused")]
    Failed,
    /// More messages than one transaction may send.
    #[error("no more than {limit} messages can be sent in a single transaction")]
    TooManyMessages { limit: u64 },
    /// A limit of the broker.
    #[error("the limit of {limit} {what} is reached")]
    LimitReached { what: &'static str, limit: u64 },
    /// The message is settled in a transaction that has not ended.
    #[error("the message is settled in a transaction that is still open")]
    InUse,
}
