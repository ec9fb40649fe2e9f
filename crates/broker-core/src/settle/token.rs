//! Lock tokens that describe their own lock.
//!
//! Invariant: a token can be made and read only with the key. It encrypts the lock that it proves, so no table of
//! tokens is kept.

use aes::{
    Aes128,
    cipher::{BlockDecrypt, BlockEncrypt, KeyInit},
};

use crate::{LockId, LockToken, QueueId, SequenceNumber};

/// Turns locks into tokens and back: one block of AES-128 over queue, lock and sequence number.
pub(crate) struct LockTokenCipher(Aes128);

impl LockTokenCipher {
    /// The key must be new for each start of the process: that voids the tokens of earlier starts.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self(Aes128::new(&key.into()))
    }

    /// The token of a lock.
    pub(crate) fn seal(&self, queue: QueueId, lock: LockId, sequence: SequenceNumber) -> LockToken {
        let plain = u128::from(queue.0) << 96 | u128::from(lock.0) << 64 | u128::from(sequence.0);
        let mut block = plain.to_be_bytes().into();
        self.0.encrypt_block(&mut block);
        LockToken(u128::from_be_bytes(block.into()))
    }

    /// A number that clients cannot guess: the seed of hash tables.
    pub(crate) fn seed(&self) -> u64 {
        // No lock is of a message with this number.
        let token = self.seal(QueueId(u32::MAX), LockId(u32::MAX), SequenceNumber(u64::MAX));
        u64::try_from(token.0 >> 64).unwrap_or_default()
    }

    /// A key for another core, which clients cannot guess. `number` differs between the cores.
    pub(crate) fn key(&self, number: u64) -> [u8; 16] {
        // No lock is of this queue: its tokens are shown to nobody.
        let token = self.seal(QueueId(u32::MAX), LockId(u32::MAX), SequenceNumber(number >> 1));
        token.0.to_be_bytes()
    }

    /// The lock of a token. A forged one names a lock that does not exist, but for one chance in 2^64 or so.
    #[expect(clippy::cast_possible_truncation, reason = "cuts the block into its three fields")]
    pub(crate) fn open(&self, token: LockToken) -> (QueueId, LockId, SequenceNumber) {
        let mut block = token.0.to_be_bytes().into();
        self.0.decrypt_block(&mut block);
        let plain = u128::from_be_bytes(block.into());
        (QueueId((plain >> 96) as u32), LockId((plain >> 64) as u32), SequenceNumber(plain as u64))
    }
}

impl std::fmt::Debug for LockTokenCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockTokenCipher(key hidden)")
    }
}

#[cfg(test)]
mod tests;
