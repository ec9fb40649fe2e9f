//! Journals in which a newer version has written something that this one does not know: recovery, check, repair and migration
//! refuse them by name, wherever it lies, and change nothing.
//!
//! The bytes are found and changed as `docs/disk-format.md` describes them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]

use std::{fs, path::Path};

use broker_log::{
    Disk, DiskWorker, FileId, JournalConfig, MemDisk, MigrateError, NewerPart, RecoveryError, check, migrate,
    recover, repair,
};
use crc32c::{crc32c, crc32c_append};

/// Records of a journal.
const RECORDS: u32 = 60;
const SEGMENT_HEADER: usize = 64;
const BATCH_HEADER: usize = 64;
const RECORD_HEADER: usize = 12;
/// Offset of the content of a mark in its batch.
const MARK: usize = BATCH_HEADER + RECORD_HEADER;

const DATA: u16 = 1;
const SUMMARY: u16 = 2;
const SEAL: u16 = 3;
const CLOSED: u16 = 4;
const MARKED: u16 = 6;

fn config() -> JournalConfig {
    JournalConfig {
        segment_bytes: 8 << 10,
        cache_bytes: 0,
        spare_segments: 1,
        reserve_bytes: 0,
        ..JournalConfig::default()
    }
}

/// A journal of several segments with two batches of records in the newest at the least. With `index_only`, records are so hard to
/// list that no segment has a summary.
fn filled(closed: bool, index_only: bool) -> MemDisk {
    let disk = MemDisk::new();
    let mut worker = DiskWorker::new(disk.clone());
    let mut journal = recover(disk.clone(), config(), &mut |_, _| {}).unwrap();
    for number in 0..RECORDS {
        let record = [&number.to_le_bytes()[..], &[7; 600]].concat();
        let (index, rest) = record.split_at(if index_only { record.len() } else { 4 });
        journal.append(index, &[rest]);
        let until = journal.commit();
        journal.request_sync(until);
        if closed && number + 1 == RECORDS {
            journal.request_close();
        }
        while let Some(request) = journal.poll_io() {
            journal.handle_io(worker.perform(request));
        }
    }
    disk
}

/// A batch as it lies on disk.
#[derive(Clone, Copy, Debug)]
struct Place {
    file: FileId,
    offset: usize,
    kind: u16,
}

/// A segment and its batches, in order.
#[derive(Clone, Debug)]
struct Segment {
    file: FileId,
    base: u64,
    batches: Vec<Place>,
}

impl Segment {
    fn has_summary(&self) -> bool {
        self.batches.iter().any(|batch| batch.kind == SUMMARY)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn length_at(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u32_at(bytes, at)).unwrap()
}

/// The segments of a journal, oldest first.
fn segments(disk: &MemDisk) -> Vec<Segment> {
    let mut segments = Vec::new();
    for (file, contents) in contents(disk) {
        if !contents.starts_with(b"FERRYSEG") {
            continue;
        }
        let (base, incarnation) = (u64_at(&contents, 16), u64_at(&contents, 24));
        let mut batches = Vec::new();
        let mut offset = SEGMENT_HEADER;
        while contents[offset..].starts_with(b"FBAT")
            && u64_at(&contents, offset + 20) == base + offset as u64
            && u64_at(&contents, offset + 28) == incarnation
        {
            let kind = u16::from_le_bytes([contents[offset + 4], contents[offset + 5]]);
            batches.push(Place { file, offset, kind });
            offset += length_at(&contents, offset + 16).next_multiple_of(64);
        }
        segments.push(Segment { file, base, batches });
    }
    segments.sort_by_key(|segment| segment.base);
    segments
}

fn contents(disk: &MemDisk) -> Vec<(FileId, Vec<u8>)> {
    let files = disk.list().unwrap();
    files.into_iter().map(|(file, _)| (file, disk.contents(file).unwrap())).collect()
}

/// Makes the checksums of a batch and of its records right.
fn sum(bytes: &mut [u8], offset: usize) {
    let seed = crc32c(&bytes[offset + 28..offset + 36]);
    let end = offset + length_at(bytes, offset + 16);
    let (mut record, mut summed) = (offset + BATCH_HEADER, seed);
    while record < end {
        let content = record + RECORD_HEADER;
        let next = content + length_at(bytes, record);
        let checksum = crc32c_append(crc32c_append(seed, &bytes[record..record + 8]), &bytes[content..next]);
        bytes[record + 8..content].copy_from_slice(&checksum.to_le_bytes());
        summed = crc32c_append(summed, &checksum.to_le_bytes());
        record = next;
    }
    let checksum = crc32c_append(summed, &bytes[offset..offset + 60]);
    bytes[offset + 60..offset + 64].copy_from_slice(&checksum.to_le_bytes());
}

/// A copy of the disk in which a newer version has written the batch, and the refusal that is due.
fn with_newer(disk: &MemDisk, batch: Place, newer: &Newer) -> (MemDisk, RecoveryError) {
    let disk = disk.snapshot();
    let mut bytes = disk.contents(batch.file).unwrap();
    let before = bytes.clone();
    sum(&mut bytes, batch.offset);
    assert_eq!(bytes, before, "the sums are those of the journal");
    for (at, byte) in newer.bytes {
        bytes[batch.offset + at] = *byte;
    }
    assert_ne!(bytes, before);
    sum(&mut bytes, batch.offset);
    disk.replace(batch.file, bytes);
    let refusal = RecoveryError::Newer { file: batch.file, offset: batch.offset as u64, part: newer.part };
    (disk, refusal)
}

/// Something that this version does not know: bytes of a batch, by their offsets.
struct Newer {
    bytes: &'static [(usize, u8)],
    part: NewerPart,
}

const NEWER_KIND: Newer = Newer { bytes: &[(4, 9)], part: NewerPart::BatchKind(9) };
const NEWER_FLAGS: Newer = Newer { bytes: &[(6, 2)], part: NewerPart::BatchFlags(2) };
const NEWER_EXTRA: Newer = Newer { bytes: &[(57, 1)], part: NewerPart::BatchExtra(1 << 40) };
const NEWER_MARKS: [Newer; 5] = [
    Newer { bytes: &[(MARK, 2)], part: NewerPart::MarkVersion(2) },
    Newer { bytes: &[(MARK + 2, 1)], part: NewerPart::MarkFlags(1) },
    Newer { bytes: &[(MARK + 24, 1)], part: NewerPart::Term(1) },
    Newer { bytes: &[(MARK + 58, 3)], part: NewerPart::Members(3) },
    // With the three members behind it: 9 bytes each, which the lengths of batch and record count.
    Newer { bytes: &[(MARK + 58, 3), (16, 136 + 27), (BATCH_HEADER, 60 + 27)], part: NewerPart::Members(3) },
];

/// Parts of a newer version that a batch of this kind may have.
fn newer_parts(kind: u16) -> Vec<&'static Newer> {
    let mut parts = vec![&NEWER_KIND, &NEWER_FLAGS];
    // That of a seal is the position of the summary, with all of its bits.
    if kind != SEAL {
        parts.push(&NEWER_EXTRA);
    }
    if kind == MARKED {
        parts.extend(&NEWER_MARKS);
    }
    parts
}

