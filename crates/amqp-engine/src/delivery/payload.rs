//! Payload of a transfer, in the buffer into which it was read.
//!
//! Invariant: holds the whole frame, so that the payload of the next can be joined to it where that lies behind it.

use bytes::{Buf as _, Bytes, BytesMut};

/// The payload of a transfer.
#[derive(Debug)]
pub(crate) struct Payload {
    frame: BytesMut,
    start: usize,
}

impl Payload {
    /// Payload of `frame` from `start` on, which is within the frame.
    #[inline]
    pub(crate) const fn new(frame: BytesMut, start: usize) -> Self {
        Self { frame, start }
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frame.len().saturating_sub(self.start)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.frame.get(self.start..).unwrap_or_default()
    }

    /// The frame, and where in it the payload starts.
    pub(crate) fn into_parts(self) -> (BytesMut, usize) {
        (self.frame, self.start)
    }

    /// A slice of what was read.
    #[inline]
    pub(crate) fn into_bytes(self) -> Bytes {
        let mut bytes = self.frame.freeze();
        bytes.advance(self.start);
        bytes
    }
}
