use std::collections::VecDeque;

use crate::{
    CompactionStep, Disk, DiskWorker, Durability, Journal, JournalConfig, MemDisk, Position, ReadError,
    recover, write_cache::CHUNK_BYTES,
};

pub(crate) fn small() -> JournalConfig {
    JournalConfig {
        segment_bytes: 16 << 10,
        cache_bytes: 0,
        spare_segments: 1,
        reserve_bytes: 0,
        ..JournalConfig::default()
    }
}

/// Performs all disk work there is.
pub(crate) fn drive<D: Disk>(journal: &mut Journal, worker: &mut DiskWorker<D>) {
    while let Some(request) = journal.poll_io() {
        journal.handle_io(worker.perform(request));
    }
}

/// Position, index and bytes of a record.
type Record = (Position, Vec<u8>, Vec<u8>);

fn reopened(disk: &MemDisk, config: &JournalConfig) -> (Journal, Vec<Record>) {
    let mut found = Vec::new();
    let journal = recover(disk.clone(), *config, &mut |at, record| {
        found.push((at, record.index().to_vec(), record.full().unwrap().to_vec()));
    })
    .unwrap();
    (journal, found)
}

#[test]
fn records_are_read_back_before_and_after_they_are_written() {
    let disk = MemDisk::new();
    let (mut journal, _) = reopened(&disk, &small());
    let mut worker = DiskWorker::new(disk);
    let (first, length) = journal.append(b"index", &[b" and", b" body"]);
    assert_eq!(length, 14);
    assert_eq!(&journal.read(first, length).unwrap()[..], b"index and body");
    let until = journal.commit();
    assert!(journal.durable() < until);
    journal.request_sync(until);
    drive(&mut journal, &mut worker);
    assert!(journal.durable() >= until);
    assert_eq!(&journal.read(first, length).unwrap()[..], b"index and body");
}

#[test]
fn a_restart_finds_every_durable_record_in_order() {
    let disk = MemDisk::new();
    let (mut journal, _) = reopened(&disk, &small());
    let mut worker = DiskWorker::new(disk.clone());
    let mut expected = Vec::new();
    for round in 0..300_u32 {
        let index = round.to_le_bytes();
        let body = vec![u8::try_from(round % 256).unwrap(); (round % 700) as usize];
        let (at, _) = journal.append(&index, &[&body]);
        expected.push((at, index.to_vec(), [&index[..], &body].concat()));
        let until = journal.commit();
        journal.request_sync(until);
        drive(&mut journal, &mut worker);
        assert!(journal.durable() >= until);
    }
    assert!(journal.stats().segments > 5);
    for (at, _, bytes) in &expected {
        assert_eq!(&journal.read(*at, u32::try_from(bytes.len()).unwrap()).unwrap()[..], bytes);
    }
    drop(journal);
    let (mut journal, found) = reopened(&disk, &small());
    assert_eq!(found, expected);
    let (at, length) = journal.append(b"more", &[]);
    assert!(at > expected.last().unwrap().0);
    let until = journal.commit();
    journal.request_sync(until);
    drive(&mut journal, &mut worker);
    let (_, found) = reopened(&disk, &small());
    assert_eq!(found.len(), 301);
    assert_eq!(found[300].2, b"more");
    assert_eq!(length, 4);
}

/// A consumer that keeps every tenth record.
fn churn(
    journal: &mut Journal,
    worker: &mut Option<DiskWorker<MemDisk>>,
    rounds: u32,
) -> Vec<(Position, Vec<u8>)> {
    let mut live: Vec<(Position, Vec<u8>)> = Vec::new();
    let mut used = 0;
    for round in 0..rounds {
        let body = [&round.to_le_bytes()[..], &vec![7; (round % 500) as usize]].concat();
        let (at, length) = journal.append(&body[..4], &[&body[4..]]);
        if round % 10 == 0 {
            live.push((at, body));
        } else {
            journal.release(at, length);
        }
        let until = journal.commit();
        journal.request_sync(until);
        if let Some(worker) = worker {
            drive(journal, worker);
        }
        clean(journal, &mut live);
        if let Some(worker) = worker {
            drive(journal, worker);
        }
        used = used.max(journal.stats().used_bytes);
        if live.len() > 40 {
            let (at, body) = live.remove(0);
            journal.release(at, u32::try_from(body.len()).unwrap());
        }
    }
    let bound = if worker.is_some() { 120 << 10 } else { 200 << 10 };
    assert!(used < bound, "{used} bytes used");
    live
}

