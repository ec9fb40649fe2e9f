//! Reads of the disk that were asked for and are not done: those that a reader thread has, and those that wait for one.
//!
//! Invariant: each read that somebody waits for is reported once, whether it succeeds, fails or comes to nothing. A thread is
//! given no more than there is room for, in windows and in bytes, and the owners take turns by weight.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    ops::Bound,
};

use bytes::Bytes;

use super::reader::{ReadId, Reader};
use crate::{FileId, Owner, segments::Segment};

/// Window that is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPlan {
    pub reader: Reader,
    pub start: u64,
    pub length: u64,
    /// Bytes that were wanted, without regard to the length of a record or the end of the segment.
    pub requested_bytes: u64,
    pub follows_worthy: bool,
    /// No record in it was asked for yet.
    pub is_ahead: bool,
}

/// One read of the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowRead {
    pub id: ReadId,
    pub file: FileId,
    pub offset: u64,
    pub length: u64,
}

/// Reason why a record that was asked for is not in the window that began with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ReadFailure {
    /// The operating system's words.
    Disk(Box<str>),
    /// The file ends before.
    Short,
}

/// The reads of all owners.
#[derive(Debug, Default)]
pub(super) struct AskedReads {
    /// By owner and place.
    asked: BTreeMap<(Owner, u64), AskedRead>,
    /// The same places, those of all owners in order.
    in_order: BTreeSet<(u64, Owner)>,
    /// Places of those that no thread has, by owner, the first one first.
    waiting: BTreeMap<Owner, VecDeque<u64>>,
    /// Those that a thread has.
    handed_out: Vec<HandedOut>,
    /// The owner whose read was handed out last.
    last: Owner,
    /// Reads that are done and for which somebody waits.
    done: VecDeque<(Owner, ReadId)>,
    /// By owner and place, for as long as it may be that somebody waits.
    failures: Vec<(Owner, u64, ReadFailure)>,
    next: u64,
}

#[derive(Debug)]
struct AskedRead {
    id: ReadId,
    file: FileId,
    offset: u64,
    window: WindowPlan,
    /// Length of the record that begins the window, if it was asked for.
    first: Option<u64>,
    is_awaited: bool,
}

#[derive(Clone, Copy, Debug)]
struct HandedOut {
    id: ReadId,
    owner: Owner,
    start: u64,
    length: u64,
}

impl AskedReads {
    /// Asks for a window of `segment`. `first`: length of the record with which it begins, and for which somebody waits.
    pub(super) fn ask(&mut self, segment: &Segment, window: WindowPlan, first: Option<u64>) -> ReadId {
        let (owner, start) = (window.reader.owner, window.start);
        let id = ReadId(self.next);
        self.next += 1;
        let (file, offset, is_awaited) = (segment.file, start - segment.base, first.is_some());
        self.asked.insert((owner, start), AskedRead { id, file, offset, window, first, is_awaited });
        self.in_order.insert((start, owner));
        self.waiting.entry(owner).or_default().push_back(start);
        id
    }

    /// The read after which a record of `length` bytes at `at` should be asked for again. `window_end`: end of the window in
    /// which it begins.
    pub(super) fn join(
        &mut self,
        owner: Owner,
        (at, length): (u64, u64),
        window_end: Option<u64>,
    ) -> Option<ReadId> {
        if self.asked.is_empty() {
            return None;
        }
        let end = at + length;
        let brings = |read: &AskedRead| end <= read.window.start + read.window.length;
        let around = self.asked.range((owner, 0)..=(owner, at)).next_back();
        // A shorter read that begins there has to be done first: there is one for each place.
        let around = around.filter(|((_, start), read)| *start == at || brings(read));
        let key = around.map(|(key, _)| *key).or_else(|| {
            let key = (owner, window_end?);
            self.asked.get(&key).filter(|read| brings(read)).map(|_| key)
        })?;
        let read = self.asked.get_mut(&key)?;
        read.is_awaited = true;
        if read.window.start == at && length <= read.window.length {
            read.first = Some(length);
        }
        Some(read.id)
    }

    /// Whether a read is asked for that brings the byte at `at`.
    pub(super) fn brings(&self, owner: Owner, at: u64) -> bool {
        let before = self.asked.range((owner, 0)..=(owner, at)).next_back();
        before.is_some_and(|(_, read)| at < read.window.start + read.window.length)
    }

    /// Beginning of the first read behind `at` that is asked for.
    pub(super) fn next_start(&self, owner: Owner, at: u64) -> Option<u64> {
        let behind = (Bound::Excluded((owner, at)), Bound::Included((owner, u64::MAX)));
        self.asked.range(behind).next().map(|((_, start), _)| *start)
    }

    /// Whether an owner has nothing else to read, so that something may be read ahead.
    pub(super) fn may_ask_ahead(&self, owner: Owner) -> bool {
        self.waiting.get(&owner).is_none_or(VecDeque::is_empty)
    }

