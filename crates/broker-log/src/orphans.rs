//! Segments whose header is lost, found by the batches in their files.
//!
//! Invariant: reads only. A file without a header is passed over only where the known segments say that what its batches state is
//! dead, lies inside one of them, or begins where no segment can: each begins where the one before it ends, which is anywhere
//! behind damage that may have taken its seal. An intact first batch says for certain which segment it is, for no client's bytes
//! lie there, so that one is found even behind a file that is gone. Elsewhere what a client sent may look like a batch, and
//! gives a file no identity but at such a place; where no header is left at all, any place will do.

use std::collections::BTreeSet;

use crate::{
    Disk, FileId, RecoveryError,
    file_inventory::{FileInventory, SegmentFile},
    format::{BatchHeader, BatchKind, HEADER, SegmentHeader},
    scan::{ScanEnd, Scanner},
};

/// The orphans among the files whose first bytes say nothing, by position.
pub(crate) fn orphans(disk: &dyn Disk, inventory: &FileInventory) -> Result<Vec<SegmentFile>, RecoveryError> {
    let unreadable = inventory.unreadable.iter().map(|(file, length, _)| (*file, *length));
    // To learn where the known segments end takes reading them. Most often such a file is all zeros, or was retired.
    let tail = inventory.segments.iter().map(|present| present.header.tail).max().unwrap_or(0);
    let mut candidates = Vec::new();
    for (file, length) in inventory.unknown.iter().copied().chain(unreadable) {
        let candidate = Candidate::read(disk, (file, length), tail)?;
        if !candidate.stated.is_empty() {
            candidates.push(candidate);
        }
    }
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let mut places = Places::new(disk, &inventory.segments)?;
    let mut found = Vec::new();
    // One may follow another, in any order of their files.
    while let Some((index, present)) = places.first_of(disk, &mut candidates)? {
        candidates.swap_remove(index);
        places.take(disk, &present)?;
        found.push(present);
    }
    found.sort_by_key(|present| present.header.base);
    Ok(found)
}

/// A file that may be an orphan.
struct Candidate {
    file: FileId,
    length: u64,
    /// Base and incarnation of the segments that it may be. With an intact first batch there is only one.
    stated: BTreeSet<(u64, u64)>,
    /// That of the first intact batch: what earlier lives of the file left lies further on.
    first: Option<(u64, u64)>,
    /// No batch lies before it.
    is_certain: bool,
}

impl Candidate {
    /// Reads the file once. Segments before `tail` are dead.
    fn read(disk: &dyn Disk, (file, length): (FileId, u64), tail: u64) -> Result<Self, RecoveryError> {
        let first = Scanner::first_orphan(disk, file, length)?;
        let mut stated = BTreeSet::new();
        if let Some(first) = first {
            let first = (first.base >= tail).then_some((first.base, first.incarnation));
            stated.extend(first);
            return Ok(Self { file, length, stated, first, is_certain: true });
        }
        let mut note = |header: &SegmentHeader| {
            if header.base >= tail {
                stated.insert((header.base, header.incarnation));
            }
            Ok(false)
        };
        Scanner::orphan(disk, file, length, &mut note)?;
        let mut first = None;
        if !stated.is_empty() {
            first = Scanner::orphan(disk, file, length, &mut |header| Ok(header.base >= tail))?;
        }
        let first = first.map(|first| (first.base, first.incarnation));
        Ok(Self { file, length, stated, first, is_certain: false })
    }

    /// The segment with this base and incarnation, if one of its batches is intact and `belongs`.
    fn present(
        &self,
        disk: &dyn Disk,
        stated: (u64, u64),
        belongs: &dyn Fn(&SegmentHeader) -> bool,
    ) -> Result<Option<SegmentFile>, RecoveryError> {
        let mut is_it =
            |header: &SegmentHeader| Ok((header.base, header.incarnation) == stated && belongs(header));
        let header = Scanner::orphan(disk, self.file, self.length, &mut is_it)?;
        let (file, length) = (self.file, self.length);
        Ok(header.map(|header| SegmentFile { file, length, header, mark: None }))
    }
}

/// Reason for taking a file for a segment, the safest first.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    /// Its first batch says so.
    Certain,
    /// The next segment names its seal. No client knows that checksum.
    Linked,
    /// It begins at the tail, or where a known segment ends.
    Adjoining,
    /// It is the first of a journal of which no segment is known.
    First,
    /// It may be any segment of a journal of which no header is left.
    Any,
}

const REASONS: [Reason; 5] = [Reason::Certain, Reason::Linked, Reason::Adjoining, Reason::First, Reason::Any];

/// Places where a segment is missing.
struct Places {
    /// The known segments, by position.
    known: Vec<Known>,
    tail: u64,
    /// No known segment has a header, and none an intact first batch.
    guesses: bool,
}

/// A known segment.
struct Known {
    header: SegmentHeader,
    /// Up to here it has no damage, or has all that it can have.
    whole_to: u64,
    /// The last place where the next one can begin: `whole_to` behind a seal.
    ends_by: u64,
}

impl Places {
    fn new(disk: &dyn Disk, segments: &[SegmentFile]) -> Result<Self, RecoveryError> {
        let mut places = Self { known: Vec::new(), tail: 0, guesses: segments.is_empty() };
        for present in segments {
            places.take(disk, present)?;
        }
        Ok(places)
    }

