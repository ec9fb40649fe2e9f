//! Chunks of the write cache: records as they lie on disk.
//!
//! Invariant: the pieces of a chunk hold whole records and ascend.

use bytes::Bytes;

use super::runs::Runs;

/// One allocation and what is frozen of it. Pieces hold whole records and ascend.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub start: u64,
    /// Position behind its last record.
    pub end: u64,
    /// Bytes of its records, and what lies between them.
    pub bytes: u64,
    /// Bytes of the records of its runs that are not dead.
    pub live: u64,
    /// They go with the pieces.
    pub runs: Runs,
    /// None when all of it is dead and its memory is given back.
    pub pieces: Vec<Piece>,
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

    /// A copy of what lies between two positions; `None` when that is nothing.
    fn copy(&self, start: u64, end: u64) -> Option<Self> {
        let start = start.max(self.start);
        let from = usize::try_from(start - self.start).ok()?;
        let to = usize::try_from(end.min(self.end()).checked_sub(self.start)?).ok()?;
        let records = self.bytes.get(from..to).filter(|records| !records.is_empty())?;
        Some(Self { start, bytes: Bytes::copy_from_slice(records) })
    }
}

impl Chunk {
    pub(crate) fn begin(at: u64) -> Self {
        Self { start: at, end: at, bytes: 0, live: 0, runs: Runs::None, pieces: Vec::new() }
    }

    /// Copies of its records between two positions.
    pub(crate) fn copies(&self, start: u64, end: u64) -> Vec<Piece> {
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        let among = self.pieces.iter().skip(first).take_while(|piece| piece.start < end);
        among.filter_map(|piece| piece.copy(start, end)).collect()
    }
}

/// The piece that holds `at`, or the last one before it.
pub(crate) fn piece_before(pieces: &[Piece], at: u64) -> Option<&Piece> {
    pieces.get(pieces.partition_point(|piece| piece.start <= at).checked_sub(1)?)
}
