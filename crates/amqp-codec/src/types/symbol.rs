//! Symbols (types 1.6.21).
//!
//! Invariant: a [`Symbol`] is ASCII, so that what we write is always a valid AMQP symbol.

use std::borrow::Cow;
use std::fmt;

/// An AMQP symbol (types 1.6.21). The protocol's own words cost no allocation.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Symbol(Cow<'static, str>);

impl Symbol {
    /// A word of ours.
    ///
    /// # Panics
    /// If `word` is not ASCII, which only a mistake in our own source can cause.
    pub const fn from_static(word: &'static str) -> Self {
        assert!(word.is_ascii(), "a symbol of ours is ASCII");
        Self(Cow::Borrowed(word))
    }

    /// A word that came from elsewhere.
    pub fn new(word: impl Into<String>) -> Result<Self, NotAscii> {
        let word = word.into();
        if word.is_ascii() { Ok(Self(Cow::Owned(word))) } else { Err(NotAscii) }
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Symbol {
    /// The same as [`Symbol::from_static`], and panics like it.
    fn from(word: &'static str) -> Self {
        Self::from_static(word)
    }
}

impl AsRef<str> for Symbol {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for Symbol {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A word with a character that no symbol may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("symbol is not ASCII")]
pub struct NotAscii;