    /// Counts a segment among the known ones.
    fn take(&mut self, disk: &dyn Disk, present: &SegmentFile) -> Result<(), RecoveryError> {
        let mut scanner = Scanner::new(present.file, &present.header, present.length);
        self.tail = self.tail.max(present.header.tail);
        let mut damage = None;
        let sealed = loop {
            match scanner.next(disk) {
                Ok(batch) => {
                    self.tail = self.tail.max(batch.header.tail);
                    if batch.header.kind == BatchKind::Seal {
                        break true;
                    }
                }
                Err(ScanEnd::Failed(error)) => return Err(error),
                Err(ScanEnd::Bad(_)) => {
                    // It ends here, or behind what follows its damage, the seal among that.
                    damage.get_or_insert(scanner.position());
                    let behind = scanner.position().saturating_add(HEADER);
                    let Some(batch) = scanner.find(disk, behind)? else { break false };
                    scanner.resume(batch.header.position, batch.header.previous);
                }
            }
        };
        let header = present.header;
        let end = scanner.position();
        let (whole_to, ends_by) = match damage {
            Some(damage) if !sealed => (damage, header.base.saturating_add(present.length).max(end)),
            _ => (end, end),
        };
        let place = self.known.partition_point(|known| known.header.base <= header.base);
        self.known.insert(place, Known { header, whole_to, ends_by });
        Ok(())
    }

    /// The first of the files that is an orphan, with its index. What no batch of a file bears out is taken from it.
    fn first_of(
        &mut self,
        disk: &dyn Disk,
        candidates: &mut [Candidate],
    ) -> Result<Option<(usize, SegmentFile)>, RecoveryError> {
        for candidate in candidates.iter_mut() {
            candidate.stated.retain(|(base, _)| self.is_free(*base));
        }
        for reason in REASONS {
            let mut fitting = BTreeSet::new();
            for (index, candidate) in candidates.iter().enumerate() {
                let mut bytes = Scanner::of_file(candidate.file, candidate.length);
                // Those that lie further on in the file come later, so that it is read once.
                for stated in candidate.stated.iter().rev() {
                    if self.admits(disk, (candidate, &mut bytes), *stated, reason)? {
                        fitting.insert((*stated, index));
                    }
                }
            }
            // By position, so that those behind follow.
            for (stated, index) in fitting {
                let Some(candidate) = candidates.get_mut(index) else { continue };
                let belongs = |header: &SegmentHeader| reason != Reason::First || header.base == header.tail;
                if let Some(present) = candidate.present(disk, stated, &belongs)? {
                    self.guesses &= reason != Reason::Certain;
                    return Ok(Some((index, present)));
                }
                if reason != Reason::First {
                    candidate.stated.remove(&stated);
                }
            }
        }
        Ok(None)
    }

    /// Whether a segment that begins there may be missing, for this reason.
    fn admits(
        &self,
        disk: &dyn Disk,
        (candidate, bytes): (&Candidate, &mut Scanner),
        (base, incarnation): (u64, u64),
        reason: Reason,
    ) -> Result<bool, RecoveryError> {
        Ok(match reason {
            Reason::Certain => candidate.is_certain,
            Reason::Linked => self.is_linked(disk, bytes, (base, incarnation))?,
            Reason::Adjoining => !self.known.is_empty() && self.may_begin(base),
            Reason::First => self.known.is_empty(),
            Reason::Any => self.guesses && candidate.first == Some((base, incarnation)),
        })
    }

    /// Number of known segments up to this position.
    fn count_to(&self, base: u64) -> usize {
        self.known.partition_point(|known| known.header.base <= base)
    }

    /// Whether what begins there is neither dead nor inside a known segment.
    fn is_free(&self, base: u64) -> bool {
        let before = self.count_to(base).checked_sub(1).and_then(|index| self.known.get(index));
        base >= self.tail && before.is_none_or(|before| base >= before.whole_to)
    }

    /// Whether a segment may begin there: at the tail, behind a seal, or anywhere behind damage that may have been the seal.
    fn may_begin(&self, base: u64) -> bool {
        let index = self.count_to(base);
        let next = self.known.get(index);
        let before = index.checked_sub(1).and_then(|index| self.known.get(index));
        base == self.tail
            || before.is_some_and(|before| {
                // If the next one begins inside the same file, nothing is missing between them.
                let adjoins = next.is_some_and(|next| next.header.base <= before.ends_by);
                base == before.whole_to || (!adjoins && base <= before.ends_by)
            })
    }

    /// Whether it ends where the next known segment begins, with the batch that this one names.
    fn is_linked(
        &self,
        disk: &dyn Disk,
        bytes: &mut Scanner,
        (base, incarnation): (u64, u64),
    ) -> Result<bool, RecoveryError> {
        let Some(next) = self.known.get(self.count_to(base)) else { return Ok(false) };
        let Some(offset) = (next.header.base - base).checked_sub(HEADER) else { return Ok(false) };
        let Some(bytes) = bytes.header_bytes(disk, offset)? else { return Ok(false) };
        let seal = BatchHeader::decode(&bytes).filter(|seal| {
            let is_last = seal.kind == BatchKind::Seal && seal.position == base + offset;
            is_last && seal.incarnation == incarnation
        });
        let checksum = bytes.last_chunk().map(|checksum| u32::from_le_bytes(*checksum));
        Ok(seal.is_some() && checksum == Some(next.header.previous))
    }
}

#[cfg(test)]
mod tests;
