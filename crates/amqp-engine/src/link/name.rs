//! Comparison of the name of a link with those of all others of its connection.
//!
//! Invariant: names with different digests are different, and their bytes are not compared.

use std::hash::{DefaultHasher, Hasher as _};

/// A digest of a link's name. One byte is free in [`Link`](super::Link), and one of 256 names is left to be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NameDigest(u8);

impl NameDigest {
    /// By a seed that the peer does not know.
    pub(crate) fn of(seed: u64, name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(seed);
        hasher.write(name.as_bytes());
        let [digest, ..] = hasher.finish().to_be_bytes();
        Self(digest)
    }
}

/// Whether two names, each with its digest, are the same.
pub(crate) fn is_same(one: (NameDigest, &str), other: (NameDigest, &str)) -> bool {
    one.0 == other.0 && is_same_text(one.1, other.1)
}

fn is_same_text(one: &str, other: &str) -> bool {
    #[cfg(test)]
    tests::COMPARED.set(tests::COMPARED.get() + 1);
    one == other
}

#[cfg(test)]
mod tests;
