//! Repair of a damaged journal, on explicit request only, so that it opens again.
//!
//! Invariant: nothing is destroyed: what a repair overwrites is kept in `.cut` files first, as far as the disk can read it. What
//! it leaves is a journal that [`crate::check`] finds whole.

use crate::{
    Disk, FileId, RecoveryError, Report,
    batch_repair::repair_batch,
    check::{check, missing_segments, report},
    file_inventory::SegmentFile,
    format::{BatchHeader, BatchKind, HEADER, RecordsChecksum, Seed, SegmentHeader, VERSION, encode_resume},
    readable_disk::ReadableDisk,
    segments::incarnation,
    verify::{Hole, Segment, VerifiedJournal, verify_journal},
    work,
};

/// Result of a repair.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Repaired {
    /// Check before the repair.
    pub before: Report,
    /// Check after the repair.
    pub after: Report,
    /// The files in the journal's directory that keep what was overwritten.
    pub kept: Vec<String>,
}

/// Repairs the journal: gives up the damaged records and nothing else, so that what follows them stays. A journal without damage
/// is left alone.
pub fn repair(disk: &dyn Disk) -> Result<Repaired, RecoveryError> {
    let readable = ReadableDisk::new(disk);
    let verified = verify_journal(&readable)?;
    let before = report(&readable, &verified)?;
    let mut repair = Repair { disk: &readable, verified, kept: Vec::new() };
    if !before.losses.is_empty() {
        repair.skip()?;
    }
    let kept = repair.kept;
    readable.rewrite_unreadable()?;
    Ok(Repaired { before, after: check(disk)?, kept })
}

struct Repair<'a> {
    disk: &'a dyn Disk,
    verified: VerifiedJournal,
    kept: Vec<String>,
}

