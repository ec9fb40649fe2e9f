//! Time at which each id was noted last.
//!
//! Invariant: behaves as a map. No answer depends on the order of a table, and a client that does not know the seed
//! cannot choose ids that collide.

use std::hash::{BuildHasher, Hasher};

use super::Digest;
use crate::Timestamp;

/// Tables, so that growing one of them moves a small part of the ids.
const SHARDS: usize = 32;
/// Room beyond twice what is used that is always tolerated, in one table.
const SLACK: usize = 64;

/// Map from digest to time: 22 bytes and one of the table's own for each.
#[derive(Debug)]
pub(super) struct Places {
    seed: u64,
    shards: Vec<Shard>,
}

#[expect(clippy::disallowed_types, reason = "nothing iterates over it, so its order does not show")]
type Shard = std::collections::HashMap<Digest, Millis, Seeded>;

/// 48 bits of milliseconds last until the year 10889.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Millis([u8; 6]);

impl Places {
    pub(super) fn new(seed: u64) -> Self {
        // Odd, so that the multiplication loses nothing.
        let seed = seed | 1;
        Self { seed, shards: vec![Shard::with_hasher(Seeded(seed)); SHARDS] }
    }

    pub(super) fn get(&self, id: &Digest) -> Option<Timestamp> {
        self.shards.get(self.shard_of(id))?.get(id).map(|at| at.timestamp())
    }

    pub(super) fn insert(&mut self, id: Digest, at: Timestamp) {
        let shard = self.shard_of(&id);
        if let Some(shard) = self.shards.get_mut(shard) {
            shard.insert(id, Millis::of(at));
        }
    }

    /// Takes an id out, unless it was noted anew at another time.
    pub(super) fn remove(&mut self, id: &Digest, at: Timestamp) {
        let shard = self.shard_of(id);
        if let Some(shard) = self.shards.get_mut(shard)
            && shard.get(id) == Some(&Millis::of(at))
        {
            shard.remove(id);
        }
    }

    /// Gives up room that is not needed any more.
    pub(super) fn shrink(&mut self) {
        for shard in &mut self.shards {
            if shard.capacity() > 4 * shard.len() + SLACK {
                shard.shrink_to(2 * shard.len());
            }
        }
    }

    fn shard_of(&self, id: &Digest) -> usize {
        // The table takes its places from the low bits and its tags from the high ones: these are others.
        let spread = Seeded(self.seed).hash_one(id);
        usize::try_from(spread >> 40).unwrap_or_default() % SHARDS
    }
}

impl Millis {
    fn of(at: Timestamp) -> Self {
        let mut bytes = [0; 6];
        bytes.iter_mut().zip(at.as_millis().to_le_bytes()).for_each(|(place, byte)| *place = byte);
        Self(bytes)
    }

    fn timestamp(self) -> Timestamp {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(self.0).for_each(|(place, byte)| *place = byte);
        Timestamp::from_millis(u64::from_le_bytes(bytes))
    }
}

/// Hashes digests by one multiplication with a secret odd number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = Spread;

    fn build_hasher(&self) -> Spread {
        Spread { seed: self.0, state: 0 }
    }
}

/// See [`Seeded`].
#[derive(Debug)]
pub(super) struct Spread {
    seed: u64,
    state: u64,
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(part).for_each(|(place, byte)| *place = *byte);
            let mixed = u128::from(self.state ^ u64::from_le_bytes(word)) * u128::from(self.seed);
            // Both halves of the product.
            #[expect(clippy::cast_possible_truncation, reason = "folds the product")]
            let folded = mixed as u64 ^ (mixed >> 64) as u64;
            self.state = folded;
        }
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests;
