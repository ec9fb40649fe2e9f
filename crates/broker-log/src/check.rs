//! Check of a journal: its damage, and the records that a repair would lose.
//!
//! Invariant: reads only; names every damaged place, not just the first.

use crate::{
    Damage, Disk, FileId, Position, RecoveryError,
    disk::BLOCK_BYTES,
    error::DamageKind,
    format::{BatchHeader, BatchKind, HEADER, HEADER_LEN, RECORD_HEADER_LEN},
    readable_disk::ReadableDisk,
    summary,
    verify::{Hole, Segment, VerifiedJournal, verify_journal},
};

/// Result of [`check`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// Start of replay.
    pub tail: Position,
    /// Position of the next record, if nothing is damaged.
    pub end: Position,
    /// The segments in use, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Files that hold nothing.
    pub idle_files: u64,
    /// Intact records.
    pub records: u64,
    /// Records that an earlier repair gave up.
    pub lost_records: u64,
    /// Damage to data that was durable. Empty: the broker starts.
    pub losses: Vec<Loss>,
    /// Unfinished writes begin here: they were never acknowledged, the next start cuts them off.
    pub unfinished: Option<Position>,
}

/// One segment in use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SegmentReport {
    pub file: FileId,
    pub begin: Position,
    /// End of the last intact batch.
    pub end: Position,
    /// Intact batches.
    pub batches: u64,
    /// Intact records.
    pub records: u64,
    /// Whether it has a summary, so that recovery need not read all of it.
    pub has_summary: bool,
}

/// A stretch of the journal that is damaged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loss {
    pub damage: Damage,
    /// The first position behind it that is intact.
    pub to: Position,
    /// Number of records in it, as the segment's summary or the damaged batch's header says.
    pub records: Option<u64>,
    /// Number of them that a repair keeps because their own checksums are right.
    pub savable: u64,
    /// Number of batches in it, if the marks before and behind it say so and nothing else between them is damaged.
    pub batches: Option<u64>,
}

/// Reads the whole journal and checks every checksum in it.
pub fn check(disk: &dyn Disk) -> Result<Report, RecoveryError> {
    let disk = ReadableDisk::new(disk);
    let verified = verify_journal(&disk)?;
    report(&disk, &verified)
}

/// Blocks that cannot be read are damage, whatever is in them.
pub(crate) fn report(disk: &ReadableDisk<'_>, verified: &VerifiedJournal) -> Result<Report, RecoveryError> {
    let mut losses = Vec::new();
    let mut unfinished = None;
    for hole in missing_segments(verified) {
        let batches = missing_before(verified, hole.to);
        losses.push(Loss { batches, ..loss(disk, None, &hole, verified.claimed)? });
    }
    for (index, segment) in verified.segments.iter().enumerate() {
        if segment.header_damaged {
            losses.push(header_loss(segment, verified.claimed));
        }
        for hole in &segment.holes {
            if hole.from < verified.claimed {
                let batches = missing_in(verified, index);
                losses.push(Loss { batches, ..loss(disk, Some(segment), hole, verified.claimed)? });
            } else {
                unfinished = unfinished.or(Some(Position(hole.from)));
            }
        }
    }
    for (file, offset) in disk.unreadable() {
        note_unreadable(&mut losses, verified, file, offset);
    }
    losses.sort_by_key(|loss| loss.damage.position);
    let end = verified.segments.last().map_or(0, |segment| segment.end);
    Ok(Report {
        tail: Position(verified.tail),
        end: unfinished.unwrap_or(Position(end)),
        idle_files: verified.idle.len() as u64,
        records: verified.segments.iter().map(|segment| segment.records).sum(),
        lost_records: verified.segments.iter().map(|segment| segment.lost_records).sum(),
        segments: verified.segments.iter().map(SegmentReport::of).collect(),
        losses,
        unfinished,
    })
}

impl SegmentReport {
    fn of(segment: &Segment) -> Self {
        Self {
            file: segment.present.file,
            begin: Position(segment.present.header.base),
            end: Position(segment.end),
            batches: segment.batches,
            records: segment.records,
            has_summary: segment.summary.is_some(),
        }
    }
}

/// Stretches between segments, where a whole one is missing.
pub(crate) fn missing_segments(verified: &VerifiedJournal) -> Vec<Hole> {
    let mut at = verified.tail;
    let (mut holes, mut before, mut tail) = (Vec::new(), 0, verified.tail);
    for segment in &verified.segments {
        let header = &segment.present.header;
        if header.base > at {
            let (from, to, after) = (at, header.base, header.previous);
            holes.push(Hole { from, to, fault: DamageKind::NoSegment, before, after, tail });
        }
        at = segment.holes.last().map_or(segment.end, |hole| hole.to.max(segment.end));
        (before, tail) = (segment.chain, verified.tail);
    }
    holes
}

fn header_loss(segment: &Segment, claimed: u64) -> Loss {
    let base = Position(segment.present.header.base);
    let damage = Damage {
        file: Some(segment.present.file),
        offset: 0,
        position: base,
        fault: DamageKind::NoSegment,
        durable: Position(claimed),
    };
    // The header itself holds no record and can be written anew.
    Loss { damage, to: Position(base.0 + HEADER), records: Some(0), savable: 0, batches: Some(0) }
}

