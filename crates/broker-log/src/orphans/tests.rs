use std::{
    io::{self, IoSlice},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::*;
use crate::{
    DiskWorker, Journal, JournalConfig, MemDisk, Position, check,
    file_inventory::inventory,
    format::{BATCH_MAGIC, HEADER_LEN, RecordHeader, RecordsChecksum, Seed, spare_header},
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

/// A journal whose first segments are dead, and the records in it.
fn compacted() -> (MemDisk, Vec<Vec<u8>>) {
    let disk = MemDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let mut worker = DiskWorker::new(disk.clone());
    let mut write = |journal: &mut Journal| {
        let until = journal.commit();
        journal.request_sync(until);
        while let Some(request) = journal.poll_io() {
            journal.handle_io(worker.perform(request));
        }
    };
    let mut dead = Vec::new();
    for number in 0..200_u8 {
        let place = journal.append(&[number; 400], &[]);
        dead.extend((number < 120).then_some(place));
        write(&mut journal);
    }
    // Not before now, so that no batch of the oldest segment in use says that it is.
    for (at, length) in dead {
        journal.release(at, length);
    }
    for _ in 0..50 {
        if journal.poll_compaction(1 << 20).is_some() {
            journal.segment_compacted();
        }
        write(&mut journal);
    }
    // The header of the newest segment says where the tail is.
    for number in 0..30_u8 {
        journal.append(&[number; 400], &[]);
        write(&mut journal);
    }
    assert!(journal.stats().tail > Position(0) && journal.stats().segments > 3);
    let (_, found) = open(&disk.snapshot()).unwrap();
    (disk, found)
}

fn zero(disk: &MemDisk, file: FileId, from: u64, length: usize) {
    let mut contents = disk.contents(file).unwrap();
    let from = usize::try_from(from).unwrap();
    contents[from..from + length].fill(0);
    disk.replace(file, contents);
}

/// Takes away what could tell a start which segments are dead.
fn clear_idle_files(disk: &MemDisk, live: &[crate::SegmentReport]) {
    for (file, length) in disk.list().unwrap() {
        if live.iter().all(|segment| segment.file != file) {
            let mut spare = spare_header().to_vec();
            spare.resize(usize::try_from(length).unwrap(), 0);
            disk.replace(file, spare);
        }
    }
}

#[test]
fn a_compacted_journal_of_which_no_header_is_left_is_refused_and_nothing_of_it_is_changed() {
    // The header alone, and the first batch with it.
    for lost in [HEADER_LEN, SECTOR] {
        let (disk, records) = compacted();
        let before = check(&disk).unwrap();
        clear_idle_files(&disk, &before.segments);
        for segment in &before.segments {
            zero(&disk, segment.file, 0, lost);
        }
        let contents: Vec<_> = before.segments.iter().map(|segment| disk.contents(segment.file)).collect();
        assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))), "{lost} bytes");
        let after: Vec<_> = before.segments.iter().map(|segment| disk.contents(segment.file)).collect();
        assert!(contents == after);
        let report = check(&disk).unwrap();
        assert_eq!((report.tail, report.segments.len()), (before.tail, before.segments.len()), "{lost}");
        assert!(!report.losses.is_empty());
        repair(&disk).unwrap();
        let found = open(&disk).unwrap().1;
        assert!(found.iter().all(|record| records.contains(record)));
        // The sector takes a record or two of each segment with it.
        let most_lost = if lost == HEADER_LEN { 0 } else { 2 * before.segments.len() };
        assert!(found.len() + most_lost >= records.len(), "{lost}: {} of {}", found.len(), records.len());
    }
}

#[test]
fn the_newest_segment_is_missed_where_its_header_and_the_seal_before_it_are_lost() {
    // Of the segment before it the seal alone, its sector, or the block with the summary.
    for before_it in [HEADER_LEN, SECTOR, 4096] {
        for lost in [HEADER_LEN, SECTOR] {
            let case = format!("{before_it} bytes and {lost}");
            let (disk, records) = compacted();
            let before = check(&disk).unwrap();
            let [.., sealed, newest] = &before.segments[..] else { panic!("{before:?}") };
            assert!(newest.records > 4, "{newest:?}");
            let end = sealed.end.0 - sealed.begin.0;
            zero(&disk, sealed.file, end - before_it as u64, before_it);
            zero(&disk, newest.file, 0, lost);
            let contents = disk.contents(newest.file);
            assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))), "{case}");
            assert_eq!(disk.contents(newest.file), contents, "{case}");
            let report = check(&disk).unwrap();
            assert_eq!(report.segments.len(), before.segments.len(), "{case}");
            assert!(!report.losses.is_empty(), "{case}");
            repair(&disk).unwrap();
            let found = open(&disk).unwrap().1;
            // The newest record is there.
            assert_eq!(found.last(), records.last(), "{case}");
        }
    }
}

