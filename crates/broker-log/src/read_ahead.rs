//! Read-ahead: reads records back from disk, and more than requested when the reader goes on in order.
//!
//! Invariant: the windows are shared by the owners of the records, by weight. At most [`WINDOWS_MAX`] are held, and one more for
//! each further owner, up to [`WINDOWS_MAX_OF_ALL`]; what they hold is durable and never changes. A record shares its
//! window's memory only where a quarter of a window is wanted, of this one or of the one before it: of others it gets a copy,
//! for it may be kept long after the window.

use std::io;

use bytes::Bytes;

use crate::{
    Disk, Owner, OwnerStats, Position, ReadError,
    format::{RECORD_HEADER, RECORD_HEADER_LEN, RecordHeader},
    segments::Segment,
};

/// Stretches of the journal that were read from disk.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    windows: Vec<Window>,
    /// Records that were asked for.
    reads: u64,
    /// Those for which the disk was read.
    waits: u64,
    /// By owner.
    counts: Vec<Counts>,
}

/// The owner for whom a record is read, and its weight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Reader {
    pub owner: Owner,
    pub weight: u64,
}

/// Reads of one owner.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reads: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Window {
    reader: Reader,
    start: u64,
    bytes: Bytes,
    /// Number of the read that used it last.
    used: u64,
    requested_bytes: u64,
    /// Reads that it was used for, and their bytes.
    served: u64,
    served_bytes: u64,
    /// Whether of the window before it so much was wanted that it was worth its memory.
    follows_worthy: bool,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether so much of it was wanted that it is worth its memory.
    fn may_share_memory(&self) -> bool {
        self.served_bytes.saturating_mul(SHARED_FRACTION) >= self.bytes.len() as u64
    }

    /// Bytes to read when a reader goes on behind this window. A reader that used less than a record in each 16 KiB of it
    /// skips: the next read is as small as for a single record.
    fn next_bytes(&self) -> u64 {
        let goes_on = self.served > 1 && self.served * WINDOW_BYTES_FIRST >= self.bytes.len() as u64;
        if goes_on || self.may_share_memory() {
            (self.requested_bytes * 4).min(WINDOW_BYTES_MAX)
        } else {
            WINDOW_BYTES_FIRST
        }
    }

    /// The record at `at`; `None` when the file ends before its end.
    fn record(&mut self, at: u64, length: u64) -> Option<Bytes> {
        let start = usize::try_from(at - self.start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let record = self.bytes.get(start..end)?;
        self.served += 1;
        self.served_bytes = self.served_bytes.saturating_add(length);
        let shares = self.follows_worthy || self.may_share_memory();
        Some(if shares { self.bytes.slice(start..end) } else { Bytes::copy_from_slice(record) })
    }
}

impl ReadAhead {
    /// Reads since the start, from windows or the disk.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Reads of the disk since the start.
    pub(crate) fn waits(&self) -> u64 {
        self.waits
    }

    /// Figures of an owner's reads.
    pub(crate) fn stats_of(&self, owner: Owner) -> OwnerStats {
        let counts = self.counts.get(owner.index()).copied().unwrap_or_default();
        OwnerStats { disk_reads: counts.reads, disk_read_bytes: counts.bytes, ..OwnerStats::default() }
    }

    /// Another owner may get this number.
    pub(crate) fn forget_owner(&mut self, owner: Owner) {
        self.windows.retain(|window| window.reader.owner != owner);
        if let Some(counts) = self.counts.get_mut(owner.index()) {
            *counts = Counts::default();
        }
    }

    /// The record at `at`, `length` bytes long, of `segment`; everything before `readable` is on disk and final.
    pub(crate) fn record(
        &mut self,
        disk: &dyn Disk,
        segment: &Segment,
        (at, length): (Position, u32),
        readable: u64,
        reader: Reader,
    ) -> Result<Bytes, ReadError> {
        let (file, offset) = (segment.file, at.0 - segment.base);
        let stored = RECORD_HEADER + u64::from(length);
        let bytes = self
            .read(disk, segment, (at.0, stored), readable, reader)
            .map_err(|error| ReadError::Disk { at, file, offset, message: error.to_string().into() })?;
        let corrupt = ReadError::Corrupt { at, file, offset };
        let bytes = bytes.ok_or_else(|| corrupt.clone())?;
        let header = RecordHeader::decode(&bytes).ok_or_else(|| corrupt.clone())?;
        if header.is_lost() {
            return Err(corrupt);
        }
        if header.length != length {
            return Err(ReadError::OtherLength { at, asked: length, found: header.length });
        }
        let bytes = bytes.slice(RECORD_HEADER_LEN..);
        if header.matches(segment.seed, &bytes) { Ok(bytes) } else { Err(corrupt) }
    }