fn clean(journal: &mut Journal, live: &mut [(Position, Vec<u8>)]) {
    while let Some(step) = journal.poll_compaction(4096) {
        match step {
            CompactionStep::Records(records) => {
                for (at, bytes) in records {
                    if let Some(found) = live.iter_mut().find(|(live, _)| *live == at) {
                        assert_eq!(found.1, bytes);
                        let (new, length) = journal.append(&bytes[..4], &[&bytes[4..]]);
                        journal.release(at, length);
                        found.0 = new;
                    }
                }
                journal.commit();
            }
            CompactionStep::SegmentDone { up_to } => {
                assert!(live.iter().all(|(at, _)| *at >= up_to));
                journal.segment_compacted();
            }
        }
    }
}

#[test]
fn disk_use_stays_bounded_while_records_come_and_go() {
    let disk = MemDisk::new();
    let (mut journal, _) = reopened(&disk, &small());
    let mut worker = Some(DiskWorker::new(disk.clone()));
    let live = churn(&mut journal, &mut worker, 3000);
    assert!(journal.stats().segments_freed > 10);
    assert!(disk.list().unwrap().len() < 12, "{:?}", disk.list());
    for (at, body) in &live {
        assert_eq!(&journal.read(*at, u32::try_from(body.len()).unwrap()).unwrap()[..], body);
    }
    let (_, found) = reopened(&disk, &small());
    for (at, body) in &live {
        assert!(found.iter().any(|(found, _, bytes)| found == at && bytes == body));
    }
}

#[test]
fn memory_stays_bounded_without_a_disk() {
    let config = JournalConfig { durability: Durability::None, ..small() };
    let mut journal = Journal::in_memory(config);
    let live = churn(&mut journal, &mut None, 3000);
    assert!(journal.stats().segments_freed > 10);
    assert!(journal.poll_io().is_none());
    for (at, body) in &live {
        assert_eq!(&journal.read(*at, u32::try_from(body.len()).unwrap()).unwrap()[..], body);
    }
    assert!(matches!(journal.read(Position(64), 4), Err(ReadError::NotFound { .. })));
}

/// A journal of two full segments and a third, whose first `live` records of 1,000 bytes live, and the last one of the second
/// segment if `second_lives`. Says whether its compaction begins, which may take reads.
fn is_cleaned_early(live: usize, second_lives: bool, cache_bytes: u64) -> bool {
    let disk = MemDisk::new();
    let config = JournalConfig { cache_bytes, segment_bytes: 256 << 10, ..small() };
    let (mut journal, _) = reopened(&disk, &config);
    let mut worker = DiskWorker::new(disk);
    let mut last = None;
    for number in 0.. {
        let placed = journal.append(b"i", &[&[7; 999]]);
        if journal.stats().segments == 3 {
            journal.release(placed.0, placed.1);
            break;
        }
        if let Some((at, length)) = last.take() {
            journal.release(at, length);
        }
        last = (number >= live).then_some(placed);
        let until = journal.commit();
        journal.request_sync(until);
        drive(&mut journal, &mut worker);
    }
    if let Some((at, length)) = last.filter(|_| !second_lives) {
        journal.release(at, length);
    }
    let until = journal.commit();
    journal.request_sync(until);
    drive(&mut journal, &mut worker);
    for _ in 0..4 {
        if journal.poll_compaction(4096).is_some() {
            return true;
        }
        drive(&mut journal, &mut worker);
    }
    false
}

#[test]
fn a_segment_in_which_hardly_anything_lives_is_cleaned_early_if_that_takes_no_reading_or_frees_another_one() {
    let cases = [
        // live records, one of the second segment, cached, cleaned
        (0, true, true, true),
        (0, true, false, true),
        (1, true, true, true),
        (1, true, false, false),
        (1, false, false, true),
        (10, false, true, false),
        (10, false, false, false),
    ];
    for case @ (live, second_lives, cached, cleaned) in cases {
        let cache_bytes = if cached { 1 << 20 } else { 0 };
        assert_eq!(is_cleaned_early(live, second_lives, cache_bytes), cleaned, "{case:?}");
    }
}

