use std::{
    io::{ErrorKind, IoSlice},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    DamageKind, Disk, DiskCall, DiskWorker, Faults, FaultyDisk, FileId, Journal, JournalConfig, MemDisk,
    NewerPart, Position, RecoveryError,
    format::{HEADER_LEN, SegmentHeader, VERSION, spare_header},
    recover,
};

const HEADER_AT_0: SegmentHeader = SegmentHeader {
    version: VERSION,
    base: 0,
    incarnation: 1,
    synced: 0,
    tail: 0,
    previous: 0,
    resume: None,
};

fn config() -> JournalConfig {
    JournalConfig {
        segment_bytes: 8 << 10,
        cache_bytes: 0,
        spare_segments: 1,
        reserve_bytes: 0,
        ..JournalConfig::default()
    }
}

fn open(disk: &MemDisk) -> Result<(Journal, Vec<Vec<u8>>), RecoveryError> {
    let mut found = Vec::new();
    let journal =
        recover(disk.clone(), config(), &mut |_, record| found.push(record.full().unwrap().to_vec()))?;
    Ok((journal, found))
}

fn drive(journal: &mut Journal, disk: &(impl Disk + Clone)) {
    let mut worker = DiskWorker::new(disk.clone());
    while let Some(request) = journal.poll_io() {
        journal.handle_io(worker.perform(request));
    }
}

fn put(journal: &mut Journal, disk: &(impl Disk + Clone), bytes: &[u8]) -> Position {
    let (at, _) = journal.append(bytes, &[]);
    let until = journal.commit();
    journal.request_sync(until);
    drive(journal, disk);
    at
}

#[test]
fn an_empty_disk_becomes_an_empty_journal() {
    let disk = MemDisk::new();
    let (journal, found) = open(&disk).unwrap();
    assert!(found.is_empty());
    assert_eq!(journal.stats().tail, Position(0));
    assert_eq!(journal.durable(), journal.stats().end);
    let (_, found) = open(&disk).unwrap();
    assert!(found.is_empty());
}

#[test]
fn opening_and_closing_does_not_make_the_journal_grow() {
    let disk = MemDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    put(&mut journal, &disk, b"one");
    let mut ends = Vec::new();
    for _ in 0..4 {
        journal.request_close();
        drive(&mut journal, &disk);
        assert!(journal.is_closed());
        ends.push(journal.stats().end.0);
        let found;
        (journal, found) = open(&disk).unwrap();
        assert_eq!(found, [b"one"]);
    }
    // The mark of an opening takes the place of the closing mark.
    assert!(ends.windows(2).all(|pair| pair[1] - pair[0] == 64), "{ends:?}");
}

