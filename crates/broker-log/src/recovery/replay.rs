//! Replay of the records of the live segments, in order.
//!
//! Invariant: a segment that was durable and whose summary is intact is not read further; any other is read and
//! checked whole.

use std::collections::VecDeque;

use crate::{
    Disk, JournalConfig, Position, RecordView, RecoveryError,
    error::DamageKind,
    file_inventory::SegmentFile,
    format::{BatchKind, HEADER, RECORD_HEADER, RECORD_HEADER_LEN, Seed, SegmentHeader},
    recovery::live::{Live, Tip, damaged},
    scan::{Batch, ScanEnd, Scanner},
    segments::Segment,
    summary::{self, SummaryBuilder},
};

type Sink<'a> = &'a mut dyn FnMut(Position, RecordView<'_>);

/// Result of replay.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The segments in use, oldest first.
    pub segments: VecDeque<Segment>,
    /// Segments behind a cut.
    pub dropped: Vec<SegmentFile>,
    /// Position behind the last whole batch; a closing mark does not count.
    pub end: u64,
    /// Checksum of that batch.
    pub chain: u32,
    /// Its number, if the newest segment begins with a mark: a repair may have replaced that by a gap.
    pub number: Option<u64>,
    /// The newest segment is sealed: the next batch begins a new one.
    pub sealed: bool,
    /// Durable position, as the batches state it.
    pub synced: u64,
    /// The index of the newest segment.
    pub summary: SummaryBuilder,
}

/// End of a segment.
enum Ending {
    /// Exactly where the next one begins.
    Full,
    /// Here; what follows is not whole.
    Cut,
}

impl Replay {
    pub(crate) fn run(
        disk: &dyn Disk,
        config: &JournalConfig,
        live: &Live,
        tip: &Tip,
        sink: Sink<'_>,
    ) -> Result<Self, RecoveryError> {
        let mut replay = Self {
            segments: VecDeque::new(),
            dropped: Vec::new(),
            end: 0,
            chain: 0,
            number: None,
            sealed: false,
            synced: tip.synced,
            summary: SummaryBuilder::new(0, config.segment_bytes),
        };
        for (number, present) in live.segments.iter().enumerate() {
            let next = live.segments.get(number + 1);
            replay.begin_segment(number as u64, present);
            let ending = match next {
                Some(next) => replay.full_segment(disk, present, next, tip, sink)?,
                None => replay.newest_segment(disk, present, tip, sink)?,
            };
            if matches!(ending, Ending::Cut) {
                replay.dropped = live.segments.get(number + 1..).unwrap_or_default().to_vec();
                break;
            }
        }
        Ok(replay)
    }

    fn begin_segment(&mut self, number: u64, present: &SegmentFile) {
        let header = &present.header;
        self.summary.reset(header.base);
        self.sealed = false;
        self.end = header.base + HEADER;
        self.chain = header.chain();
        self.number = None;
        self.segments.push_back(Segment {
            number,
            file: present.file,
            base: header.base,
            end: self.end,
            file_bytes: present.length,
            incarnation: header.incarnation,
            seed: Seed::of(header.incarnation),
            live: 0,
        });
    }

    /// A segment that another one follows.
    fn full_segment(
        &mut self,
        disk: &dyn Disk,
        present: &SegmentFile,
        next: &SegmentFile,
        tip: &Tip,
        sink: Sink<'_>,
    ) -> Result<Ending, RecoveryError> {
        // A segment that was never synced may have kept its summary and lost its bodies.
        if next.header.base <= tip.synced
            && let Some(summary) = summary_of(disk, present, &next.header)?
            && self.summarized(disk, present, &summary, sink)
        {
            self.end = next.header.base;
            self.set_end();
            return Ok(Ending::Full);
        }
        let mut scanner = Scanner::new(present.file, &present.header, present.length);
        let fault = loop {
            if scanner.position() == next.header.base && scanner.chain() == next.header.previous {
                self.set_end();
                return Ok(Ending::Full);
            }
            if scanner.position() >= next.header.base {
                break DamageKind::NoSegment;
            }
            match scanner.next(disk) {
                Ok(batch) => self.batch(&batch, &scanner, sink),
                Err(ScanEnd::Failed(error)) => return Err(error),
                Err(ScanEnd::Bad(fault)) => break fault,
            }
        };
        // The segment does not reach the next one. If anything behind was durable, this was too.
        let behind = scanner.claims_from(disk, scanner.position())?;
        let claimed = tip.claimed.max(behind).max(next.header.synced);
        if claimed > self.end {
            return Err(damaged(Some(present), self.end, Some(fault), claimed));
        }
        self.set_end();
        Ok(Ending::Cut)
    }

