//! Repair of a damaged batch: keeps the records whose own checksums are right.
//!
//! Invariant: a saved record is byte for byte what was appended, at its old position; a record that is not saved is
//! marked as lost, never shown.

use bytes::Bytes;

use crate::{
    Disk, RecoveryError,
    format::{
        BatchHeader, BatchKind, HEADER, HEADER_LEN, RECORD_HEADER_LEN, RecordHeader, RecordsChecksum, Seed,
        aligned, encode_resume,
    },
    scan::Records,
    summary::lists_records,
    verify::{Hole, Segment},
};

/// A batch to write in place of a damaged one.
#[derive(Debug)]
pub(crate) struct RepairedBatch {
    /// Header and records.
    pub bytes: Vec<u8>,
    /// Records that are intact.
    pub whole: u64,
}

/// Records that can be kept of the batch in the hole. `None`: its headers are damaged, so none can.
pub(crate) fn repair_batch(
    disk: &dyn Disk,
    segment: &Segment,
    hole: &Hole,
) -> Result<Option<RepairedBatch>, RecoveryError> {
    let base = segment.present.header.base;
    let Ok(length) = usize::try_from(hole.to - hole.from) else { return Ok(None) };
    if hole.to - base > segment.present.length {
        return Ok(None);
    }
    let mut buffer = vec![0; length];
    let read = disk
        .read_at(segment.present.file, hole.from - base, &mut buffer)
        .map_err(|error| RecoveryError::read(segment.present.file, hole.from - base, &error))?;
    buffer.truncate(read);
    Ok(patch(&buffer.into(), segment, hole))
}

fn patch(bytes: &Bytes, segment: &Segment, hole: &Hole) -> Option<RepairedBatch> {
    let header = BatchHeader::decode(bytes.first_chunk::<HEADER_LEN>()?)?;
    let end = hole.from.checked_add(u64::from(header.length))?;
    let incarnation = segment.present.header.incarnation;
    let here = header.position == hole.from && header.incarnation == incarnation && aligned(end) == hole.to;
    if header.kind != BatchKind::Data || header.newer().is_some() || !here {
        return None;
    }
    let records = bytes.get(HEADER_LEN..usize::try_from(header.length).ok()?)?;
    let mut walk = Records::new(Bytes::copy_from_slice(records), hole.from + HEADER);
    let seed = Seed::of(incarnation);
    let mut summed = RecordsChecksum::new(seed);
    let (mut body, mut whole, mut count) = (Vec::with_capacity(records.len()), 0, 0);
    for stored in &mut walk {
        // The kind is as damaged as the rest of the header may be: a segment's index was never appended.
        if lists_records(&stored.bytes, segment.present.header.base, hole.from) {
            return None;
        }
        let intact = !stored.header.is_lost() && stored.header.matches(seed, &stored.bytes);
        let kept = if intact { stored.header } else { RecordHeader::lost(stored.header.length) };
        summed.add(kept.checksum);
        body.extend_from_slice(&kept.encode());
        body.extend_from_slice(&stored.bytes);
        whole += u64::from(intact);
        count += 1;
    }
    // Behind a broken chain of lengths no record boundary is known: a gap replaces the rest.
    if !walk.is_empty() || whole == 0 {
        return None;
    }
    let repaired = BatchHeader {
        kind: BatchKind::Data,
        flags: 0,
        count,
        previous: hole.before,
        length: u32::try_from(HEADER_LEN + body.len()).ok()?,
        position: hole.from,
        incarnation,
        synced: hole.from,
        tail: hole.tail,
        extra: encode_resume(Some(hole.after)),
    };
    let (header, _) = repaired.encode(summed);
    let mut bytes = header.to_vec();
    bytes.append(&mut body);
    debug_assert!(bytes.len() >= HEADER_LEN + RECORD_HEADER_LEN, "at least one record is whole");
    Some(RepairedBatch { bytes, whole })
}
