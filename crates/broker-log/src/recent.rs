//! The newest records in memory: where they are collected for writing, and read without the disk.
//!
//! Invariant: holds the records of one stretch of positions that ends at the journal's end; forgets only from its
//! beginning, and nothing that is not written.

use std::{collections::VecDeque, hint::black_box, ops::BitXor as _};

use bytes::{Bytes, BytesMut};

use crate::format::RECORD_HEADER_LEN;

/// Records as they lie on disk, without the headers of batches between them.
#[derive(Debug)]
pub(crate) struct Recent {
    /// Every record from this position on is here.
    start: u64,
    chunks: VecDeque<Chunk>,
    /// The chunk in which something was found last: the next is looked for there, for readers go on in order.
    found: usize,
    /// Bytes in `chunks`.
    bytes: u64,
    /// Records not yet frozen; its allocation is the last chunk's.
    open: BytesMut,
    /// Position of the first byte of `open`.
    open_start: u64,
    /// Buffers of forgotten chunks, to be used again: fresh memory costs a page fault for each 4 KiB.
    unused: Vec<BytesMut>,
}

/// One allocation and what is frozen of it. Pieces hold whole records and ascend.
#[derive(Debug)]
struct Chunk {
    start: u64,
    bytes: u64,
    pieces: Vec<Piece>,
}

/// Consecutive records and the position of the first.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub start: u64,
    pub bytes: Bytes,
}

impl Piece {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl Recent {
    /// Empty, at the journal's `end`.
    pub(crate) fn new(end: u64) -> Self {
        Self {
            start: end,
            chunks: VecDeque::new(),
            found: 0,
            bytes: 0,
            open: BytesMut::new(),
            open_start: end,
            unused: Vec::new(),
        }
    }

    /// Whether a record of `stored` bytes at `at` can follow what is open without freezing it.
    pub(crate) fn continues(&self, at: u64, stored: usize) -> bool {
        let open = self.open.len();
        self.open_start + open as u64 == at && self.open.capacity() - open >= stored
    }

    /// Begins anew at `at`, with room for `stored` bytes. Everything before is frozen.
    pub(crate) fn begin(&mut self, at: u64, stored: usize) {
        debug_assert!(self.open.is_empty(), "freeze before going on elsewhere");
        if self.chunks.is_empty() || self.open.capacity() < stored {
            self.open = self.buffer(stored);
            self.chunks.push_back(Chunk { start: at, bytes: 0, pieces: Vec::new() });
        }
        self.open_start = at;
    }

    /// Adds a record. There is room: see [`Recent::continues`].
    pub(crate) fn push(&mut self, header: [u8; RECORD_HEADER_LEN], index: &[u8], rest: &[&[u8]]) {
        self.open.extend_from_slice(&header);
        self.open.extend_from_slice(index);
        for part in rest {
            self.open.extend_from_slice(part);
        }
    }

    /// Makes what is open readable; the caller writes it. `None` when nothing is open.
    pub(crate) fn freeze(&mut self) -> Option<Bytes> {
        if self.open.is_empty() {
            return None;
        }
        let bytes = self.open.split().freeze();
        let start = self.open_start;
        let length = bytes.len() as u64;
        self.open_start += length;
        self.bytes += length;
        let chunk = self.chunks.back_mut()?;
        chunk.bytes += length;
        chunk.pieces.push(Piece { start, bytes: bytes.clone() });
        Some(bytes)
    }

    /// Whether `at` is among the records that are not frozen yet.
    pub(crate) fn is_open_at(&self, at: u64) -> bool {
        at >= self.open_start && !self.open.is_empty()
    }

    /// The frozen bytes that hold `at`, and where in them that is.
    pub(crate) fn holding(&mut self, at: u64) -> Option<(&Bytes, usize)> {
        let piece = self.piece(at)?;
        let place = usize::try_from(at.checked_sub(piece.start)?).ok()?;
        (place < piece.bytes.len()).then_some((&piece.bytes, place))
    }

    /// Touches the beginnings of records, each of which lies at a position and has so many bytes with its header.
    ///
    /// No step waits for another one's memory, and the fewer steps lie between two looks at memory, the more of them the
    /// processor has under way: so each kind of memory has a loop of its own.
    pub(crate) fn fetch(&self, records: impl Iterator<Item = (u64, usize)>) {
        // Where the records lie: first the lists of pieces, then what these say.
        let mut lists = [(&[][..], 0, 0); FETCHED_MAX];
        for (list, (at, bytes)) in lists.iter_mut().zip(records) {
            *list = (self.pieces_around(at), at, bytes.min(FETCHED_BYTES));
        }
        black_box(lists.iter().filter_map(|(list, ..)| list.first()).fold(0, |sum, piece| sum ^ piece.start));
        let mut found = [(&[][..], None); FETCHED_MAX];
        for (found, (list, at, bytes)) in found.iter_mut().zip(lists) {
            let Some(piece) = piece_before(list, at) else { continue };
            let start = usize::try_from(at.wrapping_sub(piece.start)).unwrap_or(usize::MAX);
            let end = start.saturating_add(bytes);
            *found = (piece.bytes.get(start..end).unwrap_or_default(), Some(&piece.bytes));
        }
        // The first line of each, then the others: by then it is known in which pages they lie.
        let mut touched = found.iter().filter_map(|(record, _)| record.first().copied()).fold(0, u8::bitxor);
        for (record, _) in found {
            touched =
                record.iter().step_by(LINE).skip(1).chain(record.last()).copied().fold(touched, u8::bitxor);
        }
        // Reading counts references, which lie beside the record.
        for bytes in found.iter().filter_map(|(_, bytes)| *bytes) {
            touched ^= u8::from(bytes.is_unique());
        }
        black_box(touched);
    }