#[expect(clippy::unnecessary_wraps, reason = "a conversion may fail")]
fn unchanged(index: &[u8]) -> Result<Vec<u8>, String> {
    Ok(index.to_vec())
}

/// Demands that those who read all of a journal refuse it, and leave it alone.
fn is_refused_by_readers_of_all(disk: &MemDisk, refusal: &RecoveryError, case: &str) {
    let before = contents(disk);
    assert_eq!(check(disk).as_ref(), Err(refusal), "{case}: check");
    assert_eq!(repair(disk).as_ref(), Err(refusal), "{case}: repair");
    let to = MemDisk::new();
    let migrated = migrate(disk, to.clone(), config(), &mut unchanged);
    assert_eq!(migrated, Err(MigrateError::Journal(refusal.clone())), "{case}: migrate");
    assert_eq!(to.list().unwrap(), [], "{case}: migrate");
    assert_eq!(contents(disk), before, "{case}");
}

/// Demands that a start refuses the journal, and leaves it alone.
fn is_refused_by_a_start(disk: &MemDisk, refusal: &RecoveryError, case: &str) {
    let before = contents(disk);
    let refused = recover(disk.clone(), config(), &mut |_, _| {}).unwrap_err();
    assert_eq!(refused, *refusal, "{case}");
    assert_eq!(contents(disk), before, "{case}");
    let place = "was written by a newer version of ferrybus";
    assert!(refused.to_string().contains(place), "{case}: {refused}");
}

/// Damages a batch: its checksum is wrong.
fn damage(disk: &MemDisk, batch: Place) {
    let mut bytes = disk.contents(batch.file).unwrap();
    bytes[batch.offset + 60] ^= 1;
    disk.replace(batch.file, bytes);
}

/// Calls `demand` for each batch of a whole journal, each part of a newer version that it may have, and the same behind a damaged
/// batch. A start recovers a full segment from its summary, where it has one, and does not read its records: that it has to refuse is
/// said with each call.
fn for_each_batch(disk: &MemDisk, mut demand: impl FnMut(&MemDisk, &RecoveryError, bool, &str)) -> usize {
    let segments = segments(disk);
    let newest = segments.len() - 1;
    let mut cases = 0;
    for (number, segment) in segments.iter().enumerate() {
        let mut before = None;
        for batch in &segment.batches {
            let skipped = number != newest && segment.has_summary() && batch.kind == DATA;
            for newer in newer_parts(batch.kind) {
                let (changed, refusal) = with_newer(disk, *batch, newer);
                let case = format!("segment {number}, {batch:?}, {}", newer.part);
                demand(&changed, &refusal, !skipped, &case);
                if let Some(before) = before {
                    damage(&changed, before);
                    demand(&changed, &refusal, !skipped, &format!("{case}, behind damage"));
                }
                cases += 1;
            }
            before = Some(*batch);
        }
    }
    cases
}

