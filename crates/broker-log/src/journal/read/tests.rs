use super::*;
use crate::{Disk, DiskWorker, JournalConfig, MemDisk, recover};

fn journal(cache_bytes: u64) -> (Journal, DiskWorker<MemDisk>) {
    let config =
        JournalConfig { segment_bytes: 64 << 10, cache_bytes, reserve_bytes: 0, ..JournalConfig::default() };
    let disk = MemDisk::new();
    (recover(disk.clone(), config, &mut |_, _| {}).unwrap(), DiskWorker::new(disk))
}

fn fill(journal: &mut Journal, worker: &mut DiskWorker<MemDisk>, count: u8) -> Vec<(Position, u32)> {
    let records = (0..count).map(|n| journal.append(&[n], &[&vec![n; 5000]])).collect();
    let until = journal.commit();
    journal.request_sync(until);
    while let Some(request) = journal.poll_io() {
        journal.handle_io(worker.perform(request));
    }
    records
}

#[test]
fn recent_records_come_from_memory_and_older_ones_from_disk() {
    let (mut journal, mut worker) = journal(200 << 10);
    let records = fill(&mut journal, &mut worker, 200);
    fill(&mut journal, &mut worker, 1);
    for (n, (at, length)) in (0..200_u8).zip(&records) {
        assert!(journal.read(*at, *length).unwrap().iter().all(|byte| *byte == n), "{n}");
    }
    let reads = journal.stats().disk_reads;
    assert!((1..200).contains(&reads), "{reads}");
    assert!(journal.stats().cache_bytes <= (200 << 10) + crate::write_cache::CHUNK_BYTES as u64);
}

#[test]
fn a_wrong_length_or_place_is_the_callers_error() {
    for cache in [0, 1 << 20] {
        let (mut journal, mut worker) = journal(cache);
        let records = fill(&mut journal, &mut worker, 100);
        for (at, length) in [records[0], records[99]] {
            let other = journal.read(at, length - 1).unwrap_err();
            assert_eq!(other, ReadError::OtherLength { at, asked: length - 1, found: length });
        }
        let end = journal.stats().end;
        for at in [Position(u64::MAX), Position(end.0 + 1), end] {
            assert!(matches!(journal.read(at, 10), Err(ReadError::NotFound { .. })), "{at}");
        }
    }
}

#[test]
fn a_damaged_record_is_an_error_that_names_file_and_offset() {
    let (mut journal, mut worker) = journal(0);
    let records = fill(&mut journal, &mut worker, 100);
    let (at, length) = records[3];
    let file = worker.disk().list().unwrap().iter().map(|(file, _)| *file).min().unwrap();
    let mut contents = worker.disk().contents(file).unwrap();
    contents[usize::try_from(at.0).unwrap() + 100] ^= 1;
    worker.disk().replace(file, contents);
    assert_eq!(journal.read(at, length), Err(ReadError::Corrupt { at, file, offset: at.0 }));
    let (at, length) = records[4];
    assert!(journal.read(at, length).is_ok());
}

#[test]
fn a_flood_of_one_owner_leaves_the_records_of_another_in_memory() {
    let (mut journal, mut worker) = journal(2 << 20);
    let (quiet, flood) = (Owner(7), Owner(3));
    let mut records = Vec::new();
    for n in 0..200_u8 {
        records.push(journal.append_of(quiet, &[n], &[&vec![n; 2000]]));
        for _ in 0..5 {
            journal.append_of(flood, &[n], &[&vec![n; 10_000]]);
        }
        let until = journal.commit();
        journal.request_sync(until);
        while let Some(request) = journal.poll_io() {
            journal.handle_io(worker.perform(request));
        }
    }
    for (n, (at, length)) in (0..200_u8).zip(&records) {
        assert!(journal.read_of(quiet, *at, *length).unwrap().iter().all(|byte| *byte == n), "{n}");
    }
    assert_eq!((journal.stats().disk_reads, journal.disk_reads()), (0, 0));
    assert!(journal.stats().cache_bytes <= 2 << 20);
    let cached = journal.owner_stats(quiet).cached_bytes;
    assert!((200 * 2_000..600_000).contains(&cached), "{cached}");
    for (at, length) in records {
        journal.release(at, length);
    }
    assert_eq!(journal.owner_stats(quiet).cached_bytes, 0);
}

#[test]
fn reads_of_the_disk_are_counted_for_the_owner_that_reads() {
    let (mut journal, mut worker) = journal(0);
    let records = fill(&mut journal, &mut worker, 200);
    for (at, length) in records.iter().take(20) {
        journal.read_of(Owner(5), *at, *length).unwrap();
    }
    let stats = journal.owner_stats(Owner(5));
    assert_eq!(stats.disk_reads, 20);
    assert!((1..20).contains(&journal.disk_reads()), "{}", journal.disk_reads());
    assert!(stats.disk_read_bytes > 20 * 5_000, "{}", stats.disk_read_bytes);
    assert_eq!(journal.owner_stats(Owner(0)).disk_reads, 0);
    journal.forget_owner(Owner(5));
    assert_eq!(journal.owner_stats(Owner(5)).disk_reads, 0);
}
