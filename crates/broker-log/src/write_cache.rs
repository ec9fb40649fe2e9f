//! Write cache: the newest records in memory, collected for writing and read without the disk.
//! Their alignment is that of their file, so that direct I/O can write them in place (`disk/direct.rs`).
//!
//! Invariant: holds the living records of one stretch of positions that ends at the journal's end; forgets them only
//! from its beginning, and nothing that is not written. Before that stretch, runs of owners that have less than their share of
//! the cache are retained (`write_cache/retention.rs`).

mod chunk;
mod retained;
mod retention;
mod runs;
mod shares;

use std::{collections::VecDeque, hint::black_box, ops::BitXor as _};

use bytes::{Buf as _, Bytes, BytesMut};

pub(crate) use self::chunk::Piece;
use self::{
    chunk::{Chunk, piece_before},
    retention::Retention,
    runs::Run,
};
use crate::{
    disk::BLOCK_BYTES,
    format::RECORD_HEADER_LEN,
    owner::{Owner, Weights},
};

/// Records as they lie on disk; the headers of batches between them are left out.
#[derive(Debug)]
pub(crate) struct WriteCache {
    /// Every record from this position on is here, or dead.
    start: u64,
    /// Records before `start`.
    retention: Retention,
    chunks: VecDeque<Chunk>,
    /// The chunk in which something was found last: the next is looked for there, for readers go on in order.
    found: usize,
    /// The same for the chunk in which something died last.
    died: usize,
    /// So many chunks, the oldest ones, are full and written: nothing comes to them any more.
    written: usize,
    /// Bytes of all records from `start` on, and what lies between them.
    bytes: u64,
    /// Those among them whose memory is given back.
    given_back: u64,
    /// Records not yet frozen; its allocation is the last chunk's.
    open: BytesMut,
    /// Position of the first byte of `open`.
    open_start: u64,
    /// The same when the cache was shrunk last.
    shrunk: u64,
    /// The run that grows: the last one of the last chunk, which does not count it yet.
    run: Run,
    /// Memory of dead and of forgotten chunks, to be used again, the last first: fresh memory costs a page fault for
    /// each 4 KiB, and what was used long ago has left the processor's caches. Readers may still hold some of it.
    unused: Vec<Bytes>,
}

impl WriteCache {
    /// Empty, at the journal's `end`.
    pub(crate) fn new(end: u64) -> Self {
        Self {
            start: end,
            retention: Retention::default(),
            chunks: VecDeque::new(),
            found: 0,
            died: 0,
            written: 0,
            bytes: 0,
            given_back: 0,
            open: BytesMut::new(),
            open_start: end,
            shrunk: end,
            run: Run::begin(Owner::default(), end),
            unused: Vec::new(),
        }
    }

    /// Whether a record of `stored` bytes at `at` can follow what is open without freezing it.
    pub(crate) fn continues(&self, at: u64, stored: usize) -> bool {
        let open = self.open.len();
        self.open_start + open as u64 == at && self.open.capacity() - open >= stored
    }

    /// Begins anew at `at`, which is `offset` in its file, with room for `stored` bytes. Everything before is frozen.
    /// Records lie in memory as in the file, seen from the beginning of a block: so the disk can take them from there.
    pub(crate) fn begin(&mut self, at: u64, offset: u64, stored: usize) {
        debug_assert!(self.open.is_empty(), "freeze before going on elsewhere");
        if self.chunks.is_empty() || self.open.capacity() < ahead_of(offset, &self.open) + stored {
            self.open = self.buffer(stored);
            skip_to(offset, &mut self.open);
            // No more than that: a small record would keep the memory of a large one.
            drop(self.open.split_off(stored.max(CHUNK_BYTES)));
            self.end_run(self.run.owner, at);
            self.chunks.push_back(Chunk::begin(at));
        } else if let Some(chunk) = self.chunks.back_mut() {
            // The bytes between two records take memory too.
            let skipped = skip_to(offset, &mut self.open) as u64;
            chunk.bytes += skipped;
            self.bytes += skipped;
        }
        self.open_start = at;
    }

