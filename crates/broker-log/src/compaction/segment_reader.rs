//! Reads the batches of the segment that is compacted, a piece at a time, by requests to the reader threads.
//!
//! Invariant: at most one read is asked for at a time, and a batch that is returned as whole was checked. A caller waits for the
//! disk only where a file is shorter than its segment, to learn the reason.

use std::io;

use bytes::Bytes;

use crate::{
    Disk, FileId, Position, ReadError, RecoveryError,
    error::DamageKind,
    format::{BatchHeader, BatchKind, HEADER, HEADER_LEN, SegmentHeader, VERSION},
    scan::{Batch, Follows, PIECE_BYTES, Records, ScanEnd, Scanner},
    segments::Segment,
    summary::lists_records,
};

/// One read of the segment that is compacted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentRead {
    pub file: FileId,
    pub offset: u64,
    pub length: u64,
}

/// The next part of a segment.
#[derive(Debug)]
pub(super) enum Found {
    /// A whole batch.
    Batch(Batch),
    /// A damaged place that was passed over: the records of the batch in it, unchecked, where its header can be read.
    Damaged(Option<Records>),
}

/// Reason why the segment cannot be read on.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The disk has failed. The same read may succeed later.
    ForNow(ReadError),
    /// Another read says the same.
    ForGood(ReadError),
}