#[test]
fn a_journal_with_a_part_of_a_newer_version_is_refused_wherever_that_lies_and_nothing_is_changed() {
    for closed in [false, true] {
        let disk = filled(closed, false);
        let segments = segments(&disk);
        let (newest, full) = segments.split_last().unwrap();
        let last = if closed { CLOSED } else { DATA };
        assert_eq!(newest.batches.last().map(|batch| batch.kind), Some(last));
        assert!(newest.batches.iter().filter(|batch| batch.kind == DATA).count() >= 2, "{newest:?}");
        assert!(full.len() >= 2 && full.iter().all(Segment::has_summary), "{full:?}");
        let mut starts = 0;
        let cases = for_each_batch(&disk, |disk, refusal, start_refuses, case| {
            is_refused_by_readers_of_all(disk, refusal, case);
            if start_refuses {
                is_refused_by_a_start(disk, refusal, case);
                starts += 1;
            }
        });
        assert!(cases > 100 && starts > 50, "{cases} cases, {starts} starts");
    }
}

#[test]
fn a_start_refuses_each_batch_of_a_newer_version_in_a_full_segment_without_a_summary() {
    let disk = filled(false, true);
    let segments = segments(&disk);
    assert!(segments.len() > 2 && !segments.iter().any(Segment::has_summary), "{segments:?}");
    let cases = for_each_batch(&disk, |disk, refusal, start_refuses, case| {
        assert!(start_refuses, "{case}");
        is_refused_by_a_start(disk, refusal, case);
    });
    assert!(cases > 100, "{cases}");
}

#[test]
fn a_start_that_passes_over_a_batch_of_a_newer_version_leaves_its_segment_alone() {
    let disk = filled(false, false);
    let first = segments(&disk)[0].clone();
    let bytes = disk.contents(first.file).unwrap();
    let has_record = |batch: &&Place| batch.kind == DATA && u32_at(&bytes, batch.offset + 8) > 0;
    let batch = *first.batches.iter().find(has_record).unwrap();
    let (disk, refusal) = with_newer(&disk, batch, &NEWER_KIND);
    let before = disk.contents(first.file).unwrap();
    let mut found = Vec::new();
    let mut journal =
        recover(disk.clone(), config(), &mut |at, record| found.push((at, record.len()))).unwrap();
    assert_eq!(found.len(), usize::try_from(RECORDS).unwrap(), "the summary lists the record");
    // Nothing lives but that, so that compaction wants the segment.
    journal.set_live([found[0]]);
    let mut worker = DiskWorker::new(disk.clone());
    let stopped = loop {
        assert!(journal.poll_compaction(1 << 20).is_none(), "nothing of the segment is given out");
        if let Some(stopped) = journal.compaction_stopped() {
            break stopped.to_string();
        }
        let request = journal.poll_io().unwrap();
        journal.handle_io(worker.perform(request));
    };
    assert!(stopped.contains(&refusal.to_string()), "{stopped}");
    assert_eq!(disk.contents(first.file), Some(before));
}

#[test]
fn in_a_segment_whose_header_is_lost_a_batch_of_a_newer_version_is_refused_as_such() {
    let disk = filled(false, false);
    let newest = segments(&disk).pop().unwrap();
    for batch in &newest.batches {
        for newer in newer_parts(batch.kind) {
            let (disk, refusal) = with_newer(&disk, *batch, newer);
            let mut bytes = disk.contents(newest.file).unwrap();
            bytes[..SEGMENT_HEADER].fill(0);
            disk.replace(newest.file, bytes);
            let case = format!("{batch:?}, {}", newer.part);
            is_refused_by_readers_of_all(&disk, &refusal, &case);
            is_refused_by_a_start(&disk, &refusal, &case);
            // It is all that is left of the segment.
            for other in newest.batches.iter().filter(|other| other.offset != batch.offset) {
                damage(&disk, *other);
            }
            is_refused_by_readers_of_all(&disk, &refusal, &format!("{case}, alone"));
            is_refused_by_a_start(&disk, &refusal, &format!("{case}, alone"));
        }
    }
}

#[test]
fn a_journal_of_0_1_with_a_batch_of_a_newer_version_is_not_migrated() {
    let disk = MemDisk::new();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if let Some(number) = name.strip_suffix(".segment") {
            disk.replace(FileId(number.parse().unwrap()), fs::read(entry.path()).unwrap());
        }
    }
    assert!(check(&disk).unwrap().losses.is_empty());
    let cases =
        for_each_batch(&disk, |disk, refusal, _, case| is_refused_by_readers_of_all(disk, refusal, case));
    assert!(cases > 50, "{cases}");
}