    /// Adds a record of an owner. There is room: see [`WriteCache::continues`].
    #[inline]
    pub(crate) fn push(
        &mut self,
        owner: Owner,
        header: [u8; RECORD_HEADER_LEN],
        index: &[u8],
        rest: &[&[u8]],
    ) {
        let before = self.open.len();
        if owner != self.run.owner {
            self.end_run(owner, self.open_start + before as u64);
        }
        self.open.extend_from_slice(&header);
        self.open.extend_from_slice(index);
        for part in rest {
            self.open.extend_from_slice(part);
        }
        self.run.bytes += (self.open.len() - before) as u64;
    }

    /// Ends the open run, which is in the last chunk. The next one is `owner`'s and begins at `at`.
    fn end_run(&mut self, owner: Owner, at: u64) {
        let run = std::mem::replace(&mut self.run, Run::begin(owner, at));
        let Some(chunk) = self.chunks.back_mut().filter(|_| run.bytes > 0) else { return };
        let memory = chunk.runs.memory();
        chunk.runs.push(run);
        let memory = chunk.runs.memory() - memory;
        chunk.bytes += memory;
        self.bytes += memory;
        chunk.live += run.live();
        self.retention.add_run(&run);
    }

    /// The record at `at`, of so many bytes with its header, is dead: it will not be read.
    pub(crate) fn release(&mut self, at: u64, bytes: u64) {
        if at >= self.run.start {
            self.run.release(at, bytes);
            return;
        }
        if at < self.start {
            self.retention.release(at, bytes);
            return;
        }
        let Some(index) = self.chunk_of(at, self.died) else { return };
        self.died = index;
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        debug_assert!(chunk.live >= bytes, "released twice: {at}");
        chunk.live = chunk.live.saturating_sub(bytes);
        if let Some(run) = chunk.runs.holding(at) {
            run.release(at, bytes);
            self.retention.release_in_chunk(run.owner, bytes);
        }
        if chunk.live == 0 && index < self.written {
            self.retention.forget_runs(chunk);
            self.recycle_buffer(index);
        }
    }

    /// Everything before this position is written.
    pub(crate) fn note_written(&mut self, up_to: u64) {
        while self.written + 1 < self.chunks.len()
            && let Some(chunk) = self.chunks.get(self.written)
            && chunk.end <= up_to
        {
            self.written += 1;
            if chunk.live == 0 {
                self.retention.forget_runs(chunk);
                self.recycle_buffer(self.written - 1);
            }
        }
    }

