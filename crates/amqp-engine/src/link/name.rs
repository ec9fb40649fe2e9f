//! The name of a link, compared with those of all others of its connection.
//!
//! Invariant: names with different digests are different, and their bytes are not compared.

use std::hash::{DefaultHasher, Hasher as _};

/// A link's name and a digest of it.
#[derive(Debug, Default)]
pub(crate) struct LinkName {
    digest: u64,
    text: Box<str>,
}

impl LinkName {
    pub(crate) fn new(text: &str) -> Self {
        Self { digest: digest(text), text: text.into() }
    }

    /// Whether both are the same name.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.digest == other.digest && self.has_text_of(other)
    }

    fn has_text_of(&self, other: &Self) -> bool {
        #[cfg(test)]
        tests::COMPARED.set(tests::COMPARED.get() + 1);
        self.text == other.text
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests;
