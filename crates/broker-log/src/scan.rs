//! Scanner: reads the batches of a segment in order and verifies every checksum and link.
//!
//! Invariant: it returns only records that were written, whole; damaged lengths never make it read beyond the file.

use bytes::Bytes;

use crate::{
    Disk, FileId, NewerPart, RecoveryError,
    error::DamageKind,
    format::{
        BATCH_MAGIC, BatchHeader, BatchKind, HEADER, HEADER_LEN, RECORD_HEADER, RECORD_HEADER_LEN,
        RecordHeader, RecordsChecksum, Seed, SegmentHeader, VERSION, aligned,
    },
    mark::{Mark, NotAMark},
};

/// A checked batch.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub header: BatchHeader,
    /// Its checksum, which the next batch names.
    pub checksum: u32,
    /// Content of the batch, if it is a mark.
    pub mark: Option<Mark>,
    /// The records, header by header.
    pub records: Bytes,
}

impl Batch {
    /// Position behind the batch and its padding.
    pub(crate) fn end(&self) -> u64 {
        aligned(self.header.position + u64::from(self.header.length))
    }

    /// The records with their positions, without those that a repair gave up.
    pub(crate) fn records(&self) -> impl Iterator<Item = ScannedRecord> + use<> {
        self.all_records().filter(|stored| !stored.header.is_lost())
    }

    /// The records with their positions.
    pub(crate) fn all_records(&self) -> Records {
        Records::new(self.records.clone(), self.header.position + HEADER)
    }
}

/// Walks over records that lie one behind the other.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    bytes: Bytes,
    at: u64,
}

/// A record where it lies.
#[derive(Clone, Debug)]
pub(crate) struct ScannedRecord {
    pub at: u64,
    pub header: RecordHeader,
    pub bytes: Bytes,
}

impl Records {
    /// The records in `bytes`, the first of which is at position `at`.
    pub(crate) fn new(bytes: Bytes, at: u64) -> Self {
        Self { bytes, at }
    }

    /// Whether nothing is left. When iteration ends before, what is left is no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl Iterator for Records {
    type Item = ScannedRecord;

    fn next(&mut self) -> Option<ScannedRecord> {
        let header = RecordHeader::decode(&self.bytes)?;
        let length = usize::try_from(header.length).ok()?;
        let end = RECORD_HEADER_LEN.checked_add(length).filter(|end| *end <= self.bytes.len())?;
        let bytes = self.bytes.split_to(end).slice(RECORD_HEADER_LEN..);
        let at = self.at;
        self.at += RECORD_HEADER + u64::from(header.length);
        Some(ScannedRecord { at, header, bytes })
    }
}

/// Reason why the scan has no further batch.
#[derive(Debug)]
pub(crate) enum ScanEnd {
    /// The disk cannot be read, or a newer version of the program wrote the batch: nothing can be said of what follows.
    Failed(RecoveryError),
    /// The bytes at the scanner's position are no batch that belongs there.
    Bad(DamageKind),
}

impl From<RecoveryError> for ScanEnd {
    fn from(error: RecoveryError) -> Self {
        Self::Failed(error)
    }
}

/// The next intact batch behind the scanner's position, as far as the bytes there are held.
#[derive(Debug)]
pub(crate) enum Follows {
    /// An intact batch, which names this checksum of the one before it.
    Batch { position: u64, previous: u32 },
    /// No further batch.
    Nothing,
    /// More has to be read than the bytes from the scanner's position on that are held.
    Unknown { held: u64 },
}

/// Reads one segment, batch by batch.
#[derive(Debug)]
pub(crate) struct Scanner {
    pub file: FileId,
    base: u64,
    incarnation: u64,
    seed: Seed,
    /// Position of the next batch.
    position: u64,
    /// Checksum that it must state as its predecessor's.
    chain: u32,
    /// Number of the last batch. `None`: no mark was met since the beginning, or since a place that was skipped.
    number: Option<u64>,
    /// Position behind the last byte the segment can have.
    limit: u64,
    window: Bytes,
    window_start: u64,
}

impl Scanner {
    /// From the first batch of the segment with this `header`, in a file of `length` bytes.
    pub(crate) fn new(file: FileId, header: &SegmentHeader, length: u64) -> Self {
        Self {
            file,
            base: header.base,
            incarnation: header.incarnation,
            seed: Seed::of(header.incarnation),
            position: header.base.saturating_add(HEADER),
            chain: header.chain(),
            number: None,
            limit: header.base.saturating_add(length),
            window: Bytes::new(),
            window_start: header.base,
        }
    }

    /// Position of the next batch.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Checksum of the last batch.
    pub(crate) fn chain(&self) -> u32 {
        self.chain
    }

