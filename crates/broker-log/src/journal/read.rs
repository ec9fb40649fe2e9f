//! Reading records back.
//!
//! Invariant: what is returned is what was appended, or an error; what comes from disk is checked.

use bytes::Bytes;

use crate::{
    Journal, Owner, Position, Read, ReadError, ReadId,
    format::{RECORD_HEADER, RECORD_HEADER_LEN, RecordHeader},
    read_ahead::Reader,
    segments::{Segment, Segments},
};

impl Journal {
    /// The record at `at`, which is `length` bytes long. From memory if it is recent, else from disk, and more of
    /// what follows when the reader goes on in order. The bytes share memory with up to 256 KiB of others.
    pub fn read(&mut self, at: Position, length: u32) -> Result<Bytes, ReadError> {
        self.read_of(Owner::default(), at, length)
    }

    /// [`Journal::read`] for `owner`. What is read ahead of an owner in order is shared by weight, too.
    pub fn read_of(&mut self, owner: Owner, at: Position, length: u32) -> Result<Bytes, ReadError> {
        match self.cached(at, length) {
            Some(found) => found,
            None => self.read_from_disk(owner, at, length),
        }
    }

    /// The same without waiting for the disk: the record is pending where it is not in memory, and a read of it, and of what
    /// follows, is among the next requests of [`Journal::poll_io`]. When it is done, [`Journal::poll_read_done`] names it, and
    /// the record is to be asked for again: it is in memory then, or the error is returned that the read has met, or it is
    /// pending once more, if its place was needed meanwhile. The caller bounds what it asks for.
    #[inline]
    pub fn read_soon_of(&mut self, owner: Owner, at: Position, length: u32) -> Result<Read, ReadError> {
        match self.cached(at, length) {
            Some(found) => found.map(Read::Record),
            None => self.read_from_disk_soon(owner, at, length),
        }
    }

    /// A read that an owner waits for is done, or came to nothing.
    pub fn poll_read_done(&mut self) -> Option<(Owner, ReadId)> {
        self.read_ahead.poll_done()
    }

    /// The owner has asked again for all that it wants of the reads that are done: their windows need not be kept for it.
    pub fn release_windows(&mut self, owner: Owner) {
        self.read_ahead.release(owner);
    }

    /// The record where it is in the cache.
    #[inline]
    fn cached(&mut self, at: Position, length: u32) -> Option<Result<Bytes, ReadError>> {
        if self.write_cache.is_open_at(at.0) {
            self.appender.freeze(&mut self.write_cache, self.disk.is_some());
        }
        let (bytes, place) = self.write_cache.holding(at.0)?;
        Some(record(bytes, place, at, length).unwrap_or_else(|| Err(self.not_found(at))))
    }

    /// These records will be read soon. Where they lie in memory they are fetched from there all at once: the
    /// processor waits for one line of memory as long as for ten that it may fetch side by side.
    pub fn prefetch(&self, records: impl Iterator<Item = (Position, u32)>) {
        self.write_cache.prefetch(records.map(|(at, length)| (at.0, RECORD_HEADER_LEN + length as usize)));
    }

    /// Reads of the disk since the start. A record that is not in memory takes one, unless it was read ahead: a caller that
    /// compares the number before and after [`Journal::read`] knows whether it has waited for the disk.
    pub fn disk_reads(&self) -> u64 {
        self.read_ahead.waits()
    }

    fn read_from_disk(&mut self, owner: Owner, at: Position, length: u32) -> Result<Bytes, ReadError> {
        let place = on_disk(&self.segments, self.progress.durable(), at, length);
        let (Some(disk), Some((segment, readable))) = (&self.disk, place) else {
            return Err(self.not_found(at));
        };
        let reader = Reader { owner, weight: self.weights.of(owner) };
        self.read_ahead.record(&**disk, segment, (at, length), readable, reader)
    }

    fn read_from_disk_soon(&mut self, owner: Owner, at: Position, length: u32) -> Result<Read, ReadError> {
        let place = on_disk(&self.segments, self.progress.durable(), at, length);
        let Some((segment, readable)) = place.filter(|_| self.disk.is_some()) else {
            return Err(self.not_found(at));
        };
        let reader = Reader { owner, weight: self.weights.of(owner) };
        let found = self.read_ahead.record_soon(segment, (at, length), readable, reader);
        self.ask_ahead();
        found
    }

    /// Has the next window of a reader read that goes on in order, unless it is at the end of what is on disk, or at the
    /// beginning of what is in memory.
    fn ask_ahead(&mut self) {
        let Some(window) = self.read_ahead.take_ahead() else { return };
        if self.write_cache.holding(window.start).is_some() {
            return;
        }
        if let Some(segment) = self.segments.at(window.start) {
            let readable = segment.end.min(self.progress.durable());
            self.read_ahead.ask_ahead(segment, window, readable);
        }
    }

    fn not_found(&self, at: Position) -> ReadError {
        ReadError::NotFound { at, tail: Position(self.segments.tail()), end: self.end() }
    }
}

/// The segment in which a whole record is on disk, and the position up to which that is final.
fn on_disk(segments: &Segments, durable: u64, at: Position, length: u32) -> Option<(&Segment, u64)> {
    let stored = RECORD_HEADER + u64::from(length);
    at.0.checked_add(stored).filter(|end| *end <= durable)?;
    segments.at(at.0).map(|segment| (segment, segment.end.min(durable)))
}

/// The record at `place` of `bytes`; `None` when there is no whole one.
fn record(bytes: &Bytes, place: usize, at: Position, length: u32) -> Option<Result<Bytes, ReadError>> {
    let header = RecordHeader::decode(bytes.get(place..)?)?;
    if header.length != length {
        return Some(Err(ReadError::OtherLength { at, asked: length, found: header.length }));
    }
    let start = place.checked_add(RECORD_HEADER_LEN)?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.len()).then(|| Ok(bytes.slice(start..end)))
}

#[cfg(test)]
mod tests;
