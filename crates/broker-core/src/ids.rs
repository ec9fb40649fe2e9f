//! The numbers of the queue: each its own type, with only the arithmetic its meaning has.
//!
//! Invariant: no two kinds of number can be mixed up; parsing happens at the border.

use std::{fmt, time::Duration};

use crate::store::partition::PartitionId;

/// Milliseconds since 1970-01-01 UTC. Wire and disk get these, never a monotonic instant.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The end of time: a deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// From milliseconds since the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `duration` later; saturates at [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// One message store of this namespace: that of a queue, of a subscription, of their dead letters, or of the bodies of a topic.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueId(pub u32);

/// A message's place in its entity: assigned once, from 1, never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The number after this one. At ten million messages a second 2^64 lasts 58,000 years.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl SequenceNumber {
    /// The partition that gave it out, in its top 16 bits: 1 to 16; `None` where the entity has no partitions.
    #[must_use]
    pub fn partition(self) -> Option<u16> {
        PartitionId::of_number(self.0).map(PartitionId::id)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which lock of a message: counts up with every lock the queue hands out, so an old one never matches.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LockId(pub u32);

/// A lock, and the message that it was granted for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LockRef {
    pub(crate) queue: QueueId,
    pub(crate) sequence: u64,
    pub(crate) lock: LockId,
}

/// Proof of one lock, 128 bits. Unguessable: holding it is the permission to settle. The text and the wire
/// `uuid` are its big-endian bytes; the delivery-tag is the .NET GUID order (`amqp-gateway` does that).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LockToken(pub u128);

/// One connection, for as long as it lives. Never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientId(pub u64);

/// One producer or consumer of a client, chosen by the client's gateway. Unique within the client while open.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkId(pub u32);

/// One attachment of a consumer, over all clients. Names the holder of a lock; never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct ConsumerNumber(pub(crate) u32);

/// A gateway's name for one request; the effect that answers it carries it back. The core never looks inside,
/// except that effects for tickets `t` and `t+1` may be merged into one range.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(pub u64);

/// Start of a record in the journal: a byte position that only grows, over all segments.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Position(pub u64);
