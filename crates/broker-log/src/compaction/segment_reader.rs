//! Reads the batches of the segment that is compacted, a piece at a time, by requests to the reader threads.
//!
//! Invariant: at most one read is asked for at a time, and every batch that is returned was checked. A caller waits for the disk
//! only where a file is shorter than its segment, to learn the reason.

use std::io;

use bytes::Bytes;

use crate::{
    Disk, FileId, Position, ReadError, RecoveryError,
    format::{HEADER_LEN, SegmentHeader},
    scan::{Batch, PIECE_BYTES, ScanEnd, Scanner},
    segments::Segment,
};

/// One read of the segment that is compacted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentRead {
    pub file: FileId,
    pub offset: u64,
    pub length: u64,
}

/// Reader of one segment.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: FileId,
    base: u64,
    end: u64,
    /// `None` until the segment's header was read.
    scanner: Option<Scanner>,
    piece: Piece,
}

/// The piece that is needed next.
#[derive(Debug)]
enum Piece {
    /// None, as far as is known.
    None,
    /// It is to be read.
    Wanted(SegmentRead),
    /// A reader thread has it.
    HandedOut(SegmentRead),
    /// It was read.
    Read(SegmentRead, io::Result<Bytes>),
}

impl SegmentReader {
    pub(super) fn new(segment: &Segment) -> Self {
        let (file, base, end) = (segment.file, segment.base, segment.end);
        let first = SegmentRead { file, offset: 0, length: PIECE_BYTES.min(end - base) };
        Self { file, base, end, scanner: None, piece: Piece::Wanted(first) }
    }

    /// Whether the segment has no further batch.
    pub(super) fn is_at_end(&self) -> bool {
        self.position() >= self.end
    }

    /// The next batch; `None`: it has to be read first.
    pub(super) fn next(&mut self, disk: &dyn Disk) -> Result<Option<Batch>, ReadError> {
        let mut is_short = false;
        match std::mem::replace(&mut self.piece, Piece::None) {
            Piece::None => {}
            waiting @ (Piece::Wanted(_) | Piece::HandedOut(_)) => {
                self.piece = waiting;
                return Ok(None);
            }
            Piece::Read(read, result) => {
                let failed = |error| RecoveryError::disk("reading", Some(self.file), &error);
                let bytes = result.map_err(|error| self.stopped(failed(error).into()))?;
                is_short = (bytes.len() as u64) < read.length;
                self.take(read, bytes)?;
            }
        }
        let Some(scanner) = &mut self.scanner else { return Ok(None) };
        if !is_short && let Some((position, length)) = scanner.missing() {
            let offset = position - self.base;
            self.piece = Piece::Wanted(SegmentRead { file: self.file, offset, length });
            return Ok(None);
        }
        let batch = scanner.next(disk);
        batch.map(Some).map_err(|scan_end| self.stopped(scan_end))
    }

    /// The read to be performed next, if there is one that no thread has.
    pub(super) fn next_read(&mut self) -> Option<SegmentRead> {
        let Piece::Wanted(read) = self.piece else { return None };
        self.piece = Piece::HandedOut(read);
        Some(read)
    }

    /// The read that was handed out is done.
    pub(super) fn on_read(&mut self, result: io::Result<Bytes>) {
        if let Piece::HandedOut(read) = self.piece {
            self.piece = Piece::Read(read, result);
        }
    }

    /// Goes on with what was read.
    fn take(&mut self, read: SegmentRead, bytes: Bytes) -> Result<(), ReadError> {
        if self.scanner.is_none() {
            let header = bytes.first_chunk::<HEADER_LEN>().map(SegmentHeader::decode);
            let header = header.and_then(Result::ok).filter(|header| header.base == self.base);
            let corrupt = ReadError::Corrupt { at: Position(self.base), file: self.file, offset: 0 };
            self.scanner = Some(Scanner::new(self.file, &header.ok_or(corrupt)?, self.end - self.base));
        }
        if let Some(scanner) = &mut self.scanner {
            scanner.supply(self.base + read.offset, bytes);
        }
        Ok(())
    }

    /// Position of the next batch.
    fn position(&self) -> u64 {
        self.scanner.as_ref().map_or(self.base, Scanner::position)
    }

    fn stopped(&self, scan_end: ScanEnd) -> ReadError {
        let (at, file) = (Position(self.position()), self.file);
        let offset = at.0 - self.base;
        match scan_end {
            ScanEnd::Failed(RecoveryError::Disk { message, .. }) => {
                ReadError::Disk { at, file, offset, message }
            }
            ScanEnd::Failed(error) => ReadError::Disk { at, file, offset, message: error.to_string().into() },
            ScanEnd::Bad(_) => ReadError::Corrupt { at, file, offset },
        }
    }
}
