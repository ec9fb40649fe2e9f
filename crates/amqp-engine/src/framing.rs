//! Cuts a byte stream into protocol headers and frames (transport 2.2 and 2.3).
//!
//! Invariant: what comes out depends on the bytes alone, never on how the network cut them.

use amqp_codec::frame::{FrameError, FrameHeader, HEADER_LEN};
use bytes::{Bytes, BytesMut};

/// The bytes that were read and not yet understood.
///
/// A frame that lies whole in one piece of input is a slice of it, without a copy. The start of a
/// frame whose end is still to come moves into a buffer of its own, so that a few bytes of it do
/// not keep a large read buffer alive.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    /// The front of a frame that `chunk` continues. Empty most of the time.
    tail: BytesMut,
    /// Input from its first unread byte on.
    chunk: Bytes,
}

impl FrameReader {
    /// Adds what was read. Called with unread input left, it joins both by copying.
    pub(crate) fn push(&mut self, input: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = input;
        } else {
            let mut joined = BytesMut::with_capacity(self.chunk.len() + input.len());
            joined.extend_from_slice(&self.chunk);
            joined.extend_from_slice(&input);
            self.chunk = joined.freeze();
        }
    }

    /// How many bytes are held, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.tail.len() + self.chunk.len()
    }

    /// Forgets everything that was not understood.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The next eight bytes, when they have arrived: the protocol header of a layer.
    pub(crate) fn next_header(&mut self) -> Option<[u8; HEADER_LEN]> {
        if !self.fill_tail(HEADER_LEN) {
            return None;
        }
        let header = self.tail.first_chunk().copied();
        self.tail = BytesMut::new();
        header
    }

    /// The next frame, when it has arrived whole: its header, and its body behind the extended
    /// header.
    #[inline]
    pub(crate) fn next_frame(&mut self, limit: u32) -> Option<Result<(FrameHeader, Bytes), FrameError>> {
        if !self.tail.is_empty() {
            return self.next_joined_frame(limit);
        }
        let Some(first) = self.chunk.first_chunk() else {
            self.save_rest(0);
            return None;
        };
        let header = match FrameHeader::parse(first, limit) {
            Ok(header) => header,
            Err(error) => return Some(Err(error)),
        };
        let size = header.size as usize;
        if self.chunk.len() < size {
            self.save_rest(size);
            return None;
        }
        let mut frame = self.chunk.split_to(size);
        bytes::Buf::advance(&mut frame, header.body_offset());
        Some(Ok((header, frame)))
    }

    /// The same for a frame whose front lies in `tail`.
    fn next_joined_frame(&mut self, limit: u32) -> Option<Result<(FrameHeader, Bytes), FrameError>> {
        if !self.fill_tail(HEADER_LEN) {
            return None;
        }
        let header = match FrameHeader::parse(self.tail.first_chunk()?, limit) {
            Ok(header) => header,
            Err(error) => return Some(Err(error)),
        };
        if !self.fill_tail(header.size as usize) {
            return None;
        }
        let mut frame = std::mem::take(&mut self.tail).freeze();
        bytes::Buf::advance(&mut frame, header.body_offset());
        Some(Ok((header, frame)))
    }

    /// Moves input behind `tail` until it has `wanted` bytes; false when the input is too short.
    fn fill_tail(&mut self, wanted: usize) -> bool {
        let missing = wanted.saturating_sub(self.tail.len());
        let front = self.chunk.split_to(missing.min(self.chunk.len()));
        self.tail.extend_from_slice(&front);
        if self.chunk.is_empty() {
            self.chunk = Bytes::new();
        }
        self.tail.len() >= wanted
    }

    /// Keeps the front of a frame of `size` bytes. Where a good part of it is here there is room for all of it, so that
    /// it is copied once; a few bytes do not get a whole frame's memory.
    fn save_rest(&mut self, size: usize) {
        let room = if self.chunk.len() >= size / 4 { size } else { self.chunk.len() };
        self.tail.reserve(room);
        self.tail.extend_from_slice(&self.chunk);
        self.chunk = Bytes::new();
    }
}

#[cfg(test)]
mod tests;
