//! Properties of a message, as a filter sees them.
//!
//! Invariant: a name finds the property of exactly that name, else the first that differs in case only;
//! a property keeps the case it came with.

use std::cmp::Ordering;
use std::fmt;

use crate::fold::{self, Hash};
use crate::value::Value;

/// A property of the broker or of the message's fixed fields: `sys.` in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemProperty {
    /// `message-id`
    MessageId,
    /// `correlation-id`
    CorrelationId,
    /// `subject`; an expression may say `Label` or `Subject`
    Label,
    /// `to`
    To,
    /// `reply-to`
    ReplyTo,
    /// `reply-to-group-id`
    ReplyToSessionId,
    /// `group-id`
    SessionId,
    /// `content-type`
    ContentType,
    /// A [`Value::Duration`].
    TimeToLive,
    /// A [`Value::Timestamp`].
    EnqueuedTimeUtc,
    /// The number that the first entity gave.
    EnqueuedSequenceNumber,
    /// The number that this entity gave.
    SequenceNumber,
    /// A [`Value::Timestamp`].
    ScheduledEnqueueTimeUtc,
    /// A [`Value::Timestamp`].
    ExpiresAtUtc,
    DeliveryCount,
    /// `x-opt-partition-key`
    PartitionKey,
    /// `x-opt-via-partition-key`
    ViaPartitionKey,
    /// Bytes of the message, an integer.
    Size,
    ForcePersistence,
    /// A [`Value::Timestamp`].
    LockedUntilUtc,
    /// A [`Value::Uuid`].
    LockToken,
    /// The entity in whose dead-letter queue the message was.
    DeadLetterSource,
    /// Active, deferred or scheduled, as the number of the SDKs.
    State,
}

/// A property that an expression names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// `sys.name`
    System(SystemProperty),
    /// `name` or `user.name`
    User(Box<str>),
}

/// The properties of one message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertySet {
    /// By property, each once, none null.
    system: Vec<(SystemProperty, Value)>,
    /// By name without case; those that differ in case only, in the order they came.
    user: Vec<(Box<str>, Value)>,
}

use SystemProperty as S;

/// Each system property with its name.
const NAMES: [(&str, SystemProperty); 23] = [
    ("MessageId", S::MessageId),
    ("CorrelationId", S::CorrelationId),
    ("Label", S::Label),
    ("To", S::To),
    ("ReplyTo", S::ReplyTo),
    ("ReplyToSessionId", S::ReplyToSessionId),
    ("SessionId", S::SessionId),
    ("ContentType", S::ContentType),
    ("TimeToLive", S::TimeToLive),
    ("EnqueuedTimeUtc", S::EnqueuedTimeUtc),
    ("EnqueuedSequenceNumber", S::EnqueuedSequenceNumber),
    ("SequenceNumber", S::SequenceNumber),
    ("ScheduledEnqueueTimeUtc", S::ScheduledEnqueueTimeUtc),
    ("ExpiresAtUtc", S::ExpiresAtUtc),
    ("DeliveryCount", S::DeliveryCount),
    ("PartitionKey", S::PartitionKey),
    ("ViaPartitionKey", S::ViaPartitionKey),
    ("Size", S::Size),
    ("ForcePersistence", S::ForcePersistence),
    ("LockedUntilUtc", S::LockedUntilUtc),
    ("LockToken", S::LockToken),
    ("DeadLetterSource", S::DeadLetterSource),
    ("State", S::State),
];

impl SystemProperty {
    /// The property of that name, in any case; `Subject` is another name of `Label`.
    pub fn named(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found
            .map(|(_, property)| *property)
            .or_else(|| name.eq_ignore_ascii_case("Subject").then_some(Self::Label))
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, property)| *property)
    }

    /// Type to which an action may set it: strings for the fixed fields, a duration for the time to live, a
    /// time for the scheduled one. `None` for properties that only the broker sets.
    pub(crate) const fn settable(self) -> Option<Settable> {
        match self {
            Self::MessageId
            | Self::CorrelationId
            | Self::Label
            | Self::To
            | Self::ReplyTo
            | Self::ReplyToSessionId
            | Self::SessionId
            | Self::ContentType
            | Self::PartitionKey
            | Self::ViaPartitionKey => Some(Settable::Text),
            Self::TimeToLive => Some(Settable::Duration),
            Self::ScheduledEnqueueTimeUtc => Some(Settable::Timestamp),
            _ => None,
        }
    }
}