    /// Number of the last batch, if it is known.
    pub(crate) fn number(&self) -> Option<u64> {
        self.number
    }

    /// The next batch.
    pub(crate) fn next(&mut self, disk: &dyn Disk) -> Result<Batch, ScanEnd> {
        let position = self.position;
        let batch = self.batch_at(disk, position)?;
        if batch.header.previous != self.chain {
            return Err(ScanEnd::Bad(DamageKind::Unchained));
        }
        self.accept(&batch);
        Ok(batch)
    }

    /// Position and length of what has to be read before the next batch can be; `None`: it is there, or it is no batch.
    pub(crate) fn missing(&self) -> Option<(u64, u64)> {
        let position = self.position;
        let room = self.limit.saturating_sub(position);
        if position >= self.limit {
            return None;
        }
        let Some(header) = self.held(position, HEADER) else {
            return Some((position, PIECE_BYTES.min(room)));
        };
        let header = BatchHeader::decode(header.first_chunk()?)?;
        let length = u64::from(header.length);
        let is_there = header.kind == BatchKind::Gap
            || header.position != position
            || length > room
            || self.held(position, length).is_some();
        (!is_there).then(|| (position, length.max(PIECE_BYTES).min(room)))
    }

    /// Goes on with `bytes` that the caller has read at `position`.
    pub(crate) fn supply(&mut self, position: u64, bytes: Bytes) {
        self.window = bytes;
        self.window_start = position;
    }

    /// Goes on behind `batch`.
    fn accept(&mut self, batch: &Batch) {
        self.position = batch.end();
        self.chain = batch.header.chain(batch.checksum);
        self.number = match batch.mark {
            Some(mark) => Some(mark.number),
            None => self.number.map(|number| number.saturating_add(1)),
        };
    }

    /// A whole batch at `position`, wherever it belongs in the chain.
    pub(crate) fn batch_at(&mut self, disk: &dyn Disk, position: u64) -> Result<Batch, ScanEnd> {
        let bytes = self.bytes(disk, position, HEADER)?.ok_or(ScanEnd::Bad(DamageKind::NoBatch))?;
        let header_bytes: [u8; HEADER_LEN] =
            bytes.as_ref().try_into().map_err(|_| ScanEnd::Bad(DamageKind::NoBatch))?;
        let header = BatchHeader::decode(&header_bytes).ok_or(ScanEnd::Bad(DamageKind::NoBatch))?;
        if header.position != position || header.incarnation != self.incarnation {
            return Err(ScanEnd::Bad(DamageKind::Misplaced));
        }
        let body = u64::from(header.length).checked_sub(HEADER).ok_or(ScanEnd::Bad(DamageKind::NoBatch))?;
        let mut records = Bytes::new();
        // The span of a gap may lie past the end of the file.
        if header.kind != BatchKind::Gap {
            if position + u64::from(header.length) > self.limit {
                return Err(ScanEnd::Bad(DamageKind::Overlong));
            }
            records = self.bytes(disk, position + HEADER, body)?.ok_or(ScanEnd::Bad(DamageKind::Overlong))?;
        }
        let summed = self.check_records(&header, &records).map_err(ScanEnd::Bad)?;
        let checksum =
            BatchHeader::verify(&header_bytes, summed).ok_or(ScanEnd::Bad(DamageKind::Checksum))?;
        if let Some(part) = header.newer() {
            return Err(self.newer(position, part).into());
        }
        let mark = self.mark(&header, &records)?;
        Ok(Batch { header, checksum, mark, records })
    }

    /// The content of a batch that is a mark.
    fn mark(&self, header: &BatchHeader, records: &Bytes) -> Result<Option<Mark>, ScanEnd> {
        if header.kind != BatchKind::Mark {
            return Ok(None);
        }
        let mut walk = Records::new(records.clone(), header.position + HEADER);
        let (Some(record), None) = (walk.next(), walk.next()) else {
            return Err(ScanEnd::Bad(DamageKind::Records));
        };
        match Mark::decode(&record.bytes) {
            Ok(mark) => Ok(Some(mark)),
            Err(NotAMark::Malformed) => Err(ScanEnd::Bad(DamageKind::Records)),
            Err(NotAMark::Newer(part)) => Err(self.newer(header.position, part).into()),
        }
    }

    fn newer(&self, position: u64, part: NewerPart) -> RecoveryError {
        RecoveryError::Newer { file: self.file, offset: position - self.base, part }
    }

    fn check_records(&self, header: &BatchHeader, records: &Bytes) -> Result<RecordsChecksum, DamageKind> {
        let mut summed = RecordsChecksum::new(self.seed);
        let mut walk = Records::new(records.clone(), header.position + HEADER);
        let mut count = 0_u32;
        for stored in &mut walk {
            if !stored.header.is_lost() && !stored.header.matches(self.seed, &stored.bytes) {
                return Err(DamageKind::Checksum);
            }
            summed.add(stored.header.checksum);
            count = count.saturating_add(1);
        }
        if walk.is_empty() && count == header.count { Ok(summed) } else { Err(DamageKind::Records) }
    }