    /// The last segment, up to the tip.
    fn newest_segment(
        &mut self,
        disk: &dyn Disk,
        present: &SegmentFile,
        tip: &Tip,
        sink: Sink<'_>,
    ) -> Result<Ending, RecoveryError> {
        let mut scanner = Scanner::new(present.file, &present.header, present.length);
        while scanner.position() < tip.position {
            match scanner.next(disk) {
                Ok(batch) => self.batch(&batch, &scanner, sink),
                Err(ScanEnd::Failed(error)) => return Err(error),
                // It was whole a moment ago.
                Err(ScanEnd::Bad(fault)) => {
                    return Err(damaged(Some(present), scanner.position(), Some(fault), tip.position));
                }
            }
        }
        self.set_end();
        Ok(Ending::Full)
    }

    fn batch(&mut self, batch: &Batch, scanner: &Scanner, sink: Sink<'_>) {
        if batch.header.kind == BatchKind::Data {
            for stored in batch.records() {
                self.count(
                    stored.at,
                    stored.header.length,
                    RecordView::in_memory(stored.at, &stored.header, &stored.bytes),
                    sink,
                );
            }
        }
        self.sealed = batch.header.kind == BatchKind::Seal;
        self.synced = self.synced.max(batch.header.synced);
        // A closing mark is overwritten by the mark of this opening.
        if batch.header.kind != BatchKind::Closed {
            self.end = batch.end();
            self.chain = scanner.chain();
            self.number = scanner.number();
        }
    }

    fn count(&mut self, at: u64, length: u32, view: RecordView<'_>, sink: Sink<'_>) {
        if let Some(segment) = self.segments.back_mut() {
            segment.live += RECORD_HEADER + u64::from(length);
        }
        self.summary.add(at, length, view.index());
        sink(Position(at), view);
    }

    /// Shows what an intact summary lists. False: it is not what a summary looks like, nothing was shown.
    fn summarized(
        &mut self,
        disk: &dyn Disk,
        present: &SegmentFile,
        summary: &Batch,
        sink: Sink<'_>,
    ) -> bool {
        let base = present.header.base;
        let end = summary.header.position;
        let Some(listed) = summary.records.get(RECORD_HEADER_LEN..) else { return false };
        let sound = summary::entries(listed, base).all(|entry| {
            entry.is_some_and(|entry| {
                entry.at >= base + HEADER && entry.at + RECORD_HEADER + u64::from(entry.length) <= end
            })
        });
        if !sound {
            return false;
        }
        let seed = Seed::of(present.header.incarnation);
        for entry in summary::entries(listed, base).flatten() {
            let place = (present.file, entry.at - base, seed);
            self.count(
                entry.at,
                entry.length,
                RecordView::on_disk(entry.at, entry.length, entry.index, disk, place),
                sink,
            );
        }
        true
    }

    fn set_end(&mut self) {
        if let Some(segment) = self.segments.back_mut() {
            segment.end = self.end;
        }
    }
}

/// The summary of a full segment, if it has one that is intact and in place.
fn summary_of(
    disk: &dyn Disk,
    present: &SegmentFile,
    next: &SegmentHeader,
) -> Result<Option<Batch>, RecoveryError> {
    let mut scanner = Scanner::new(present.file, &present.header, present.length);
    let Some(seal_at) = next.base.checked_sub(HEADER).filter(|at| *at > present.header.base) else {
        return Ok(None);
    };
    let seal = match scanner.batch_at(disk, seal_at) {
        Ok(batch) => batch,
        Err(ScanEnd::Failed(error)) => return Err(error),
        Err(ScanEnd::Bad(_)) => return Ok(None),
    };
    let (kind, at) = (seal.header.kind, seal.header.extra);
    if kind != BatchKind::Seal || seal.checksum != next.previous || at <= present.header.base || at >= seal_at
    {
        return Ok(None);
    }
    match scanner.batch_at(disk, at) {
        Ok(batch) => {
            let fits = batch.header.kind == BatchKind::Summary
                && batch.end() == seal_at
                && batch.checksum == seal.header.previous
                && batch.header.count == 1;
            Ok(fits.then_some(batch))
        }
        Err(ScanEnd::Failed(error)) => Err(error),
        Err(ScanEnd::Bad(_)) => Ok(None),
    }
}
