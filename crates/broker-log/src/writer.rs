//! Writer: collects records into batches, and batches into writes.
//!
//! Invariant: positions are given out in order and without overlap; a batch holds whole units only; at most one
//! write is outstanding, and writes never cross a segment.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    JournalConfig,
    format::{
        BatchHeader, BatchKind, HEADER, RECORD_HEADER, RecordHeader, RecordsChecksum, SegmentHeader, VERSION,
        aligned,
    },
    mark::Mark,
    segments::Segment,
};

/// The end of the journal.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Position of the next byte.
    pub end: u64,
    /// Checksum of the last sealed batch.
    pub chain: u32,
    /// Number of the last sealed batch, counted from 1 on.
    pub number: u64,
    /// The batch that takes records.
    open: Option<OpenBatch>,
    /// Blocks that wait to be written.
    pending: VecDeque<Block>,
    outstanding: Option<Outstanding>,
}

#[derive(Debug)]
struct OpenBatch {
    position: u64,
    count: u32,
    checksum: RecordsChecksum,
    parts: Vec<Bytes>,
}

/// Bytes ready to be written: a batch or a segment header.
#[derive(Debug)]
struct Block {
    /// Number of its segment.
    segment: u64,
    position: u64,
    end: u64,
    tail: u64,
    parts: Vec<Bytes>,
    /// Number of the caller's records in it.
    records: u64,
    /// Its file must be created first, with this much room.
    create: Option<u64>,
}

/// Positions that a batch states besides its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermarks {
    pub synced: u64,
    pub tail: u64,
}

/// The writer of a segment, as its mark names it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct WrittenBy {
    pub shard: u32,
    /// Random id of the node.
    pub node: u64,
    /// Now, in milliseconds since 1970.
    pub time: u64,
}

impl WrittenBy {
    /// This journal, now.
    pub(crate) fn of(config: &JournalConfig, time: u64) -> Self {
        Self { shard: config.shard, node: config.node, time }
    }
}

/// A group of blocks to write at once.
#[derive(Debug)]
pub(crate) struct Group {
    pub position: u64,
    pub create: Option<u64>,
    pub parts: Vec<Bytes>,
    /// Number of the caller's records in it.
    pub records: u64,
    pub outstanding: Outstanding,
}

/// Effect of the outstanding write when it succeeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outstanding {
    /// Everything before this position is written.
    pub end: u64,
    /// The disk knows that replay begins here.
    pub tail: u64,
    /// It includes a sync.
    pub sync: bool,
}

impl Writer {
    /// At the journal's `end`, behind the batch with this `number` and the checksum `chain`.
    pub(crate) fn new(end: u64, chain: u32, number: u64) -> Self {
        Self { end, chain, number, open: None, pending: VecDeque::new(), outstanding: None }
    }

