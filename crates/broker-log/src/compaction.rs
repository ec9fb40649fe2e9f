//! Compaction of the oldest segment: its live records are appended again, then its file is reused.
//!
//! ```text
//!   Idle ──wanted──▶ Walking ──end──▶ Asked ──segment_compacted──▶ Waiting ──durable──▶ Idle (segment freed)
//!                     │  ▲ └──something lives in what is damaged──▶ Stopped ──nothing lives──▶ Walking
//!      a read fails   ▼  │ its pause is over
//!                     Paused
//! ```
//!
//! A record that is no longer in memory is read by a reader thread, and the walk goes on when it is there.
//!
//! Invariant: segments are freed strictly oldest first, each only when nothing in it is live and everything that
//! was appended instead is durable.

mod segment_reader;

use std::{io, ops::Range};

use bytes::Bytes;

pub(crate) use segment_reader::SegmentRead;
use segment_reader::{Found, SegmentReader, Unreadable};

use crate::{
    Disk, JournalConfig, Position, ReadError,
    format::{BatchKind, HEADER, RECORD_HEADER, Seed},
    scan::{Records, ScannedRecord},
    segments::{FIRST_RECORD, Segment, Segments},
    write_cache::WriteCache,
};

/// Next step of compaction for the caller, from [`crate::Journal::poll_compaction`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CompactionStep {
    /// Records of the oldest segment, in order. Append what lives anew and release the old one.
    Records(Vec<(Position, Bytes)>),
    /// The oldest segment, everything before `up_to`, has been walked through, or holds nothing that lives. Once nothing lives in
    /// it, call [`crate::Journal::segment_compacted`].
    SegmentDone {
        /// Position where the next segment begins.
        up_to: Position,
    },
}

/// Chooses when to compact, walks through the oldest segment, and frees it.
#[derive(Debug, Default)]
pub(crate) struct Compactor {
    state: State,
    /// Reason why it goes no further, until it does.
    fault: Option<ReadError>,
    /// Reads that have failed since the last one that did not.
    failed_reads: u32,
    /// Time in milliseconds since 1970, as the caller has said it.
    now: u64,
    pass: Option<Pass>,
    /// Bytes of records released so far, those that compaction moved among them.
    released: u64,
    /// Compaction that copies rests until so much is released.
    rest_until: u64,
    /// Segments freed since the start.
    segments_freed: u64,
    /// Bytes of records walked through since the start.
    compacted_bytes: u64,
}

/// State of compaction.
#[derive(Debug, Default)]
enum State {
    /// Nothing to do.
    #[default]
    Idle,
    /// The oldest segment is read.
    Walking(Box<Walk>),
    /// The caller was asked to finish.
    Asked,
    /// Everything up to this position must be durable before the segment goes.
    Waiting { until: u64 },
    /// A read has failed, and is tried again when the pause is over.
    Paused { walk: Box<Walk>, pause: Range<u64> },
    /// Records that live in the segment cannot be read: it stays as long as they live.
    Stopped,
}

/// Progress of the walk through a segment.
#[derive(Debug)]
struct Walk {
    /// Records before this position are done.
    at: u64,
    /// End of the segment.
    end: u64,
    /// Reads from disk, once the records are no longer in memory.
    reader: Option<SegmentReader>,
    /// Records already read and not yet handed out.
    ready: Option<Ready>,
}

/// Records that were read.
#[derive(Debug)]
struct Ready {
    records: Records,
    /// They are of a damaged batch: those alone are handed out whose own checksum, from this seed on, is right.
    unchecked: Option<Seed>,
}

/// Result of going on with a walk.
#[derive(Debug)]
enum Walked {
    Records(Vec<(Position, Bytes)>),
    /// A read has to be done first.
    Pending,
    End,
}

/// Result of looking for further records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Refill {
    Ready,
    Pending,
    End,
}

/// Compaction on its way once through the journal.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// End of the journal when the pass began.
    end: u64,
    /// Bytes that the journal used when the pass began.
    used: u64,
}

