//! Pool of segment files beside those in use: retired ones, ready spares, the one in preparation, and files to delete.
//!
//! Invariant: a file is in one place only: in use, retired, spare, in preparation, or to be deleted; preparation touches
//! no file in use, so it may run beside the writing; and a file that held a segment is given out or deleted only when
//! the disk knows that the segment is dead.

use std::collections::VecDeque;

use crate::{FileId, segments::Segment, work::Prepare};

/// The pool of files that hold no records.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    segment_bytes: u64,
    wanted: usize,
    /// Spares that are kept of the segments that die: at least as many as wanted.
    kept: usize,
    ready: VecDeque<FileId>,
    preparing: Option<Preparing>,
    /// Bytes of the newest segment's file that are preallocated or written.
    current_bytes: u64,
    /// Segments that are dead, oldest first; the disk does not know yet.
    retired: Vec<Segment>,
    files_to_delete: Vec<FileId>,
    /// Files that could not be deleted since the start.
    failed_deletes: u64,
    next: u32,
    /// A preparation ran out of space when the disk had this many bytes free: none is begun before there are more.
    full_at_bytes: Option<u64>,
}

/// A file that is written ahead step by step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preparing {
    pub file: FileId,
    /// It is not created yet.
    pub create: bool,
    /// Bytes written ahead.
    pub done: u64,
}

/// Priority of preparing spare segments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PreparePriority {
    /// Not at all.
    Stopped,
    /// As fast as it is used up.
    KeepUp,
    /// Everything, at once.
    Background,
}

/// The file for a new segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TakenFile {
    pub file: FileId,
    /// It must be created first.
    pub create: bool,
}

impl SegmentPool {
    /// `current_bytes`: length of the newest segment's file; `spares` are files that hold nothing, with their lengths.
    pub(crate) fn new(
        segment_bytes: u64,
        wanted: u32,
        next: u32,
        current_bytes: u64,
        spares: impl IntoIterator<Item = (FileId, u64)>,
    ) -> Self {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let mut files = Self {
            segment_bytes,
            wanted,
            kept: wanted,
            ready: VecDeque::new(),
            preparing: None,
            current_bytes,
            retired: Vec::new(),
            files_to_delete: Vec::new(),
            failed_deletes: 0,
            next,
            full_at_bytes: None,
        };
        for (file, length) in spares {
            files.add(file, length);
        }
        files
    }

    /// None at all: in memory.
    pub(crate) fn none() -> Self {
        Self::new(0, 0, 0, 0, [])
    }

    /// A file that holds nothing any more, `length` bytes long. One that is written through is worth more than one
    /// still in preparation, whose writing ahead costs as much as the writing itself.
    pub(crate) fn add(&mut self, file: FileId, length: u64) {
        let short = length < self.segment_bytes;
        let full = self.spares() >= self.kept;
        if length > longest_spare(self.segment_bytes) {
            self.files_to_delete.push(file);
        } else if !short && (!full || self.preparing.is_some()) {
            if full && let Some(preparing) = self.preparing.take() {
                self.files_to_delete.push(preparing.file);
            }
            self.ready.push_back(file);
        } else if short && !full && self.preparing.is_none() {
            self.preparing = Some(Preparing { file, create: false, done: length });
        } else {
            self.files_to_delete.push(file);
        }
    }

    /// There is room for so many spares. Many segments may die at once, since one that is alive keeps those behind it: more files
    /// are kept then than wanted, or as many would be written ahead again soon.
    pub(crate) fn set_room(&mut self, spares: usize) {
        self.kept = if self.wanted == 0 { 0 } else { self.wanted.max(spares) };
        self.give_back();
    }

    /// Nothing is written: files beyond those that are wanted are given back.
    pub(crate) fn on_idle(&mut self) {
        self.kept = self.wanted;
        self.give_back();
    }

    fn give_back(&mut self) {
        let end = self.ready.len().min(self.kept);
        self.files_to_delete.extend(self.ready.drain(end..));
    }

    /// A segment is dead. Its file is of use as soon as the disk knows that.
    pub(crate) fn retire(&mut self, segment: Segment) {
        self.retired.push(segment);
    }

    /// Whether there are dead segments whose files are not of use yet.
    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Takes in the files of retired segments that end at or before `tail`: the disk knows that replay begins there.
    pub(crate) fn recycle_retired(&mut self, tail: u64) {
        while let Some(oldest) = self.retired.first()
            && oldest.end <= tail
        {
            let segment = self.retired.remove(0);
            self.add(segment.file, segment.file_bytes);
        }
    }