    /// Bytes of the batch that takes records.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| self.end - open.position)
    }

    /// Whether a batch takes records.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Position of the next record.
    pub(crate) fn next_record(&mut self, segment: &Segment) -> u64 {
        if self.open.is_none() {
            self.open = Some(OpenBatch {
                position: self.end,
                count: 0,
                checksum: RecordsChecksum::new(segment.seed),
                parts: Vec::new(),
            });
            self.end += HEADER;
        }
        self.end
    }

    /// Counts a record at the place that [`Writer::next_record`] gave out.
    ///
    /// # Panics
    /// If the batch has more than [`UNIT_BYTES_MAX`] bytes. Batches are ended between units long before, so that
    /// is one unit, which can neither be split nor be written: a header could not say its length.
    pub(crate) fn add_record(&mut self, header: &RecordHeader) {
        if let Some(open) = &mut self.open {
            let bytes = self.end - open.position + RECORD_HEADER + u64::from(header.length);
            assert!(bytes <= UNIT_BYTES_MAX, "a unit of {bytes} bytes: the caller commits before");
            open.count += 1;
            open.checksum.add(header.checksum);
        }
        self.end += RECORD_HEADER + u64::from(header.length);
    }

    /// Takes over frozen records of the open batch.
    pub(crate) fn add_part(&mut self, part: Bytes) {
        if let Some(open) = &mut self.open {
            open.parts.push(part);
        }
    }

    /// Ends the open batch; all its records are frozen.
    pub(crate) fn seal(&mut self, segment: &Segment, marks: Watermarks) {
        if let Some(open) = self.open.take() {
            self.push_batch(segment, marks, BatchKind::Data, 0, open);
        }
    }

    /// Adds a batch without records.
    pub(crate) fn push_empty(&mut self, segment: &Segment, marks: Watermarks, kind: BatchKind, extra: u64) {
        debug_assert!(self.open.is_none(), "seal first");
        let checksum = RecordsChecksum::new(segment.seed);
        let batch = OpenBatch { position: self.end, count: 0, checksum, parts: Vec::new() };
        self.end += HEADER;
        self.push_batch(segment, marks, kind, extra, batch);
    }

    /// Adds a batch with the segment's summary; says where.
    pub(crate) fn push_summary(&mut self, segment: &Segment, marks: Watermarks, summary: &[u8]) -> u64 {
        self.push_own(segment, marks, BatchKind::Summary, summary)
    }

    /// Adds a batch with one record of the journal's own; says where.
    fn push_own(&mut self, segment: &Segment, marks: Watermarks, kind: BatchKind, content: &[u8]) -> u64 {
        debug_assert!(self.open.is_none(), "seal first");
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let header = RecordHeader::of(segment.seed, length, &[], &[content]);
        let mut checksum = RecordsChecksum::new(segment.seed);
        checksum.add(header.checksum);
        let parts = vec![Bytes::copy_from_slice(&header.encode()), Bytes::copy_from_slice(content)];
        let position = self.end;
        self.end += HEADER + RECORD_HEADER + u64::from(length);
        self.push_batch(segment, marks, kind, 0, OpenBatch { position, count: 1, checksum, parts });
        position
    }

    fn push_batch(
        &mut self,
        segment: &Segment,
        marks: Watermarks,
        kind: BatchKind,
        extra: u64,
        batch: OpenBatch,
    ) {
        let header = BatchHeader {
            kind,
            flags: 0,
            count: batch.count,
            previous: self.chain,
            length: u32::try_from(self.end - batch.position).unwrap_or(u32::MAX),
            position: batch.position,
            incarnation: segment.incarnation,
            synced: marks.synced,
            tail: marks.tail,
            extra,
        };
        let (bytes, checksum) = header.encode(batch.checksum);
        let end = aligned(self.end);
        let padding = usize::try_from(end - self.end).unwrap_or_default();
        let mut parts = Vec::with_capacity(batch.parts.len() + 2);
        parts.push(Bytes::copy_from_slice(&bytes));
        parts.extend(batch.parts);
        if padding > 0 {
            parts.push(Bytes::from_static(PADDING.get(..padding).unwrap_or(&PADDING)));
        }
        let (segment, position, tail) = (segment.number, batch.position, marks.tail);
        let records = if kind == BatchKind::Data { u64::from(batch.count) } else { 0 };
        self.pending.push_back(Block { segment, position, end, tail, parts, records, create: None });
        self.end = end;
        self.chain = checksum;
        self.number += 1;
    }

    /// Goes on in a new segment, whose file must be created first if `create` says so. Its first batch is a mark.
    pub(crate) fn begin_segment(
        &mut self,
        segment: &Segment,
        marks: Watermarks,
        create: Option<u64>,
        written_by: &WrittenBy,
    ) {
        debug_assert!(self.open.is_none() && self.end == segment.base, "segments follow each other");
        let header = SegmentHeader {
            version: VERSION,
            base: segment.base,
            incarnation: segment.incarnation,
            synced: marks.synced,
            tail: marks.tail,
            previous: self.chain,
            resume: None,
        };
        self.chain = header.chain();
        self.end += HEADER;
        self.pending.push_back(Block {
            segment: segment.number,
            position: segment.base,
            end: self.end,
            tail: marks.tail,
            parts: vec![Bytes::copy_from_slice(&header.encode())],
            records: 0,
            create,
        });
        let mark = Mark {
            shard: written_by.shard,
            number: self.number + 1,
            node: written_by.node,
            time: written_by.time,
        };
        self.push_own(segment, marks, BatchKind::Mark, &mark.encode());
    }

    /// Leaves room for a segment header that is never written: in memory.
    pub(crate) fn skip_header(&mut self) {
        self.end += HEADER;
    }

    /// Whether something waits to be written.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a write is outstanding.
    pub(crate) fn is_writing(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Everything pending of the oldest segment, as one write; it is outstanding from now on.
    pub(crate) fn next_group(&mut self, sync: impl FnOnce(u64) -> bool) -> Option<Group> {
        if self.outstanding.is_some() {
            return None;
        }
        let first = self.pending.front()?;
        let (segment, position) = (first.segment, first.position);
        let (mut parts, mut records, mut create, mut end, mut tail) = (Vec::new(), 0, None, position, 0);
        while self.pending.front().is_some_and(|block| block.segment == segment)
            && let Some(mut block) = self.pending.pop_front()
        {
            parts.append(&mut block.parts);
            records += block.records;
            create = create.or(block.create);
            end = block.end;
            tail = block.tail;
        }
        let outstanding = Outstanding { end, tail, sync: sync(tail) };
        self.outstanding = Some(outstanding);
        Some(Group { position, create, parts, records, outstanding })
    }

    /// The outstanding write ended.
    pub(crate) fn finish(&mut self) -> Option<Outstanding> {
        self.outstanding.take()
    }
}

/// Longest batch, in bytes: its length is a number of 32 bits.
const UNIT_BYTES_MAX: u64 = u32::MAX as u64;

static PADDING: [u8; 64] = [0; 64];

#[cfg(test)]
mod tests;