/// Parts of the journal that compaction looks at.
#[derive(Clone, Copy)]
pub(crate) struct CompactionContext<'a> {
    pub config: &'a JournalConfig,
    /// `None`: the journal lives in memory.
    pub disk: Option<&'a dyn Disk>,
    pub segments: &'a Segments,
    pub write_cache: &'a WriteCache,
    /// Position behind the last record.
    pub end: u64,
    /// Everything before it is durable.
    pub durable: u64,
    /// The storage is full: sends are refused until something is freed.
    pub is_full: bool,
}

impl Compactor {
    /// Has nothing to do at `now`, in milliseconds since 1970.
    pub(crate) fn new(now: u64) -> Self {
        Self { now, ..Self::default() }
    }

    /// The next step, if the journal is larger than it should be: at most about `max_bytes` of the oldest segment's
    /// records. None as well while a read of the disk has to be done first.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        context: CompactionContext<'_>,
        max_bytes: usize,
    ) -> Option<CompactionStep> {
        match self.state {
            State::Idle if self.is_wanted(context) => self.begin(context),
            State::Paused { .. } | State::Stopped => self.resume(context),
            _ => {}
        }
        let State::Walking(_) = self.state else { return None };
        let State::Walking(mut walk) = std::mem::replace(&mut self.state, State::Asked) else { return None };
        match walk.next_records(context, max_bytes) {
            Err(Unreadable::ForNow(error)) => {
                self.pause(walk, error);
                None
            }
            Err(Unreadable::ForGood(error)) => {
                self.fault = Some(error);
                self.state = State::Stopped;
                None
            }
            Ok(Walked::End) => {
                self.on_progress();
                Some(CompactionStep::SegmentDone { up_to: Position(walk.end) })
            }
            Ok(Walked::Pending) => {
                self.state = State::Walking(walk);
                None
            }
            Ok(Walked::Records(records)) => {
                self.on_progress();
                self.compacted_bytes += records.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
                self.state = State::Walking(walk);
                Some(CompactionStep::Records(records))
            }
        }
    }

    /// Says that it is `time`, in milliseconds since 1970.
    pub(crate) fn set_time(&mut self, time: u64) {
        self.now = time;
    }

    /// A read has failed. The pause doubles with each that fails, for an error of the disk may pass.
    fn pause(&mut self, walk: Box<Walk>, error: ReadError) {
        let pause = RETRY_MS.saturating_mul(1 << self.failed_reads.min(RETRY_DOUBLINGS_MAX));
        self.failed_reads = self.failed_reads.saturating_add(1);
        self.fault = Some(error);
        self.state = State::Paused { walk, pause: self.now..self.now.saturating_add(pause) };
    }

    /// Goes on after a pause, or where nothing that could not be read lives any more.
    fn resume(&mut self, context: CompactionContext<'_>) {
        if context.segments.oldest_full().is_some_and(|oldest| oldest.live == 0) {
            self.begin(context);
            return;
        }
        // A clock that was put back ends the pause as well: it could last for years.
        if matches!(&self.state, State::Paused { pause, .. } if !pause.contains(&self.now))
            && let State::Paused { walk, .. } = std::mem::take(&mut self.state)
        {
            self.state = State::Walking(walk);
        }
    }

    fn on_progress(&mut self) {
        self.fault = None;
        self.failed_reads = 0;
    }

    /// The read that the walk waits for, if no thread has it yet.
    pub(crate) fn next_read(&mut self) -> Option<SegmentRead> {
        self.reader_mut()?.next_read()
    }

    /// The read that was handed out is done.
    pub(crate) fn on_read(&mut self, result: io::Result<Bytes>) {
        if let Some(reader) = self.reader_mut() {
            reader.on_read(result);
        }
    }

    fn reader_mut(&mut self) -> Option<&mut SegmentReader> {
        let State::Walking(walk) = &mut self.state else { return None };
        walk.reader.as_mut()
    }

    /// Records of so many bytes were released.
    pub(crate) fn on_released(&mut self, bytes: u64) {
        self.released += bytes;
    }

    /// Whether [`CompactionStep::SegmentDone`] was handed out and waits for its caller.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked)
    }

    /// The caller has done its part: the segment goes when everything up to `until` is durable.
    pub(crate) fn wait_for(&mut self, until: u64) {
        self.state = State::Waiting { until };
    }

    /// Takes the segment whose replacement is durable out of use, if there is one.
    pub(crate) fn free_segment(
        &mut self,
        config: &JournalConfig,
        segments: &mut Segments,
        durable: u64,
    ) -> Option<Segment> {
        let State::Waiting { until } = self.state else { return None };
        if durable < until {
            return None;
        }
        self.state = State::Idle;
        let oldest = segments.oldest_full()?;
        assert!(oldest.live == 0, "{} live bytes in a segment that was cleaned", oldest.live);
        let freed = segments.pop_oldest()?;
        self.segments_freed += 1;
        self.throttle(config, segments);
        Some(freed)
    }

    /// Reason why compaction goes no further. It stays while a read that has failed is tried again.
    pub(crate) fn stopped(&self) -> Option<&ReadError> {
        self.fault.as_ref()
    }

    pub(crate) fn segments_freed(&self) -> u64 {
        self.segments_freed
    }

    pub(crate) fn compacted_bytes(&self) -> u64 {
        self.compacted_bytes
    }

    /// Whether the journal uses much more than it should: a quarter more than the space at which compaction begins.
    pub(crate) fn is_urgent(config: &JournalConfig, used: u64, live: u64) -> bool {
        let begins = Self::begins_at(config, live);
        used > begins.saturating_add(begins / 4)
    }

    /// Bytes in use beyond which what lives is moved, on a disk with room.
    pub(crate) fn begins_at(config: &JournalConfig, live: u64) -> u64 {
        let allowed = live.saturating_mul(u64::from(config.space_factor));
        allowed.max(live + SLACK_SEGMENTS * config.segment_bytes)
    }

    fn is_wanted(&self, context: CompactionContext<'_>) -> bool {
        // First, for a caller asks after every batch, and most often there is no full segment.
        let Some(oldest) = context.segments.oldest_full() else { return false };
        let (used, live) = (context.segments.used(), context.segments.live());
        let (allowed, slack) = if context.is_full {
            (live + live / 8, SLACK_SEGMENTS_WHEN_FULL)
        } else {
            let slack = if context.disk.is_some() { SLACK_SEGMENTS } else { SLACK_SEGMENTS_IN_MEMORY };
            (live.saturating_mul(u64::from(context.config.space_factor)), slack)
        };
        // Its end may not be written yet; what has left memory by then could not be read.
        if context.disk.is_some() && oldest.end > context.durable {
            return false;
        }
        if context.is_nearly_dead(oldest) {
            return true;
        }
        let worthwhile = oldest.live == 0 || self.released >= self.rest_until;
        worthwhile && used > allowed.max(live + slack * context.config.segment_bytes)
    }

    /// A pass over the whole journal that gained less than a segment has found everything alive: the next begins
    /// when a segment's worth has died, or what lives would be copied round and round.
    fn throttle(&mut self, config: &JournalConfig, segments: &Segments) {
        let Some(pass) = self.pass.take_if(|pass| pass.end <= segments.tail()) else { return };
        if pass.used.saturating_sub(segments.used()) < config.segment_bytes {
            self.rest_until = self.released + config.segment_bytes;
        }
    }

    fn begin(&mut self, context: CompactionContext<'_>) {
        let Some(oldest) = context.segments.oldest_full() else { return };
        self.pass.get_or_insert(Pass { end: context.end, used: context.segments.used() });
        let mut walk = Walk { at: context.first_record(oldest), end: oldest.end, reader: None, ready: None };
        if oldest.live == 0 {
            walk.at = walk.end;
        }
        self.state = State::Walking(Box::new(walk));
    }
}

