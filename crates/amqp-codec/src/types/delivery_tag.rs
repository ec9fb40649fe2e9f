//! Delivery tags.
//!
//! Invariant: a delivery-tag that is sent is never longer than 32 bytes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A delivery-tag (transport 2.8.7): up to 32 bytes, unique among the unsettled deliveries of a
/// link. Kept inline, so that carrying one costs no allocation.
///
/// Layout: whole aligned words, so that moving a tag is a few moves of registers. (With the length
/// in a single byte in front, reading a transfer took twice as long.)
///
/// Of a longer tag of a peer 32 bytes are kept, and its length: enough to tell it from others.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct DeliveryTag {
    bytes: [u8; Self::MAX_LEN],
    len: usize,
}

impl DeliveryTag {
    /// Longest tag the protocol allows, in bytes.
    pub const MAX_LEN: usize = 32;
    /// Longest tag that is taken from a peer, in bytes. The older SDK of Azure Service Bus for Java sends 36, the text of a
    /// UUID, and the service takes it.
    pub const MAX_RECEIVED_LEN: usize = 64;
    /// The tag of no bytes, which names a delivery that nobody settles.
    pub const EMPTY: Self = Self { bytes: [0; Self::MAX_LEN], len: 0 };

    /// A tag of a peer, which may be longer than the protocol allows.
    #[inline]
    pub fn received(tag: &[u8]) -> Result<Self, TagTooLong> {
        Self::try_from(tag).or_else(|_| Self::folded(tag))
    }

    /// The bytes behind the 32nd lie over the first ones.
    #[cold]
    fn folded(tag: &[u8]) -> Result<Self, TagTooLong> {
        let too_long = TagTooLong(tag.len());
        let (front, rest) = tag.split_first_chunk::<{ Self::MAX_LEN }>().ok_or(too_long)?;
        if tag.len() > Self::MAX_RECEIVED_LEN {
            return Err(too_long);
        }
        let mut bytes = *front;
        bytes.iter_mut().zip(rest).for_each(|(byte, more)| *byte ^= more);
        Ok(Self { bytes, len: tag.len() })
    }

    /// Whether the peer's tag was longer than the protocol allows, so that its bytes are not known.
    #[inline]
    pub const fn is_too_long(&self) -> bool {
        self.len > Self::MAX_LEN
    }

    /// The bytes of the tag; 32 that stand for it, where it was longer.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    #[inline]
    fn of<const N: usize>(tag: [u8; N]) -> Self {
        let mut bytes = [0; Self::MAX_LEN];
        if let Some(front) = bytes.first_chunk_mut() {
            *front = tag;
        }
        Self { bytes, len: N }
    }

    #[cold]
    fn of_any_len(tag: &[u8]) -> Result<Self, TagTooLong> {
        let mut bytes = [0; Self::MAX_LEN];
        let front = bytes.get_mut(..tag.len()).ok_or(TagTooLong(tag.len()))?;
        front.copy_from_slice(tag);
        Ok(Self { bytes, len: tag.len() })
    }
}

impl From<[u8; 16]> for DeliveryTag {
    /// A tag of 16 bytes: the form of a lock token.
    #[inline]
    fn from(token: [u8; 16]) -> Self {
        Self::of(token)
    }
}

impl TryFrom<&[u8]> for DeliveryTag {
    type Error = TagTooLong;

    #[inline]
    fn try_from(tag: &[u8]) -> Result<Self, TagTooLong> {
        // Lock tokens have 16 bytes, the counters of most clients 4 or 8: copies of constant
        // length are moves, others a call.
        if let Ok(token) = <[u8; 16]>::try_from(tag) {
            Ok(Self::of(token))
        } else if let Ok(counter) = <[u8; 4]>::try_from(tag) {
            Ok(Self::of(counter))
        } else if let Ok(counter) = <[u8; 8]>::try_from(tag) {
            Ok(Self::of(counter))
        } else {
            Self::of_any_len(tag)
        }
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
        self.len == other.len && self.as_slice() == other.as_slice()
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

/// A tag longer than may be sent, or is taken; the length is in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("delivery-tag of {0} bytes, at most 32 are allowed")]
pub struct TagTooLong(pub usize);