#[test]
fn after_a_clean_shutdown_damage_to_the_last_batch_is_noticed() {
    for clean in [false, true] {
        let disk = MemDisk::new();
        let (mut journal, _) = open(&disk).unwrap();
        put(&mut journal, &disk, b"one");
        let at = put(&mut journal, &disk, b"two");
        if clean {
            journal.request_close();
            drive(&mut journal, &disk);
        }
        let mut contents = disk.contents(FileId(0)).unwrap();
        contents[usize::try_from(at.0).unwrap() + 13] ^= 1;
        disk.replace(FileId(0), contents);
        match open(&disk) {
            Ok((_, found)) => assert!(!clean && found == [b"one"], "{found:?}"),
            Err(RecoveryError::Damaged(damage)) => assert!(clean && damage.fault == DamageKind::Checksum),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The segment's header with another version.
fn of_version(disk: &MemDisk, version: u8) {
    let mut contents = disk.contents(FileId(0)).unwrap();
    contents[8] = version;
    let checksum = crc32c::crc32c(&contents[..60]).to_le_bytes();
    contents[60..64].copy_from_slice(&checksum);
    disk.replace(FileId(0), contents);
}

#[test]
fn another_version_is_refused_by_name_and_nothing_is_changed() {
    let older = RecoveryError::Older { file: FileId(0) };
    let newer = RecoveryError::Newer { file: FileId(0), offset: 0, part: NewerPart::Format(3) };
    let texts = [
        (
            1,
            older,
            "`00000000.segment` has the format of ferrybus 0.1.0: `ferrybus journal migrate` rewrites the journal in the present one",
        ),
        (
            3,
            newer,
            "`00000000.segment` at offset 0 was written by a newer version of ferrybus: format 3 is not known to this one",
        ),
    ];
    for (version, expected, text) in texts {
        let disk = MemDisk::new();
        drop(open(&disk).unwrap());
        of_version(&disk, version);
        let before = disk.contents(FileId(0));
        let error = open(&disk).unwrap_err();
        assert_eq!((error.to_string().as_str(), error), (text, expected));
        assert_eq!(disk.contents(FileId(0)), before);
    }
}

#[test]
fn a_foreign_or_empty_file_is_taken_for_a_spare() {
    let disk = MemDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    put(&mut journal, &disk, b"one");
    for (file, contents) in [(7, Vec::new()), (8, vec![0xff; 3000]), (9, vec![0; 20_000])] {
        disk.create(FileId(file), 0).unwrap();
        disk.replace(FileId(file), contents);
    }
    let (mut journal, found) = open(&disk).unwrap();
    assert_eq!(found, [b"one"]);
    drive(&mut journal, &disk);
    let files = disk.list().unwrap();
    assert!(files.len() <= 2, "the journal's own and one spare: {files:?}");
}

#[test]
fn a_segment_that_says_it_begins_later_than_the_tail_is_not_alone() {
    let disk = MemDisk::new();
    let header = SegmentHeader { base: 640, synced: 640, ..HEADER_AT_0 };
    disk.create(FileId(0), 0).unwrap();
    disk.write_at(FileId(0), 0, &[IoSlice::new(&header.encode())]).unwrap();
    let Err(RecoveryError::Damaged(damage)) = open(&disk) else { panic!("it opened") };
    assert_eq!((damage.file, damage.position, damage.fault), (None, Position(0), DamageKind::NoSegment));
    assert!(damage.to_string().starts_with("a missing file"), "{damage}");
}

#[test]
fn headers_at_the_end_of_the_numbers_are_refused_without_a_panic() {
    for base in [u64::MAX, u64::MAX - 63, 1 << 63, (1 << 62) + 64, 1 << 62, (1 << 62) - 6400] {
        let disk = MemDisk::new();
        let header = SegmentHeader { base, synced: base, tail: base, ..HEADER_AT_0 };
        disk.create(FileId(u32::MAX), 0).unwrap();
        let mut contents = header.encode().to_vec();
        contents.resize(8192, 0);
        disk.replace(FileId(u32::MAX), contents);
        drop(open(&disk));
        drop(crate::check(&disk));
    }
}

#[test]
fn segments_behind_a_cut_never_come_back() {
    let disk = MemDisk::new();
    let durability = crate::Durability::Os;
    let mut journal =
        recover(disk.clone(), JournalConfig { durability, ..config() }, &mut |_, _| {}).unwrap();
    let records: Vec<Position> = (0..60_u8).map(|n| put(&mut journal, &disk, &[n; 400])).collect();
    assert!(journal.stats().segments > 2);
    // Power was lost: a batch of the first segment is gone, and nothing had been promised.
    let mut contents = disk.contents(FileId(0)).unwrap();
    let at = usize::try_from(records[3].0).unwrap();
    contents[at..at + 400].fill(0);
    disk.replace(FileId(0), contents);
    let (mut journal, found) = open(&disk).unwrap();
    assert_eq!(found.len(), 3);
    let headers = disk.list().unwrap().into_iter().filter(|(file, _)| {
        let contents = disk.contents(*file).unwrap();
        contents.first_chunk::<HEADER_LEN>().is_some_and(|header| SegmentHeader::decode(header).is_ok())
    });
    assert_eq!(headers.count(), 1);
    put(&mut journal, &disk, b"after");
    assert_eq!(open(&disk).unwrap().1.len(), 4);
}

#[test]
fn a_spare_is_used_for_the_first_segment() {
    let disk = MemDisk::new();
    let mut spare = spare_header().to_vec();
    spare.resize(8 << 10, 0);
    disk.create(FileId(5), 0).unwrap();
    disk.replace(FileId(5), spare);
    drop(open(&disk).unwrap());
    assert_eq!(disk.list().unwrap(), [(FileId(5), 8 << 10)]);
}

#[test]
fn units_that_overrun_their_segment_are_whole_and_the_files_are_used_again() {
    let disk = MemDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    let mut expected = Vec::new();
    for round in 0..40_u8 {
        for part in 0..5_u8 {
            let (at, length) = journal.append(&[round, part], &[&[round; 300]]);
            journal.release(at, length);
            expected.push([&[round, part][..], &[round; 300]].concat());
        }
        let until = journal.commit();
        journal.request_sync(until);
        drive(&mut journal, &disk);
        if round >= 25 && journal.poll_compaction(1 << 20).is_some() {
            journal.segment_compacted();
        }
    }
    let found = open(&disk).unwrap().1;
    assert!(found.len() > 20 && expected.ends_with(&found));
    // Were each file deleted and a new one made, their numbers would grow.
    let highest = disk.list().unwrap().into_iter().map(|(file, _)| file.0).max();
    assert!(highest < Some(12), "{highest:?}");
}

/// Once told to, syncs of the directory fail; a crash takes all that was not synced.
#[derive(Clone, Default)]
struct DirectoryFails(Arc<AtomicBool>);

impl Faults for DirectoryFails {
    fn fails(&mut self, call: DiskCall) -> Option<ErrorKind> {
        (matches!(call, DiskCall::SyncDir) && self.0.load(Ordering::Relaxed)).then_some(ErrorKind::Other)
    }

    fn sector_survives(&mut self) -> bool {
        false
    }
}

#[test]
fn a_file_that_was_created_just_before_the_process_ended_is_made_durable_before_it_is_used() {
    let fails = DirectoryFails::default();
    let disk = FaultyDisk::new(fails.clone());
    let open = |disk: &FaultyDisk| {
        let mut found = Vec::new();
        let journal =
            recover(disk.clone(), config(), &mut |_, record| found.push(record.full().unwrap().to_vec()));
        (journal.unwrap(), found)
    };
    let (mut journal, _) = open(&disk);
    fails.0.store(true, Ordering::Relaxed);
    journal.notice_idle();
    drive(&mut journal, &disk);
    assert!(journal.poisoned().is_some(), "a spare was created, and the directory could not be synced");
    assert_eq!(disk.list().unwrap().len(), 2);
    fails.0.store(false, Ordering::Relaxed);
    // The next process finds the spare, which power would still take away.
    let (mut journal, _) = open(&disk);
    let mut worker = DiskWorker::new(disk.clone());
    let mut expected = Vec::new();
    while journal.stats().segments < 2 {
        expected.push(vec![7; 400]);
        journal.append(&[7; 400], &[]);
        let until = journal.commit();
        journal.request_sync(until);
        // Power goes before another file is created, which would make this one durable as well.
        while let Some(request) = journal.poll_io().filter(|request| !request.creates_file()) {
            journal.handle_io(worker.perform(request));
        }
        assert!(journal.durable() >= until);
    }
    assert_eq!(disk.list().unwrap().len(), 2, "the spare is in use");
    disk.crash();
    assert!(open(&disk).1 == expected, "records are gone with their file");
}

mod shard;