impl CompactionContext<'_> {
    /// Whether freeing a segment costs less than to write another file ahead: nothing in it lives, or little, and it is in
    /// memory or keeps the one behind it, which is dead, from being used again.
    fn is_nearly_dead(&self, oldest: &Segment) -> bool {
        oldest.live == 0
            || (oldest.live <= self.config.segment_bytes / FEW_LIVE_SHARE
                && (self.write_cache.is_held(self.first_record(oldest)) || self.segments.is_second_dead()))
    }

    /// Earliest position of the first record of a segment. In memory there are no batches.
    fn first_record(&self, segment: &Segment) -> u64 {
        segment.base + if self.disk.is_some() { FIRST_RECORD } else { HEADER }
    }
}

impl Walk {
    /// Up to about `max_bytes` of records from where the walk is.
    fn next_records(
        &mut self,
        context: CompactionContext<'_>,
        max_bytes: usize,
    ) -> Result<Walked, Unreadable> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut refilled = Refill::Ready;
        while bytes < max_bytes.max(1) {
            let Some(stored) = self.ready.as_mut().and_then(Ready::next) else {
                refilled = self.refill(context)?;
                if refilled == Refill::Ready {
                    continue;
                }
                break;
            };
            let wanted = stored.at >= self.at && stored.at < self.end && !stored.header.is_lost();
            if wanted {
                self.at = stored.at + RECORD_HEADER + u64::from(stored.header.length);
                bytes += stored.bytes.len();
                records.push((Position(stored.at), stored.bytes));
            }
        }
        Ok(match refilled {
            Refill::Pending if records.is_empty() => Walked::Pending,
            Refill::End if records.is_empty() => {
                self.demand_nothing_is_left(context)?;
                Walked::End
            }
            _ => Walked::Records(records),
        })
    }

    /// All that could be read was handed out and is dead by now: what still lives in the segment lies in its damaged places.
    fn demand_nothing_is_left(&self, context: CompactionContext<'_>) -> Result<(), Unreadable> {
        let lives = context.segments.oldest_full().is_some_and(|oldest| oldest.live > 0);
        match self.reader.as_ref().and_then(SegmentReader::damage).filter(|_| lives) {
            Some(damage) => Err(Unreadable::ForGood(damage.clone())),
            None => Ok(()),
        }
    }

    /// Goes on, in memory or on disk.
    fn refill(&mut self, context: CompactionContext<'_>) -> Result<Refill, Unreadable> {
        if self.at >= self.end {
            return Ok(Refill::End);
        }
        if self.reader.is_some() || !context.write_cache.is_held(self.at) {
            return self.refill_from_disk(context);
        }
        let piece = context.write_cache.piece_at_or_after(self.at).filter(|piece| piece.start < self.end);
        self.ready = piece.map(|piece| Ready::checked(Records::new(piece.bytes.clone(), piece.start)));
        if self.ready.is_none() {
            // The rest of the segment is dead.
            self.at = self.end;
            return Ok(Refill::End);
        }
        Ok(Refill::Ready)
    }

    fn refill_from_disk(&mut self, context: CompactionContext<'_>) -> Result<Refill, Unreadable> {
        let (Some(disk), Some(segment)) = (context.disk, context.segments.oldest_full()) else {
            return Ok(Refill::End);
        };
        let reader = self.reader.get_or_insert_with(|| SegmentReader::new(segment));
        if reader.is_at_end() {
            self.at = self.end;
            return Ok(Refill::End);
        }
        let Some(found) = reader.next(disk)? else { return Ok(Refill::Pending) };
        self.ready = match found {
            Found::Batch(batch) => {
                (batch.header.kind == BatchKind::Data).then(|| Ready::checked(batch.all_records()))
            }
            Found::Damaged(records) => {
                records.map(|records| Ready { records, unchecked: Some(segment.seed) })
            }
        };
        Ok(Refill::Ready)
    }
}

impl Ready {
    fn checked(records: Records) -> Self {
        Self { records, unchecked: None }
    }

    /// The next record that is intact.
    fn next(&mut self) -> Option<ScannedRecord> {
        let unchecked = self.unchecked;
        self.records.find(|stored| unchecked.is_none_or(|seed| stored.header.matches(seed, &stored.bytes)))
    }
}

/// Live bytes up to this share of a segment are moved early, as long as that takes no reading or frees another segment, too.
const FEW_LIVE_SHARE: u64 = 64;
/// Pause after the first read that has failed, in milliseconds.
const RETRY_MS: u64 = 1000;
/// The pause doubles so often: it ends at about four minutes.
const RETRY_DOUBLINGS_MAX: u32 = 8;
/// So many segments are no reason to clean.
const SLACK_SEGMENTS: u64 = 3;
/// In memory they are small, and hold what is live in each of several queues that are read at different paces.
const SLACK_SEGMENTS_IN_MEMORY: u64 = 8;
/// The same while the storage is full: sends are refused until something is freed.
const SLACK_SEGMENTS_WHEN_FULL: u64 = 1;
