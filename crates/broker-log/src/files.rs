//! The files beside the segments in use: spares that are ready, the one being prepared, and those to delete.
//!
//! Invariant: a file is in one place only: in use, spare, in preparation, or to be deleted; and a file that held
//! a segment comes here only when the disk knows that the segment is dead.

use std::collections::VecDeque;

use crate::{FileId, work::Prepare};

/// Files that hold no records.
#[derive(Debug)]
pub(crate) struct Files {
    segment_bytes: u64,
    wanted: usize,
    ready: VecDeque<FileId>,
    preparing: Option<Preparing>,
    /// How far the newest segment's file is written ahead.
    current: Preparing,
    condemned: Vec<FileId>,
    next: u32,
    /// A preparation ran out of space when the disk had this many bytes free: none is begun before there are more.
    starved_at: Option<u64>,
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

/// The file for a new segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Taken {
    pub file: FileId,
    /// It must be created first.
    pub create: bool,
}

impl Files {
    /// `current` is the newest segment's file; `spares` are files that hold nothing, with their lengths.
    pub(crate) fn new(
        segment_bytes: u64,
        wanted: u32,
        next: u32,
        current: Preparing,
        spares: impl IntoIterator<Item = (FileId, u64)>,
    ) -> Self {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let mut files = Self {
            segment_bytes,
            wanted,
            ready: VecDeque::new(),
            preparing: None,
            current,
            condemned: Vec::new(),
            next,
            starved_at: None,
        };
        for (file, length) in spares {
            files.add(file, length);
        }
        files
    }

    /// None at all: in memory.
    pub(crate) fn none() -> Self {
        Self::new(0, 0, 0, Preparing { file: FileId(0), create: false, done: 0 }, [])
    }

    /// A file that holds nothing any more, `length` bytes long.
    pub(crate) fn add(&mut self, file: FileId, length: u64) {
        let short = length < self.segment_bytes;
        if length > self.segment_bytes || self.spares() >= self.wanted || (short && self.preparing.is_some())
        {
            self.condemned.push(file);
        } else if short {
            self.preparing = Some(Preparing { file, create: false, done: length });
        } else {
            self.ready.push_back(file);
        }
    }

    /// The file for a segment of `room` bytes.
    pub(crate) fn take(&mut self, room: u64) -> Taken {
        let ready = if room <= self.segment_bytes { self.ready.pop_front() } else { None };
        let (taken, done) = match ready {
            Some(file) => (Taken { file, create: false }, self.segment_bytes),
            None => (Taken { file: self.unused_name(), create: true }, 0),
        };
        self.current = Preparing { file: taken.file, create: false, done };
        taken
    }

    /// The next step of preparation. `used`: bytes of the newest segment that are written or being written;
    /// `idle`: nothing waits for the disk; `room`: there is space for more spares.
    pub(crate) fn next_step(&self, used: u64, idle: bool, room: bool) -> Option<Prepare> {
        let done = self.current.done;
        let near = done > used && done - used < LEAD_BYTES;
        if done < self.segment_bytes && used <= done && (idle || near) {
            let length = STEP_BYTES.min(self.segment_bytes - done);
            return Some(Prepare { file: self.current.file, create: None, offset: done, length });
        }
        let preparing = match self.preparing {
            Some(preparing) => preparing,
            None if self.spares() < self.wanted && room && self.starved_at.is_none() => {
                Preparing { file: FileId(self.next), create: true, done: 0 }
            }
            None => return None,
        };
        // Under load, a spare grows a little faster than the newest segment fills, and no more than that.
        let behind = (used + used / 4 + LEAD_BYTES).saturating_sub(preparing.done);
        if !idle && (!self.ready.is_empty() || behind == 0) {
            return None;
        }
        let step = if idle { STEP_BYTES } else { behind.clamp(STEP_BYTES, STEP_BYTES_MAX) };
        let length = step.min(self.segment_bytes - preparing.done);
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
        if self.current.file == file {
            self.current.done = self.current.done.max(end);
        } else if let Some(preparing) = self.preparing.as_mut().filter(|preparing| preparing.file == file) {
            preparing.done = end;
            if end >= self.segment_bytes {
                self.preparing = None;
                self.ready.push_back(file);
            }
        }
    }

    /// The newest segment is written up to `end`: what was not written ahead is now.
    pub(crate) fn written(&mut self, end: u64) {
        self.current.done = self.current.done.max(end);
    }

    /// There was no space for a step, with `free_bytes` free on the disk.
    pub(crate) fn starve(&mut self, file: FileId, free_bytes: u64) {
        self.starved_at = Some(free_bytes);
        if let Some(preparing) = self.preparing.take_if(|preparing| preparing.file == file) {
            self.condemned.push(preparing.file);
        }
    }

    /// The disk has `free_bytes` free now.
    pub(crate) fn relieve(&mut self, free_bytes: u64) {
        self.starved_at.take_if(|at| free_bytes >= at.saturating_add(self.segment_bytes));
    }

    /// Bytes of the newest segment's file that are written ahead.
    pub(crate) fn current_bytes(&self) -> u64 {
        self.current.done
    }

    /// A file to delete.
    pub(crate) fn pop_condemned(&mut self) -> Option<FileId> {
        self.condemned.pop()
    }

    /// Spares, ready or in preparation.
    pub(crate) fn spares(&self) -> usize {
        self.ready.len() + usize::from(self.preparing.is_some())
    }

    fn unused_name(&mut self) -> FileId {
        let file = FileId(self.next);
        self.next = self.next.wrapping_add(1);
        file
    }
}

/// One step of preparation: a write this long delays a waiting sync only a little.
pub(crate) const STEP_BYTES: u64 = 256 << 10;
/// The longest step, for a writer that is faster than that.
const STEP_BYTES_MAX: u64 = 8 << 20;
/// How far ahead of the writer the newest segment is kept prepared even under load.
const LEAD_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests;
