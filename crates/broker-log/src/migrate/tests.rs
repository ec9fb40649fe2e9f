//! Migration of journals of 0.1.0, whose bytes lie in the fixture of format 1.

use std::{fs, path::Path};

use super::*;
use crate::{DamageKind, DiskCall, Faults, FaultyDisk, FileId, MemDisk};

fn config() -> JournalConfig {
    JournalConfig {
        segment_bytes: 4096,
        spare_segments: 1,
        reserve_bytes: 0,
        node: 7,
        ..JournalConfig::default()
    }
}

/// The fixture's files in memory.
fn of_0_1() -> MemDisk {
    let disk = MemDisk::new();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if let Some(number) = name.strip_suffix(".segment") {
            disk.replace(FileId(number.parse().unwrap()), fs::read(entry.path()).unwrap());
        }
    }
    disk
}

/// Index and rest of each record of the fixture, in order.
fn records_of_the_fixture() -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..48_u32)
        .map(|number| {
            let index = [&b"index "[..], &number.to_le_bytes()].concat();
            let rest = (0..number * 23 % 400).map(|n| u8::try_from((n + number) % 251).unwrap()).collect();
            (index, rest)
        })
        .collect()
}

fn reopened(disk: &MemDisk) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    recover(disk.clone(), config(), &mut |_, record| {
        let index = record.index().to_vec();
        let rest = record.full().unwrap()[index.len()..].to_vec();
        found.push((index, rest));
    })
    .unwrap();
    found
}

#[expect(clippy::unnecessary_wraps, reason = "a conversion may fail")]
fn unchanged(index: &[u8]) -> Result<Vec<u8>, String> {
    Ok(index.to_vec())
}

#[test]
fn each_record_of_0_1_is_in_the_new_journal_in_order_with_its_new_index() {
    let (from, to) = (of_0_1(), MemDisk::new());
    let before: Vec<_> = from.list().unwrap().into_iter().map(|(file, _)| from.contents(file)).collect();
    let mut longer = |index: &[u8]| -> Result<Vec<u8>, String> { Ok([b"new ", index].concat()) };
    let migrated = migrate(&from, to.clone(), config(), &mut longer).unwrap();
    let expected: Vec<_> = records_of_the_fixture()
        .into_iter()
        .map(|(index, rest)| ([&b"new "[..], &index].concat(), rest))
        .collect();
    assert_eq!(migrated.records, expected.len() as u64);
    assert_eq!(reopened(&to), expected);
    let after: Vec<_> = from.list().unwrap().into_iter().map(|(file, _)| from.contents(file)).collect();
    assert_eq!(before, after, "the old journal is only read");
}

#[test]
fn units_stay_whole_whatever_is_cut_off_the_new_journal() {
    // The fixture has three records in each batch.
    let (from, to) = (of_0_1(), MemDisk::new());
    migrate(&from, to.clone(), config(), &mut unchanged).unwrap();
    let newest = crate::check(&to).unwrap().segments.last().unwrap().clone();
    let length = usize::try_from(newest.end.0 - newest.begin.0).unwrap();
    for cut in (64..length).step_by(64) {
        let disk = to.snapshot();
        let mut contents = disk.contents(newest.file).unwrap();
        contents[cut..].fill(0);
        disk.replace(newest.file, contents);
        let mut found = 0;
        // Everything in it was durable, so a cut is damage, except behind the last batch.
        if recover(disk, config(), &mut |_, _| found += 1).is_ok() {
            assert_eq!(found % 3, 0, "cut at {cut}");
        }
    }
}

#[test]
fn a_journal_of_the_present_format_or_none_is_left_alone() {
    let (from, to) = (MemDisk::new(), MemDisk::new());
    assert_eq!(migrate(&from, to.clone(), config(), &mut unchanged), Err(MigrateError::NotOlder));
    drop(recover(from.clone(), config(), &mut |_, _| {}).unwrap());
    assert_eq!(migrate(&from, to.clone(), config(), &mut unchanged), Err(MigrateError::NotOlder));
    assert_eq!(to.list().unwrap(), []);
}

#[test]
fn a_damaged_journal_is_not_migrated() {
    let (from, to) = (of_0_1(), MemDisk::new());
    let first = crate::check(&from).unwrap().segments.first().unwrap().clone();
    let mut contents = from.contents(first.file).unwrap();
    contents[300] ^= 1;
    from.replace(first.file, contents);
    let Err(MigrateError::Damaged(damage)) = migrate(&from, to.clone(), config(), &mut unchanged) else {
        panic!("it was migrated");
    };
    assert_eq!((damage.file, damage.fault), (Some(first.file), DamageKind::Checksum));
    assert_eq!(to.list().unwrap(), []);
}

#[test]
fn a_record_that_cannot_be_converted_is_named_with_its_position() {
    let mut refuse = |index: &[u8]| -> Result<Vec<u8>, String> {
        if index.ends_with(&9_u32.to_le_bytes()) { Err("no counterpart".into()) } else { Ok(index.to_vec()) }
    };
    let error = migrate(&of_0_1(), MemDisk::new(), config(), &mut refuse).unwrap_err();
    let MigrateError::Record { at, error: text } = &error else { panic!("{error}") };
    assert_eq!(error.to_string(), format!("the record at position {at}: {text}"));
}

/// The disk is full after so many writes.
#[derive(Clone)]
struct FullAfter(u32);

impl Faults for FullAfter {
    fn fails(&mut self, call: DiskCall) -> Option<std::io::ErrorKind> {
        if !matches!(call, DiskCall::Write(_)) {
            return None;
        }
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_none().then_some(std::io::ErrorKind::StorageFull)
    }

    fn sector_survives(&mut self) -> bool {
        true
    }
}

#[test]
fn a_full_disk_ends_the_migration_with_its_error() {
    for writes in 0..12 {
        let result = migrate(&of_0_1(), FaultyDisk::new(FullAfter(writes)), config(), &mut unchanged);
        let Err(error) = result else { panic!("{writes} writes were enough") };
        assert!(matches!(error, MigrateError::Write(_) | MigrateError::Journal(_)), "{writes}: {error}");
    }
    assert!(migrate(&of_0_1(), FaultyDisk::new(FullAfter(1000)), config(), &mut unchanged).is_ok());
}