/// Reader of one segment.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: FileId,
    base: u64,
    end: u64,
    incarnation: u64,
    /// The first place that is damaged.
    damage: Option<ReadError>,
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
        let incarnation = segment.incarnation;
        Self { file, base, end, incarnation, damage: None, scanner: None, piece: Piece::Wanted(first) }
    }

    /// The first damaged place that was passed over.
    pub(super) fn damage(&self) -> Option<&ReadError> {
        self.damage.as_ref()
    }

    /// Whether the segment has no further batch.
    pub(super) fn is_at_end(&self) -> bool {
        self.position() >= self.end
    }

    /// The next part; `None`: it has to be read first.
    pub(super) fn next(&mut self, disk: &dyn Disk) -> Result<Option<Found>, Unreadable> {
        let mut short = None;
        match std::mem::replace(&mut self.piece, Piece::None) {
            Piece::None => {}
            waiting @ (Piece::Wanted(_) | Piece::HandedOut(_)) => {
                self.piece = waiting;
                return Ok(None);
            }
            Piece::Read(read, Ok(bytes)) => {
                short =
                    ((bytes.len() as u64) < read.length).then(|| (self.base + read.offset, bytes.clone()));
                self.take(read, bytes);
            }
            Piece::Read(read, Err(error)) => {
                // It is asked for again.
                self.piece = Piece::Wanted(read);
                return Err(self.unreadable(RecoveryError::disk("reading", Some(self.file), &error)));
            }
        }
        let Some(scanner) = &mut self.scanner else { return Ok(None) };
        if short.is_none()
            && let Some((position, length)) = scanner.missing()
        {
            let offset = position - self.base;
            self.piece = Piece::Wanted(SegmentRead { file: self.file, offset, length });
            return Ok(None);
        }
        match scanner.next(disk) {
            Ok(batch) => Ok(Some(Found::Batch(batch))),
            Err(ScanEnd::Failed(error)) => Err(self.unreadable(error)),
            Err(ScanEnd::Bad(fault)) => {
                let is_short = short.is_some();
                if let Some((position, bytes)) = short {
                    // The scanner has looked for more behind them.
                    scanner.supply(position, bytes);
                }
                self.pass_over(disk, fault, is_short)
            }
        }
    }

    /// Goes on behind the damage at the scanner's position. `None`: more has to be read to find the place.
    fn pass_over(
        &mut self,
        disk: &dyn Disk,
        fault: DamageKind,
        is_short: bool,
    ) -> Result<Option<Found>, Unreadable> {
        let (at, end) = (self.position(), self.end);
        let Some(scanner) = &mut self.scanner else { return Ok(None) };
        let (next, chain) = match scanner.follows(disk) {
            Err(error) => return Err(self.unreadable(error)),
            Ok(Follows::Batch { position, previous }) => (position, previous),
            Ok(Follows::Unknown { held }) if !is_short => {
                // From the damage on, so that the records in it are there as well.
                let length = held.max(PIECE_BYTES).saturating_mul(2).min(end - at);
                self.piece = Piece::Wanted(SegmentRead { file: self.file, offset: at - self.base, length });
                return Ok(None);
            }
            Ok(Follows::Unknown { .. } | Follows::Nothing) => (end, 0),
        };
        // A whole batch that follows no other may be a piece of an abandoned end: nothing of it is shown.
        let damaged = if fault == DamageKind::Unchained { None } else { scanner.held_up_to(next) };
        let records = damaged.and_then(|bytes| self.records_of(&bytes, at));
        if let Some(scanner) = &mut self.scanner {
            scanner.resume(next, chain);
        }
        let (file, offset) = (self.file, at - self.base);
        self.damage.get_or_insert(ReadError::Corrupt { at: Position(at), file, offset });
        Ok(Some(Found::Damaged(records)))
    }

    /// The records of the damaged batch at `position`, unchecked.
    fn records_of(&self, bytes: &Bytes, position: u64) -> Option<Records> {
        let header = BatchHeader::decode(bytes.first_chunk::<HEADER_LEN>()?)?;
        let here = header.position == position && header.incarnation == self.incarnation;
        if header.kind != BatchKind::Data || header.newer().is_some() || !here {
            return None;
        }
        let length = usize::try_from(header.length).ok()?.min(bytes.len());
        let records = (length >= HEADER_LEN)
            .then(|| Records::new(bytes.slice(HEADER_LEN..length), position + HEADER))?;
        // The kind is as damaged as the rest of the header may be: a segment's index is the only record of its batch, and was
        // never appended.
        let mut walk = records.clone();
        let is_index = walk
            .next()
            .is_some_and(|first| walk.next().is_none() && lists_records(&first.bytes, self.base, position));
        (!is_index).then_some(records)
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
    fn take(&mut self, read: SegmentRead, bytes: Bytes) {
        if self.scanner.is_none() {
            let header = bytes.first_chunk::<HEADER_LEN>().map(SegmentHeader::decode).and_then(Result::ok);
            let header = header.filter(|header| header.base == self.base).unwrap_or_else(|| {
                let at = Position(self.base);
                self.damage.get_or_insert(ReadError::Corrupt { at, file: self.file, offset: 0 });
                self.known_header(&bytes)
            });
            self.scanner = Some(Scanner::new(self.file, &header, self.end - self.base));
        }
        if let Some(scanner) = &mut self.scanner {
            scanner.supply(self.base + read.offset, bytes);
        }
    }

    /// The header of the segment where that on disk is damaged, with the chain that the batch behind it names.
    fn known_header(&self, bytes: &Bytes) -> SegmentHeader {
        let first = bytes.get(HEADER_LEN..).and_then(<[u8]>::first_chunk).and_then(BatchHeader::decode);
        SegmentHeader {
            version: VERSION,
            base: self.base,
            incarnation: self.incarnation,
            synced: 0,
            tail: 0,
            previous: 0,
            resume: Some(first.map_or(0, |batch| batch.previous)),
        }
    }

    /// Position of the next batch.
    fn position(&self) -> u64 {
        self.scanner.as_ref().map_or(self.base, Scanner::position)
    }

    fn unreadable(&self, error: RecoveryError) -> Unreadable {
        let (at, file) = (Position(self.position()), self.file);
        let offset = at.0 - self.base;
        match error {
            RecoveryError::Disk { message, .. } => {
                Unreadable::ForNow(ReadError::Disk { at, file, offset, message })
            }
            error => {
                Unreadable::ForGood(ReadError::Disk { at, file, offset, message: error.to_string().into() })
            }
        }
    }
}
