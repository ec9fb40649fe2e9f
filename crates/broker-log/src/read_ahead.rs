//! Read-ahead: reads records back from disk, and more than requested when the reader goes on in order.
//!
//! A caller may wait for the disk ([`ReadAhead::record`]), or be told that the record is not there yet
//! ([`ReadAhead::record_soon`]): then a reader thread reads its window, and the next one while this one is used.
//!
//! Invariant: the windows are shared by the owners of the records, by weight. At most [`WINDOWS_MAX`] are held, and one more for
//! each further owner, up to [`WINDOWS_MAX_OF_ALL`]; what they hold is durable and never changes. A window for which somebody
//! waits stays until it was read from, or its owner has had a turn. Readers of several queues use the same windows: one stays
//! until nearly all of it was wanted or its place is needed, and none is read where another one is held or asked for. A record
//! shares its window's memory only where a quarter of a window is wanted, of this one or of one before it: of others it gets
//! a copy, for it may be kept long after the window.

mod asked;
mod reader;
mod window;

use std::io;

use bytes::{Bytes, BytesMut};

use asked::{AskedReads, ReadFailure};
pub(crate) use asked::{WindowPlan, WindowRead};
pub(crate) use reader::Reader;
pub use reader::{Read, ReadId};
use window::{WINDOW_BYTES_FIRST, Window};

use crate::{
    Disk, Owner, OwnerStats, Position, ReadError,
    format::{RECORD_HEADER, RECORD_HEADER_LEN, RecordHeader},
    segments::Segment,
};

/// Stretches of the journal that were read from disk.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    windows: Vec<Window>,
    asked: AskedReads,
    /// Window that the last reader will want next.
    next_window: Option<WindowPlan>,
    /// Records that were asked for.
    reads: u64,
    /// Reads of the disk.
    waits: u64,
    /// By owner.
    counts: Vec<Counts>,
}

