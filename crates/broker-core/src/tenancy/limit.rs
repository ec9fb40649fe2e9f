//! Limits of one namespace.
//!
//! Invariant: each limit has one key, which the configuration, the command line, the JSON interface and the metrics use.

use std::ops::RangeInclusive;

/// Weights that a namespace may have.
pub const NAMESPACE_WEIGHTS: RangeInclusive<u16> = 1..=1_000;

/// A limit that a namespace may have.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NamespaceLimit {
    /// Queues, topics and subscriptions.
    Entities,
    /// Bytes of the journal's records that are alive: messages with their properties, definitions, session states and
    /// duplicate history.
    Bytes,
    /// Connections at the same time.
    Connections,
    /// Bytes of commands that all its connections together may have waiting for the node.
    InFlightBytes,
    /// Message ids that are remembered to detect duplicates.
    RememberedIds,
    /// Messages that its clients may send in a second.
    SendsPerSecond,
}

impl NamespaceLimit {
    /// All of them, in the order of the record.
    pub const ALL: [Self; 6] = [
        Self::Entities,
        Self::Bytes,
        Self::Connections,
        Self::InFlightBytes,
        Self::RememberedIds,
        Self::SendsPerSecond,
    ];

    /// Name in the configuration, on the command line, in JSON, and as a metric label.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Entities => "max_entities",
            Self::Bytes => "max_bytes",
            Self::Connections => "max_connections",
            Self::InFlightBytes => "max_in_flight_bytes",
            Self::RememberedIds => "max_remembered_ids",
            Self::SendsPerSecond => "max_sends_per_second",
        }
    }

    /// Numbers that it may have. A namespace with less could not be used.
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Entities | Self::Connections => 1..=1_000_000,
            Self::Bytes => 1 << 10..=1 << 50,
            Self::InFlightBytes => 1 << 20..=1 << 44,
            Self::RememberedIds => 0..=1 << 40,
            Self::SendsPerSecond => 1..=1_000_000_000,
        }
    }

    /// Whether its number counts bytes, and may be written with a unit.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::InFlightBytes)
    }

    /// The limit of this key.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.key() == key)
    }
}

/// The limits of one namespace.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NamespaceLimits([Option<u64>; NamespaceLimit::ALL.len()]);

impl NamespaceLimits {
    /// The number of this limit; `None`: the limits of the broker alone hold.
    pub fn get(&self, limit: NamespaceLimit) -> Option<u64> {
        self.0.get(limit as usize).copied().flatten()
    }

    /// Gives this limit another number.
    pub fn set(&mut self, limit: NamespaceLimit, number: Option<u64>) {
        if let Some(place) = self.0.get_mut(limit as usize) {
            *place = number;
        }
    }

    /// With this number for one limit.
    #[must_use]
    pub fn with(mut self, limit: NamespaceLimit, number: Option<u64>) -> Self {
        self.set(limit, number);
        self
    }
}
