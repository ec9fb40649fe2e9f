//! Appender: puts records into units, units into batches, and batches into segments.
//!
//! Invariant: a unit never crosses a segment; a segment that is full ends with a seal.

use crate::{
    JournalConfig, Owner,
    format::{BatchKind, HEADER, RECORD_HEADER, RECORD_HEADER_LEN, RecordHeader, aligned},
    segment_pool::SegmentPool,
    segments::{FIRST_RECORD, Segment, Segments},
    summary::SummaryBuilder,
    write_cache::WriteCache,
    writer::{Group, Outstanding, Watermarks, Writer, WrittenBy},
};

/// The end of the journal, where records are added.
#[derive(Debug)]
pub(crate) struct Appender {
    writer: Writer,
    /// Index of the newest segment.
    summary: SummaryBuilder,
    /// Records were appended since the last commit.
    in_unit: bool,
    /// Now, in milliseconds since 1970, as the caller said last.
    time: u64,
}

/// Parts of the journal that an append changes or looks at.
pub(crate) struct AppendContext<'a> {
    pub config: &'a JournalConfig,
    pub segments: &'a mut Segments,
    pub segment_pool: &'a mut SegmentPool,
    pub write_cache: &'a mut WriteCache,
    /// Position up to which the disk has confirmed everything by a sync.
    pub synced: u64,
    /// See [`BackgroundIo::writes_are_small`](crate::background_io::BackgroundIo::writes_are_small).
    pub writes_are_small: bool,
    /// False: the journal lives in memory, without batches and checksums.
    pub on_disk: bool,
}

impl AppendContext<'_> {
    fn watermarks(&self) -> Watermarks {
        Watermarks { synced: self.synced, tail: self.segments.tail() }
    }
}

impl Appender {
    pub(crate) fn new(writer: Writer, summary: SummaryBuilder, time: u64) -> Self {
        Self { writer, summary, in_unit: false, time }
    }

    /// Time that the mark of the next segment states.
    pub(crate) fn set_time(&mut self, time: u64) {
        self.time = time;
    }