/// Reads of one owner.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reads: u64,
    bytes: u64,
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
        self.asked.forget_owner(owner);
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
        let stored = RECORD_HEADER + u64::from(length);
        let bytes = self
            .read(disk, segment, (at.0, stored), readable, reader)
            .map_err(|error| failed(segment, at, &error.to_string()))?;
        checked(segment, (at, length), bytes)
    }

    /// The same if it is in a window. If not, a read of it is asked for, unless one is that brings it.
    pub(crate) fn record_soon(
        &mut self,
        segment: &Segment,
        (at, length): (Position, u32),
        readable: u64,
        reader: Reader,
    ) -> Result<Read, ReadError> {
        let stored = RECORD_HEADER + u64::from(length);
        if let Some(bytes) = self.held((at.0, stored), reader) {
            return checked(segment, (at, length), Some(bytes)).map(Read::Record);
        }
        match self.asked.take_failure(reader.owner, at.0) {
            Some(ReadFailure::Disk(message)) => return Err(failed(segment, at, &message)),
            Some(ReadFailure::Short) => return checked(segment, (at, length), None).map(Read::Record),
            None => {}
        }
        Ok(Read::Pending(self.ask_for(segment, (at.0, stored), readable, reader)))
    }

    /// Asks for a record that is in no window, unless a read was asked for that brings it.
    fn ask_for(
        &mut self,
        segment: &Segment,
        (at, length): (u64, u64),
        readable: u64,
        reader: Reader,
    ) -> ReadId {
        let window_end = self.windows.iter().find(|window| window.holds(at)).map(Window::end);
        if let Some(id) = self.asked.join(reader.owner, (at, length), window_end) {
            return id;
        }
        let window = self.plan((at, length), readable, reader);
        self.asked.ask(segment, window, Some(length))
    }

    /// The window that should be read now because a reader goes on in order; its place is to be looked up.
    pub(crate) fn take_ahead(&mut self) -> Option<WindowPlan> {
        self.next_window.take()
    }

    /// Asks for a window that lies ahead of a reader, of `segment`; everything before `readable` is on disk and final.
    pub(crate) fn ask_ahead(&mut self, segment: &Segment, mut window: WindowPlan, readable: u64) {
        let (owner, start) = (window.reader.owner, window.start);
        if self.windows.iter().any(|held| held.holds(start)) || self.asked.brings(owner, start) {
            return;
        }
        let end = readable.min(self.next_start(owner, start).unwrap_or(u64::MAX));
        window.length = window.length.min(end.saturating_sub(start));
        if window.length > 0 {
            self.asked.ask(segment, window, None);
        }
    }

    /// The next read for a reader thread. Reads of all owners are shared by weight, as windows are: one is handed out while
    /// there will be room for its window.
    pub(crate) fn next_read(&mut self) -> Option<WindowRead> {
        let pinned = || self.windows.iter().filter(|window| window.is_pinned);
        let bytes = pinned().map(|window| window.bytes.len() as u64).sum();
        let pinned_of = |owner| pinned().filter(|window| window.reader.owner == owner).count();
        let reader = self.asked.next_owner(pinned_of)?;
        let room = self.windows_max(reader.owner).saturating_sub(pinned().count());
        self.asked.hand_out(reader.owner, room, bytes)
    }

    /// A read is done. `is_current`: its segment is still in use.
    pub(crate) fn on_read(
        &mut self,
        id: ReadId,
        result: io::Result<Bytes>,
        is_current: impl Fn(u64) -> bool,
    ) {
        let Some((window, is_awaited)) = self.asked.finish(id, &result, is_current) else { return };
        let Ok(bytes) = result else { return };
        self.waits += 1;
        self.counts_of(window.reader.owner).bytes += bytes.len() as u64;
        let mut window = self.window(window, bytes);
        window.is_pinned = is_awaited;
        self.keep(window);
    }

    /// A read that somebody waited for is done, or came to nothing: the record is to be asked for again.
    pub(crate) fn poll_done(&mut self) -> Option<(Owner, ReadId)> {
        self.asked.poll_done()
    }

    /// The owner has had its turn: windows that it has not read from are kept for it no longer than others.
    pub(crate) fn release(&mut self, owner: Owner) {
        self.asked.forget_failures(owner);
        for window in self.windows.iter_mut().filter(|window| window.reader.owner == owner) {
            window.is_pinned = false;
        }
    }

    /// The first position at which a read was asked for that is not done.
    pub(crate) fn first_asked(&self) -> Option<u64> {
        self.asked.first()
    }

    /// Number of reads that are asked for, and of those among them that a thread has.
    pub(crate) fn outstanding(&self) -> (u64, u64) {
        self.asked.outstanding()
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
        if let Some(record) = self.held((at, length), reader) {
            return Ok(Some(record));
        }
        self.count_read(reader.owner);
        let plan = self.plan((at, length), readable, reader);
        let bytes = usize::try_from(plan.length).unwrap_or(usize::MAX);
        let piece = disk.read_piece(segment.file, at - segment.base, bytes)?;
        self.waits += 1;
        self.counts_of(reader.owner).bytes += piece.len() as u64;
        let mut window = self.window(plan, piece.into());
        let record = window.record(at, length);
        self.keep(window);
        Ok(record)
    }

    /// The bytes from windows: from one, or from two that follow each other.
    fn held(&mut self, (at, length): (u64, u64), reader: Reader) -> Option<Bytes> {
        let index = self.windows.iter().position(|window| window.holds(at) && at + length <= window.end());
        let Some(mut index) = index else { return self.held_in_two((at, length), reader) };
        self.count_read(reader.owner);
        let reads = self.reads;
        if self.windows.get(index)?.is_ahead {
            // The reader has left the window before this one.
            index = self.leave_before(index);
        }
        let window = self.windows.get_mut(index)?;
        window.used = reads;
        window.is_pinned = false;
        if window.reader.owner == reader.owner {
            window.reader = reader;
        }
        let record = window.record(at, length);
        if window.reader.owner == reader.owner && self.asked.may_ask_ahead(reader.owner) {
            self.next_window = window.following(at + length);
        }
        record
    }

    /// A record that begins in one window and ends in the next one.
    fn held_in_two(&mut self, (at, length): (u64, u64), reader: Reader) -> Option<Bytes> {
        let first = self.windows.iter().position(|window| window.holds(at))?;
        let border = self.windows.get(first)?.end();
        let is_next = |window: &Window| window.start == border && at + length <= window.end();
        let second = self.windows.iter().position(is_next)?;
        self.count_read(reader.owner);
        let mut record = BytesMut::with_capacity(usize::try_from(length).ok()?);
        for (index, from, end) in [(first, at, border), (second, border, at + length)] {
            let window = self.windows.get_mut(index)?;
            window.used = self.reads;
            window.is_pinned = false;
            record.extend_from_slice(&window.record(from, end - from)?);
        }
        Some(record.freeze())
    }

    /// A reader has left a window for the one at `index`, which was read ahead of it: the old one goes if it is used up. Returns
    /// the new index.
    fn leave_before(&mut self, index: usize) -> usize {
        let Some(window) = self.windows.get_mut(index) else { return index };
        window.is_ahead = false;
        let (owner, start) = (window.reader.owner, window.start);
        let is_before =
            |window: &Window| window.reader.owner == owner && window.end() == start && !window.is_pinned;
        let Some(before) = self.windows.iter().position(is_before) else { return index };
        let Some(window) = self.windows.get(before) else { return index };
        let (may_share, is_used_up) = (window.may_share_memory(), window.is_used_up());
        let index = if is_used_up && before < index { index - 1 } else { index };
        if is_used_up {
            self.windows.remove(before);
        }
        if let Some(window) = self.windows.get_mut(index) {
            window.follows_worthy = may_share;
        }
        index
    }

    /// The window to read for a record that is in none. It ends where the next one begins. Its length is that which the best
    /// window near the record was worth: the last one may be new, and wanted by readers that have not come to it.
    fn plan(&mut self, (at, length): (u64, u64), readable: u64, reader: Reader) -> WindowPlan {
        let is_near = |window: &&Window| {
            window.reader.owner == reader.owner && window.start < at && at <= window.end() + SKIP_BYTES
        };
        let near = self.windows.iter().filter(is_near);
        let best = near.max_by_key(|window| (window.next_bytes(), window.served_bytes));
        let requested_bytes = best.map_or(WINDOW_BYTES_FIRST, Window::next_bytes);
        let follows_worthy = best.is_some_and(Window::may_share_memory);
        let owner = reader.owner;
        self.windows.retain(|window| {
            window.reader.owner != owner || window.start > at || window.is_pinned || !window.is_used_up()
        });
        let next = self.next_start(reader.owner, at).unwrap_or(u64::MAX);
        let end = (at + requested_bytes).min(next).min(readable).max(at + length);
        WindowPlan { reader, start: at, length: end - at, requested_bytes, follows_worthy, is_ahead: false }
    }

    /// Beginning of the first window behind `at` that is held, or asked for by the owner.
    fn next_start(&self, owner: Owner, at: u64) -> Option<u64> {
        let held = self.windows.iter().map(|window| window.start).filter(|start| *start > at);
        held.chain(self.asked.next_start(owner, at)).min()
    }

    fn window(&self, plan: WindowPlan, bytes: Bytes) -> Window {
        Window {
            reader: plan.reader,
            start: plan.start,
            bytes,
            used: self.reads,
            requested_bytes: plan.requested_bytes,
            served: 0,
            served_bytes: 0,
            longest: 0,
            follows_worthy: plan.follows_worthy,
            is_ahead: plan.is_ahead,
            has_next: false,
            is_pinned: false,
        }
    }

    fn count_read(&mut self, owner: Owner) {
        self.reads += 1;
        self.counts_of(owner).reads += 1;
    }

    fn counts_of(&mut self, owner: Owner) -> &mut Counts {
        let index = owner.index();
        if index >= self.counts.len() {
            self.counts.resize(index + 1, Counts::default());
        }
        self.counts.get_mut(index).expect("there are as many")
    }

    /// Number of windows that may be held with another one of this owner's.
    fn windows_max(&self, owner: Owner) -> usize {
        // Most of the time all of them are one owner's, and then this is the smallest number.
        let is_first = |index: usize, owner: Owner| self.windows_of(owner).next() == Some(index);
        let others = self
            .windows
            .iter()
            .enumerate()
            .filter(|(index, held)| held.reader.owner != owner && is_first(*index, held.reader.owner));
        (WINDOWS_MAX + others.count()).min(WINDOWS_MAX_OF_ALL)
    }

    fn keep(&mut self, window: Window) {
        if self.windows.len() >= self.windows_max(window.reader.owner) {
            match self.first_to_go(window.reader) {
                Some(index) => drop(self.windows.swap_remove(index)),
                None if self.windows.len() >= WINDOWS_MAX_OF_ALL => return,
                None => {}
            }
        }
        self.windows.push(window);
    }

    /// The window that makes room for another one of `reader`'s: of the owner that then holds most for its weight, the one that
    /// was not used for longest. So an owner that holds no more than its share loses nothing, but for windows that nobody has
    /// used for long and that are not its only one.
    fn first_to_go(&self, reader: Reader) -> Option<usize> {
        let may_go = || self.windows.iter().enumerate().filter(|(_, window)| !window.is_pinned);
        let unused = may_go().filter(|(_, window)| {
            self.reads - window.used > UNUSED_READS_MAX && self.windows_of(window.reader.owner).count() > 1
        });
        if let Some((index, _)) = unused.min_by_key(|(_, window)| window.used) {
            return Some(index);
        }
        let mut first: Option<(u64, &Window, usize)> = None;
        for (index, window) in may_go() {
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

/// The record in `bytes`, which were read at its place; `None`: the file ends before its end.
fn checked(
    segment: &Segment,
    (at, length): (Position, u32),
    bytes: Option<Bytes>,
) -> Result<Bytes, ReadError> {
    let (file, offset) = (segment.file, at.0 - segment.base);
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

/// The disk could not read the record at `at`.
fn failed(segment: &Segment, at: Position, message: &str) -> ReadError {
    ReadError::Disk { at, file: segment.file, offset: at.0 - segment.base, message: message.into() }
}

/// As many readers can go on side by side, each in its own queue.
const WINDOWS_MAX: usize = 16;
/// Windows of all owners. Those that an owner that reads no more leaves behind take nothing from the others.
const WINDOWS_MAX_OF_ALL: usize = 32;
/// A window that was not used in so many reads is left behind.
const UNUSED_READS_MAX: u64 = 4096;
/// A reader goes on when it skips at most this much: records of other queues lie between its own.
const SKIP_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests;
