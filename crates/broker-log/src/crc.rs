//! CRC-32C (Castagnoli), as RFC 3720 has it.
//!
//! Invariant: a checksum that goes on over several pieces is that of the pieces in one.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The checksum of what has the checksum `before` and of `bytes` behind it.
pub(crate) fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    crc32c_of(before, [bytes])
}

/// The same for several pieces.
pub(crate) fn crc32c_of<'a>(before: u32, pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    // A finished checksum is the state inverted, and the library goes on from the state.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    for piece in pieces {
        digest.update(piece);
    }
    // It has 32 bits.
    u32::try_from(digest.finalize()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
