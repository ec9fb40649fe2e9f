//! The journal: appends records, makes them durable in groups, reads them back, and reclaims their space.
//!
//! Everything here runs on one thread and blocks on reads of old records only. Disk writes are data:
//! [`Journal::poll_io`] hands out a request, [`Journal::handle_io`] takes its result.
//!
//! Invariant: [`Journal::durable`] never goes back and never passes what the disk has confirmed.

mod compaction;
mod io;
mod read;
mod roll;
mod stats;

use std::cell::Cell;

pub(crate) use roll::incarnation;
pub use stats::JournalStats;

use crate::{
    Disk, Durability, FileId, JournalConfig, PoisonReason, Position,
    compaction::{Compaction, Pass},
    format::{HEADER, RECORD_HEADER, RECORD_HEADER_LEN, RecordHeader, Seed},
    read_ahead::ReadAhead,
    segment_pool::SegmentPool,
    segments::{Segment, Segments},
    summary::SummaryBuilder,
    write_cache::WriteCache,
    writer::{Watermarks, Writer},
};

/// The journal of one shard.
#[derive(Debug)]
pub struct Journal {
    config: JournalConfig,
    /// For reading back; `None` in memory.
    disk: Option<Box<dyn Disk>>,
    segments: Segments,
    /// Segments that are dead, oldest first; the disk does not know yet.
    retired: Vec<Segment>,
    writer: Writer,
    write_cache: WriteCache,
    read_ahead: ReadAhead,
    summary: SummaryBuilder,
    segment_pool: SegmentPool,
    cleaning: Compaction,
    /// Records were appended since the last commit.
    in_unit: bool,
    /// Position behind the last committed record.
    committed: u64,
    durable: u64,
    /// Confirmed by a sync: what batches claim.
    synced: u64,
    /// The disk knows that replay begins here.
    tail_known: u64,
    /// Somebody waits for everything before this position.
    urgent: u64,
    pass: Option<Pass>,
    /// Bytes of records released so far, those that cleaning moved among them.
    released: u64,
    /// Compaction that copies rests until so much is released.
    rest_until: u64,
    closing: Closing,
    /// A request other than a write is outstanding.
    in_background: bool,
    /// Nothing was written since the opening or [`Journal::notice_idle`]: there is time to prepare.
    is_idle: bool,
    /// Size of the last write.
    write_bytes: u64,
    poison: Option<PoisonReason>,
    free_bytes: Option<u64>,
    /// Somebody was told that the disk is full since it was last measured.
    full_told: Cell<bool>,
    counters: stats::Counters,
}

/// Progress of a clean shutdown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Closing {
    No,
    Asked,
    /// The closing mark is on its way.
    Marked,
}

/// State with which a journal begins, empty or recovered.
#[derive(Debug)]
pub(crate) struct RecoveredState {
    pub segments: Segments,
    pub writer: Writer,
    pub summary: SummaryBuilder,
    pub segment_pool: SegmentPool,
    pub free_bytes: Option<u64>,
}

impl Journal {
    /// A journal that lives in memory and forgets everything with the process (durability `none`).
    pub fn in_memory(config: JournalConfig) -> Self {
        let config = JournalConfig { durability: Durability::None, ..config }.bounded();
        let mut writer = Writer::new(0, 0);
        writer.skip_header();
        let first = Segment {
            number: 0,
            file: FileId(0),
            base: 0,
            end: HEADER,
            file_bytes: 0,
            incarnation: 0,
            seed: Seed::default(),
            live: 0,
        };
        let found = RecoveredState {
            segments: Segments::new([].into(), first),
            writer,
            summary: SummaryBuilder::disabled(),
            segment_pool: SegmentPool::none(),
            free_bytes: None,
        };
        Self::new(config, None, found)
    }

    pub(crate) fn new(config: JournalConfig, disk: Option<Box<dyn Disk>>, found: RecoveredState) -> Self {
        let end = found.writer.end;
        Self {
            config,
            disk,
            tail_known: found.segments.tail(),
            segments: found.segments,
            retired: Vec::new(),
            writer: found.writer,
            write_cache: WriteCache::new(end),
            read_ahead: ReadAhead::default(),
            summary: found.summary,
            segment_pool: found.segment_pool,
            cleaning: Compaction::default(),
            in_unit: false,
            committed: end,
            durable: end,
            synced: end,
            urgent: 0,
            pass: None,
            released: 0,
            rest_until: 0,
            closing: Closing::No,
            in_background: false,
            is_idle: true,
            write_bytes: 0,
            poison: None,
            free_bytes: found.free_bytes,
            full_told: Cell::new(false),
            counters: stats::Counters::default(),
        }
    }

