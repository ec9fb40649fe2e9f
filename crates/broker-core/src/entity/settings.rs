//! Kinds and properties of entities (`docs/features/queues.md`, `docs/features/topics.md`).
//!
//! Invariant: settings that passed `check` come back equal from a record.

use std::{collections::BTreeMap, time::Duration};

use super::{
    authorization,
    property::{EntityProperty, PropertyRow, PropertyType},
};
use crate::{Activity, AuthorizationRule, EntityError, QueueId, Timestamp};

/// Kind of an entity.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EntityKind {
    /// Takes messages and gives them out.
    Queue = 1,
    /// Takes messages and gives copies to its subscriptions.
    Topic = 2,
    /// Gives out the copies that its rules let in.
    Subscription = 3,
}

/// Operations that an entity permits (`docs/features/entity-status.md`).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum EntityStatus {
    /// All.
    #[default]
    Active = 0,
    /// Neither sends nor receives.
    Disabled = 1,
    /// Receives only.
    SendDisabled = 2,
    /// Sends only.
    ReceiveDisabled = 3,
}

/// Lifetime of the locks of receivers whose unsettled messages return when their link ends, as with plain AMQP. (Locks
/// of Service Bus clients outlive their links, so they always end by time, and so does the lock of a session.)
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum LockLifetime {
    /// Until it settles them, or its link ends, as AMQP has it. A client that prefetches more messages than it can
    /// process within a lock's time would otherwise get them again and again.
    #[default]
    Link,
    /// As above, but for the lock duration at most.
    Lock,
}

/// The properties of an entity. What has no meaning for a kind of entity has its
/// default there.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own in the service's description"
)]
pub struct EntitySettings {
    /// Lock duration. Default 1 minute, at least 1 millisecond, at most 5 minutes.
    pub lock_duration: Duration,
    /// Lifetime of locks that end with their links.
    pub hold: LockLifetime,
    /// Deliveries after which a message is dead-lettered. Default 10.
    pub max_delivery_count: u32,
    /// Default and cap of a message's time to live; `None` is for ever. Zero: only a waiting consumer gets it.
    pub default_time_to_live: Option<Duration>,
    /// Expired messages go to the dead-letter store instead of away.
    pub dead_letter_on_expiration: bool,
    /// Messages on which a rule of this subscription fails go to its dead-letter store. Default true.
    pub dead_letter_on_filter_error: bool,
    /// Largest message in bytes, as sent. `None`: the broker's own limit, which also caps it.
    pub max_message_bytes: Option<u64>,
    /// Largest total of stored bytes, dead letters and about 50 bytes of record for each message included; sends
    /// beyond it are refused. `None`: no limit.
    pub max_size_bytes: Option<u64>,
    /// Every message belongs to a session. Fixed at creation.
    pub requires_session: bool,
    /// A message whose id was seen within the window is dropped. Fixed at creation.
    pub requires_duplicate_detection: bool,
    /// Duplicate detection window. Default 10 minutes, at least 20 seconds, at most 7 days.
    pub duplicate_detection_window: Duration,
    /// Sequence numbers name a partition. Fixed at creation.
    pub enable_partitioning: bool,
    pub status: EntityStatus,
    /// Name of the entity that gets every message.
    pub forward_to: Option<Box<str>>,
    /// Name of the entity that gets every dead letter.
    pub forward_dead_lettered_to: Option<Box<str>>,
    /// Delete the entity when nothing happened for so long; at least 5 minutes. `None`: never.
    pub auto_delete_on_idle: Option<Duration>,
    /// `UserMetadata`: a text of the owner, at most 1,024 characters.
    pub user_metadata: Option<Box<str>>,
    /// Keys of its own, and what they permit; at most 12.
    pub authorization: Vec<AuthorizationRule>,
    /// Properties that a management client sets and reads back, and that the core ignores, except that express entities
    /// do not detect duplicates and that not every tier has them; at most 32 KiB.
    pub other: BTreeMap<Box<str>, Box<str>>,
}

