use super::*;
use crate::{
    DiskWorker, Journal, JournalConfig, MemDisk, check,
    file_inventory::inventory,
    format::{BATCH_MAGIC, RecordHeader, RecordsChecksum, Seed},
    recover, repair,
};

const SECTOR: usize = 512;

fn config(salt: u64) -> JournalConfig {
    JournalConfig {
        segment_bytes: 8 << 10,
        cache_bytes: 0,
        spare_segments: 1,
        reserve_bytes: 0,
        salt,
        ..JournalConfig::default()
    }
}

fn open(disk: &MemDisk) -> Result<(Journal, Vec<Vec<u8>>), RecoveryError> {
    let mut found = Vec::new();
    let journal =
        recover(disk.clone(), config(5), &mut |_, record| found.push(record.full().unwrap().to_vec()))?;
    Ok((journal, found))
}

/// A batch with one record that says it is at offset `offset` of the segment at `base`, of an incarnation that a client chose.
fn forged(base: u64, offset: u64) -> Vec<u8> {
    let incarnation = 0x0bad_cafe;
    let seed = Seed::of(incarnation);
    let content = [9; 20];
    let record = RecordHeader::of(seed, 20, &content, &[]);
    let mut records = RecordsChecksum::new(seed);
    records.add(record.checksum);
    let header = BatchHeader {
        kind: BatchKind::Data,
        flags: 0,
        count: 1,
        previous: 1,
        length: 64 + 32,
        position: base + offset,
        incarnation,
        synced: base + offset,
        tail: base,
        extra: 0,
    };
    [&header.encode(records).0[..], &record.encode(), &content].concat()
}

/// A journal in whose segments each record holds a batch that a client forged, which lies at a place where batches may begin.
/// It says that it lies at its true offset of a segment at `base`.
fn with_forged_payloads(base: u64) -> (MemDisk, Vec<Vec<u8>>) {
    let disk = MemDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let mut worker = DiskWorker::new(disk.clone());
    let mut records = Vec::new();
    for number in 0..40_u8 {
        let newest = inventory(&disk).unwrap().segments.last().map_or(0, |present| present.header.base);
        // The record is behind the header of its batch.
        let at = journal.end().0 + HEADER + 12;
        // In the first batch of a segment it lies behind the sector that is lost.
        let place = at.next_multiple_of(64) + 256;
        let pad = vec![number; usize::try_from(place - at).unwrap()];
        let body = [&pad[..], &forged(base, place - newest), &[number; 150]].concat();
        journal.append(&body, &[]);
        records.push(body);
        let until = journal.commit();
        journal.request_sync(until);
        while let Some(request) = journal.poll_io() {
            journal.handle_io(worker.perform(request));
        }
    }
    assert!(journal.stats().segments > 3);
    (disk, records)
}

/// The first sector of a file is lost, and of the first batch nothing but what a client sent is left.
fn lose_beginning(disk: &MemDisk, file: FileId) {
    let mut contents = disk.contents(file).unwrap();
    contents[..SECTOR].fill(0);
    disk.replace(file, contents);
}

/// Whether a forged batch lies where it says, so that it passes for one of its own segment.
fn count_forged(disk: &MemDisk, file: FileId, base: u64) -> usize {
    let contents = disk.contents(file).unwrap();
    let places = (0..contents.len() / 64).map(|block| block * 64);
    places
        .filter(|at| contents[*at..].starts_with(&BATCH_MAGIC))
        .filter_map(|at| Some((at, BatchHeader::decode(contents[at..].first_chunk()?)?)))
        .filter(|(at, header)| header.position == base + *at as u64 && header.incarnation == 0x0bad_cafe)
        .count()
}

#[test]
fn a_forged_batch_gives_a_segment_whose_first_sector_is_lost_no_other_identity() {
    // Far behind the end of the journal, in the middle of it, and where no batch can be.
    for base in [1 << 30, 64 * 200, 64] {
        for number in 0..3 {
            let (disk, records) = with_forged_payloads(base);
            let before = check(&disk).unwrap();
            let segment = before.segments[number].clone();
            assert!(count_forged(&disk, segment.file, base) > 3);
            lose_beginning(&disk, segment.file);
            let case = format!("{base}, segment {number}");
            let report = check(&disk).unwrap();
            assert_eq!(report.segments.len(), before.segments.len(), "{case}");
            assert_eq!(report.segments[number].begin, segment.begin, "{case}");
            assert_eq!((report.tail, report.end), (before.tail, before.end), "{case}");
            assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))), "{case}");
            let repaired = repair(&disk).unwrap();
            assert!(repaired.after.losses.is_empty(), "{case}: {:?}", repaired.after);
            let (_, found) = open(&disk).unwrap();
            assert!(found.len() >= records.len() - 2, "{case}: {} of {}", found.len(), records.len());
            assert!(found.iter().all(|record| records.contains(record)), "{case}");
        }
    }
}

#[test]
fn a_forged_batch_in_a_file_that_holds_nothing_does_not_keep_a_journal_from_opening() {
    let (disk, records) = with_forged_payloads(1 << 30);
    let (file, length) = disk.list().unwrap()[0];
    let idle = FileId(70);
    disk.replace(idle, disk.contents(file).unwrap());
    lose_beginning(&disk, idle);
    // Of the copy nothing is left but what clients sent.
    let mut contents = disk.contents(idle).unwrap();
    for at in (0..contents.len()).step_by(64) {
        let header = contents[at..].first_chunk().and_then(BatchHeader::decode);
        if header.is_some_and(|header| header.incarnation != 0x0bad_cafe) {
            contents[at] = 0;
        }
    }
    disk.replace(idle, contents);
    assert!(length > 0 && count_forged(&disk, idle, 1 << 30) > 3);
    assert!(check(&disk).unwrap().losses.is_empty());
    assert_eq!(open(&disk).unwrap().1, records);
}

#[test]
fn for_a_file_of_zeros_no_segment_is_read() {
    let (disk, _) = with_forged_payloads(1 << 30);
    let (zeros, length) = (FileId(70), 3 * 4096);
    disk.replace(zeros, vec![0; length]);
    let files = inventory(&disk).unwrap();
    assert_eq!(files.unknown, [(zeros, length as u64)]);
    for present in &files.segments {
        // A read of it would fail.
        disk.delete(present.file).unwrap();
    }
    assert!(orphans(&disk, &files).unwrap().is_empty());
}

#[test]
fn segments_without_headers_are_found_one_behind_the_other() {
    let (disk, records) = with_forged_payloads(1 << 30);
    for segment in check(&disk).unwrap().segments {
        let mut contents = disk.contents(segment.file).unwrap();
        contents[..64].fill(0);
        disk.replace(segment.file, contents);
    }
    assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))));
    repair(&disk).unwrap();
    assert_eq!(open(&disk).unwrap().1, records);
}
