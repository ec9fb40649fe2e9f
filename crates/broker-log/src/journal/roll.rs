//! Roll-over: a unit goes into the open batch, a new batch, or a new segment.
//!
//! Invariant: a unit never crosses a segment; a segment that is full ends with a seal.

use crate::{
    Journal,
    format::{BatchKind, HEADER, RECORD_HEADER, Seed, aligned},
    segments::Segment,
};

impl Journal {
    /// Makes room for a unit whose first record takes `stored` bytes, `listed` of them in the summary as well. The
    /// rest of the unit may overrun the segment's end a little.
    pub(super) fn begin_unit(&mut self, stored: u64, listed: u64) {
        self.in_unit = true;
        let newest = self.segments.newest();
        let used = self.writer.end - newest.base;
        let needed = HEADER + stored + self.summary.bytes() + RECORD_HEADER + listed + ENDING_BYTES;
        let begun = used > FIRST_RECORD;
        let full = used + needed > self.config.segment_bytes;
        if begun && (full || (self.writes_are_small() && self.segment_pool.is_better_left(used))) {
            self.roll(needed);
        } else if self.writer.open_bytes() > BATCH_BYTES_MAX {
            self.seal();
        }
    }

    /// Ends the newest segment and goes on in a new one, with room for `needed` bytes.
    fn roll(&mut self, needed: u64) {
        self.seal();
        if self.disk.is_some() {
            self.push_ending();
        } else {
            self.writer.end = aligned(self.writer.end);
        }
        let base = self.writer.end;
        let file_bytes = self.segment_pool.current_bytes().max(base - self.segments.newest().base);
        let newest = self.segments.newest_mut();
        newest.end = base;
        newest.file_bytes = file_bytes;
        let number = newest.number + 1;
        let incarnation = incarnation(base, self.config.salt);
        let room = (FIRST_RECORD + needed).max(self.config.segment_bytes);
        let taken = self.segment_pool.take(room);
        let segment = Segment {
            number,
            file: taken.file,
            base,
            end: base + HEADER,
            file_bytes: 0,
            incarnation,
            seed: Seed::of(incarnation),
            live: 0,
        };
        self.segments.push(segment.clone());
        self.summary.reset(base);
        if self.disk.is_some() {
            self.writer.begin_segment(&segment, self.watermarks(), taken.create.then_some(room));
        } else {
            self.writer.skip_header();
        }
    }

    /// The summary, if it is worth it, and the seal.
    fn push_ending(&mut self) {
        let marks = self.watermarks();
        let newest = self.segments.newest();
        let summary = self.summary.finished();
        let at = summary.map_or(0, |summary| self.writer.push_summary(newest, marks, summary));
        self.writer.push_mark(newest, marks, BatchKind::Seal, at);
    }

    /// Ends the open batch.
    pub(super) fn seal(&mut self) {
        self.freeze();
        let marks = self.watermarks();
        self.writer.seal(self.segments.newest(), marks);
        // Padding belongs to the segment.
        self.segments.grow(self.writer.end, 0);
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

/// Offset of the first record of a segment at the least: behind the segment's header and a batch's, or the mark of an
/// opening.
pub(super) const FIRST_RECORD: u64 = 2 * HEADER;
/// Bytes of the end of a segment besides the summary's entries: two paddings, the header and record header of
/// the summary, and the seal.
const ENDING_BYTES: u64 = 2 * HEADER + HEADER + RECORD_HEADER + 2 * HEADER;
/// A batch is not kept open beyond this: recovery holds one in memory.
const BATCH_BYTES_MAX: u64 = 8 << 20;
