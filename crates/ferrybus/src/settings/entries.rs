//! The entities of `ferrybus.toml`, key by key.
//!
//! Invariant: plain data as the operator wrote it; a key that is neither a property of such an entity nor one of the few
//! others is refused.

use std::{fmt, marker::PhantomData};

use broker_core::{
    EntityKind, EntityProperty, EntityStatus, LockLifetime, PropertyRow, PropertyType, SettingValue,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess},
};

use crate::{
    size_and_duration::{Bytes, Span},
    words,
};

/// A table of the file about a kind of entity.
pub(crate) trait EntityTable {
    const KIND: EntityKind;
    /// Its name, for errors.
    const NAME: &'static str;
    /// The key of the tables inside of it.
    const INNER_KEY: Option<&'static str>;
    /// The key of its namespace. Tables inside of another one belong to its namespace.
    const NAMESPACE_KEY: Option<&'static str> = Some("namespace");
    type Inner: fmt::Debug + Default + for<'de> Deserialize<'de>;
}

/// `[[queue]]`
#[derive(Debug)]
pub(crate) struct QueueTable;
/// `[[topic]]`
#[derive(Debug)]
pub(crate) struct TopicTable;
/// `[[topic.subscription]]`
#[derive(Debug)]
pub(crate) struct SubscriptionTable;

impl EntityTable for QueueTable {
    const KIND: EntityKind = EntityKind::Queue;
    const NAME: &'static str = "queue";
    const INNER_KEY: Option<&'static str> = None;
    type Inner = ();
}

impl EntityTable for TopicTable {
    const KIND: EntityKind = EntityKind::Topic;
    const NAME: &'static str = "topic";
    const INNER_KEY: Option<&'static str> = Some("subscription");
    type Inner = Vec<SubscriptionEntry>;
}

impl EntityTable for SubscriptionTable {
    const KIND: EntityKind = EntityKind::Subscription;
    const NAME: &'static str = "subscription";
    const INNER_KEY: Option<&'static str> = Some("rule");
    const NAMESPACE_KEY: Option<&'static str> = None;
    /// Absent: one rule that lets everything in.
    type Inner = Option<Vec<RuleEntry>>;
}

pub(crate) type QueueEntry = Entry<QueueTable>;
pub(crate) type TopicEntry = Entry<TopicTable>;
pub(crate) type SubscriptionEntry = Entry<SubscriptionTable>;

/// An entity as the operator wrote it.
#[derive(Debug)]
pub(crate) struct Entry<T: EntityTable> {
    pub(crate) name: String,
    /// Name of its namespace; `None`: the default one.
    pub(crate) namespace: Option<String>,
    /// The properties that it has, with their values.
    pub(crate) given: Vec<(&'static PropertyRow, SettingValue)>,
    /// The tables inside of it.
    pub(crate) inner: T::Inner,
}

impl<T: EntityTable> Entry<T> {
    /// One with nothing but a name.
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: None, given: Vec::new(), inner: T::Inner::default() }
    }

    /// The keys of the properties that it has.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.given.iter().map(|(row, _)| row.key).collect()
    }
}

/// A key of a table about an entity.
enum Key {
    Name,
    Namespace,
    Inner,
    Property(&'static PropertyRow),
}

/// Finds a key.
struct KeySeed<T>(PhantomData<T>);

impl<'de, T: EntityTable> de::DeserializeSeed<'de> for KeySeed<T> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        let properties = || EntityProperty::of(T::KIND).filter(|row| row.is_in_files());
        let key = String::deserialize(deserializer)?;
        if key == "name" {
            return Ok(Key::Name);
        }
        if T::NAMESPACE_KEY == Some(&key) {
            return Ok(Key::Namespace);
        }
        if T::INNER_KEY == Some(&key) {
            return Ok(Key::Inner);
        }
        properties().find(|row| row.key == key).map(Key::Property).ok_or_else(|| {
            let first = ["name"].into_iter().chain(T::NAMESPACE_KEY);
            let known = first.chain(properties().map(|row| row.key)).chain(T::INNER_KEY);
            let known: Vec<String> = known.map(|key| format!("`{key}`")).collect();
            // The text of serde for other tables.
            de::Error::custom(format_args!("unknown field `{key}`, expected one of {}", known.join(", ")))
        })
    }
}

/// Reads a value of this type.
struct ValueSeed(PropertyType);

impl<'de> de::DeserializeSeed<'de> for ValueSeed {
    type Value = SettingValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<SettingValue, D::Error> {
        Ok(match self.0 {
            PropertyType::Time | PropertyType::TimeOrForever => {
                SettingValue::Time(Span::deserialize(deserializer)?.finite())
            }
            PropertyType::Flag | PropertyType::Kept(_) => {
                SettingValue::Flag(bool::deserialize(deserializer)?)
            }
            PropertyType::Count(_) => SettingValue::Count(u32::deserialize(deserializer)?),
            PropertyType::Bytes(_) => SettingValue::Bytes(Some(Bytes::deserialize(deserializer)?.0)),
            PropertyType::Status => SettingValue::Status(words::of_elements(
                &EntityStatus::ALL,
                EntityStatus::word,
                deserializer,
            )?),
            PropertyType::LockLifetime => SettingValue::LockLifetime(words::of_elements(
                &LockLifetime::ALL,
                LockLifetime::word,
                deserializer,
            )?),
            PropertyType::Text | PropertyType::Entity => {
                SettingValue::Text(Some(String::deserialize(deserializer)?.into()))
            }
        })
    }
}

impl<'de, T: EntityTable> Deserialize<'de> for Entry<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: EntityTable> de::Visitor<'de> for Visitor<T> {
            type Value = Entry<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a table about a {}", T::NAME)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry<T>, A::Error> {
                let mut entry = Entry::named(String::new());
                while let Some(key) = map.next_key_seed(KeySeed::<T>(PhantomData))? {
                    match key {
                        Key::Name => entry.name = map.next_value()?,
                        Key::Namespace => entry.namespace = Some(map.next_value()?),
                        Key::Inner => entry.inner = map.next_value()?,
                        Key::Property(row) => {
                            entry.given.push((row, map.next_value_seed(ValueSeed(row.value_type))?));
                        }
                    }
                }
                Ok(entry)
            }
        }
        deserializer.deserialize_map(Visitor(PhantomData))
    }
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