/// Type of the values that a system property takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settable {
    Text,
    Duration,
    Timestamp,
}

impl fmt::Display for SystemProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, property)| property == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl Property {
    /// The same for names that differ in case only.
    pub(crate) fn hash(&self) -> u64 {
        match self {
            Self::System(property) => system_hash(*property),
            Self::User(name) => user_hash(name),
        }
    }

    /// Its order among properties, without regard to case.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::User(left), Self::User(right)) => fold::compare(left, right),
            _ => self.cmp(other),
        }
    }
}

fn system_hash(property: SystemProperty) -> u64 {
    Hash::new().bytes(&[0, property as u8]).get()
}

fn user_hash(name: &str) -> u64 {
    Hash::new().bytes(&[1]).name(name).get()
}

impl PropertySet {
    /// No properties.
    pub const fn new() -> Self {
        Self { system: Vec::new(), user: Vec::new() }
    }

    /// The value of a property, `None` when it is absent.
    pub fn get(&self, property: &Property) -> Option<&Value> {
        match property {
            Property::System(property) => self.system(*property),
            Property::User(name) => self.user(name),
        }
    }

    /// The value of a system property, never null.
    pub fn system(&self, property: SystemProperty) -> Option<&Value> {
        self.system.iter().find(|(other, _)| *other == property).map(|(_, value)| value)
    }

    /// The value of the user property of that name, else of the first whose name differs in case only.
    pub fn user(&self, name: &str) -> Option<&Value> {
        self.entry(name).and_then(|place| self.user.get(place)).map(|(_, value)| value)
    }

    /// The name of the user property that [`user`](Self::user) finds, as it came.
    pub fn user_name(&self, name: &str) -> Option<&str> {
        self.entry(name).and_then(|place| self.user.get(place)).map(|(name, _)| &**name)
    }

    /// All user properties, in the order of their names.
    pub fn users(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.user.iter().map(|(name, value)| (&**name, value))
    }

    /// All system properties that have a value.
    pub fn systems(&self) -> impl Iterator<Item = (SystemProperty, &Value)> {
        self.system.iter().map(|(property, value)| (*property, value))
    }

    /// Sets a system property; null removes it.
    pub fn set_system(&mut self, property: SystemProperty, value: Value) {
        self.system.retain(|(other, _)| *other != property);
        if !value.is_null() {
            let place = self.system.partition_point(|(other, _)| *other < property);
            self.system.insert(place, (property, value));
        }
    }

    /// Sets a user property. One whose name differs in case only keeps its name.
    ///
    /// Takes time in proportion to the number of properties: [`extend_user`](Self::extend_user) is for many.
    pub fn set_user(&mut self, name: &str, value: Value) {
        if let Some((_, old)) = self.entry(name).and_then(|place| self.user.get_mut(place)) {
            *old = value;
            return;
        }
        let place = self.user.partition_point(|(other, _)| fold::compare(other, name).is_lt());
        self.user.insert(place, (name.into(), value));
    }

    /// Removes the user property that [`user`](Self::user) finds, and gives it back.
    pub fn remove_user(&mut self, name: &str) -> Option<(Box<str>, Value)> {
        self.entry(name).map(|place| self.user.remove(place))
    }

    /// Adds the properties of a message, also those whose names differ in case only.
    pub fn extend_user(&mut self, properties: impl IntoIterator<Item = (Box<str>, Value)>) {
        self.user.extend(properties);
        self.user.sort_by(|(left, _), (right, _)| fold::compare(left, right));
    }

    /// All properties with their hashes, as [`Property::hash`] gives them.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = (u64, &Value)> {
        let system = self.system.iter().map(|(property, value)| (system_hash(*property), value));
        system.chain(self.user.iter().map(|(name, value)| (user_hash(name), value)))
    }

    fn entry(&self, name: &str) -> Option<usize> {
        let first = self.user.partition_point(|(other, _)| fold::compare(other, name).is_lt());
        let alike = self.user.get(first..)?;
        let count = alike.iter().take_while(|(other, _)| fold::same(other, name)).count();
        let exact = alike.iter().take(count).position(|(other, _)| **other == *name);
        (count > 0).then(|| first + exact.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