    /// Appends one record: `index`, then `rest`. Recovery of full segments shows the index only, without
    /// reading the rest; a small record is best all index. Returns where it is and its length in bytes, which
    /// is what [`Journal::read`] and [`Journal::release`] want. It counts as live.
    ///
    /// # Panics
    /// When the record is longer than [`JournalConfig::max_record_bytes`]: the caller checks before.
    pub fn append(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let bytes = rest.iter().fold(index.len(), |sum, part| sum.saturating_add(part.len()));
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        assert!(length <= self.config.max_record_bytes, "a record of {bytes} bytes: the caller limits them");
        let stored = RECORD_HEADER + u64::from(length);
        if !self.in_unit {
            self.begin_unit(stored, index.len() as u64);
        }
        let (at, header) = if self.disk.is_some() {
            let newest = self.segments.newest();
            (self.writer.next_record(newest), RecordHeader::of(newest.seed, length, index, rest))
        } else {
            (self.writer.end, RecordHeader::unchecked(length, index))
        };
        let stored_bytes = RECORD_HEADER_LEN + bytes;
        if !self.write_cache.continues(at, stored_bytes) {
            self.freeze();
            self.write_cache.begin(at, at - self.segments.newest().base, stored_bytes);
        }
        self.write_cache.push(header.encode(), index, rest);
        self.writer.add_record(&header);
        self.summary.add(at, length, index);
        self.segments.grow(self.writer.end, stored);
        (Position(at), length)
    }

    /// Ends an atomic unit: after a crash, either all records appended since the last commit are there or none.
    /// Returns the position behind them: they are durable when [`Journal::durable`] has reached it.
    pub fn commit(&mut self) -> Position {
        if self.in_unit {
            self.in_unit = false;
            self.committed = self.writer.end;
            if self.disk.is_none() {
                self.durable = self.committed;
                self.write_cache.note_written(self.durable);
                self.free_waiting();
            }
        }
        Position(self.committed)
    }

    /// The position behind the last unit that ended: what lies before it can be read.
    pub fn committed(&self) -> Position {
        Position(self.committed)
    }

    /// The position behind the last record, committed or not.
    pub fn end(&self) -> Position {
        Position(self.writer.end)
    }

    /// Everything before this position is durable.
    pub fn durable(&self) -> Position {
        Position(self.durable)
    }

    /// Somebody waits for everything before `up_to`, a position that [`Journal::commit`] returned. Without it
    /// records wait for company.
    pub fn request_sync(&mut self, up_to: Position) {
        self.urgent = self.urgent.max(up_to.0);
    }

    /// Nothing has happened for a while: a good time to prepare segments to the full. Without this hint they are
    /// prepared as fast as they are used up.
    pub fn notice_idle(&mut self) {
        self.is_idle = true;
    }

    /// Begins a clean shutdown: everything committed is written, then a closing mark, which tells the next
    /// recovery that nothing is missing at the end. Go on with [`Journal::poll_io`] until
    /// [`Journal::is_closed`]. Nothing may be appended any more.
    pub fn request_close(&mut self) {
        if self.closing == Closing::No {
            self.closing = Closing::Asked;
        }
    }

    /// Whether the shutdown is complete: nothing is outstanding. True as well when the journal is poisoned.
    pub fn is_closed(&self) -> bool {
        let marked = self.closing == Closing::Marked && !self.writer.has_pending();
        (self.disk.is_none() && self.closing != Closing::No)
            || self.poison.is_some()
            || (marked && !self.writer.is_writing() && !self.in_background)
    }

    /// Reason why nothing becomes durable any more; `None`: the journal works.
    pub fn poisoned(&self) -> Option<&PoisonReason> {
        self.poison.as_ref()
    }

    /// Bytes of committed records that are not durable yet. They are in memory: a caller that bounds memory
    /// takes no more commands while there are too many.
    pub fn unwritten_bytes(&self) -> u64 {
        self.committed.saturating_sub(self.durable)
    }

    /// The record at `at` is dead: nobody will read it, and recovery does without it.
    pub fn release(&mut self, at: Position, length: u32) {
        let bytes = RECORD_HEADER + u64::from(length);
        self.released += bytes;
        self.segments.release(at, bytes);
        self.write_cache.release(at.0, bytes);
    }

    /// Counts as live the given records and no others. After recovery, where everything counts as live, this
    /// saves releasing each dead record.
    pub fn set_live(&mut self, live: impl IntoIterator<Item = (Position, u32)>) {
        self.segments.clear_live();
        for (at, length) in live {
            self.segments.add_live_at(at, RECORD_HEADER + u64::from(length));
        }
    }

    /// Makes the open records readable and hands them to the writer.
    fn freeze(&mut self) {
        if let Some(part) = self.write_cache.freeze()
            && self.disk.is_some()
        {
            self.writer.add_part(part);
        }
    }

    fn watermarks(&self) -> Watermarks {
        Watermarks { synced: self.synced, tail: self.segments.tail() }
    }
}

#[cfg(test)]
mod tests;