    /// The owner whose read is to be handed out next: in turn, but of those with reads under way or windows that wait for them
    /// (`pinned`) the one that has fewest for its weight.
    pub(super) fn next_owner(&self, pinned: impl Fn(Owner) -> usize) -> Option<Reader> {
        if self.waiting.is_empty() || self.handed_out.len() >= READS_MAX {
            return None;
        }
        let behind = self.waiting.range((Bound::Excluded(self.last), Bound::Unbounded));
        let before = self.waiting.range(..=self.last);
        let mut next: Option<(u64, Reader)> = None;
        for (owner, places) in behind.chain(before) {
            let Some(read) = places.front().and_then(|start| self.asked.get(&(*owner, *start))) else {
                continue;
            };
            let under_way = self.handed_out.iter().filter(|read| read.owner == *owner).count();
            let held = (under_way + pinned(*owner)) as u64;
            let reader = read.window.reader;
            // As fractions: held / weight.
            if next.is_none_or(|(fewest, other)| held * other.weight < fewest * reader.weight) {
                next = Some((held, reader));
            }
            if held == 0 {
                break;
            }
        }
        next.map(|(_, reader)| reader)
    }

    /// Hands out the next read of an owner if there is room for its window: for one of so many windows, of which those that
    /// a thread reads count too, beside so many bytes of windows that somebody waits for.
    pub(super) fn hand_out(&mut self, owner: Owner, room: usize, bytes: u64) -> Option<WindowRead> {
        let places = self.waiting.get_mut(&owner)?;
        let start = *places.front()?;
        let read = self.asked.get(&(owner, start))?;
        let held = bytes + self.handed_out.iter().map(|read| read.length).sum::<u64>();
        let is_too_large = held > 0 && held + read.window.length > BYTES_MAX;
        if self.handed_out.len() >= room || is_too_large {
            return None;
        }
        places.pop_front();
        if places.is_empty() {
            self.waiting.remove(&owner);
        }
        self.last = owner;
        let (id, file, offset, length) = (read.id, read.file, read.offset, read.window.length);
        self.handed_out.push(HandedOut { id, owner, start, length });
        Some(WindowRead { id, file, offset, length })
    }

    /// A read is done. Returns what it was for and whether somebody waits for it, if it is still of use.
    pub(super) fn finish(
        &mut self,
        id: ReadId,
        result: &io::Result<Bytes>,
        is_current: impl Fn(u64) -> bool,
    ) -> Option<(WindowPlan, bool)> {
        let index = self.handed_out.iter().position(|read| read.id == id)?;
        let HandedOut { owner, start, .. } = self.handed_out.swap_remove(index);
        // Its owner may be gone, and the place may have been asked for by the next one.
        self.asked.get(&(owner, start)).filter(|read| read.id == id)?;
        let read = self.asked.remove(&(owner, start))?;
        self.in_order.remove(&(start, owner));
        if read.is_awaited {
            self.done.push_back((owner, id));
        }
        if !is_current(start) {
            return None;
        }
        let failure = match result {
            Err(error) => Some(ReadFailure::Disk(error.to_string().into())),
            Ok(bytes) => read.first.filter(|first| (bytes.len() as u64) < *first).map(|_| ReadFailure::Short),
        };
        // Others that wait for it ask again, each for its own record.
        if let (Some(failure), Some(_)) = (failure, read.first) {
            self.failures.push((owner, start, failure));
        }
        Some((read.window, read.is_awaited))
    }

    /// The failure to read the record at `at`, told once.
    pub(super) fn take_failure(&mut self, owner: Owner, at: u64) -> Option<ReadFailure> {
        let is_it = |(other, start, _): &(Owner, u64, ReadFailure)| (*other, *start) == (owner, at);
        let index = self.failures.iter().position(is_it)?;
        Some(self.failures.swap_remove(index).2)
    }

    /// Nobody waits for the failed reads of an owner any more.
    pub(super) fn forget_failures(&mut self, owner: Owner) {
        self.failures.retain(|(other, ..)| *other != owner);
    }

    /// A read that is done and for which somebody waits.
    pub(super) fn poll_done(&mut self) -> Option<(Owner, ReadId)> {
        self.done.pop_front()
    }

    /// Another owner may get this number. What a thread reads for it is of no use.
    pub(super) fn forget_owner(&mut self, owner: Owner) {
        self.waiting.remove(&owner);
        self.asked.retain(|(other, _), _| *other != owner);
        self.in_order.retain(|(_, other)| *other != owner);
        self.done.retain(|(other, _)| *other != owner);
        self.forget_failures(owner);
    }

    /// The first place of all.
    pub(super) fn first(&self) -> Option<u64> {
        let asked = self.in_order.first().map(|(start, _)| *start);
        // The owner of one that a thread has may be gone.
        asked.into_iter().chain(self.handed_out.iter().map(|read| read.start)).min()
    }

    /// Number of reads that are asked for, and of those among them that a thread has.
    pub(super) fn outstanding(&self) -> (u64, u64) {
        (self.asked.len() as u64, self.handed_out.len() as u64)
    }
}

/// Reads that threads have at the same time.
pub(super) const READS_MAX: usize = 4;
/// Bytes of the windows that are being read or that somebody waits for; a longer one is read alone.
const BYTES_MAX: u64 = 16 << 20;
