//! Inventory of the files of a directory, by their headers.
//!
//! Invariant: reads only.

use bytes::Bytes;

use crate::{
    Disk, FileId, RecoveryError,
    format::{HEADER_LEN, NotASegment, SegmentHeader, VERSION},
    mark::Mark,
    readable_disk::is_lost,
    scan::{ScanEnd, Scanner},
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
    /// Files whose first bytes the disk cannot read, and its error.
    pub unreadable: Vec<(FileId, u64, RecoveryError)>,
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
    /// The mark behind the header. `None`: it is damaged, a repair has replaced it, or ferrybus 0.1.0 wrote the segment.
    pub mark: Option<Mark>,
}

impl FileInventory {
    /// Refuses the journal of another shard: its folder was copied or renamed. Files that hold nothing any more count as well: where
    /// one journal was copied over another, its newest segment says that those of the other are dead.
    pub(crate) fn demand_shard(&self, expected: u32) -> Result<(), RecoveryError> {
        for present in &self.segments {
            if let Some(mark) = present.mark.filter(|mark| mark.shard != expected) {
                return Err(RecoveryError::OtherShard { file: present.file, found: mark.shard, expected });
            }
        }
        Ok(())
    }
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
        let mut buffer = [0; BEGINNING_BYTES];
        let read = match disk.read_at(file, 0, &mut buffer) {
            Ok(read) => read,
            Err(error) if is_lost(&error) => {
                inventory.unreadable.push((file, length, RecoveryError::read(file, 0, &error)));
                continue;
            }
            Err(error) => return Err(RecoveryError::read(file, 0, &error)),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        match bytes.first_chunk().map_or(Err(NotASegment::Unknown), SegmentHeader::decode) {
            Ok(header) => {
                let behind = bytes.get(HEADER_LEN..).unwrap_or_default();
                let mark = mark_of(disk, (file, length), &header, behind)?;
                inventory.segments.push(SegmentFile { file, length, header, mark });
            }
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

/// The mark of a segment, of whose file the first bytes `behind` the header were read.
fn mark_of(
    disk: &dyn Disk,
    (file, length): (FileId, u64),
    header: &SegmentHeader,
    behind: &[u8],
) -> Result<Option<Mark>, RecoveryError> {
    if header.version != VERSION {
        return Ok(None);
    }
    let mut scanner = Scanner::new(file, header, length);
    let position = scanner.position();
    scanner.supply(position, Bytes::copy_from_slice(behind));
    match scanner.batch_at(disk, position) {
        Ok(batch) => Ok(batch.mark),
        Err(ScanEnd::Failed(error)) => Err(error),
        // Those who read the whole segment judge the damage.
        Err(ScanEnd::Bad(_)) => Ok(None),
    }
}

/// Read of each file at once: the header of the segment and its mark, also one with as many members as a journal may have.
const BEGINNING_BYTES: usize = 4096;
