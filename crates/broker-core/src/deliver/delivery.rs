//! Messages on their way out, and the locks on them.
//!
//! Invariant: a message is delivered with the bytes that arrived; the broker's properties are kept beside them.

use bytes::Bytes;

use crate::{
    LinkId, LockId, LockToken, Properties, QueueId, SequenceNumber, StoredExtras, Ticket, Timestamp,
};

/// A message on its way to a consumer.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub consumer: LinkId,
    /// The store it comes from.
    pub queue: QueueId,
    pub sequence: SequenceNumber,
    /// Its lock; `None` in receive-and-delete and browse.
    pub lock: Option<Lock>,
    pub stored: Stored,
}

/// A lock just granted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lock {
    /// For settling on the same link.
    pub id: LockId,
    /// For settling from anywhere.
    pub token: LockToken,
    pub until: Timestamp,
}

/// A stored message and what the broker knows about it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// When the broker took it.
    pub enqueued_at: Timestamp,
    /// Properties that few messages have.
    pub extras: Option<Box<StoredExtras>>,
    /// When it expires; `None`: never. A message shown by `Peek` has it only if it brought a time to live of its
    /// own (`docs/features/queues.md`, "Time to live").
    pub expires_at: Option<Timestamp>,
    /// Failed deliveries before this one.
    pub delivery_count: u32,
    /// 0 active, 1 deferred, 2 scheduled.
    pub state: u8,
    /// Whether it was handed out before (AMQP `first-acquirer` is its opposite). A restart may forget it.
    pub acquired_before: bool,
    /// Broker-added application properties.
    pub properties: Properties,
    /// The sections as they arrived.
    pub payload: Bytes,
}

/// A message shown by `Peek`.
#[derive(Clone, Debug)]
pub struct Peeked {
    pub sequence: SequenceNumber,
    pub stored: Stored,
    /// When it is due, if it is scheduled.
    pub due: Option<Timestamp>,
}

/// A deferred message taken by `ReceiveDeferred`.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub sequence: SequenceNumber,
    /// Its lock; `None` where it was taken for good.
    pub lock: Option<Lock>,
    pub stored: Stored,
}

/// Locks extended by `RenewLocks`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Renewed {
    pub ticket: Ticket,
    /// New ends, in the order of the request's tokens.
    pub until: Vec<Timestamp>,
}
