//! The entities of `ferrybus.toml`, key by key.
//!
//! Invariant: plain data as the operator wrote it; a key that is not listed here is refused.

use serde::Deserialize;

use super::Status;
use crate::size_and_duration::{Bytes, Span};

/// `[[queue]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct QueueEntry {
    pub(crate) name: String,
    pub(crate) lock_duration: Option<Span>,
    pub(crate) hold: Option<Hold>,
    pub(crate) max_delivery_count: Option<u32>,
    pub(crate) requires_session: Option<bool>,
    pub(crate) enable_partitioning: Option<bool>,
    pub(crate) default_time_to_live: Option<Span>,
    pub(crate) dead_letter_on_expiration: Option<bool>,
    pub(crate) max_message_bytes: Option<Bytes>,
    pub(crate) max_size_bytes: Option<Bytes>,
    pub(crate) requires_duplicate_detection: Option<bool>,
    pub(crate) duplicate_detection_window: Option<Span>,
    pub(crate) forward_to: Option<String>,
    pub(crate) forward_dead_lettered_to: Option<String>,
    pub(crate) auto_delete_on_idle: Option<Span>,
    pub(crate) status: Option<Status>,
    pub(crate) user_metadata: Option<String>,
}

/// `[[topic]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TopicEntry {
    pub(crate) name: String,
    pub(crate) enable_partitioning: Option<bool>,
    pub(crate) default_time_to_live: Option<Span>,
    pub(crate) max_message_bytes: Option<Bytes>,
    pub(crate) max_size_bytes: Option<Bytes>,
    pub(crate) requires_duplicate_detection: Option<bool>,
    pub(crate) duplicate_detection_window: Option<Span>,
    pub(crate) auto_delete_on_idle: Option<Span>,
    pub(crate) status: Option<Status>,
    pub(crate) user_metadata: Option<String>,
    pub(crate) subscription: Vec<SubscriptionEntry>,
}

/// `[[topic.subscription]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SubscriptionEntry {
    pub(crate) name: String,
    pub(crate) lock_duration: Option<Span>,
    pub(crate) hold: Option<Hold>,
    pub(crate) max_delivery_count: Option<u32>,
    pub(crate) default_time_to_live: Option<Span>,
    pub(crate) dead_letter_on_expiration: Option<bool>,
    pub(crate) dead_letter_on_filter_error: Option<bool>,
    pub(crate) requires_session: Option<bool>,
    pub(crate) forward_to: Option<String>,
    pub(crate) forward_dead_lettered_to: Option<String>,
    pub(crate) auto_delete_on_idle: Option<Span>,
    pub(crate) status: Option<Status>,
    pub(crate) user_metadata: Option<String>,
    /// Absent: one rule that lets everything in.
    pub(crate) rule: Option<Vec<RuleEntry>>,
}

/// `[[topic.subscription.rule]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuleEntry {
    pub(crate) name: String,
    /// A filter in the SQL language.
    pub(crate) sql: Option<String>,
    /// A filter that compares properties.
    pub(crate) correlation: Option<toml::Table>,
    /// Action on the copy, in the SQL language.
    pub(crate) action: Option<String>,
}

/// Hold of unsettled messages by receivers of plain AMQP.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hold {
    /// Until they settle them, or their link ends.
    #[default]
    Link,
    /// For the lock duration at most.
    Lock,
}

impl From<Hold> for broker_core::LockLifetime {
    fn from(hold: Hold) -> Self {
        match hold {
            Hold::Link => Self::Link,
            Hold::Lock => Self::Lock,
        }
    }
}
