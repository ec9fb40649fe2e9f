//! Table of the segments in use, oldest first, with their live bytes.
//!
//! Invariant: they follow each other without a gap in position; the live bytes of each are those of its records
//! that were not released.

use std::collections::VecDeque;

use crate::{FileId, Position, format::Seed};

/// One segment in use.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Counts up with every segment.
    pub number: u64,
    pub file: FileId,
    /// Position of its first byte.
    pub base: u64,
    /// Position behind its last byte; the newest one still grows.
    pub end: u64,
    /// Seeds its checksums.
    pub incarnation: u64,
    /// The same, ready for use.
    pub seed: Seed,
    /// Length of its file, as far as it is written ahead; counted when the segment is full.
    pub file_bytes: u64,
    /// Bytes of its records, headers included, that were not released.
    pub live: u64,
}

/// The segments in use. There is always one that grows.
#[derive(Debug)]
pub(crate) struct Segments {
    full: VecDeque<Segment>,
    newest: Segment,
    live: u64,
}

impl Segments {
    pub(crate) fn new(full: VecDeque<Segment>, newest: Segment) -> Self {
        let live = full.iter().map(|segment| segment.live).sum::<u64>() + newest.live;
        Self { full, newest, live }
    }

    /// The newest is full: goes on with `next`.
    pub(crate) fn push(&mut self, next: Segment) {
        debug_assert!(self.newest.end == next.base, "a gap between segments");
        self.live += next.live;
        self.full.push_back(std::mem::replace(&mut self.newest, next));
    }

    pub(crate) fn count(&self) -> usize {
        self.full.len() + 1
    }

    /// The oldest one that is full.
    pub(crate) fn oldest_full(&self) -> Option<&Segment> {
        self.full.front()
    }

    pub(crate) fn newest(&self) -> &Segment {
        &self.newest
    }

    pub(crate) fn newest_mut(&mut self) -> &mut Segment {
        &mut self.newest
    }

    /// Position where replay begins.
    pub(crate) fn tail(&self) -> u64 {
        self.full.front().unwrap_or(&self.newest).base
    }

    /// Takes the oldest full one out of use.
    pub(crate) fn pop_oldest(&mut self) -> Option<Segment> {
        let oldest = self.full.pop_front()?;
        self.live -= oldest.live;
        Some(oldest)
    }

    /// The segment that holds `at`.
    pub(crate) fn at(&self, at: u64) -> Option<&Segment> {
        if at >= self.newest.base {
            return (at < self.newest.end).then_some(&self.newest);
        }
        let index = self.full.partition_point(|segment| segment.base <= at).checked_sub(1)?;
        self.full.get(index)
    }

    fn at_mut(&mut self, at: u64) -> Option<&mut Segment> {
        if at >= self.newest.base {
            return (at < self.newest.end).then_some(&mut self.newest);
        }
        let index = self.full.partition_point(|segment| segment.base <= at).checked_sub(1)?;
        self.full.get_mut(index)
    }

    /// The newest segment has grown to `end`, by a record of `bytes` live bytes.
    pub(crate) fn grow(&mut self, end: u64, bytes: u64) {
        self.newest.end = end;
        self.newest.live += bytes;
        self.live += bytes;
    }

    /// Counts `bytes` fewer live bytes in the segment that holds `at`.
    pub(crate) fn release(&mut self, at: Position, bytes: u64) {
        let Some(segment) = self.at_mut(at.0) else { return };
        debug_assert!(segment.live >= bytes, "released twice: {at}");
        let bytes = bytes.min(segment.live);
        segment.live -= bytes;
        self.live -= bytes;
    }

    /// Counts nothing as live.
    pub(crate) fn clear_live(&mut self) {
        self.live = 0;
        self.newest.live = 0;
        for segment in &mut self.full {
            segment.live = 0;
        }
    }

    /// Counts `bytes` live bytes in the segment that holds `at`.
    pub(crate) fn add_live_at(&mut self, at: Position, bytes: u64) {
        let Some(segment) = self.at_mut(at.0) else { return };
        segment.live += bytes;
        self.live += bytes;
    }

    /// Live bytes of all segments.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes of all segments, live or not.
    pub(crate) fn used(&self) -> u64 {
        self.newest.end - self.tail()
    }
}

#[cfg(test)]
mod tests;
