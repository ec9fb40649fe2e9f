//! Segments whose header is lost, found by the batches in their files.
//!
//! Invariant: reads only; a file is taken for a segment only where one is missing among those that are known, so that a client
//! who sends what looks like a batch gives no file another identity.

use std::collections::BTreeSet;

use crate::{
    Disk, FileId, RecoveryError,
    file_inventory::{FileInventory, SegmentFile},
    format::{BatchHeader, BatchKind, HEADER, HEADER_LEN, SegmentHeader},
    scan::{ScanEnd, Scanner},
};

/// The orphans among the files whose first bytes say nothing, by position.
pub(crate) fn orphans(disk: &dyn Disk, inventory: &FileInventory) -> Result<Vec<SegmentFile>, RecoveryError> {
    let unreadable = inventory.unreadable.iter().map(|(file, length, _)| (*file, *length));
    // To learn where the known segments end takes reading them, and most often such a file is all zeros.
    let mut files = Vec::new();
    for (file, length) in inventory.unknown.iter().copied().chain(unreadable) {
        let mut has_batch = false;
        let mut note = |_: &SegmentHeader| {
            has_batch = true;
            Ok(false)
        };
        Scanner::orphan(disk, file, length, &mut note)?;
        if has_batch {
            files.push((file, length));
        }
    }
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut places = Places::new(disk, &inventory.segments)?;
    let mut found = Vec::new();
    // One may follow another, in any order of their files.
    while let Some((index, present)) = places.first_of(disk, &files)? {
        files.swap_remove(index);
        places.take(disk, &present)?;
        found.push(present);
    }
    found.sort_by_key(|present| present.header.base);
    Ok(found)
}

/// Places where a segment is missing.
struct Places {
    /// Headers of the known segments, by position.
    known: Vec<SegmentHeader>,
    /// The tail, and where a known segment ends: there another one may begin.
    begins: BTreeSet<u64>,
    tail: u64,
}

impl Places {
    fn new(disk: &dyn Disk, segments: &[SegmentFile]) -> Result<Self, RecoveryError> {
        let mut places = Self { known: Vec::new(), begins: BTreeSet::new(), tail: 0 };
        for present in segments {
            places.take(disk, present)?;
        }
        Ok(places)
    }

    /// Counts a segment among the known ones.
    fn take(&mut self, disk: &dyn Disk, present: &SegmentFile) -> Result<(), RecoveryError> {
        let mut scanner = Scanner::new(present.file, &present.header, present.length);
        self.tail = self.tail.max(present.header.tail);
        loop {
            match scanner.next(disk) {
                Ok(batch) => self.tail = self.tail.max(batch.header.tail),
                Err(ScanEnd::Failed(error)) => return Err(error),
                Err(ScanEnd::Bad(_)) => {
                    // It ends here, or behind what follows its damage.
                    self.begins.insert(scanner.position());
                    let behind = scanner.position().saturating_add(HEADER);
                    let Some(batch) = scanner.find(disk, behind)? else { break };
                    scanner.resume(batch.header.position, batch.header.previous);
                }
            }
        }
        self.known.push(present.header);
        self.known.sort_by_key(|header| header.base);
        Ok(())
    }

    /// The first of the files that is an orphan, with its index.
    fn first_of(
        &self,
        disk: &dyn Disk,
        files: &[(FileId, u64)],
    ) -> Result<Option<(usize, SegmentFile)>, RecoveryError> {
        // No client knows the checksum that links two segments, so what has it comes first.
        for linked in [true, false] {
            for (index, (file, length)) in files.iter().copied().enumerate() {
                let mut belongs = |header: &SegmentHeader| {
                    let may_follow = if linked {
                        self.is_linked(disk, (file, length), header)?
                    } else {
                        self.may_begin(header)
                    };
                    Ok(may_follow && self.is_free(header))
                };
                if let Some(header) = Scanner::orphan(disk, file, length, &mut belongs)? {
                    return Ok(Some((index, SegmentFile { file, length, header, mark: None })));
                }
            }
        }
        Ok(None)
    }

    /// Whether no known segment begins there.
    fn is_free(&self, header: &SegmentHeader) -> bool {
        self.known.binary_search_by_key(&header.base, |known| known.base).is_err()
    }

    /// Whether a segment may begin there. Where none is known, the first one is that at its own tail.
    fn may_begin(&self, header: &SegmentHeader) -> bool {
        let is_first = self.known.is_empty() && header.base == header.tail;
        is_first || header.base == self.tail || self.begins.contains(&header.base)
    }

    /// Whether it ends where the next known segment begins, with the batch that this one names.
    fn is_linked(
        &self,
        disk: &dyn Disk,
        (file, length): (FileId, u64),
        header: &SegmentHeader,
    ) -> Result<bool, RecoveryError> {
        let next = self.known.partition_point(|known| known.base <= header.base);
        let Some(next) = self.known.get(next) else { return Ok(false) };
        let Some(offset) = (next.base - header.base).checked_sub(HEADER).filter(|offset| *offset < length)
        else {
            return Ok(false);
        };
        let mut bytes = [0; HEADER_LEN];
        disk.read_at(file, offset, &mut bytes).map_err(|error| RecoveryError::read(file, offset, &error))?;
        let seal = BatchHeader::decode(&bytes).filter(|seal| {
            let is_last = seal.kind == BatchKind::Seal && seal.position == header.base + offset;
            is_last && seal.incarnation == header.incarnation
        });
        let checksum = bytes.last_chunk().map(|checksum| u32::from_le_bytes(*checksum));
        Ok(seal.is_some() && checksum == Some(next.previous))
    }
}

#[cfg(test)]
mod tests;
