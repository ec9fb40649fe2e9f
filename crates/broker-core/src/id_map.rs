//! A hash map for numbers that the broker itself assigned.
//!
//! Invariant: the same inserts give the same map in every run. Nothing iterates over it where order shows.

use std::hash::{BuildHasherDefault, Hasher};

/// Map from a broker-assigned number. Peers cannot choose the keys, so they cannot choose collisions.
#[expect(clippy::disallowed_types, reason = "the hasher is fixed, not seeded")]
pub(crate) type IdMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// One multiplication spreads consecutive numbers over the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio in 64 bits; the shift brings the well mixed upper half down to the bucket bits.
        let spread = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = spread ^ (spread >> 32);
    }
}
