//! Compaction: its trigger, its walk through the oldest segment, and the reuse of the segment's file.
//!
//! Invariant: a segment's file is used again only when the segment is dead, what replaced its records is durable,
//! and the disk knows that replay begins behind it.

use bytes::Bytes;

use crate::{
    Disk, Journal, Position, ReadError,
    compaction::{Compaction, CompactionStep, Pass, Walk},
    format::{BatchKind, HEADER, HEADER_LEN, RECORD_HEADER, SegmentHeader},
    journal::roll::FIRST_RECORD,
    scan::{Records, ScanEnd, Scanner},
    segments::Segment,
};

impl Journal {
    /// The next step of cleaning, if the journal is larger than it should be: at most about `max_bytes` of the
    /// oldest segment's records. A caller that asks for twice the bytes it appends keeps up under any load.
    pub fn poll_compaction(&mut self, max_bytes: usize) -> Option<CompactionStep> {
        if self.poison.is_some() || self.closing != super::Closing::No {
            return None;
        }
        if matches!(self.cleaning, Compaction::Idle) && self.wants_compaction() {
            self.begin_compaction();
        }
        let Compaction::Walking(_) = self.cleaning else { return None };
        let Compaction::Walking(mut walk) = std::mem::replace(&mut self.cleaning, Compaction::Asked) else {
            return None;
        };
        match self.walk(&mut walk, max_bytes) {
            Err(error) => {
                self.cleaning = Compaction::Stopped(error);
                None
            }
            Ok(records) if records.is_empty() => {
                Some(CompactionStep::SegmentDone { up_to: Position(walk.end) })
            }
            Ok(records) => {
                self.cleaning = Compaction::Walking(walk);
                Some(CompactionStep::Records(records))
            }
        }
    }

    /// The caller has done what [`CompactionStep::SegmentDone`] asks for. The segment goes as soon as everything
    /// appended so far is durable.
    pub fn segment_compacted(&mut self) {
        if matches!(self.cleaning, Compaction::Asked) {
            let until = self.commit().0;
            self.cleaning = Compaction::Waiting { until };
            self.urgent = self.urgent.max(until);
            self.free_waiting();
        }
    }

    /// Reason why compaction has stopped: a record of the oldest segment cannot be read. The segment stays until an
    /// operator acts; everything else goes on.
    pub fn compaction_stopped(&self) -> Option<&ReadError> {
        match &self.cleaning {
            Compaction::Stopped(error) => Some(error),
            _ => None,
        }
    }

    /// True while the disk's reserve is in use: nothing that grows the journal should be begun; what frees
    /// space (settlements) goes on.
    pub fn storage_full(&self) -> bool {
        let full = self.is_full();
        if full {
            // The next poll_io measures again, so that a freed disk is noticed.
            self.full_told.set(true);
        }
        full
    }

    /// The same without having the disk measured again.
    pub fn is_full(&self) -> bool {
        let disk_full = self.free_bytes.is_some_and(|free| free < self.config.reserve_bytes);
        let limit_reached = self.config.max_disk_bytes.is_some_and(|limit| {
            let reserve = self.config.reserve_bytes.min(limit / 4);
            self.segments.used() > limit - reserve
        });
        disk_full || limit_reached
    }

    /// Whether one more spare segment leaves the reserve whole.
    pub(super) fn has_room_for_spare(&self) -> bool {
        let segment = self.config.segment_bytes;
        let on_disk =
            self.free_bytes.is_none_or(|free| free >= self.config.reserve_bytes.saturating_add(segment));
        let files = (self.segments.count() + self.retired.len() + self.segment_pool.spares() + 1) as u64;
        on_disk && self.config.max_disk_bytes.is_none_or(|limit| files.saturating_mul(segment) <= limit)
    }

    fn wants_compaction(&self) -> bool {
        let (used, live) = (self.segments.used(), self.segments.live());
        let allowed = if self.is_full() {
            live + live / 8
        } else {
            live.saturating_mul(u64::from(self.config.space_factor))
        };
        let Some(oldest) = self.segments.oldest_full() else { return false };
        // Its end may not be written yet; what has left memory by then could not be read.
        if self.disk.is_some() && oldest.end > self.durable {
            return false;
        }
        if self.is_nearly_dead(oldest) {
            return true;
        }
        let worthwhile = oldest.live == 0 || self.released >= self.rest_until;
        let slack = if self.disk.is_some() { SLACK_SEGMENTS } else { SLACK_SEGMENTS_IN_MEMORY };
        worthwhile && used > allowed.max(live + slack * self.config.segment_bytes)
    }

    /// Whether freeing a segment costs next to nothing: its file is better used again at once than after another one
    /// was written ahead, for its pages are still in memory.
    fn is_nearly_dead(&self, oldest: &Segment) -> bool {
        oldest.live == 0
            || (oldest.live <= self.config.segment_bytes / FEW_LIVE_SHARE
                && self.write_cache.is_held(self.first_record(oldest)))
    }

    /// Earliest position of the first record of a segment. In memory there are no batches.
    fn first_record(&self, segment: &Segment) -> u64 {
        segment.base + if self.disk.is_some() { FIRST_RECORD } else { HEADER }
    }

    /// A pass over the whole journal that gained less than a segment has found everything alive: the next begins
    /// when a segment's worth has died, or what lives would be copied round and round.
    fn throttle_compaction(&mut self) {
        let Some(pass) = self.pass.take_if(|pass| pass.end <= self.segments.tail()) else { return };
        if pass.used.saturating_sub(self.segments.used()) < self.config.segment_bytes {
            self.rest_until = self.released + self.config.segment_bytes;
        }
    }