/// A journal with segments of `segment_bytes` and a large cache, on a disk or without one.
fn journal_with(segment_bytes: u64, on_disk: bool) -> (Journal, Option<DiskWorker<MemDisk>>) {
    let config = JournalConfig { segment_bytes, cache_bytes: 64 << 20, ..small() };
    if !on_disk {
        return (Journal::in_memory(config), None);
    }
    let disk = MemDisk::new();
    (reopened(&disk, &config).0, Some(DiskWorker::new(disk)))
}

fn commit_and_drive(journal: &mut Journal, worker: &mut Option<DiskWorker<MemDisk>>) {
    let until = journal.commit();
    journal.request_sync(until);
    if let Some(worker) = worker {
        drive(journal, worker);
    }
}

#[test]
fn memory_of_dead_records_is_used_again_while_their_segment_stands() {
    for on_disk in [false, true] {
        let (mut journal, mut worker) = journal_with(4 << 20, on_disk);
        let mut waiting = VecDeque::new();
        for _ in 0..3_000 {
            waiting.push_back(journal.append(b"i", &[&[7; 999]]));
            if waiting.len() > 100
                && let Some((at, length)) = waiting.pop_front()
            {
                journal.release(at, length);
            }
            commit_and_drive(&mut journal, &mut worker);
            assert!(journal.stats().cache_bytes <= 3 * CHUNK_BYTES as u64, "{on_disk}");
        }
        assert_eq!(journal.stats().segments_freed, 0, "{on_disk}");
    }
}

#[test]
fn compaction_skips_dead_records_that_have_left_memory() {
    // A segment of four chunks; the one that lives lies in each of them once.
    for (on_disk, lives) in
        [false, true].into_iter().flat_map(|on_disk| [1, 300, 600, 900].map(|n| (on_disk, n)))
    {
        let (mut journal, mut worker) = journal_with(1 << 20, on_disk);
        let mut live = Vec::new();
        for number in 0.. {
            let (at, length) = journal.append(b"body", &[&[7; 996]]);
            if number == lives {
                live.push((at, [&b"body"[..], &[7; 996]].concat()));
            } else {
                journal.release(at, length);
            }
            commit_and_drive(&mut journal, &mut worker);
            if journal.stats().segments == 3 {
                break;
            }
        }
        let place = live[0].0;
        while journal.stats().segments_freed == 0 {
            clean(&mut journal, &mut live);
            commit_and_drive(&mut journal, &mut worker);
        }
        let stats = journal.stats();
        assert_eq!(stats.disk_reads, 0, "{on_disk}, {lives}");
        assert!(stats.compacted_bytes <= CHUNK_BYTES as u64, "{on_disk}, {lives}: {stats:?}");
        assert_ne!(live[0].0, place, "{on_disk}, {lives}: it was moved");
        assert_eq!(&journal.read(live[0].0, 1_000).unwrap()[..], live[0].1, "{on_disk}, {lives}");
    }
}

#[test]
fn a_full_journal_in_which_everything_lives_is_not_copied_for_ever() {
    let config = JournalConfig { max_disk_bytes: Some(20 * small().segment_bytes), ..small() };
    let disk = MemDisk::new();
    let (mut journal, _) = reopened(&disk, &config);
    let mut worker = DiskWorker::new(disk);
    while !journal.storage_full() {
        journal.append(b"i", &[&[7; 40]]);
        let until = journal.commit();
        journal.request_sync(until);
        drive(&mut journal, &mut worker);
    }
    // Each commit is a batch, and each batch a header: much overhead that no cleaning can save.
    let mut steps = 0;
    loop {
        match journal.poll_compaction(4096) {
            Some(CompactionStep::Records(records)) => {
                for (at, bytes) in records {
                    let (index, rest) = bytes.split_at(1);
                    journal.append(index, &[rest]);
                    journal.release(at, u32::try_from(bytes.len()).unwrap());
                    let until = journal.commit();
                    journal.request_sync(until);
                    drive(&mut journal, &mut worker);
                }
            }
            Some(CompactionStep::SegmentDone { .. }) => journal.segment_compacted(),
            None => break,
        }
        drive(&mut journal, &mut worker);
        steps += 1;
        assert!(steps < 10_000, "cleaning finds no end");
    }
}
