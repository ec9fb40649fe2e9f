//! The journal: appends records, makes them durable in groups, reads them back, and reclaims their space.
//!
//! Everything here runs on one thread, and only [`Journal::read`] of old records blocks. Disk work is data:
//! [`Journal::poll_io`] hands out a request, [`Journal::handle_io`] takes its result.
//!
//! Invariant: [`Journal::durable`] never goes back and never passes what the disk has confirmed.

mod io;
mod read;
mod stats;

pub use stats::JournalStats;

use crate::{
    CompactionStep, Disk, Durability, FileId, JournalConfig, Owner, OwnerStats, PoisonReason, Position,
    ReadError,
    appender::{AppendContext, Appender},
    background_io::BackgroundIo,
    compaction::{CompactionContext, Compactor},
    disk_space::DiskSpace,
    format::RECORD_HEADER,
    owner::Weights,
    read_ahead::ReadAhead,
    segment_pool::SegmentPool,
    segments::{Segment, Segments},
    summary::SummaryBuilder,
    write_cache::WriteCache,
    write_progress::WriteProgress,
    writer::Writer,
};

/// The journal of one shard.
#[derive(Debug)]
pub struct Journal {
    config: JournalConfig,
    /// For reading back; `None` in memory.
    disk: Option<Box<dyn Disk>>,
    segments: Segments,
    segment_pool: SegmentPool,
    appender: Appender,
    write_cache: WriteCache,
    read_ahead: ReadAhead,
    weights: Weights,
    progress: WriteProgress,
    compactor: Compactor,
    background: BackgroundIo,
    space: DiskSpace,
    closing: Closing,
    poison: Option<PoisonReason>,
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
        let mut writer = Writer::new(0, 0, 0);
        writer.skip_header();
        let first = Segment::begin(0, FileId(0), 0, config.salt);
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
            space: DiskSpace::new(&config, found.free_bytes),
            progress: WriteProgress::new(end, found.segments.tail()),
            config,
            disk,
            segments: found.segments,
            segment_pool: found.segment_pool,
            appender: Appender::new(found.writer, found.summary, config.opened_at),
            write_cache: WriteCache::new(end),
            read_ahead: ReadAhead::default(),
            weights: Weights::default(),
            compactor: Compactor::new(config.opened_at),
            background: BackgroundIo::new(),
            closing: Closing::No,
            poison: None,
        }
    }

    /// Appends one record: `index`, then `rest`. Recovery of full segments shows the index only, without
    /// reading the rest; a small record is best all index. Returns where it is and its length in bytes, which
    /// is what [`Journal::read`] and [`Journal::release`] want. It counts as live.
    ///
    /// # Panics
    /// If the record is longer than [`JournalConfig::max_record_bytes`]: the caller checks before.
    pub fn append(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        self.append_of(Owner::default(), index, rest)
    }

    /// [`Journal::append`] of a record that belongs to `owner`. Owners share the memory of the journal by weight.
    ///
    /// # Panics
    /// If the record is longer than [`JournalConfig::max_record_bytes`]: the caller checks before.
    pub fn append_of(&mut self, owner: Owner, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let bytes = rest.iter().fold(index.len(), |sum, part| sum.saturating_add(part.len()));
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        assert!(length <= self.config.max_record_bytes, "a record of {bytes} bytes: the caller limits them");
        let (appender, mut context) = self.appending();
        (Position(appender.append(&mut context, owner, length, index, rest)), length)
    }

    /// The weight of an owner is `weight`; that of an owner for whom nothing was said is 1.
    pub fn set_weight(&mut self, owner: Owner, weight: u16) {
        self.weights.set(owner, weight);
    }

    /// The owner has gone, and its number is free for another one: its figures and its weight begin anew.
    pub fn forget_owner(&mut self, owner: Owner) {
        self.weights.set(owner, 1);
        self.read_ahead.forget_owner(owner);
    }

    /// Says that it is `time`, in milliseconds since 1970: the mark of the next segment states it, and a read of compaction
    /// that has failed is tried again when its pause is over.
    pub fn set_time(&mut self, time: u64) {
        self.compactor.set_time(time);
        self.appender.set_time(time);
    }

    /// Ends an atomic unit: after a crash, either all records appended since the last commit are there or none.
    /// Returns the position behind them: they are durable when [`Journal::durable`] has reached it.
    pub fn commit(&mut self) -> Position {
        if self.appender.end_unit() {
            self.progress.commit(self.appender.end());
            if self.disk.is_none() {
                self.progress.confirm_committed();
                self.write_cache.note_written(self.progress.durable());
                self.free_segment();
            }
        }
        self.committed()
    }

    /// The position behind the last unit that ended: what lies before it can be read.
    pub fn committed(&self) -> Position {
        Position(self.progress.committed())
    }

    /// The position behind the last record, committed or not.
    pub fn end(&self) -> Position {
        Position(self.appender.end())
    }

    /// Everything before this position is durable.
    pub fn durable(&self) -> Position {
        Position(self.progress.durable())
    }

    /// A caller waits for everything before `up_to`, a position that [`Journal::commit`] returned. Without a request,
    /// records wait until they are a group that is worth a write.
    pub fn request_sync(&mut self, up_to: Position) {
        self.progress.request(up_to.0);
    }

    /// Nothing has happened for a while: a good time to prepare segments to the full. Without this hint they are
    /// prepared as fast as they are used up.
    pub fn notice_idle(&mut self) {
        self.background.on_idle();
        self.segment_pool.on_idle();
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
        let marked = self.closing == Closing::Marked && !self.appender.has_pending();
        (self.disk.is_none() && self.closing != Closing::No)
            || self.poison.is_some()
            || (marked && !self.appender.is_writing() && !self.background.is_outstanding())
    }

    /// Reason why nothing becomes durable any more; `None`: the journal works.
    pub fn poisoned(&self) -> Option<&PoisonReason> {
        self.poison.as_ref()
    }

    /// Bytes of committed records that are not durable yet. They are in memory: a caller that bounds memory
    /// takes no more commands while there are too many.
    pub fn unwritten_bytes(&self) -> u64 {
        self.progress.unwritten_bytes()
    }

    /// The record at `at` is dead: it will not be read, and recovery does without it.
    pub fn release(&mut self, at: Position, length: u32) {
        let bytes = RECORD_HEADER + u64::from(length);
        self.compactor.on_released(bytes);
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

    /// The next step of compaction, if the journal is larger than it should be: at most about `max_bytes` of the
    /// oldest segment's records. A caller that asks for twice the bytes it appends keeps up under any load. None as well while
    /// a reader thread reads what comes next: then there is a step again when [`Journal::handle_io`] was told of it.
    pub fn poll_compaction(&mut self, max_bytes: usize) -> Option<CompactionStep> {
        if self.poison.is_some() || self.closing != Closing::No {
            return None;
        }
        let context = CompactionContext {
            config: &self.config,
            disk: self.disk.as_deref(),
            segments: &self.segments,
            write_cache: &self.write_cache,
            end: self.appender.end(),
            durable: self.progress.durable(),
            is_full: self.is_full(),
        };
        self.compactor.poll(context, max_bytes)
    }

    /// Whether space runs short, so that compaction should not wait for anything.
    pub fn is_compaction_urgent(&self) -> bool {
        let (used, live) = (self.segments.used(), self.segments.live());
        self.is_full() || Compactor::is_urgent(&self.config, used, live)
    }

    /// The caller has done what [`CompactionStep::SegmentDone`] asks for. The segment goes as soon as everything
    /// appended so far is durable.
    pub fn segment_compacted(&mut self) {
        if self.compactor.is_asked() {
            let until = self.commit().0;
            self.compactor.wait_for(until);
            self.progress.request(until);
            self.free_segment();
        }
    }

    /// Reason why compaction goes no further: a record of the oldest segment cannot be read. A read that has failed is tried
    /// again after a pause, see [`Journal::set_time`]. A segment with damaged records stays until none of them lives any more.
    /// Everything else goes on.
    pub fn compaction_stopped(&self) -> Option<&ReadError> {
        self.compactor.stopped()
    }

    /// True while the disk's reserve is in use: nothing that grows the journal should be begun; what frees
    /// space (settlements) goes on. The disk is measured again, so that a freed disk is noticed.
    pub fn storage_full(&self) -> bool {
        self.space.report_full(self.segments.used(), self.segment_pool.ready_bytes())
    }

    /// The same without having the disk measured again.
    pub fn is_full(&self) -> bool {
        self.space.is_full(self.segments.used(), self.segment_pool.ready_bytes())
    }

    /// Figures of now.
    pub fn stats(&self) -> JournalStats {
        let (reads_waiting, reads_in_flight) = self.read_ahead.outstanding();
        JournalStats {
            tail: Position(self.segments.tail()),
            end: self.end(),
            durable: self.durable(),
            segments: self.segments.count() as u64,
            spares: self.segment_pool.spares() as u64,
            used_bytes: self.segments.used(),
            live_bytes: self.segments.live(),
            cache_bytes: self.write_cache.bytes(),
            unwritten_bytes: self.unwritten_bytes(),
            free_bytes: self.space.free_bytes(),
            writes: self.progress.writes(),
            syncs: self.progress.syncs(),
            disk_reads: self.read_ahead.reads(),
            reads_waiting,
            reads_in_flight,
            segments_freed: self.compactor.segments_freed(),
            compacted_bytes: self.compactor.compacted_bytes(),
            failed_deletes: self.segment_pool.failed_deletes(),
        }
    }

    /// Figures of an owner, of now.
    pub fn owner_stats(&self, owner: Owner) -> OwnerStats {
        let (weight, cached_bytes) = (self.weights.of(owner), self.write_cache.bytes_of(owner));
        OwnerStats { weight, cached_bytes, ..self.read_ahead.stats_of(owner) }
    }

    /// Frees the compacted segment whose replacement is durable, if there is one.
    fn free_segment(&mut self) {
        let durable = self.progress.durable();
        let freed = self.compactor.free_segment(&self.config, &mut self.segments, durable);
        let Some(segment) = freed else { return };
        // Memory that served once is better than fresh memory, so dead records leave even a cache with room.
        self.write_cache.forget_before(self.segments.tail());
        if self.disk.is_some() {
            self.segment_pool.retire(segment);
        }
    }

    fn appending(&mut self) -> (&mut Appender, AppendContext<'_>) {
        let context = AppendContext {
            config: &self.config,
            segments: &mut self.segments,
            segment_pool: &mut self.segment_pool,
            write_cache: &mut self.write_cache,
            synced: self.progress.synced(),
            writes_are_small: self.background.writes_are_small(),
            on_disk: self.disk.is_some(),
        };
        (&mut self.appender, context)
    }
}

#[cfg(test)]
mod tests;