impl Default for EntitySettings {
    fn default() -> Self {
        Self {
            lock_duration: Duration::from_secs(60),
            hold: LockLifetime::Link,
            max_delivery_count: 10,
            default_time_to_live: None,
            dead_letter_on_expiration: false,
            dead_letter_on_filter_error: true,
            max_message_bytes: None,
            max_size_bytes: None,
            requires_session: false,
            requires_duplicate_detection: false,
            duplicate_detection_window: Duration::from_secs(600),
            enable_partitioning: false,
            status: EntityStatus::Active,
            forward_to: None,
            forward_dead_lettered_to: None,
            auto_delete_on_idle: None,
            user_metadata: None,
            authorization: Vec::new(),
            other: BTreeMap::new(),
        }
    }
}

/// An entity as `Describe` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntityReport {
    /// As first written; that of a subscription is `topic/Subscriptions/name`.
    pub name: Box<str>,
    pub kind: EntityKind,
    pub settings: Box<EntitySettings>,
    pub created_at: Timestamp,
    /// When its properties were last set; a little later for each of two updates at the same time.
    pub updated_at: Timestamp,
    /// Time of the last send, receive, peek, attach or detach of a receiver; zero for never, as far as is known.
    pub accessed_at: Timestamp,
    /// Which state of which entity this is.
    pub version: EntityVersion,
    /// Messages to receive, locked ones included, and deferred ones.
    pub active_and_deferred: u64,
    /// Messages that are not due yet.
    pub scheduled: u64,
    /// Messages in the dead-letter store.
    pub dead_letter: u64,
    /// Messages that could not be sent on.
    pub transfer_dead_letter: u64,
    /// Stored bytes, dead letters included.
    pub bytes: u64,
    /// Largest message it takes from a sender within the limits of the tier, in bytes.
    pub max_message_bytes: u64,
    /// Subscriptions of a topic.
    pub subscriptions: u64,
    /// For metrics and administration.
    pub activity: Activity,
    /// Rules of a topic's subscriptions with an SQL filter, the true and the false filter among them.
    pub sql_filters: u64,
    /// Rules of a topic's subscriptions with a correlation filter.
    pub correlation_filters: u64,
}

/// A state of an entity's properties: another one has another version, and so has another entity of that name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EntityVersion {
    queue: QueueId,
    updated_at: Timestamp,
}

impl EntityVersion {
    /// Of the entity with this main store, when its properties were set then.
    pub const fn new(queue: QueueId, updated_at: Timestamp) -> Self {
        Self { queue, updated_at }
    }
}

/// Name of the property that makes an entity express.
pub(crate) const EXPRESS: &str = "EnableExpress";
const OTHER_BYTES_MAX: usize = 32 << 10;

impl EntitySettings {
    /// Whether a management client has made it an express entity, which means nothing else here.
    pub(crate) fn is_express(&self) -> bool {
        self.other.get(EXPRESS).is_some_and(|set| &**set == "true")
    }

    /// Refuses what is out of range; cuts durations to what a record keeps.
    pub(crate) fn check(mut self) -> Result<Self, EntityError> {
        self.check_durations()?;
        if self.requires_duplicate_detection && self.is_express() {
            let allowed = "false where `RequiresDuplicateDetection` is true";
            return out_of_range(EXPRESS, "true".into(), allowed);
        }
        let deliveries = self.max_delivery_count;
        if !in_range(EntityProperty::MaxDeliveryCount, deliveries) {
            return out_of_range("MaxDeliveryCount", deliveries.to_string(), "1 to 2147483647");
        }
        if self.max_message_bytes == Some(0) {
            return out_of_range("MaxMessageSizeInKilobytes", "0 bytes".into(), "at least 1 byte");
        }
        if self.max_size_bytes == Some(0) {
            return out_of_range("MaxSizeInMegabytes", "0 bytes".into(), "at least 1 byte");
        }
        let note = self.user_metadata.as_ref().map_or(0, |note| note.chars().count());
        if !in_range(EntityProperty::UserMetadata, note) {
            return out_of_range("UserMetadata", format!("{note} characters"), "at most 1024 characters");
        }
        authorization::check(&self.authorization)?;
        let other: usize = self.other.iter().map(|(key, value)| key.len() + value.len()).sum();
        if other > OTHER_BYTES_MAX {
            return out_of_range("Description", format!("{other} bytes"), "at most 32 KiB");
        }
        self.lock_duration = whole_millis(self.lock_duration);
        self.default_time_to_live = self.default_time_to_live.map(whole_millis);
        self.duplicate_detection_window = whole_millis(self.duplicate_detection_window);
        self.auto_delete_on_idle = self.auto_delete_on_idle.map(whole_millis);
        Ok(self)
    }