    /// The file for a segment of `room` bytes.
    pub(crate) fn take(&mut self, room: u64) -> TakenFile {
        let ready = if room <= self.segment_bytes { self.ready.pop_front() } else { None };
        let (taken, done) = match ready {
            Some(file) => (TakenFile { file, create: false }, self.segment_bytes),
            None => (TakenFile { file: self.unused_name(), create: true }, 0),
        };
        self.current_bytes = done;
        taken
    }

    /// Whether the next segment should begin early: the newest one, `used` up to here, is not written ahead any
    /// further, and a spare is. Only the first segment of all begins so short, or one that was needed in a hurry.
    pub(crate) fn is_better_left(&self, used: u64) -> bool {
        used > self.current_bytes && self.current_bytes < self.segment_bytes && !self.ready.is_empty()
    }

    /// The next step of preparation. `used`: bytes of the newest segment that are written or being written;
    /// `room`: there is space for more spares.
    pub(crate) fn next_step(&self, used: u64, pace: PreparePriority, room: bool) -> Option<Prepare> {
        if pace == PreparePriority::Stopped {
            return None;
        }
        let preparing = match self.preparing {
            Some(preparing) => preparing,
            // With one ready, the next comes from the segments that die: writing one ahead would be for nothing.
            None if self.ready.is_empty() && self.wanted > 0 && room && self.full_at_bytes.is_none() => {
                Preparing { file: FileId(self.next), create: true, done: 0 }
            }
            None => return None,
        };
        // A spare grows a little faster than the newest segment fills, and no more than that.
        let enough = !self.ready.is_empty() || preparing.done >= used + used / 4 + LEAD_BYTES;
        let hurry = self.current_bytes < self.segment_bytes;
        if pace == PreparePriority::KeepUp && enough && !hurry {
            return None;
        }
        let length = STEP_BYTES.min(self.segment_bytes - preparing.done);
        let create = preparing.create.then_some(self.segment_bytes);
        Some(Prepare { file: preparing.file, create, offset: preparing.done, length })
    }

    /// A step was handed out.
    pub(crate) fn began(&mut self, step: &Prepare) {
        if step.create.is_some() {
            self.next = self.next.wrapping_add(1);
            self.preparing = Some(Preparing { file: step.file, create: false, done: 0 });
        }
    }

    /// A step succeeded.
    pub(crate) fn prepared(&mut self, file: FileId, end: u64) {
        if let Some(preparing) = self.preparing.as_mut().filter(|preparing| preparing.file == file) {
            preparing.done = end;
            if end >= self.segment_bytes {
                self.preparing = None;
                self.ready.push_back(file);
            }
        }
    }

    /// There was no space for a step, with `free_bytes` free on the disk.
    pub(crate) fn on_disk_full(&mut self, file: FileId, free_bytes: u64) {
        self.full_at_bytes = Some(free_bytes);
        if let Some(preparing) = self.preparing.take_if(|preparing| preparing.file == file) {
            self.files_to_delete.push(preparing.file);
        }
    }

    /// The disk has `free_bytes` free now.
    pub(crate) fn on_space_freed(&mut self, free_bytes: u64) {
        self.full_at_bytes.take_if(|at| free_bytes >= at.saturating_add(self.segment_bytes));
    }

    /// Bytes of the newest segment's file that are written ahead.
    pub(crate) fn current_bytes(&self) -> u64 {
        self.current_bytes
    }

    /// A file to delete.
    pub(crate) fn pop_file_to_delete(&mut self) -> Option<FileId> {
        self.files_to_delete.pop()
    }

    /// A file could not be deleted. It holds no live record, and the next recovery finds it again.
    pub(crate) fn on_delete_failed(&mut self) {
        self.failed_deletes += 1;
    }

    pub(crate) fn failed_deletes(&self) -> u64 {
        self.failed_deletes
    }

    /// Spares, and the retired segments that may become spares.
    pub(crate) fn files(&self) -> usize {
        self.retired.len() + self.spares()
    }

    /// Spares, ready or in preparation.
    pub(crate) fn spares(&self) -> usize {
        self.ready.len() + usize::from(self.preparing.is_some())
    }

    /// Bytes of the spares that are ready.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.segment_bytes.saturating_mul(self.ready.len() as u64)
    }

    fn unused_name(&mut self) -> FileId {
        let file = FileId(self.next);
        self.next = self.next.wrapping_add(1);
        file
    }
}

/// A unit may overrun the end of its segment; a file that grew by no more than this is still good for use again.
pub(crate) fn longest_spare(segment_bytes: u64) -> u64 {
    segment_bytes + segment_bytes / 4
}

/// One step of preparation: a write this long delays a waiting sync only a little.
const STEP_BYTES: u64 = 512 << 10;
/// Distance in bytes that a spare is kept ahead of the writer's progress in the newest segment.
const LEAD_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests;
