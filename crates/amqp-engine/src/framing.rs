//! Cuts a byte stream into protocol headers and frames (transport 2.2 and 2.3).
//!
//! Invariant: what comes out depends on the bytes alone, never on how the network cut them.

use amqp_codec::frame::{FrameError, FrameHeader, HEADER_LEN};
use bytes::{Buf as _, Bytes, BytesMut};

/// The bytes that were read and not yet understood.
///
/// A frame that lies whole in one piece of input is a part of it, without a copy. The start of a
/// frame whose end is still to come moves into a buffer of its own, so that a few bytes of it do
/// not keep a large read buffer alive. From [`STAYS_FROM`] on it stays where it is, and where the
/// input that follows lies behind it in the same memory nothing is copied either.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    /// The front of a frame that `chunk` continues. Empty most of the time.
    tail: BytesMut,
    /// Input from its first unread byte on.
    chunk: BytesMut,
}

impl FrameReader {
    /// Adds what was read. Called with unread input left, it joins both, as a rule by copying.
    pub(crate) fn push(&mut self, input: BytesMut) {
        self.chunk.unsplit(input);
    }

    /// Number of buffered bytes.
    pub(crate) fn len(&self) -> usize {
        self.tail.len() + self.chunk.len()
    }

    /// Whether there is input that was not looked at. The front of a frame whose end is missing was.
    #[inline]
    pub(crate) fn has_unread(&self) -> bool {
        !self.chunk.is_empty()
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
    pub(crate) fn next_frame(&mut self, limit: u32) -> Option<Result<(FrameHeader, Bytes), FrameError>> {
        let frame = self.next_whole_frame(limit)?;
        Some(frame.map(|(header, frame)| {
            let mut body = frame.freeze();
            body.advance(header.body_offset());
            (header, body)
        }))
    }

    /// The same with the whole frame, from its header on.
    #[inline]
    pub(crate) fn next_whole_frame(
        &mut self,
        limit: u32,
    ) -> Option<Result<(FrameHeader, BytesMut), FrameError>> {
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
        Some(Ok((header, self.chunk.split_to(size))))
    }

    /// The same for a frame whose front lies in `tail`.
    fn next_joined_frame(&mut self, limit: u32) -> Option<Result<(FrameHeader, BytesMut), FrameError>> {
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
        Some(Ok((header, std::mem::take(&mut self.tail))))
    }

    /// Moves input behind `tail` until it has `wanted` bytes; false when the input is too short.
    fn fill_tail(&mut self, wanted: usize) -> bool {
        let missing = wanted.saturating_sub(self.tail.len());
        let front = self.chunk.split_to(missing.min(self.chunk.len()));
        if let Err(front) = self.tail.try_unsplit(front) {
            let all_of_it = if self.tail.len() >= wanted / 4 { missing } else { 0 };
            self.tail.reserve(all_of_it.max(front.len()));
            self.tail.extend_from_slice(&front);
        }
        if self.chunk.is_empty() {
            self.chunk = BytesMut::new();
        }
        self.tail.len() >= wanted
    }

    /// Keeps the front of a frame of `size` bytes. Where a good part of it is here there is room for all of it, so that
    /// it is copied once; a few bytes do not get a whole frame's memory.
    fn save_rest(&mut self, size: usize) {
        let front = std::mem::take(&mut self.chunk);
        if front.len() >= STAYS_FROM {
            self.tail = front;
            return;
        }
        let room = if front.len() >= size / 4 { size } else { front.len() };
        self.tail.reserve(room);
        self.tail.extend_from_slice(&front);
    }
}

/// The front of a frame, or of a delivery, of so many bytes stays where it was read until the rest comes: a connection
/// keeps one read buffer by that at most.
pub(crate) const STAYS_FROM: usize = 16 << 10;

#[cfg(test)]
mod tests;
