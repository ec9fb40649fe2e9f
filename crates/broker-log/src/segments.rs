//! Table of the segments in use, oldest first, with their live bytes.
//!
//! Invariant: they follow each other without a gap in position; the live bytes of each are those of its records
//! that were not released.

use std::collections::VecDeque;

use crate::{
    FileId, Position,
    format::{HEADER, Seed},
    mark::MARK_BYTES,
};

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

impl Segment {
    /// An empty segment at `base`.
    pub(crate) fn begin(number: u64, file: FileId, base: u64, salt: u64) -> Self {
        let incarnation = incarnation(base, salt);
        Self {
            number,
            file,
            base,
            end: base + HEADER,
            incarnation,
            seed: Seed::of(incarnation),
            file_bytes: 0,
            live: 0,
        }
    }
}

/// Seeds the checksums of the segment at `base`. No two segments of a journal begin at the same position, so no
/// two have the same; the salt keeps it from being guessed.
pub(crate) fn incarnation(base: u64, salt: u64) -> u64 {
    // The finalizer of SplitMix64, a bijection: different bases stay different.
    let mut mixed = base ^ salt;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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

    /// Whether nothing lives in the full one behind the oldest.
    pub(crate) fn is_second_dead(&self) -> bool {
        self.full.get(1).is_some_and(|second| second.live == 0)
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

/// Offset of the first record of a segment at the least: behind the segment's header, its mark and the header of a batch.
pub(crate) const FIRST_RECORD: u64 = HEADER + MARK_BYTES + HEADER;

#[cfg(test)]
mod tests;