    /// `length` bytes at `position`; `None` when the file ends before.
    fn bytes(&mut self, disk: &dyn Disk, position: u64, length: u64) -> Result<Option<Bytes>, RecoveryError> {
        if let Some(held) = self.held(position, length) {
            return Ok(Some(held));
        }
        let end = position.saturating_add(length.max(PIECE_BYTES)).min(self.limit);
        let mut buffer = vec![0; usize::try_from(end.saturating_sub(position)).unwrap_or_default()];
        let read = disk
            .read_at(self.file, position - self.base, &mut buffer)
            .map_err(|error| RecoveryError::read(self.file, position - self.base, &error))?;
        buffer.truncate(read);
        self.window = buffer.into();
        self.window_start = position;
        Ok(self.held(position, length))
    }

    fn held(&self, position: u64, length: u64) -> Option<Bytes> {
        let start = usize::try_from(position.checked_sub(self.window_start)?).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.window.len()).then(|| self.window.slice(start..end))
    }

    /// The first intact batch that begins at `from` or behind it, wherever it belongs in the chain.
    pub(crate) fn find(&mut self, disk: &dyn Disk, from: u64) -> Result<Option<Batch>, RecoveryError> {
        let mut position = aligned(from);
        while let Some(found) = self.find_magic(disk, position)? {
            match self.batch_at(disk, found) {
                Ok(batch) => return Ok(Some(batch)),
                Err(ScanEnd::Bad(_)) => position = found + HEADER,
                Err(ScanEnd::Failed(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The first intact batch behind the scanner's position among the bytes that are held.
    pub(crate) fn follows(&mut self, disk: &dyn Disk) -> Result<Follows, RecoveryError> {
        let window_end = self.window_start.saturating_add(self.window.len() as u64);
        let mut at = self.position.saturating_add(HEADER);
        while let Some(bytes) = self.held(at, HEADER) {
            let header = bytes.first_chunk().and_then(BatchHeader::decode);
            let header = header.filter(|header| {
                let fits = header.kind == BatchKind::Gap
                    || at.saturating_add(u64::from(header.length)) <= self.limit;
                fits && header.position == at && header.incarnation == self.incarnation
            });
            if let Some(header) = header {
                let is_held =
                    header.kind == BatchKind::Gap || self.held(at, u64::from(header.length)).is_some();
                if !is_held {
                    return Ok(Follows::Unknown { held: window_end.saturating_sub(self.position) });
                }
                match self.batch_at(disk, at) {
                    Ok(batch) => {
                        return Ok(Follows::Batch { position: at, previous: batch.header.previous });
                    }
                    Err(ScanEnd::Bad(_)) => {}
                    Err(ScanEnd::Failed(error)) => return Err(error),
                }
            }
            at = at.saturating_add(HEADER);
        }
        Ok(if at.saturating_add(HEADER) > self.limit {
            Follows::Nothing
        } else {
            Follows::Unknown { held: window_end.saturating_sub(self.position) }
        })
    }

    /// The bytes from the scanner's position up to `end`, as far as they are held.
    pub(crate) fn held_up_to(&self, end: u64) -> Option<Bytes> {
        let window_end = self.window_start.saturating_add(self.window.len() as u64);
        self.held(self.position, end.min(window_end).checked_sub(self.position)?)
    }

    /// Goes on at `position`, behind a batch with this chain value.
    pub(crate) fn resume(&mut self, position: u64, chain: u32) {
        self.position = position;
        self.chain = chain;
        self.number = None;
    }

    /// Looks for intact batches of this segment from `from` on, wherever they begin, and says up to where they
    /// claim that everything was durable. 0 when there is none.
    pub(crate) fn claims_from(&mut self, disk: &dyn Disk, from: u64) -> Result<u64, RecoveryError> {
        let mut claimed = 0;
        let mut position = from;
        while let Some(batch) = self.find(disk, position)? {
            claimed = claimed.max(batch.header.synced);
            position = batch.end();
        }
        Ok(claimed)
    }

    /// Searches a file whose segment header is broken for an intact batch, which names its segment. Returns the header as far as
    /// the batch knows it: enough to read what follows. What a client sent may look like a batch, so one that `belongs` refuses
    /// is passed over. It is asked before the records of a batch are read: what looks like many batches costs few reads.
    pub(crate) fn orphan(
        disk: &dyn Disk,
        file: FileId,
        length: u64,
        belongs: &mut dyn FnMut(&SegmentHeader) -> Result<bool, RecoveryError>,
    ) -> Result<Option<SegmentHeader>, RecoveryError> {
        let mut places = Self::new(file, &UNKNOWN, length);
        let mut offset = HEADER;
        while let Some(found) = places.find_magic(disk, offset)? {
            offset = found + HEADER;
            let Some((header, position)) = places.stated_at(disk, found)? else { continue };
            if !belongs(&header)? {
                continue;
            }
            if let Some(header) = places.confirmed(disk, &header, position)? {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// Of a file whose segment is not known: its positions are the offsets in the file.
    pub(crate) fn of_file(file: FileId, length: u64) -> Self {
        Self::new(file, &UNKNOWN, length)
    }

    /// The bytes that may be the header of a batch at this position; `None` when the file ends before.
    pub(crate) fn header_bytes(
        &mut self,
        disk: &dyn Disk,
        position: u64,
    ) -> Result<Option<[u8; HEADER_LEN]>, RecoveryError> {
        let is_inside = position.saturating_add(HEADER) <= self.limit;
        let bytes = if is_inside { self.bytes(disk, position, HEADER)? } else { None };
        Ok(bytes.and_then(|bytes| bytes.first_chunk().copied()))
    }

    /// As [`Scanner::orphan`], but of the first batch alone, where no client's bytes ever lay.
    pub(crate) fn first_orphan(
        disk: &dyn Disk,
        file: FileId,
        length: u64,
    ) -> Result<Option<SegmentHeader>, RecoveryError> {
        let mut places = Self::new(file, &UNKNOWN, length);
        match places.stated_at(disk, HEADER)? {
            Some((header, position)) => places.confirmed(disk, &header, position),
            None => Ok(None),
        }
    }

    /// The header of the segment that a batch at this offset states, and the batch's position. The scanner's own base is 0.
    fn stated_at(
        &mut self,
        disk: &dyn Disk,
        offset: u64,
    ) -> Result<Option<(SegmentHeader, u64)>, RecoveryError> {
        let bytes = self.bytes(disk, offset, HEADER)?;
        let Some(batch) = bytes.and_then(|bytes| BatchHeader::decode(bytes.first_chunk()?)) else {
            return Ok(None);
        };
        // Its stated position gives the base of the segment.
        let Some(base) = batch.position.checked_sub(offset) else { return Ok(None) };
        let (synced, tail) = (batch.synced, batch.tail);
        let is_sound = synced <= batch.position && tail <= base;
        let fits = batch.kind == BatchKind::Gap || offset + u64::from(batch.length) <= self.limit;
        let header = SegmentHeader { base, incarnation: batch.incarnation, synced, tail, ..UNKNOWN };
        Ok((is_sound && fits).then_some((header, batch.position)))
    }

    /// The header as far as the batch at `position` knows it, if that is intact.
    fn confirmed(
        &self,
        disk: &dyn Disk,
        header: &SegmentHeader,
        position: u64,
    ) -> Result<Option<SegmentHeader>, RecoveryError> {
        let mut scanner = Self::new(self.file, header, self.limit);
        scanner.supply(header.base + self.window_start, self.window.clone());
        match scanner.batch_at(disk, position) {
            Ok(batch) => {
                let resume = Some(batch.header.previous);
                Ok(Some(SegmentHeader { synced: 0, tail: 0, resume, ..*header }))
            }
            Err(ScanEnd::Bad(_)) => Ok(None),
            Err(ScanEnd::Failed(error)) => Err(error),
        }
    }

    /// The first place from `position` on where a batch may begin.
    fn find_magic(&mut self, disk: &dyn Disk, mut position: u64) -> Result<Option<u64>, RecoveryError> {
        while position.saturating_add(HEADER) <= self.limit {
            // Bytes that are held are not read again: what looks like a batch may lie every 64 bytes.
            let window_end = self.window_start.saturating_add(self.window.len() as u64);
            let held = window_end.saturating_sub(position).min(self.limit - position) / HEADER * HEADER;
            let is_held = held > 0 && position >= self.window_start;
            let reach = if is_held { held } else { PIECE_BYTES.min(self.limit - position) / HEADER * HEADER };
            let Some(bytes) = self.bytes(disk, position, reach)? else { return Ok(None) };
            let found = bytes.chunks_exact(HEADER_LEN).position(|place| place.starts_with(&BATCH_MAGIC));
            if let Some(found) = found {
                return Ok(Some(position + found as u64 * HEADER));
            }
            position += reach;
        }
        Ok(None)
    }
}

/// Of a file whose header is lost.
const UNKNOWN: SegmentHeader = SegmentHeader {
    version: VERSION,
    base: 0,
    incarnation: 0,
    synced: 0,
    tail: 0,
    previous: 0,
    resume: None,
};

/// Read at once.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests;