#[test]
fn the_newest_segment_without_a_header_is_missed_where_the_file_before_it_is_gone() {
    let (disk, records) = compacted();
    let before = check(&disk).unwrap();
    let [.., gone, newest] = &before.segments[..] else { panic!("{before:?}") };
    disk.delete(gone.file).unwrap();
    zero(&disk, newest.file, 0, HEADER_LEN);
    assert!(matches!(open(&disk), Err(RecoveryError::Damaged(_))));
    repair(&disk).unwrap();
    let found = open(&disk).unwrap().1;
    assert_eq!(found.last(), records.last());
    assert_eq!(found.len() as u64, before.records - gone.records);
}

/// Counts the reads.
#[derive(Clone, Debug)]
struct CountedReads(MemDisk, Arc<AtomicU64>);

impl Disk for CountedReads {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        self.0.list()
    }
    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        self.0.create(file, reserve)
    }
    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.0.write_at(file, offset, parts)
    }
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_at(file, offset, buffer)
    }
    fn sync_data(&self, file: FileId) -> io::Result<()> {
        self.0.sync_data(file)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }
    fn delete(&self, file: FileId) -> io::Result<()> {
        self.0.delete(file)
    }
    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.set_aside(name, bytes)
    }
    fn free_space(&self) -> io::Result<u64> {
        self.0.free_space()
    }
}

#[test]
fn for_a_retired_file_whose_beginning_is_lost_no_segment_is_read() {
    let (disk, records) = compacted();
    // A file of an earlier time, full of batches.
    let (earlier, _) = with_forged_payloads(64);
    let retired = FileId(70);
    disk.replace(retired, earlier.contents(FileId(0)).unwrap());
    let length = disk.contents(retired).unwrap().len() as u64;
    for lost in [HEADER_LEN, SECTOR] {
        zero(&disk, retired, 0, lost);
        let counted = CountedReads(disk.clone(), Arc::default());
        let files = inventory(&disk).unwrap();
        assert_eq!(files.unknown, [(retired, length)]);
        assert!(orphans(&counted, &files).unwrap().is_empty());
        // The file itself, from its first batch on.
        let reads = counted.1.load(Ordering::Relaxed);
        assert!(reads <= 2, "{reads} reads for {lost} bytes");
        assert_eq!(open(&disk.snapshot()).unwrap().1, records);
    }
}

#[test]
fn a_file_full_of_seals_that_a_client_sent_costs_few_reads() {
    let (disk, _) = compacted();
    let files = inventory(&disk).unwrap();
    let newest = files.segments.last().unwrap().header.base;
    // Each says that it ends a segment of its own, where the newest one begins.
    let mut contents = vec![0; SECTOR];
    while contents.len() < 256 << 10 {
        let offset = contents.len() as u64;
        let header = BatchHeader {
            kind: BatchKind::Seal,
            flags: 0,
            count: 0,
            previous: 1,
            length: 64,
            position: newest - HEADER,
            incarnation: offset,
            synced: 0,
            tail: 0,
            extra: 0,
        };
        contents.extend_from_slice(&header.encode(RecordsChecksum::new(Seed::of(offset))).0);
        if newest < contents.len() as u64 + HEADER {
            break;
        }
    }
    let seals = contents.len() as u64 / HEADER;
    disk.replace(FileId(70), contents);
    let counted = CountedReads(disk.clone(), Arc::default());
    let files = inventory(&disk).unwrap();
    orphans(&counted, &files).unwrap();
    let reads = counted.1.load(Ordering::Relaxed);
    assert!(seals > 100 && reads < 60, "{reads} reads for {seals}");
}