    /// Gives back the memory of a chunk of which nothing lives.
    fn recycle_buffer(&mut self, index: usize) {
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        // The others of its pieces go: memory is had back through its only reference.
        let Some(last) = std::mem::take(&mut chunk.pieces).pop() else { return };
        let runs = std::mem::take(&mut chunk.runs);
        self.given_back += chunk.bytes;
        if self.unused.len() < UNUSED_MAX && chunk.bytes - runs.memory() <= CHUNK_BYTES as u64 {
            self.unused.push(last.bytes);
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
        chunk.end = self.open_start;
        chunk.pieces.push(Piece { start, bytes: bytes.clone() });
        Some(bytes)
    }

    /// Whether `at` is among the records that are not frozen yet.
    pub(crate) fn is_open_at(&self, at: u64) -> bool {
        at >= self.open_start && !self.open.is_empty()
    }

    /// The frozen bytes that hold `at`, and where in them that is.
    pub(crate) fn holding(&mut self, at: u64) -> Option<(&Bytes, usize)> {
        if at < self.start {
            return self.retention.holding(at);
        }
        let piece = self.piece(at)?;
        let place = usize::try_from(at.checked_sub(piece.start)?).ok()?;
        (place < piece.bytes.len()).then_some((&piece.bytes, place))
    }

    /// Touches the beginnings of records, each of which lies at a position and has so many bytes with its header.
    ///
    /// No step waits for another one's memory, and the fewer steps lie between two looks at memory, the more of them
    /// the processor has under way: so each kind of memory has a loop of its own.
    pub(crate) fn prefetch(&self, records: impl Iterator<Item = (u64, usize)>) {
        // Two passes, so that the loads of each pass overlap: first the lists of pieces, then the pieces.
        let mut lists = [(&[][..], 0, 0); PREFETCH_RECORDS_MAX];
        for (list, (at, bytes)) in lists.iter_mut().zip(records) {
            *list = (self.pieces_around(at), at, bytes.min(PREFETCH_BYTES));
        }
        black_box(lists.iter().filter_map(|(list, ..)| list.first()).fold(0, |sum, piece| sum ^ piece.start));
        let mut found = [(&[][..], None); PREFETCH_RECORDS_MAX];
        for (found, (list, at, bytes)) in found.iter_mut().zip(lists) {
            let Some(piece) = piece_before(list, at) else { continue };
            let start = usize::try_from(at.wrapping_sub(piece.start)).unwrap_or(usize::MAX);
            let end = start.saturating_add(bytes);
            *found = (piece.bytes.get(start..end).unwrap_or_default(), Some(&piece.bytes));
        }
        // The first line of each, then the others: by then it is known in which pages they lie.
        let mut touched = found.iter().filter_map(|(record, _)| record.first().copied()).fold(0, u8::bitxor);
        for (record, _) in found {
            touched = record
                .iter()
                .step_by(CACHE_LINE_BYTES)
                .skip(1)
                .chain(record.last())
                .copied()
                .fold(touched, u8::bitxor);
        }
        // Reading counts references, which lie beside the record.
        for bytes in found.iter().filter_map(|(_, bytes)| *bytes) {
            touched ^= u8::from(bytes.is_unique());
        }
        black_box(touched);
    }

    /// The pieces among which the one is that holds `at`.
    fn pieces_around(&self, at: u64) -> &[Piece] {
        let chunk = self.chunk_around(at).and_then(|chunk| self.chunks.get(chunk));
        chunk.map_or(&[], |chunk| &chunk.pieces)
    }

    /// The piece that holds `at`, or the first one behind it: what lies between is dead. `None` when `at` lies before
    /// everything here: the disk has it, or behind everything.
    pub(crate) fn piece_at_or_after(&self, at: u64) -> Option<&Piece> {
        if at < self.start {
            return None;
        }
        let holding = self.chunk_around(at).unwrap_or_default();
        self.chunks.range(holding..).flat_map(|chunk| &chunk.pieces).find(|piece| piece.end() > at)
    }

    /// Whether every living record from `at` on is here.
    pub(crate) fn is_held(&self, at: u64) -> bool {
        at >= self.start
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes - self.given_back + self.retention.bytes()
    }

    /// Bytes of memory for the living records of an owner.
    pub(crate) fn bytes_of(&self, owner: Owner) -> u64 {
        let open = if self.run.owner == owner { self.run.live() } else { 0 };
        self.retention.held(owner) + open
    }

    /// Forgets the oldest chunks that end at or before `written`, until at most `keep` bytes are held. Of the owners that have
    /// less than their share, what lives in them is retained.
    pub(crate) fn shrink(&mut self, keep: u64, written: u64, weights: &Weights) {
        let appended = self.open_start - std::mem::replace(&mut self.shrunk, self.open_start);
        let (mut copied, copied_max) = (0, appended.max(CHUNK_BYTES as u64).saturating_mul(COPIED_MAX));
        while self.excess(keep) > 0 {
            self.retention.prepare(keep, self.excess(keep), weights);
            let may_forget = self.chunks.len() > 1 && self.oldest_end() <= written;
            if self.excess(keep) == 0 || !may_forget || copied > copied_max {
                break;
            }
            if let Some(chunk) = self.chunks.front_mut().filter(|chunk| !chunk.pieces.is_empty()) {
                copied += self.retention.take_over(chunk, self.run.owner, weights);
                if chunk.pieces.is_empty() {
                    self.given_back += chunk.bytes;
                }
            }
            self.forget_oldest();
        }
    }

    /// Forgets the chunks that end at or before `tail`, and all that was retained of them.
    pub(crate) fn forget_before(&mut self, tail: u64) {
        self.retention.forget_before(tail);
        while self.chunks.len() > 1
            && let Some(chunk) = self.chunks.front()
            && chunk.end <= tail
        {
            self.retention.forget_runs(chunk);
            self.forget_oldest();
        }
    }

    /// Bytes of records, and what lies between them, beyond `keep`.
    fn excess(&self, keep: u64) -> u64 {
        (self.bytes + self.retention.bytes()).saturating_sub(keep)
    }

    fn oldest_end(&self) -> u64 {
        self.chunks.front().map_or(u64::MAX, |chunk| chunk.end)
    }

    /// Its runs have left it.
    fn forget_oldest(&mut self) {
        self.recycle_buffer(0);
        let Some(chunk) = self.chunks.pop_front() else { return };
        self.found = self.found.saturating_sub(1);
        self.died = self.died.saturating_sub(1);
        self.written = self.written.saturating_sub(1);
        self.start = chunk.end;
        self.bytes -= chunk.bytes;
        self.given_back -= chunk.bytes;
    }

    fn buffer(&mut self, stored: usize) -> BytesMut {
        if stored <= CHUNK_BYTES
            && let Some(free) = self.unused.iter().rposition(Bytes::is_unique)
            && let Ok(mut buffer) = self.unused.remove(free).try_into_mut()
        {
            buffer.clear();
            buffer.reserve(CHUNK_BYTES + BLOCK_BYTES);
            return buffer;
        }
        BytesMut::with_capacity(stored.max(CHUNK_BYTES) + BLOCK_BYTES)
    }

    fn piece(&mut self, at: u64) -> Option<&Piece> {
        self.found = self.chunk_of(at, self.found)?;
        piece_before(&self.chunks.get(self.found)?.pieces, at)
    }

    /// The chunk that holds `at`; it is looked for at `near` first.
    fn chunk_of(&self, at: u64, near: usize) -> Option<usize> {
        let found = [near, near + 1].into_iter().find(|index| self.covers(*index, at));
        found.or_else(|| self.chunk_around(at))
    }

    /// The chunk that holds `at`: as a rule they are about equally long, so it is hardly looked for among thousands.
    fn chunk_around(&self, at: u64) -> Option<usize> {
        let (first, last) = (self.chunks.front()?.start, self.chunks.back()?.start);
        let most = self.chunks.len() - 1;
        let length = (last - first) / most.max(1) as u64;
        let guess = usize::try_from(at.checked_sub(first)? / length.max(1)).unwrap_or(usize::MAX).min(most);
        let found =
            [guess, guess.saturating_sub(1), guess + 1].into_iter().find(|index| self.covers(*index, at));
        found.or_else(|| self.chunks.partition_point(|chunk| chunk.start <= at).checked_sub(1))
    }

    /// Whether `at` lies between the starts of this chunk and the next.
    fn covers(&self, index: usize, at: u64) -> bool {
        self.chunks.get(index).is_some_and(|chunk| chunk.start <= at)
            && self.chunks.get(index + 1).is_none_or(|next| at < next.start)
    }
}

/// Bytes of `memory` to skip so that the next byte has the same offset in its memory block as `offset` has in its file
/// block.
fn ahead_of(offset: u64, memory: &BytesMut) -> usize {
    let wanted = usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or_default();
    wanted.wrapping_sub(memory.as_ptr().addr()) % BLOCK_BYTES
}

/// Leaves them out; there is nothing in it yet. Says how many.
fn skip_to(offset: u64, memory: &mut BytesMut) -> usize {
    let skipped = ahead_of(offset, memory);
    memory.resize(skipped, 0);
    memory.advance(skipped);
    skipped
}

/// Size of an allocation. A delivered record keeps its whole chunk alive, so it is not larger.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// Records that are fetched together at most: as many fit near the processor.
const PREFETCH_RECORDS_MAX: usize = 32;
/// Bytes of a record that are fetched at most. The processor itself goes on in what is read in order.
const PREFETCH_BYTES: usize = 512;
/// So many times the bytes that were appended since the last call may be copied in one call, for the caller waits for it. The
/// rest waits for the next one, and until then more is held than should be: about an eighth of what is to be retained.
const COPIED_MAX: u64 = 8;
/// Bytes that memory gives at once.
const CACHE_LINE_BYTES: usize = 64;
/// Buffers kept for use again: those of two segments.
const UNUSED_MAX: usize = 128;

#[cfg(test)]
mod tests;
