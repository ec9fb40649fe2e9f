//! A message as the core sees it: bytes that it never reads, and the few facts it decides by.
//!
//! Invariant: the payload is stored and delivered exactly as it came.

use bytes::Bytes;
use std::time::Duration;

use crate::Timestamp;

/// A message to be enqueued. The gateway has read the facts from the payload's sections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The encoded sections as they arrived.
    pub payload: Bytes,
    /// `header.ttl`, or what `properties.absolute-expiry-time` says where there is no ttl.
    pub time_to_live: Option<Duration>,
    /// `header.durable`; informational, for every accepted message is durable when the journal is.
    pub durable: bool,
    /// `properties.group-id`.
    pub session_id: Option<Box<str>>,
    /// Canonical text of `properties.message-id`; filled only for entities that detect duplicates.
    pub message_id: Option<Box<str>>,
    /// Message annotation `x-opt-partition-key`; filled only for entities with partitions.
    pub partition_key: Option<Box<str>>,
    /// Message annotation `x-opt-scheduled-enqueue-time`.
    pub scheduled_enqueue_time: Option<Timestamp>,
    /// What a message brings that another entity forwarded; `None` from a client.
    pub forwarded: Option<Box<Forwarded>>,
}

/// What a forwarded message keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// Its history.
    pub more: More,
    /// Bytes of broker-added properties at the front of `rest`.
    pub properties_length: u32,
    /// The encoded properties, then the payload: what is stored instead of the payload alone.
    pub rest: Bytes,
}

/// What only some stored messages have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct More {
    /// `properties.group-id`, in an entity with sessions.
    pub session: Option<Box<str>>,
    /// The number that it got where it was first submitted, if it was copied or forwarded from there.
    pub enqueued_sequence: Option<u64>,
    /// How often it was forwarded.
    pub hops: u8,
    /// The entity where it was dead-lettered, if it was forwarded from there.
    pub dead_letter_source: Option<Box<str>>,
}

/// Application properties that the broker adds to or replaces in a stored message: the dead-letter reason and
/// description, and "properties to modify" of a settlement. Kept beside the untouched payload; the gateway
/// merges them on the way out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(pub Vec<(Box<str>, PropertyValue)>);

/// A value of a modified application property.
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    /// A string that the broker itself wrote.
    Text(Box<str>),
    /// A value a client sent, as the protocol encoded it (constructor byte included). The core does not read it.
    Encoded(Bytes),
}
