//! Definition of one namespace.
//!
//! Invariant: plain data, the same after a restart.

use crate::{AuthorizationRule, DEFAULT_NAMESPACE, NamespaceLimits, Timestamp};

/// Number of a namespace in its shard; each of its records carries it. A slot is used again when its namespace is gone.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NamespaceSlot(pub u16);

impl NamespaceSlot {
    /// Slot of the default namespace.
    pub const DEFAULT: Self = Self(0);
}

/// State of a namespace.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NamespaceState {
    #[default]
    Active = 0,
    /// Its entities are being deleted, and its name is still taken.
    Deleting = 1,
    /// The slot is free again. A record with it is the last one of its namespace.
    Deleted = 2,
}

/// Properties of a namespace that an administrator gives it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamespaceSettings {
    /// Host names that lead to it, beside those that begin with its name. Lower case, without port.
    pub hostnames: Vec<Box<str>>,
    /// Share of the shard's work where several namespaces want more than there is.
    pub weight: u16,
    /// No client may connect.
    pub held: bool,
    pub limits: NamespaceLimits,
}

impl Default for NamespaceSettings {
    fn default() -> Self {
        Self { hostnames: Vec::new(), weight: 1, held: false, limits: NamespaceLimits::default() }
    }
}

/// A namespace, as its record describes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamespaceDefinition {
    pub slot: NamespaceSlot,
    /// Random, so that a namespace that was deleted and one that has its name now are told apart.
    pub uid: u128,
    /// As first written.
    pub name: Box<str>,
    pub state: NamespaceState,
    pub settings: NamespaceSettings,
    /// Keys that were made through an interface, not those of a file.
    pub keys: Vec<AuthorizationRule>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl NamespaceDefinition {
    /// The default namespace, as it is before anybody changes it.
    pub fn of_default() -> Self {
        Self::unknown(NamespaceSlot::DEFAULT, DEFAULT_NAMESPACE.into())
    }

    /// A namespace of which no record is known.
    pub fn unknown(slot: NamespaceSlot, name: Box<str>) -> Self {
        Self {
            slot,
            uid: 0,
            name,
            state: NamespaceState::Active,
            settings: NamespaceSettings::default(),
            keys: Vec::new(),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        }
    }
}
