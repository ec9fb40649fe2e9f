//! Names that are the same whatever their case.
//!
//! Invariant: names that compare as equal have the same hash.

use std::cmp::Ordering;

fn folded(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().flat_map(char::to_lowercase)
}

/// The order of two names without regard to case.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    if left.is_ascii() && right.is_ascii() {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        return left.bytes().map(lower).cmp(right.bytes().map(lower));
    }
    folded(left).cmp(folded(right))
}

/// Whether two names are the same but for case.
pub(crate) fn same(left: &str, right: &str) -> bool {
    compare(left, right) == Ordering::Equal
}

/// A 64-bit FNV-1a hash that needs no random seed: whoever meets equal hashes compares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }

    /// Adds a name without its case.
    pub(crate) fn name(mut self, name: &str) -> Self {
        if name.is_ascii() {
            for byte in name.bytes() {
                self = self.bytes(&[byte.to_ascii_lowercase()]);
            }
            return self;
        }
        let mut buffer = [0; 4];
        for letter in folded(name) {
            self = self.bytes(letter.encode_utf8(&mut buffer).as_bytes());
        }
        self
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
