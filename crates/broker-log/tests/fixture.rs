//! Journals that released formats wrote: the present one opens, that of 0.1.0 is migrated, each with every record it held.
//!
//! `FERRYBUS_WRITE_FIXTURE=1 cargo test -p broker-log --test fixture` writes the present format's directory anew; do that
//! for a new format only, and keep the old ones.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use broker_log::{DiskWorker, FileId, JournalConfig, MemDisk, Position, RealDisk, check, migrate, recover};

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{version}"))
}

fn config() -> JournalConfig {
    JournalConfig {
        segment_bytes: 4096,
        cache_bytes: 0,
        spare_segments: 1,
        reserve_bytes: 0,
        salt: 42,
        node: 7,
        opened_at: 1_764_000_000_000,
        ..JournalConfig::default()
    }
}

fn index(number: u32) -> Vec<u8> {
    [&b"index "[..], &number.to_le_bytes()].concat()
}

fn body(number: u32) -> Vec<u8> {
    (0..number * 23 % 400).map(|n| u8::try_from((n + number) % 251).unwrap()).collect()
}

const RECORDS: u32 = 48;

/// Three records a batch, over several segments; the first segments were freed; ended without a clean shutdown.
fn write(directory: &Path) {
    let disk = RealDisk::open(directory).unwrap();
    let mut worker = DiskWorker::new(disk.clone());
    let mut journal = recover(disk, config(), &mut |_, _| {}).unwrap();
    for number in 0..RECORDS {
        journal.append(&index(number), &[&body(number)]);
        if number % 3 == 2 {
            let until = journal.commit();
            journal.request_sync(until);
            while let Some(request) = journal.poll_io() {
                journal.handle_io(worker.perform(request));
            }
        }
    }
}

/// The fixture's files in memory: a test does not change what is checked in.
fn in_memory(directory: &Path) -> MemDisk {
    let disk = MemDisk::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if let Some(number) = name.strip_suffix(".segment") {
            disk.replace(FileId(number.parse().unwrap()), fs::read(entry.path()).unwrap());
        }
    }
    disk
}

/// The disk has all records of [`write`], and they can be read back. Returns the position of the first.
fn has_all_records(disk: &MemDisk) -> Position {
    let report = check(disk).unwrap();
    assert!(report.losses.is_empty(), "{report:?}");
    assert!(report.segments.iter().any(|segment| segment.has_summary), "{report:?}");
    let mut found = Vec::new();
    let mut journal = recover(disk.clone(), config(), &mut |at, record| {
        found.push((at, record.index().to_vec(), record.full().unwrap().to_vec()));
    })
    .unwrap();
    assert_eq!(found.len(), usize::try_from(RECORDS).unwrap());
    for (number, (at, found_index, bytes)) in (0..).zip(&found) {
        assert_eq!(
            (found_index, bytes),
            (&index(number), &[index(number), body(number)].concat()),
            "{number}"
        );
        let length = u32::try_from(bytes.len()).unwrap();
        assert_eq!(&journal.read(*at, length).unwrap()[..], bytes);
    }
    found.first().unwrap().0
}

#[test]
fn a_journal_of_format_2_opens_with_all_its_records() {
    let directory = fixture(2);
    if std::env::var_os("FERRYBUS_WRITE_FIXTURE").is_some() {
        drop(fs::remove_dir_all(&directory));
        write(&directory);
        fs::remove_file(directory.join("lock")).unwrap();
    }
    let first = has_all_records(&in_memory(&directory));
    assert_eq!(first, Position(384), "the first record's place is part of the format");
}

#[test]
fn a_journal_of_format_1_is_refused_and_migrated_with_all_its_records() {
    let (old, new) = (in_memory(&fixture(1)), MemDisk::new());
    let refused = recover(old.clone(), config(), &mut |_, _| panic!("a record is shown")).unwrap_err();
    assert!(refused.to_string().contains("`ferrybus journal migrate`"), "{refused}");
    let mut unchanged = |index: &[u8]| -> Result<Vec<u8>, String> { Ok(index.to_vec()) };
    let migrated = migrate(&old, new.clone(), config(), &mut unchanged).unwrap();
    assert_eq!(migrated.records, u64::from(RECORDS));
    has_all_records(&new);
}