impl Repair<'_> {
    /// Format of the journal that is repaired.
    fn version(&self) -> u32 {
        self.verified.segments.first().map_or(VERSION, |segment| segment.present.header.version)
    }

    fn skip(&mut self) -> Result<(), RecoveryError> {
        let missing = missing_segments(&self.verified);
        let segments = std::mem::take(&mut self.verified.segments);
        let mut chain = 0;
        for segment in &segments {
            if segment.header_damaged {
                // The bridge that comes to lie before it ends with the checksum that its header names.
                let base = segment.present.header.base;
                let bridged = missing.iter().find(|hole| hole.to == base);
                self.rewrite_header(segment, bridged.map_or(chain, |hole| hole.after))?;
            }
            let claimed = self.verified.claimed;
            let holes: Vec<&Hole> = segment.holes.iter().filter(|hole| hole.from < claimed).collect();
            if !holes.is_empty() {
                self.retire_summary(segment)?;
            }
            for hole in holes {
                self.close(segment, hole)?;
            }
            chain = segment.holes.last().map_or(segment.chain, |hole| {
                if hole.to >= segment.end { hole.after } else { segment.chain }
            });
            work::sync_now(self.disk, segment.present.file)?;
        }
        for hole in missing {
            self.bridge(hole)?;
        }
        Ok(())
    }

    /// Writes a segment header anew, from what its batches and neighbours say.
    fn rewrite_header(&mut self, segment: &Segment, previous: u32) -> Result<(), RecoveryError> {
        let present = &segment.present;
        self.keep(present, 0, HEADER)?;
        let header = SegmentHeader { previous, tail: self.verified.tail, ..present.header };
        work::write_now(self.disk, present.file, 0, &header.encode())
    }

    /// Puts what can be saved, or a gap, in place of a hole.
    fn close(&mut self, segment: &Segment, hole: &Hole) -> Result<(), RecoveryError> {
        let present = &segment.present;
        let offset = hole.from - present.header.base;
        self.keep(present, offset, hole.to - hole.from)?;
        if let Some(saved) = repair_batch(self.disk, segment, hole)? {
            return work::write_now(self.disk, present.file, offset, &saved.bytes);
        }
        // It reaches to the next segment that is there, however far that is.
        let (first, rest) = split(hole.clone());
        self.gap(present.file, &present.header, &first)?;
        rest.map_or(Ok(()), |rest| self.bridge(rest))
    }

    fn gap(&self, file: FileId, header: &SegmentHeader, hole: &Hole) -> Result<(), RecoveryError> {
        let length = u32::try_from(hole.to - hole.from).expect("`split` has seen to that");
        let batch = BatchHeader {
            kind: BatchKind::Gap,
            flags: 0,
            count: 0,
            previous: hole.before,
            length,
            position: hole.from,
            incarnation: header.incarnation,
            synced: hole.from,
            tail: hole.tail,
            extra: encode_resume(Some(hole.after)),
        };
        let (bytes, _) = batch.encode(RecordsChecksum::new(Seed::of(header.incarnation)));
        work::write_now(self.disk, file, hole.from - header.base, &bytes)
    }

    /// A summary lists records that are given up: recovery must read the segment itself.
    fn retire_summary(&mut self, segment: &Segment) -> Result<(), RecoveryError> {
        let Some(summary) = &segment.summary else { return Ok(()) };
        let present = &segment.present;
        let (from, to) = (summary.header.position, summary.end());
        self.keep(present, from - present.header.base, to - from)?;
        let hole = Hole {
            from,
            to,
            fault: crate::DamageKind::NoBatch,
            before: summary.header.previous,
            after: summary.checksum,
            tail: summary.header.tail,
        };
        self.gap(present.file, &present.header, &hole)
    }

    /// Puts empty segments in place of missing ones.
    fn bridge(&mut self, hole: Hole) -> Result<(), RecoveryError> {
        let mut left = Some(hole);
        while let Some(hole) = left {
            let (first, rest) = split(hole);
            self.bridge_part(&first)?;
            left = rest;
        }
        Ok(())
    }

    fn bridge_part(&mut self, hole: &Hole) -> Result<(), RecoveryError> {
        let file = FileId(self.verified.next_file);
        self.verified.next_file = self.verified.next_file.wrapping_add(1);
        let header = SegmentHeader {
            version: self.version(),
            base: hole.from,
            incarnation: incarnation(hole.from, 0),
            synced: hole.from,
            tail: self.verified.tail,
            previous: hole.before,
            resume: None,
        };
        work::create(self.disk, file, HEADER).map_err(RecoveryError::from)?;
        work::write_now(self.disk, file, 0, &header.encode())?;
        let inside = Hole { from: hole.from + HEADER, before: header.chain(), ..hole.clone() };
        self.gap(file, &header, &inside)?;
        work::sync_now(self.disk, file)
    }

    /// Keeps bytes that are about to be overwritten.
    fn keep(&mut self, present: &SegmentFile, offset: u64, length: u64) -> Result<(), RecoveryError> {
        let file = present.file;
        let length = length.min(present.length.saturating_sub(offset));
        let failed = |error| RecoveryError::disk("keeping a part of", Some(file), &error);
        let mut buffer = vec![0; usize::try_from(length).unwrap_or_default()];
        let read = self.disk.read_at(file, offset, &mut buffer).map_err(failed)?;
        buffer.truncate(read);
        // An earlier repair may have kept the same place.
        for attempt in 0..KEEP_ATTEMPTS {
            let name = format!("{file}-{offset}-{attempt}.cut");
            match self.disk.set_aside(&name, &buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
                Ok(()) => {
                    self.kept.push(name);
                    return Ok(());
                }
            }
        }
        Err(failed(std::io::ErrorKind::AlreadyExists.into()))
    }
}

/// The first part of a hole, of a length that a batch can state, and the rest.
fn split(hole: Hole) -> (Hole, Option<Hole>) {
    if hole.to - hole.from <= GAP_BYTES_MAX {
        return (hole, None);
    }
    // The rest has room for a segment header and a gap.
    let at = hole.from + GAP_BYTES_MAX.min(hole.to - hole.from - 2 * HEADER);
    let first = Hole { to: at, after: BETWEEN, ..hole.clone() };
    (first, Some(Hole { from: at, before: BETWEEN, ..hole }))
}

/// Longest gap in bytes: the length of a batch is a number of 32 bits.
const GAP_BYTES_MAX: u64 = 1 << 31;
/// Names the end of a gap that another one follows, in place of a checksum.
const BETWEEN: u32 = 0;
/// So often the same place can be kept.
const KEEP_ATTEMPTS: u32 = 1000;

#[cfg(test)]
mod tests;