    fn begin_compaction(&mut self) {
        let Some(oldest) = self.segments.oldest_full() else { return };
        self.pass.get_or_insert(Pass { end: self.writer.end, used: self.segments.used() });
        let mut walk = Walk { at: self.first_record(oldest), end: oldest.end, scanner: None, ready: None };
        if oldest.live == 0 {
            walk.at = walk.end;
        }
        self.cleaning = Compaction::Walking(Box::new(walk));
    }

    /// Frees the segment whose replacement is durable, if there is one.
    pub(super) fn free_waiting(&mut self) {
        let Compaction::Waiting { until } = self.cleaning else { return };
        if self.durable < until {
            return;
        }
        self.cleaning = Compaction::Idle;
        let Some(oldest) = self.segments.oldest_full() else { return };
        assert!(oldest.live == 0, "{} live bytes in a segment that was cleaned", oldest.live);
        let Some(oldest) = self.segments.pop_oldest() else { return };
        self.counters.segments_freed += 1;
        self.throttle_compaction();
        // Memory that served once is better than fresh memory, so dead records leave even a cache with room.
        self.write_cache.forget_before(self.segments.tail());
        if self.disk.is_some() {
            self.retired.push(oldest);
        }
    }

    /// Gives back the files of segments that the disk knows to be dead.
    pub(super) fn recycle_retired(&mut self) {
        let known = self.tail_known;
        for segment in self.retired.extract_if(.., |segment| segment.end <= known) {
            self.segment_pool.add(segment.file, segment.file_bytes);
        }
    }

    /// Up to about `max_bytes` of records from where the walk is; none when it is at its end.
    fn walk(&mut self, walk: &mut Walk, max_bytes: usize) -> Result<Vec<(Position, Bytes)>, ReadError> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while bytes < max_bytes.max(1) {
            let Some(stored) = walk.ready.as_mut().and_then(Iterator::next) else {
                if self.refill(walk)? {
                    continue;
                }
                break;
            };
            let wanted = stored.at >= walk.at && stored.at < walk.end && !stored.header.is_lost();
            if wanted {
                walk.at = stored.at + RECORD_HEADER + u64::from(stored.header.length);
                bytes += stored.bytes.len();
                records.push((Position(stored.at), stored.bytes));
            }
        }
        self.counters.compacted_bytes += bytes as u64;
        Ok(records)
    }

    /// Reads on, from memory or disk. False: the segment is at its end.
    fn refill(&mut self, walk: &mut Walk) -> Result<bool, ReadError> {
        if walk.at >= walk.end {
            return Ok(false);
        }
        if walk.scanner.is_some() || !self.write_cache.is_held(walk.at) {
            return self.refill_from_disk(walk);
        }
        let piece = self.write_cache.piece_at_or_after(walk.at).filter(|piece| piece.start < walk.end);
        walk.ready = piece.map(|piece| Records::new(piece.bytes.clone(), piece.start));
        if walk.ready.is_none() {
            // The rest of the segment is dead.
            walk.at = walk.end;
        }
        Ok(walk.ready.is_some())
    }

    fn refill_from_disk(&self, walk: &mut Walk) -> Result<bool, ReadError> {
        let (Some(disk), Some(segment)) = (&self.disk, self.segments.oldest_full()) else { return Ok(false) };
        if walk.scanner.is_none() {
            walk.scanner = Some(scanner(&**disk, segment)?);
        }
        let Some(scanner) = &mut walk.scanner else { return Ok(false) };
        if scanner.position() >= walk.end {
            walk.at = walk.end;
            return Ok(false);
        }
        let batch =
            scanner.next(&**disk).map_err(|scan_end| stopped(scan_end, segment, scanner.position()))?;
        walk.ready = (batch.header.kind == BatchKind::Data).then(|| batch.all_records());
        Ok(true)
    }
}

fn scanner(disk: &dyn Disk, segment: &Segment) -> Result<Scanner, ReadError> {
    let mut header = [0; HEADER_LEN];
    disk.read_at(segment.file, 0, &mut header)
        .map_err(|error| stopped(ScanEnd::Io(error), segment, segment.base))?;
    let header = SegmentHeader::decode(&header).ok().filter(|header| header.base == segment.base);
    let corrupt = ReadError::Corrupt { at: Position(segment.base), file: segment.file, offset: 0 };
    Ok(Scanner::new(segment.file, &header.ok_or(corrupt)?, segment.end - segment.base))
}

fn stopped(scan_end: ScanEnd, segment: &Segment, position: u64) -> ReadError {
    let (at, file, offset) = (Position(position), segment.file, position - segment.base);
    match scan_end {
        ScanEnd::Io(error) => ReadError::Disk { at, file, offset, message: error.to_string().into() },
        ScanEnd::Bad(_) => ReadError::Corrupt { at, file, offset },
    }
}

/// Live bytes up to this share of a segment are moved early, as long as that takes no reading.
const FEW_LIVE_SHARE: u64 = 64;
/// So many segments are no reason to clean.
const SLACK_SEGMENTS: u64 = 3;
/// In memory they are small, and hold what is live in each of several queues that are read at different paces.
const SLACK_SEGMENTS_IN_MEMORY: u64 = 8;
