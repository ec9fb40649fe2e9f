//! A message id as the history keeps it.
//!
//! Invariant: equal ids have equal digests, in every version that reads the same journal. That two different ones
//! share a digest is not excluded but out of reach: see the decision record on duplicate detection.

use std::hash::{Hash, Hasher};

use sha2::{Digest as _, Sha256};

/// The first 16 bytes of the SHA-256 of the partition key's length (`u16`, little-endian), the partition key and the
/// message id.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Digest(pub(crate) [u8; Self::BYTES]);

impl Digest {
    pub(crate) const BYTES: usize = 16;

    /// The digest of a message id; on a partitioned entity together with the partition key
    /// (`docs/features/duplicate-detection.md`), else the key is empty.
    pub(crate) fn of(partition_key: &str, message_id: &str) -> Self {
        // Keys are limited to far less; a cut length would only make two longer ones equal more easily.
        let length = u16::try_from(partition_key.len()).unwrap_or(u16::MAX);
        let hash = Sha256::new()
            .chain_update(length.to_le_bytes())
            .chain_update(partition_key)
            .chain_update(message_id)
            .finalize();
        let mut digest = [0; Self::BYTES];
        for (place, byte) in digest.iter_mut().zip(hash) {
            *place = byte;
        }
        Self(digest)
    }
}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All have one length, so it need not be hashed.
        state.write(&self.0);
    }
}

#[cfg(test)]
mod tests;