fn loss(
    disk: &dyn Disk,
    segment: Option<&Segment>,
    hole: &Hole,
    claimed: u64,
) -> Result<Loss, RecoveryError> {
    let present = segment.map(|segment| &segment.present);
    let damage = Damage {
        file: present.map(|present| present.file),
        offset: present.map_or(0, |present| hole.from - present.header.base),
        position: Position(hole.from),
        fault: hole.fault,
        durable: Position(claimed),
    };
    let (mut records, mut savable) = (None, 0);
    if let Some(segment) = segment {
        records = listed(segment, hole);
        if records.is_none() {
            records = counted(disk, segment, hole)?;
        }
        savable = crate::batch_repair::repair_batch(disk, segment, hole)?.map_or(0, |saved| saved.whole);
    }
    Ok(Loss { damage, to: Position(hole.to), records, savable, batches: None })
}

/// Says of the stretch that a block lies in that the disk cannot read it. A block in which nothing is lost is a stretch of its own.
fn note_unreadable(losses: &mut Vec<Loss>, verified: &VerifiedJournal, file: FileId, offset: u64) {
    let segment = verified.segments.iter().find(|segment| segment.present.file == file);
    let position = segment.map_or(verified.tail, |segment| segment.present.header.base + offset);
    let end = offset + BLOCK_BYTES as u64;
    let stretch = losses.iter_mut().find(|loss| {
        let to = loss.damage.offset + (loss.to.0 - loss.damage.position.0);
        loss.damage.file == Some(file)
            && loss.damage.fault != DamageKind::NoSegment
            && loss.damage.offset < end
            && (to > offset || (to == offset && loss.records == Some(0)))
    });
    match stretch {
        Some(loss) => {
            loss.damage.fault = DamageKind::Unreadable;
            loss.to = Position(loss.to.0.max(loss.damage.position.0 + (end - loss.damage.offset)));
        }
        None => losses.push(Loss {
            damage: Damage {
                file: Some(file),
                offset,
                position: Position(position),
                fault: DamageKind::Unreadable,
                durable: Position(verified.claimed),
            },
            to: Position(position + BLOCK_BYTES as u64),
            records: Some(0),
            savable: 0,
            batches: Some(0),
        }),
    }
}

/// Number of the first batch of the segment at `index`: from its mark, or counted from the segment before.
fn first_number(verified: &VerifiedJournal, index: usize) -> Option<u64> {
    let segment = verified.segments.get(index)?;
    if let Some(mark) = segment.mark {
        return Some(mark.number);
    }
    let before = verified.segments.get(index.checked_sub(1)?)?;
    let whole = before.holes.is_empty() && before.end == segment.present.header.base;
    Some(before.mark.filter(|_| whole)?.number + before.batches)
}

/// Number of batches that are missing in the segment at `index`, which has the only damage before the next one.
fn missing_in(verified: &VerifiedJournal, index: usize) -> Option<u64> {
    let (segment, next) = (verified.segments.get(index)?, verified.segments.get(index + 1)?);
    let [hole] = &segment.holes[..] else { return None };
    let reaches = hole.to.max(segment.end) == next.present.header.base;
    let numbered = next.mark.filter(|_| reaches)?.number.checked_sub(first_number(verified, index)?)?;
    numbered.checked_sub(segment.batches)
}

/// Number of batches of the segments that are missing before the one at `position`.
fn missing_before(verified: &VerifiedJournal, position: u64) -> Option<u64> {
    let next = verified.segments.iter().position(|segment| segment.present.header.base == position)?;
    let index = next.checked_sub(1)?;
    let before = verified.segments.get(index).filter(|before| before.holes.is_empty())?;
    let mark = verified.segments.get(next)?.mark?;
    mark.number.checked_sub(first_number(verified, index)?)?.checked_sub(before.batches)
}

/// Number of records that the segment's summary lists inside the hole.
fn listed(segment: &Segment, hole: &Hole) -> Option<u64> {
    let summary = segment.summary.as_ref()?.records.get(RECORD_HEADER_LEN..)?;
    let inside = summary::entries(summary, segment.present.header.base)
        .flatten()
        .filter(|entry| entry.at >= hole.from && entry.at < hole.to);
    Some(inside.count() as u64)
}

/// Number of records that the header at the beginning of the hole states, if its checksum holds.
fn counted(disk: &dyn Disk, segment: &Segment, hole: &Hole) -> Result<Option<u64>, RecoveryError> {
    let header = &segment.present.header;
    let mut bytes = [0; HEADER_LEN];
    disk.read_at(segment.present.file, hole.from - header.base, &mut bytes)
        .map_err(|error| RecoveryError::read(segment.present.file, hole.from - header.base, &error))?;
    let batch = BatchHeader::decode(&bytes).filter(|batch| {
        let end = crate::format::aligned(hole.from.saturating_add(u64::from(batch.length)));
        batch.kind == BatchKind::Data
            && batch.position == hole.from
            && batch.incarnation == header.incarnation
            && end == hole.to
    });
    Ok(batch.map(|batch| u64::from(batch.count)))
}

#[cfg(test)]
mod tests;
