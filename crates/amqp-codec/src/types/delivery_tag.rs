//! The name that a sender gives a delivery.
//!
//! Invariant: a delivery-tag is never longer than 32 bytes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A delivery-tag (transport 2.8.7): up to 32 bytes, unique among the unsettled deliveries of a
/// link. Kept inline, so that carrying one costs no allocation.
#[derive(Clone, Copy)]
pub struct DeliveryTag {
    len: u8,
    bytes: [u8; Self::MAX_LEN],
}

impl DeliveryTag {
    /// Longest tag the protocol allows, in bytes.
    pub const MAX_LEN: usize = 32;

    /// The bytes of the tag.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // `len` is at most `MAX_LEN` by construction, so the fallback is never taken.
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }
}

impl From<[u8; 16]> for DeliveryTag {
    /// A tag of 16 bytes: the form of a lock token.
    #[inline]
    fn from(token: [u8; 16]) -> Self {
        let mut bytes = [0; Self::MAX_LEN];
        if let Some(front) = bytes.first_chunk_mut() {
            *front = token;
        }
        Self { len: 16, bytes }
    }
}

impl TryFrom<&[u8]> for DeliveryTag {
    type Error = TagTooLong;

    #[inline]
    fn try_from(tag: &[u8]) -> Result<Self, TagTooLong> {
        let mut bytes = [0; Self::MAX_LEN];
        // Tags of 4 and 16 bytes (counters, lock tokens) are the ones in use: a copy of constant
        // length is one move instead of a call.
        if let Ok(token) = <[u8; 16]>::try_from(tag) {
            return Ok(token.into());
        }
        match bytes.get_mut(..tag.len()) {
            Some(front) => front.copy_from_slice(tag),
            None => return Err(TagTooLong(tag.len())),
        }
        // At most 32, so it fits.
        let len = u8::try_from(tag.len()).unwrap_or(u8::MAX);
        Ok(Self { len, bytes })
    }
}

impl Deref for DeliveryTag {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for DeliveryTag {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for DeliveryTag {}

impl Hash for DeliveryTag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for DeliveryTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeliveryTag(")?;
        for byte in self.as_slice() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// A tag longer than the protocol allows; the length is in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("delivery-tag of {0} bytes, at most 32 are allowed")]
pub struct TagTooLong(pub usize);