    /// The pieces among which the one is that holds `at`.
    fn pieces_around(&self, at: u64) -> &[Piece] {
        let chunk = self.chunks.partition_point(|chunk| chunk.start <= at).checked_sub(1);
        chunk.and_then(|chunk| self.chunks.get(chunk)).map_or(&[], |chunk| &chunk.pieces)
    }

    /// The piece that holds `at`, or the first one behind it. `None` when `at` lies before everything here: the
    /// disk has it, or behind everything.
    pub(crate) fn piece_at_or_after(&self, at: u64) -> Option<&Piece> {
        if at < self.start {
            return None;
        }
        let holding = self.chunks.partition_point(|chunk| chunk.start <= at).saturating_sub(1);
        self.chunks.range(holding..).flat_map(|chunk| &chunk.pieces).find(|piece| piece.end() > at)
    }

    /// Whether every record from `at` on is here.
    pub(crate) fn is_held(&self, at: u64) -> bool {
        at >= self.start
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Forgets the oldest chunks that end at or before `written`, until at most `keep` bytes are held.
    pub(crate) fn shrink(&mut self, keep: u64, written: u64) {
        while self.bytes > keep && self.chunks.len() > 1 && self.oldest_end() <= written {
            self.forget_oldest();
        }
    }

    /// Forgets the chunks that end at or before `tail`.
    pub(crate) fn forget_before(&mut self, tail: u64) {
        while self.chunks.len() > 1 && self.oldest_end() <= tail {
            self.forget_oldest();
        }
    }

    fn oldest_end(&self) -> u64 {
        self.chunks.front().and_then(|chunk| chunk.pieces.last()).map_or(u64::MAX, Piece::end)
    }

    fn forget_oldest(&mut self) {
        let Some(mut chunk) = self.chunks.pop_front() else { return };
        self.found = self.found.saturating_sub(1);
        self.start = chunk.pieces.last().map_or(self.start, Piece::end);
        self.bytes -= chunk.bytes;
        let (last, bytes) = (chunk.pieces.pop(), chunk.bytes);
        // The other pieces of the allocation must be gone before it can be had back.
        drop(chunk);
        if let Some(Ok(mut buffer)) = last.map(|last| last.bytes.try_into_mut())
            && self.unused.len() < UNUSED_MAX
            && bytes <= CHUNK_BYTES as u64
        {
            buffer.clear();
            self.unused.push(buffer);
        }
    }

    fn buffer(&mut self, stored: usize) -> BytesMut {
        if stored <= CHUNK_BYTES
            && let Some(mut buffer) = self.unused.pop()
        {
            buffer.reserve(CHUNK_BYTES);
            return buffer;
        }
        BytesMut::with_capacity(stored.max(CHUNK_BYTES))
    }

    fn piece(&mut self, at: u64) -> Option<&Piece> {
        let near = [self.found, self.found + 1];
        self.found = match near.into_iter().find(|index| self.covers(*index, at)) {
            Some(index) => index,
            None => self.chunks.partition_point(|chunk| chunk.start <= at).checked_sub(1)?,
        };
        piece_before(&self.chunks.get(self.found)?.pieces, at)
    }

    /// Whether `at` lies between the starts of this chunk and the next.
    fn covers(&self, index: usize, at: u64) -> bool {
        self.chunks.get(index).is_some_and(|chunk| chunk.start <= at)
            && self.chunks.get(index + 1).is_none_or(|next| at < next.start)
    }
}

/// The piece that holds `at`, or the last one before it.
fn piece_before(pieces: &[Piece], at: u64) -> Option<&Piece> {
    pieces.get(pieces.partition_point(|piece| piece.start <= at).checked_sub(1)?)
}

/// Size of an allocation. A delivered record keeps its whole chunk alive, so it is not larger.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// Records that are fetched together at most: as many fit near the processor.
const FETCHED_MAX: usize = 32;
/// Bytes of a record that are fetched at most. The processor itself goes on in what is read in order.
const FETCHED_BYTES: usize = 512;
/// Bytes that memory gives at once.
const LINE: usize = 64;
/// Buffers kept for use again: those of two segments.
const UNUSED_MAX: usize = 128;

#[cfg(test)]
mod tests;