    /// `length` bytes at `at` in `segment`, of which everything before `readable` is on disk and final.
    /// `None`: the file ends before.
    pub(crate) fn read(
        &mut self,
        disk: &dyn Disk,
        segment: &Segment,
        (at, length): (u64, u64),
        readable: u64,
        reader: Reader,
    ) -> io::Result<Option<Bytes>> {
        self.reads += 1;
        let reads = self.reads;
        self.counts_of(reader.owner).reads += 1;
        let held = self.windows.iter_mut().find(|window| window.start <= at && at + length <= window.end());
        if let Some(window) = held {
            window.used = reads;
            if window.reader.owner == reader.owner {
                window.reader = reader;
            }
            return Ok(window.record(at, length));
        }
        let goes_on = |window: &Window| {
            window.reader.owner == reader.owner && window.start < at && at <= window.end() + SKIP_BYTES
        };
        let before = self.windows.iter().position(goes_on);
        let before = before.map(|index| self.windows.swap_remove(index));
        let requested_bytes = before.as_ref().map_or(WINDOW_BYTES_FIRST, Window::next_bytes);
        let end = (at + length.max(requested_bytes)).min(readable.max(at + length));
        let mut buffer = vec![0; usize::try_from(end - at).unwrap_or(usize::MAX)];
        let read = disk.read_at(segment.file, at - segment.base, &mut buffer)?;
        buffer.truncate(read);
        self.waits += 1;
        self.counts_of(reader.owner).bytes += read as u64;
        let mut window = Window {
            reader,
            start: at,
            bytes: buffer.into(),
            used: reads,
            requested_bytes,
            served: 0,
            served_bytes: 0,
            follows_worthy: before.is_some_and(|before| before.may_share_memory()),
        };
        let record = window.record(at, length);
        self.keep(window);
        Ok(record)
    }

    fn counts_of(&mut self, owner: Owner) -> &mut Counts {
        let index = owner.index();
        if index >= self.counts.len() {
            self.counts.resize(index + 1, Counts::default());
        }
        self.counts.get_mut(index).expect("there are as many")
    }

    fn keep(&mut self, window: Window) {
        // Most of the time all of them are one owner's, and then this is the number of windows.
        let is_first = |index: usize, owner: Owner| self.windows_of(owner).next() == Some(index);
        let others = self.windows.iter().enumerate().filter(|(index, held)| {
            held.reader.owner != window.reader.owner && is_first(*index, held.reader.owner)
        });
        let windows_max = (WINDOWS_MAX + others.count()).min(WINDOWS_MAX_OF_ALL);
        if self.windows.len() >= windows_max
            && let Some(index) = self.first_to_go(window.reader)
        {
            self.windows.swap_remove(index);
        }
        self.windows.push(window);
    }

    /// The window that makes room for another one of `reader`'s: of the owner that then holds most for its weight, the one that
    /// was not used for longest. So an owner that holds no more than its share loses nothing, but for windows that nobody has
    /// used for long and that are not its only one.
    fn first_to_go(&self, reader: Reader) -> Option<usize> {
        let unused = self.windows.iter().enumerate().filter(|(_, window)| {
            self.reads - window.used > UNUSED_READS_MAX && self.windows_of(window.reader.owner).count() > 1
        });
        if let Some((index, _)) = unused.min_by_key(|(_, window)| window.used) {
            return Some(index);
        }
        let mut first: Option<(u64, &Window, usize)> = None;
        for (index, window) in self.windows.iter().enumerate() {
            let owner = window.reader.owner;
            let count = self.windows_of(owner).count() as u64 + u64::from(owner == reader.owner);
            let is_before = first.is_none_or(|(other_count, other, _)| {
                // As fractions: count / weight.
                let (one, two) = (count * other.reader.weight, other_count * window.reader.weight);
                one > two || (one == two && window.used < other.used)
            });
            if is_before {
                first = Some((count, window, index));
            }
        }
        first.map(|(_, _, index)| index)
    }

    fn windows_of(&self, owner: Owner) -> impl Iterator<Item = usize> {
        let windows = self.windows.iter().enumerate();
        windows.filter(move |(_, window)| window.reader.owner == owner).map(|(index, _)| index)
    }
}

/// As many readers can go on side by side, each in its own queue.
const WINDOWS_MAX: usize = 16;
/// Windows of all owners. Those that an owner that reads no more leaves behind take nothing from the others.
const WINDOWS_MAX_OF_ALL: usize = 32;
/// A window that was not used in so many reads is left behind.
const UNUSED_READS_MAX: u64 = 4096;
/// Bytes read around a single record: four pages cost the disk the same as one.
const WINDOW_BYTES_FIRST: u64 = 16 << 10;
/// Bytes per read of a sequential reader: large enough to hide the system call, small enough for the cache.
const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// A window is worth its memory when one byte of so many was wanted.
const SHARED_FRACTION: u64 = 4;
/// A reader goes on when it skips at most this much: records of other queues lie between its own.
const SKIP_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests;
