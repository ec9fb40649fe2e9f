//! The digest of a sequence of bytes.
//!
//! Invariant: it depends on the bytes and on the calls that added them, and on nothing else.

use std::fmt;

/// FNV-1a over 64 bits. Fast enough to run over all that a simulated disk and network carry, and no cryptographic
/// hash: it tells two builds of one program apart, not an attacker.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Digest(u64);

impl Digest {
    /// Adds the bytes of one write or one read.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0 ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    }
}

/// Sixteen hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
