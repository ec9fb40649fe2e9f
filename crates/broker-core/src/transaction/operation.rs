//! Operations of a transaction, and their refusals.
//!
//! Invariant: only what is listed in [`Operation`] can be part of a transaction; receiving never is.

use bytes::Bytes;

use crate::{
    EntityError, EntityPath, LockId, LockToken, Message, Outcome, PublishError, QueueId, SequenceNumber,
    SessionError, SettleError, Ticket, TransactionError,
};

/// A transaction, named by its client's gateway. Unique within the client until it is discharged.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TransactionId(pub u64);

/// Target of a message of a transaction.
#[derive(Clone, Debug)]
pub enum PublishTarget {
    /// From `Effect::ProducerOpened`.
    Queue(QueueId),
    /// By name; `auto_create` creates a missing queue at once, even if the transaction rolls back.
    Path {
        path: EntityPath,
        /// Create the queue with defaults when missing.
        auto_create: bool,
    },
    /// Through another entity ("send via"). Messages that the target's status refuses go to the transfer dead letters
    /// of that entity.
    Via { path: EntityPath, via: EntityPath },
}

/// Operation of a transaction. It is checked and answered at once, and done when the transaction commits.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Enqueue, all or none, with consecutive numbers. Answer: `Effect::Published` or `Effect::PublishRefused`.
    Publish {
        target: PublishTarget,
        /// In order; not empty.
        messages: Vec<Message>,
        ticket: Option<Ticket>,
    },
    /// Settle one delivery by its lock. Answer: `Effect::Settled` or `Effect::SettleRefused`.
    Settle {
        /// From the delivery.
        queue: QueueId,
        /// From the delivery.
        sequence: SequenceNumber,
        /// From the delivery.
        lock: LockId,
        outcome: Outcome,
        /// The receiver has settled the delivery already. It holds nothing any more, so after a rollback the message
        /// returns and the delivery counts as failed. Else the lock is after a rollback as it was before.
        settled: bool,
        ticket: Option<Ticket>,
    },
    /// Settle by token, all or none. Answer: `Effect::Settled` or `Effect::SettleRefused`.
    SettleByToken {
        /// The store that the management node belongs to.
        path: EntityPath,
        /// Session of the messages, as the receiver says: for a message that was removed no other record of it is left.
        session: Option<Box<str>>,
        tokens: Vec<LockToken>,
        /// Applied to each message.
        outcome: Outcome,
        ticket: Ticket,
    },
    /// Enqueue, all or none, when their time has come. The numbers are given out at once and stay unused when the
    /// transaction rolls back. Answer: `Effect::Scheduled` or `Effect::PublishRefused`.
    Schedule {
        path: EntityPath,
        /// In order; not empty.
        messages: Vec<Message>,
        ticket: Ticket,
    },
    /// Take scheduled messages back, all or none. Answer: `Effect::Settled`, or `Effect::RequestRefused` where one of
    /// the numbers is not that of a scheduled message, or `Effect::SettleRefused` for a reason of the transaction.
    CancelScheduled { path: EntityPath, sequences: Vec<SequenceNumber>, ticket: Ticket },
    /// Set the state of a session. Answer: `Effect::Settled`, or `Effect::SessionRefused`, or `Effect::SettleRefused`
    /// for a reason of the transaction.
    SetSessionState {
        path: EntityPath,
        /// The session, which a consumer of this client must hold, now and at the commit.
        session: Box<str>,
        /// Any bytes, at most as many as a message of the entity may have; `None` clears it.
        state: Option<Bytes>,
        ticket: Ticket,
    },
    /// The gateway has refused something of the transaction: nothing of it may be done. No answer.
    Refused,
}

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