    /// Position behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.writer.end
    }

    /// Whether a unit has begun that is not committed.
    pub(crate) fn in_unit(&self) -> bool {
        self.in_unit
    }

    /// Ends the unit. False when none has begun.
    pub(crate) fn end_unit(&mut self) -> bool {
        std::mem::take(&mut self.in_unit)
    }

    /// Appends a record of `length` bytes, `index` and `rest`; gives its position.
    #[inline]
    pub(crate) fn append(
        &mut self,
        context: &mut AppendContext<'_>,
        owner: Owner,
        length: u32,
        index: &[u8],
        rest: &[&[u8]],
    ) -> u64 {
        let stored = RECORD_HEADER + u64::from(length);
        if !self.in_unit {
            self.begin_unit(context, stored, index.len() as u64);
        }
        let (at, header) = if context.on_disk {
            let newest = context.segments.newest();
            (self.writer.next_record(newest), RecordHeader::of(newest.seed, length, index, rest))
        } else {
            (self.writer.end, RecordHeader::unchecked(length, index))
        };
        let stored_bytes = RECORD_HEADER_LEN + length as usize;
        if !context.write_cache.continues(at, stored_bytes) {
            self.freeze(context.write_cache, context.on_disk);
            context.write_cache.begin(at, at - context.segments.newest().base, stored_bytes);
        }
        context.write_cache.push(owner, header.encode(), index, rest);
        self.writer.add_record(&header);
        self.summary.add(at, length, index);
        context.segments.grow(self.writer.end, stored);
        at
    }

    /// Makes the open records readable and hands them to the writer.
    pub(crate) fn freeze(&mut self, write_cache: &mut WriteCache, on_disk: bool) {
        if let Some(part) = write_cache.freeze()
            && on_disk
        {
            self.writer.add_part(part);
        }
    }

    /// Makes room for a unit whose first record takes `stored` bytes, `listed` of them in the summary as well. The
    /// rest of the unit may overrun the segment's end a little.
    fn begin_unit(&mut self, context: &mut AppendContext<'_>, stored: u64, listed: u64) {
        self.in_unit = true;
        let used = self.writer.end - context.segments.newest().base;
        let needed = HEADER + stored + self.summary.bytes() + RECORD_HEADER + listed + ENDING_BYTES;
        let begun = used > FIRST_RECORD;
        let full = used + needed > context.config.segment_bytes;
        if begun && (full || (context.writes_are_small && context.segment_pool.is_better_left(used))) {
            self.roll(context, needed);
        } else if self.writer.open_bytes() > BATCH_BYTES_MAX {
            self.seal(context);
        }
    }

    /// Ends the newest segment and goes on in a new one, with room for `needed` bytes.
    fn roll(&mut self, context: &mut AppendContext<'_>, needed: u64) {
        self.seal(context);
        if context.on_disk {
            self.push_ending(context);
        } else {
            self.writer.end = aligned(self.writer.end);
        }
        let base = self.writer.end;
        let file_bytes = context.segment_pool.current_bytes().max(base - context.segments.newest().base);
        let newest = context.segments.newest_mut();
        newest.end = base;
        newest.file_bytes = file_bytes;
        let number = newest.number + 1;
        let room = (FIRST_RECORD + needed).max(context.config.segment_bytes);
        let taken = context.segment_pool.take(room);
        let segment = Segment::begin(number, taken.file, base, context.config.salt);
        context.segments.push(segment.clone());
        self.summary.reset(base);
        if context.on_disk {
            let written_by = WrittenBy::of(context.config, self.time);
            let create = taken.create.then_some(room);
            self.writer.begin_segment(&segment, context.watermarks(), create, &written_by);
            context.segments.grow(self.writer.end, 0);
        } else {
            self.writer.skip_header();
        }
    }

    /// The summary, if it is worth it, and the seal.
    fn push_ending(&mut self, context: &AppendContext<'_>) {
        let marks = context.watermarks();
        let newest = context.segments.newest();
        let summary = self.summary.finished();
        let at = summary.map_or(0, |summary| self.writer.push_summary(newest, marks, summary));
        self.writer.push_empty(newest, marks, BatchKind::Seal, at);
    }

    /// Ends the open batch.
    fn seal(&mut self, context: &mut AppendContext<'_>) {
        self.freeze(context.write_cache, context.on_disk);
        let marks = context.watermarks();
        self.writer.seal(context.segments.newest(), marks);
        // Padding belongs to the segment.
        context.segments.grow(self.writer.end, 0);
    }

    /// Ends the open batch, if there is one, so that it can be written.
    pub(crate) fn seal_open(&mut self, context: &mut AppendContext<'_>) {
        if self.writer.is_open() {
            self.seal(context);
        }
    }

    /// Adds a batch that carries the watermarks only.
    pub(crate) fn push_empty(&mut self, context: &mut AppendContext<'_>, kind: BatchKind) {
        let marks = context.watermarks();
        self.writer.push_empty(context.segments.newest(), marks, kind, 0);
        context.segments.grow(self.writer.end, 0);
    }

    /// Whether batches wait to be written.
    pub(crate) fn has_pending(&self) -> bool {
        self.writer.has_pending()
    }

    /// Whether a write is outstanding.
    pub(crate) fn is_writing(&self) -> bool {
        self.writer.is_writing()
    }

    /// See [`Writer::next_group`].
    pub(crate) fn next_group(&mut self, sync: impl FnOnce(u64) -> bool) -> Option<Group> {
        self.writer.next_group(sync)
    }

    /// The outstanding write ended.
    pub(crate) fn finish_write(&mut self) -> Option<Outstanding> {
        self.writer.finish()
    }
}

/// Bytes of the end of a segment besides the summary's entries: two paddings, the header and record header of
/// the summary, and the seal.
const ENDING_BYTES: u64 = 2 * HEADER + HEADER + RECORD_HEADER + 2 * HEADER;
/// A batch is not kept open beyond this: recovery holds one in memory.
const BATCH_BYTES_MAX: u64 = 8 << 20;