    fn check_durations(&self) -> Result<(), EntityError> {
        let lock = self.lock_duration;
        // The emulator takes shorter ones than a configuration file may have.
        if lock < Duration::from_millis(1)
            || !in_range(EntityProperty::LockDuration, lock.as_millis().max(1_000))
        {
            return out_of_range("LockDuration", format!("{lock:?}"), "1 ms to 5 minutes");
        }
        let window = self.duplicate_detection_window;
        if !in_range(EntityProperty::DuplicateDetectionWindow, window.as_millis()) {
            let allowed = "20 seconds to 7 days";
            return out_of_range("DuplicateDetectionHistoryTimeWindow", format!("{window:?}"), allowed);
        }
        match self.auto_delete_on_idle {
            // The end of the range is for those who write files: clients write a time beyond it for "never".
            Some(idle) if idle.as_millis() < u128::from(range(EntityProperty::AutoDeleteOnIdle).0) => {
                out_of_range("AutoDeleteOnIdle", format!("{idle:?}"), "at least 5 minutes")
            }
            _ => Ok(()),
        }
    }

    /// Longest time for which the entity may be idle; `None` for one that forwards, which never is.
    pub(crate) fn idle_time(&self) -> Option<Duration> {
        self.auto_delete_on_idle.filter(|_| self.forward_to.is_none())
    }

    /// A subscription that forwards loses its idle time, as in the service. A queue keeps and shows it, as live tests of the
    /// SDK for Python demand, for the time when it does not forward any more.
    pub(crate) fn end_idle_time_of(&mut self, kind: EntityKind) {
        if kind == EntityKind::Subscription && self.forward_to.is_some() {
            self.auto_delete_on_idle = None;
        }
    }

    /// Takes the flags that such an entity does not have from `other`: its defaults, or its settings before a change. A
    /// topic with sessions would refuse messages that its subscriptions take, and no description would tell why.
    pub(crate) fn take_foreign_flags(&mut self, kind: EntityKind, other: &Self) {
        let is_foreign =
            |row: &&PropertyRow| row.value_type == PropertyType::Flag && !row.kinds.contains(&kind);
        for row in EntityProperty::rows().filter(is_foreign) {
            row.set(self, row.get(other)).expect("the value is one of the same property");
        }
    }

    /// Refuses the change of what is fixed at creation.
    pub(crate) fn check_update(&self, kind: EntityKind, before: &Self) -> Result<(), EntityError> {
        let mut fixed = EntityProperty::rows().filter(|row| row.is_fixed);
        match fixed.find(|row| row.get(self) != row.get(before)) {
            Some(row) => Err(EntityError::Immutable { property: row.element, kind }),
            None => Ok(()),
        }
    }
}

pub(crate) fn out_of_range<T>(
    property: &'static str,
    value: String,
    allowed: &'static str,
) -> Result<T, EntityError> {
    Err(EntityError::OutOfRange { property, value: value.into(), allowed })
}

/// Whether the number lies in the range of the property.
fn in_range(property: EntityProperty, number: impl TryInto<u64>) -> bool {
    let (least, most) = range(property);
    number.try_into().is_ok_and(|number| (least..=most).contains(&number))
}

fn range(property: EntityProperty) -> (u64, u64) {
    property.row().range.unwrap_or((0, u64::MAX))
}

fn whole_millis(duration: Duration) -> Duration {
    // One less than the largest number, which stands for `None` in a record.
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(u64::MAX - 1))
}
