//! Reading records back.
//!
//! Invariant: what is returned is what was appended, or an error; what comes from disk is checked.

use bytes::Bytes;

use crate::{
    Journal, Owner, Position, ReadError,
    format::{RECORD_HEADER, RECORD_HEADER_LEN, RecordHeader},
    read_ahead::Reader,
};

impl Journal {
    /// The record at `at`, which is `length` bytes long. From memory if it is recent, else from disk, and more of
    /// what follows when the reader goes on in order. The bytes share memory with up to 256 KiB of others.
    pub fn read(&mut self, at: Position, length: u32) -> Result<Bytes, ReadError> {
        self.read_of(Owner::default(), at, length)
    }

    /// [`Journal::read`] for `owner`. What is read ahead of an owner in order is shared by weight, too.
    pub fn read_of(&mut self, owner: Owner, at: Position, length: u32) -> Result<Bytes, ReadError> {
        if self.write_cache.is_open_at(at.0) {
            self.appender.freeze(&mut self.write_cache, self.disk.is_some());
        }
        match self.write_cache.holding(at.0) {
            Some((bytes, place)) => {
                record(bytes, place, at, length).unwrap_or_else(|| Err(self.not_found(at)))
            }
            None => self.read_from_disk(owner, at, length),
        }
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
        let stored = RECORD_HEADER + u64::from(length);
        let durable = self.progress.durable();
        let whole = at.0.checked_add(stored).is_some_and(|end| end <= durable);
        let (Some(disk), Some(segment), true) = (&self.disk, self.segments.at(at.0), whole) else {
            return Err(self.not_found(at));
        };
        let reader = Reader { owner, weight: self.weights.of(owner) };
        self.read_ahead.record(&**disk, segment, (at, length), segment.end.min(durable), reader)
    }

    fn not_found(&self, at: Position) -> ReadError {
        ReadError::NotFound { at, tail: Position(self.segments.tail()), end: self.end() }
    }
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
