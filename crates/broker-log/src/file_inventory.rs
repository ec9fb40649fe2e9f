//! Inventory of the files of a directory, by their headers.
//!
//! Invariant: reads only.

use crate::{
    Disk, FileId, RecoveryError,
    format::{HEADER_LEN, NotASegment, SegmentHeader, VERSION},
};

/// The files of a journal.
#[derive(Debug, Default)]
pub(crate) struct FileInventory {
    /// Files that begin with a segment header, by position.
    pub segments: Vec<SegmentFile>,
    /// Files that hold nothing.
    pub spares: Vec<(FileId, u64)>,
    /// Files that should hold something, and whose first bytes say nothing.
    pub unknown: Vec<(FileId, u64)>,
    /// A name that no file has. (After four billion files it may be one that is taken: then creating fails.)
    pub next_file: u32,
}

/// A file that begins with a segment header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentFile {
    pub file: FileId,
    /// Length of the file in bytes.
    pub length: u64,
    pub header: SegmentHeader,
}

/// Looks at all files. A segment of 0.1.0 is an error.
pub(crate) fn inventory(disk: &dyn Disk) -> Result<FileInventory, RecoveryError> {
    let inventory = inventory_of_all_formats(disk)?;
    match inventory.segments.iter().find(|present| present.header.version != VERSION) {
        Some(older) => Err(RecoveryError::Older { file: older.file }),
        None => Ok(inventory),
    }
}

/// Looks at all files, those of 0.1.0 among them.
pub(crate) fn inventory_of_all_formats(disk: &dyn Disk) -> Result<FileInventory, RecoveryError> {
    let mut inventory = FileInventory::default();
    let files = disk.list().map_err(|error| RecoveryError::disk("listing the directory", None, &error))?;
    for (file, length) in files {
        inventory.next_file = inventory.next_file.max(file.0.wrapping_add(1));
        let mut bytes = [0; HEADER_LEN];
        disk.read_at(file, 0, &mut bytes)
            .map_err(|error| RecoveryError::disk("reading", Some(file), &error))?;
        match SegmentHeader::decode(&bytes) {
            Ok(header) => inventory.segments.push(SegmentFile { file, length, header }),
            Err(NotASegment::Spare) => inventory.spares.push((file, length)),
            Err(NotASegment::Unknown) if length <= HEADER_LEN as u64 => inventory.spares.push((file, length)),
            Err(NotASegment::Unknown) => inventory.unknown.push((file, length)),
            Err(NotASegment::Newer(part)) => return Err(RecoveryError::Newer { file, offset: 0, part }),
        }
    }
    inventory.segments.sort_by_key(|present| present.header.base);
    inventory.spares.sort_unstable();
    Ok(inventory)
}
