//! A message as the core sees it: bytes that it never reads, and the few facts it decides by.
//!
//! Invariant: the payload is stored and delivered exactly as it came.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;

use broker_filter::PropertySet;

use crate::{PropertyList, Timestamp};

/// Limits that hold for a message: its size, and the number of messages in one transaction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LimitScope {
    /// Those of the broker and of the entity.
    #[default]
    Broker,
    /// Also those of the Service Bus tier.
    Tier,
}

/// A message to be enqueued. The gateway has read the facts from the payload's sections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The encoded sections as they arrived.
    pub payload: Bytes,
    /// `header.ttl`, or what `properties.absolute-expiry-time` says where there is no ttl.
    pub time_to_live: Option<Duration>,
    /// `header.durable`; informational, for every accepted message is durable when the journal is.
    pub durable: bool,
    /// The limits that its sender has. A stored message that moves on has those of the broker: it was taken.
    pub limits: LimitScope,
    /// `properties.group-id`.
    pub session_id: Option<Box<str>>,
    /// Canonical text of `properties.message-id`; filled only for entities that detect duplicates.
    pub message_id: Option<Box<str>>,
    /// Message annotation `x-opt-partition-key`; filled only for entities with partitions.
    pub partition_key: Option<Box<str>>,
    /// Message annotation `x-opt-scheduled-enqueue-time`.
    pub scheduled_enqueue_time: Option<Timestamp>,
    /// Properties that the rules of a topic read; needed for topics only. Where they are missing, `CoreConfig.describe`
    /// reads them from the payload.
    pub properties: Option<Box<PropertySet>>,
    /// State of a message that another entity forwarded; `None` for a message from a client.
    pub forwarded: Option<Box<Forwarded>>,
}

/// State that a forwarded message keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    pub extras: StoredExtras,
    /// Bytes of broker-added properties at the front of `rest`.
    pub properties_length: u32,
    /// The encoded properties, then the payload: what is stored instead of the payload alone.
    pub rest: Bytes,
}

/// Properties that few stored messages have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StoredExtras {
    /// `properties.group-id`, in an entity with sessions.
    pub session: Option<Box<str>>,
    /// The number that it got where it was first submitted, if it was copied or forwarded from there.
    pub enqueued_sequence: Option<u64>,
    /// Number of times that it was forwarded.
    pub hops: u8,
    /// The entity where it was dead-lettered, if it was forwarded from there.
    pub dead_letter_source: Option<Box<str>>,
}

/// Application properties that the broker adds to or replaces in a stored message: the dead-letter reason and
/// description, and "properties to modify" of a settlement. Kept beside the untouched payload; the gateway
/// merges them on the way out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(pub PropertyList);

/// First character of a stored name that is a fixed field of the message and no application property; the name of a
/// [`broker_filter::SystemProperty`] follows. No client can send it, for it is taken off what they send.
pub const SYSTEM: char = '\u{2}';

impl Properties {
    /// `more` replaces what has the same key, and stands behind the rest.
    pub(crate) fn merge(self, more: Self) -> Self {
        let mut places: BTreeMap<Box<str>, usize> =
            self.0.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect();
        let mut merged = self.0.into_vec();
        for (key, value) in more.0 {
            if let Some(entry) = places.get(&key).and_then(|place| merged.get_mut(*place)) {
                entry.1 = value;
            } else {
                places.insert(key.clone(), merged.len());
                merged.push((key, value));
            }
        }
        Self(merged.into())
    }
}
