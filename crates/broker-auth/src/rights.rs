//! Rights on an entity: Send, Listen and Manage, and the right to have dynamic nodes.
//!
//! Invariant: Manage implies all others; no other right implies one.

use std::{fmt, str::FromStr};

/// One claim of a shared access rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Right {
    /// Publish messages.
    Send,
    /// Receive, peek, settle and renew.
    Listen,
    /// Rules and entities; implies all others.
    Manage,
    /// Create dynamic nodes and receive from them.
    Dynamic,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "Send",
            Self::Listen => "Listen",
            Self::Manage => "Manage",
            Self::Dynamic => "Dynamic",
        })
    }
}

impl FromStr for Right {
    type Err = UnknownRight;

    /// Reads `send`, `listen`, `manage` or `dynamic` in any case.
    fn from_str(text: &str) -> Result<Self, UnknownRight> {
        [Self::Send, Self::Listen, Self::Manage, Self::Dynamic]
            .into_iter()
            .find(|right| right.to_string().eq_ignore_ascii_case(text))
            .ok_or(UnknownRight)
    }
}

/// The text names no right.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected `send`, `listen`, `manage` or `dynamic`")]
pub struct UnknownRight;

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rights(u8);

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self(0);
    /// Every right.
    pub const ALL: Self = Self(0b1111);

    /// This set and `right`, with what it implies.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | bits(right))
    }

    /// Union of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if `right` is granted.
    pub const fn contains(self, right: Right) -> bool {
        self.0 & bits(right) == bits(right)
    }

    /// True if all that `other` grants is granted.
    pub(crate) const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn to_bits(self) -> u8 {
        self.0
    }

    /// Inverse of [`Self::to_bits`].
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// True if nothing is granted.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        rights.into_iter().fold(Self::NONE, Self::with)
    }
}

const fn bits(right: Right) -> u8 {
    match right {
        Right::Send => 0b001,
        Right::Listen => 0b010,
        Right::Manage => 0b1111,
        Right::Dynamic => 0b1000,
    }
}

#[cfg(test)]
mod tests;
