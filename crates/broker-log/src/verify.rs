//! Verification: reads a whole journal, damaged or not, and finds every hole.
//!
//! Invariant: reads only; between the holes it reports, every byte that has a checksum was checked.

use crate::{
    Disk, FileId, RecoveryError,
    error::DamageKind,
    file_inventory::{FileInventory, SegmentFile, inventory_of_all_formats},
    format::{BatchKind, HEADER},
    mark::Mark,
    orphans::orphans,
    scan::{Batch, ScanEnd, Scanner},
};

/// A journal as it lies on disk.
#[derive(Debug)]
pub(crate) struct VerifiedJournal {
    /// Segments that are replayed, by position.
    pub segments: Vec<Segment>,
    /// Start of replay.
    pub tail: u64,
    /// Everything before this position was durable once.
    pub claimed: u64,
    /// Files that hold nothing that matters.
    pub idle: Vec<(FileId, u64)>,
    /// A name that no file has.
    pub next_file: u32,
}

/// One segment as it lies on disk.
#[derive(Debug)]
pub(crate) struct Segment {
    pub present: SegmentFile,
    /// The header is a guess from the batches.
    pub header_damaged: bool,
    /// Position behind the last intact batch.
    pub end: u64,
    pub chain: u32,
    pub batches: u64,
    /// The mark at its beginning, if it is intact.
    pub mark: Option<Mark>,
    pub records: u64,
    pub lost_records: u64,
    /// The summary, if it is intact.
    pub summary: Option<Batch>,
    pub holes: Vec<Hole>,
    /// Its last intact batch is the seal.
    sealed: bool,
    /// The highest watermarks its batches name.
    tail: u64,
    claimed: u64,
}

/// A stretch without intact batches.
#[derive(Clone, Debug)]
pub(crate) struct Hole {
    pub from: u64,
    pub to: u64,
    /// Damage at its beginning.
    pub fault: DamageKind,
    /// The chain before it.
    pub before: u32,
    /// The chain behind it, as the batch or segment there names it.
    pub after: u32,
    /// Start of replay, as the batches before it state it.
    pub tail: u64,
}

/// Reads everything.
pub(crate) fn verify_journal(disk: &dyn Disk) -> Result<VerifiedJournal, RecoveryError> {
    let mut inventory = inventory_of_all_formats(disk)?;
    let mut present: Vec<(SegmentFile, bool)> =
        inventory.segments.iter().map(|present| (*present, false)).collect();
    let mut idle = std::mem::take(&mut inventory.spares);
    let orphans = orphans(disk, &inventory)?;
    let is_orphan = |file: FileId| orphans.iter().any(|orphan| orphan.file == file);
    idle.extend(std::mem::take(&mut inventory.unknown).into_iter().filter(|(file, _)| !is_orphan(*file)));
    present.extend(orphans.iter().map(|orphan| (*orphan, true)));
    present.sort_by_key(|(present, _)| present.header.base);
    let mut segments = Vec::new();
    for (number, (one, header_damaged)) in present.iter().enumerate() {
        let next = present.get(number + 1).map(|(next, _)| next);
        let segment = verify_segment(disk, *one, *header_damaged, next)?;
        if *header_damaged && segment.claimed <= one.header.base {
            // The beginning of a segment that was never acknowledged.
            idle.push((one.file, one.length));
        } else {
            segments.push(segment);
        }
    }
    Ok(select(segments, idle, &inventory))
}

/// Leaves out what is dead by its own or a later segment's word.
fn select(
    segments: Vec<Segment>,
    mut idle: Vec<(FileId, u64)>,
    inventory: &FileInventory,
) -> VerifiedJournal {
    let tail = segments.iter().map(|segment| segment.tail).max().unwrap_or(0);
    let claimed = segments.iter().map(|segment| segment.claimed).max().unwrap_or(0);
    let (segments, dead): (Vec<_>, Vec<_>) =
        segments.into_iter().partition(|segment| segment.present.header.base >= tail);
    idle.extend(dead.iter().map(|segment| (segment.present.file, segment.present.length)));
    VerifiedJournal { segments, tail, claimed, idle, next_file: inventory.next_file }
}

fn verify_segment(
    disk: &dyn Disk,
    present: SegmentFile,
    header_damaged: bool,
    next: Option<&SegmentFile>,
) -> Result<Segment, RecoveryError> {
    let header = &present.header;
    let mut segment = Segment {
        present,
        header_damaged,
        end: header.base.saturating_add(HEADER),
        chain: header.chain(),
        batches: 0,
        mark: None,
        records: 0,
        lost_records: 0,
        summary: None,
        holes: Vec::new(),
        sealed: false,
        tail: header.tail,
        claimed: header.synced,
    };
    let mut scanner = Scanner::new(present.file, header, present.length);
    let until = next.map(|next| (next.header.base, next.header.previous));
    loop {
        if until.is_some_and(|(base, _)| scanner.position() >= base) {
            return Ok(segment);
        }
        match scanner.next(disk) {
            Ok(batch) => segment.add(&batch, scanner.chain()),
            Err(ScanEnd::Failed(error)) => return Err(error),
            Err(ScanEnd::Bad(fault)) => {
                if !segment.skip(disk, &mut scanner, fault, until)? {
                    return Ok(segment);
                }
            }
        }
    }
}

impl Segment {
    fn add(&mut self, batch: &Batch, chain: u32) {
        self.end = batch.end();
        self.chain = chain;
        self.batches += 1;
        self.mark = self.mark.or(batch.mark);
        self.sealed = batch.header.kind == BatchKind::Seal;
        self.tail = self.tail.max(batch.header.tail);
        self.claimed = self.claimed.max(batch.header.synced);
        match batch.header.kind {
            BatchKind::Data => {
                let whole = batch.records().count() as u64;
                self.records += whole;
                self.lost_records += u64::from(batch.header.count) - whole;
            }
            BatchKind::Summary => self.summary = Some(batch.clone()),
            BatchKind::Mark | BatchKind::Seal | BatchKind::Closed | BatchKind::Gap | BatchKind::Newer(_) => {}
        }
    }

    /// Notes a hole at the scanner's position and goes on behind it. False: nothing follows it.
    fn skip(
        &mut self,
        disk: &dyn Disk,
        scanner: &mut Scanner,
        fault: DamageKind,
        until: Option<(u64, u32)>,
    ) -> Result<bool, RecoveryError> {
        if self.sealed {
            // It is whole: what is missing is the segment behind it.
            return Ok(false);
        }
        let from = scanner.position();
        let limit = until.map_or(u64::MAX, |(base, _)| base);
        let follows =
            scanner.find(disk, from.saturating_add(HEADER))?.filter(|batch| batch.header.position < limit);
        // At the journal's end, intact batches that claim nothing beyond are leftovers of an earlier end.
        let claims = match until {
            None => scanner.claims_from(disk, from)? > from,
            Some(_) => true,
        };
        let (to, after) = match (follows.filter(|_| claims), until) {
            (Some(batch), _) => (batch.header.position, batch.header.previous),
            (None, Some((base, previous))) => (base, previous),
            (None, None) => return Ok(false),
        };
        self.holes.push(Hole { from, to, fault, before: scanner.chain(), after, tail: self.tail });
        scanner.resume(to, after);
        Ok(true)
    }
}
