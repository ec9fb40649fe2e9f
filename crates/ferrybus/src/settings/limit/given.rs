//! Tables of the file that consist of limits.
//!
//! Invariant: a key that is neither a limit nor a removed one is refused, as it is in the other tables.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use broker_server::ServerConfig;
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess},
};

use super::{Amount, LIMITS, Limit, REMOVED, Unit};
use crate::{
    failure::Failure,
    size_and_duration::{Bytes, BytesOrOff, Span},
};

/// Name of a table of the file that consists of limits.
pub(crate) trait LimitTable {
    const NAME: &'static str;
}

/// `[limits]`
#[derive(Debug, Default)]
pub(crate) struct LimitsTable;
/// `[journal]`
#[derive(Debug, Default)]
pub(crate) struct JournalTable;

impl LimitTable for LimitsTable {
    const NAME: &'static str = "limits";
}

impl LimitTable for JournalTable {
    const NAME: &'static str = "journal";
}

/// Limits as the operator wrote them.
#[derive(Debug, Default)]
pub(crate) struct Given<T> {
    /// By key.
    amounts: BTreeMap<&'static str, Amount>,
    /// Keys that have no effect any more.
    removed: Vec<&'static str>,
    table: PhantomData<T>,
}

impl<T: LimitTable> Given<T> {
    /// Sets each limit of the table to what is given, or to its default.
    pub(crate) fn apply(&self, config: &mut ServerConfig) -> Result<(), Failure> {
        let given = |limit: &Limit| {
            let followed = || self.amounts.get(limit.follows?);
            self.amounts.get(limit.key).or_else(followed).copied()
        };
        let mut limits = LIMITS.iter().filter(|limit| limit.path().0 == T::NAME);
        limits.try_for_each(|limit| limit.apply(given(limit), config))
    }

    /// Whether this limit is given.
    pub(crate) fn has(&self, limit: &Limit) -> bool {
        self.amounts.contains_key(limit.key)
    }

    /// Keys that have no effect any more.
    pub(crate) fn removed(&self) -> impl Iterator<Item = &'static str> {
        self.removed.iter().copied()
    }
}

/// A key of a table of limits.
enum Key {
    Limit(&'static Limit),
    Removed(&'static str),
}

/// Finds a key of the table of this name.
struct KeySeed(&'static str);

impl<'de> de::DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        let key = String::deserialize(deserializer)?;
        let path = format!("{}.{key}", self.0);
        let removed =
            || REMOVED.iter().find(|removed| **removed == path).map(|removed| Key::Removed(removed));
        let limit = LIMITS.iter().find(|limit| limit.key == path).map(Key::Limit);
        limit.or_else(removed).ok_or_else(|| {
            let known = LIMITS.iter().map(Limit::path).filter(|(table, _)| *table == self.0);
            let known: Vec<String> = known.map(|(_, key)| format!("`{key}`")).collect();
            // The text of serde for other tables.
            de::Error::custom(format_args!("unknown field `{key}`, expected one of {}", known.join(", ")))
        })
    }
}

/// Reads a value in this unit.
pub(crate) struct AmountSeed(pub(crate) Unit);

impl<'de> de::DeserializeSeed<'de> for AmountSeed {
    type Value = Amount;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Amount, D::Error> {
        Ok(match self.0 {
            Unit::Count(_) => Amount::Number(u64::deserialize(deserializer)?),
            Unit::Bytes => Amount::Number(Bytes::deserialize(deserializer)?.0),
            Unit::BytesOrOff => {
                BytesOrOff::deserialize(deserializer)?.0.map_or(Amount::Unlimited, Amount::Number)
            }
            Unit::Time | Unit::TimeOrForever => Span::deserialize(deserializer)?.into(),
        })
    }
}

impl<'de, T: LimitTable> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: LimitTable> de::Visitor<'de> for Visitor<T> {
            type Value = Given<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a table `[{}]`", T::NAME)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given<T>, A::Error> {
                let (mut amounts, mut removed) = (BTreeMap::new(), Vec::new());
                while let Some(key) = map.next_key_seed(KeySeed(T::NAME))? {
                    match key {
                        Key::Limit(limit) => {
                            amounts.insert(limit.key, map.next_value_seed(AmountSeed(limit.unit))?);
                        }
                        Key::Removed(key) => {
                            map.next_value::<IgnoredAny>()?;
                            removed.push(key);
                        }
                    }
                }
                Ok(Given { amounts, removed, table: PhantomData })
            }
        }
        deserializer.deserialize_map(Visitor(PhantomData))
    }
}
