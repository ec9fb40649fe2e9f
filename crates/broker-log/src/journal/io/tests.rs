use std::{
    io::ErrorKind,
    sync::{Arc, Mutex},
};

use super::*;
use crate::{
    CompactionStep, Disk, DiskCall, DiskWorker, Faults, FaultyDisk, FileId, JournalConfig, MemDisk, Position,
    recover,
};

fn config() -> JournalConfig {
    JournalConfig {
        segment_bytes: 16 << 10,
        cache_bytes: 0,
        spare_segments: 1,
        reserve_bytes: 0,
        ..JournalConfig::default()
    }
}

fn open(disk: impl Disk + 'static, config: JournalConfig) -> Journal {
    recover(disk, config, &mut |_, _| {}).unwrap()
}

fn drive<D: Disk>(journal: &mut Journal, worker: &mut DiskWorker<D>) -> usize {
    let mut requests = 0;
    while let Some(request) = journal.poll_io() {
        journal.handle_io(worker.perform(request));
        requests += 1;
    }
    requests
}

fn put(journal: &mut Journal, bytes: usize) -> Position {
    journal.append(b"i", &[&vec![7; bytes]]);
    let until = journal.commit();
    journal.request_sync(until);
    until
}

/// Fails the call that the test names.
#[derive(Clone, Default)]
struct FailNext(Arc<Mutex<Option<(DiskCall, ErrorKind)>>>);

impl FailNext {
    fn set(&self, call: DiskCall, kind: ErrorKind) {
        *self.0.lock().unwrap() = Some((call, kind));
    }
}

impl Faults for FailNext {
    fn fails(&mut self, call: DiskCall) -> Option<ErrorKind> {
        self.0.lock().unwrap().take_if(|(named, _)| *named == call).map(|(_, kind)| kind)
    }

    fn sector_survives(&mut self) -> bool {
        true
    }
}

#[test]
fn everything_committed_meanwhile_goes_into_the_next_write() {
    let disk = MemDisk::new();
    let mut journal = open(disk.clone(), config());
    let mut worker = DiskWorker::new(disk);
    drive(&mut journal, &mut worker);
    let first = put(&mut journal, 100);
    let request = journal.poll_io().unwrap();
    assert_eq!((request.is_write(), request.records()), (true, 1));
    let mut last = first;
    for _ in 0..20 {
        last = put(&mut journal, 100);
    }
    assert!(journal.poll_io().is_none_or(|request| !request.is_write()), "one write at a time");
    journal.handle_io(worker.perform(request));
    assert!(journal.durable() >= first && journal.durable() < last);
    let request = journal.poll_io().unwrap();
    assert_eq!(request.records(), 20);
    journal.handle_io(worker.perform(request));
    assert!(journal.durable() >= last);
    assert_eq!((journal.stats().writes, journal.stats().syncs), (2, 2));
    assert_eq!(journal.unwritten_bytes(), 0);
}

#[test]
fn an_open_unit_is_not_written_and_does_not_hold_up_finished_units() {
    let disk = MemDisk::new();
    let mut journal = open(disk.clone(), config());
    let mut worker = DiskWorker::new(disk.clone());
    drive(&mut journal, &mut worker);
    journal.append(b"half", &[]);
    journal.request_sync(Position(u64::MAX));
    assert!(journal.poll_io().is_none());
    drop(journal);
    let mut found = 0;
    drop(recover(disk, config(), &mut |_, _| found += 1).unwrap());
    assert_eq!(found, 0);
}

#[test]
fn records_nobody_waits_for_are_written_when_there_are_enough() {
    let disk = MemDisk::new();
    let mut journal = open(disk.clone(), JournalConfig { segment_bytes: 4 << 20, ..config() });
    let mut worker = DiskWorker::new(disk);
    drive(&mut journal, &mut worker);
    let before = journal.stats().writes;
    let mut written_at = None;
    for round in 0..400 {
        journal.append(b"i", &[&[0; 1000]]);
        journal.commit();
        drive(&mut journal, &mut worker);
        if journal.stats().writes > before {
            written_at = Some(round);
            break;
        }
    }
    assert_eq!(written_at, Some(GROUP_COMMIT_BYTES / 1013 - 1 + 1));
}

#[test]
fn a_failed_write_or_sync_poisons_for_good() {
    for call in [DiskCall::Write(FileId(0)), DiskCall::SyncData(FileId(0))] {
        let faults = FailNext::default();
        let disk = FaultyDisk::new(faults.clone());
        let mut journal = open(disk.clone(), config());
        let mut worker = DiskWorker::new(disk);
        drive(&mut journal, &mut worker);
        faults.set(call, ErrorKind::Other);
        let until = put(&mut journal, 10);
        drive(&mut journal, &mut worker);
        assert!(journal.durable() < until, "{call:?}");
        let reason = journal.poisoned().unwrap().to_string();
        assert!(reason.contains("00000000.segment"), "{reason}");
        let later = put(&mut journal, 10);
        assert_eq!(drive(&mut journal, &mut worker), 0);
        assert!(journal.durable() < later && journal.poll_compaction(1000).is_none() && journal.is_closed());
    }
}

#[test]
fn a_disk_without_space_for_the_next_segment_says_so() {
    let disk = MemDisk::new();
    let mut journal = open(disk.clone(), JournalConfig { spare_segments: 0, ..config() });
    let mut worker = DiskWorker::new(disk.clone());
    drive(&mut journal, &mut worker);
    disk.set_capacity(20 << 10);
    while journal.poisoned().is_none() {
        put(&mut journal, 900);
        drive(&mut journal, &mut worker);
    }
    assert!(matches!(journal.poisoned(), Some(PoisonReason::DiskFull(_))));
    // Acknowledged records are there, as soon as there is space for one more segment.
    disk.set_capacity(60 << 10);
    let durable = journal.durable();
    drop(journal);
    let mut last = Position(0);
    drop(recover(disk, config(), &mut |at, _| last = at).unwrap());
    assert!(last < durable && last.0 + 2000 > durable.0);
}

#[test]
fn below_the_reserve_the_storage_is_full_until_space_is_freed() {
    let disk = MemDisk::new();
    disk.set_capacity(400 << 10);
    let config = JournalConfig { reserve_bytes: 200 << 10, ..config() };
    let mut journal = open(disk.clone(), config);
    let mut worker = DiskWorker::new(disk.clone());
    drive(&mut journal, &mut worker);
    assert!(!journal.storage_full());
    while !journal.storage_full() {
        put(&mut journal, 900);
        drive(&mut journal, &mut worker);
    }
    // Settlements are still written.
    let until = put(&mut journal, 10);
    drive(&mut journal, &mut worker);
    assert!(journal.durable() >= until);
    disk.set_capacity(1 << 20);
    assert!(journal.storage_full(), "nobody has looked yet");
    drive(&mut journal, &mut worker);
    assert!(!journal.storage_full());
}

#[test]
fn on_a_full_disk_dead_records_of_one_segment_are_reason_enough_to_clean() {
    let disk = MemDisk::new();
    disk.set_capacity(1 << 20);
    let config = JournalConfig { reserve_bytes: 200 << 10, ..config() };
    let mut journal = open(disk.clone(), config);
    let mut worker = DiskWorker::new(disk.clone());
    for number in 0..45 {
        let (at, length) = journal.append(b"i", &[&[7; 900]]);
        let until = journal.commit();
        journal.request_sync(until);
        drive(&mut journal, &mut worker);
        if number % 2 == 0 {
            journal.release(at, length);
        }
    }
    let (used, live) = (journal.stats().used_bytes, journal.stats().live_bytes);
    assert!((1..3).contains(&((used - live) / (16 << 10))), "{used} with {live} alive");
    assert_eq!(journal.poll_compaction(1 << 20), None, "with room on the disk that is not much");
    disk.set_capacity(150 << 10);
    journal.segment_pool.set_room(0);
    while !journal.storage_full() {
        drive(&mut journal, &mut worker);
        put(&mut journal, 10);
    }
    let walked = (0..10).find_map(|_| {
        drive(&mut journal, &mut worker);
        journal.poll_compaction(1 << 20)
    });
    assert!(matches!(walked, Some(CompactionStep::Records(_))), "{walked:?}");
}

#[test]
fn the_limit_of_disk_space_counts_the_reserve() {
    let disk = MemDisk::new();
    let config = JournalConfig { max_disk_bytes: Some(200 << 10), reserve_bytes: 80 << 10, ..config() };
    let mut journal = open(disk.clone(), config);
    let mut worker = DiskWorker::new(disk.clone());
    while !journal.storage_full() {
        put(&mut journal, 900);
        drive(&mut journal, &mut worker);
    }
    let used = journal.stats().used_bytes;
    assert!((150 << 10..152 << 10).contains(&used), "a quarter is the reserve's share at most: {used}");
    let on_disk: u64 = disk.list().unwrap().iter().map(|(_, length)| length).sum();
    assert!(on_disk <= 200 << 10, "{on_disk}");
}

#[test]
fn an_idle_journal_tells_the_disk_where_replay_begins() {
    let disk = MemDisk::new();
    let mut journal = open(disk.clone(), config());
    let mut worker = DiskWorker::new(disk.clone());
    let mut live = Vec::new();
    for _ in 0..200 {
        live.push(journal.append(b"i", &[&[1; 900]]));
        let until = journal.commit();
        journal.request_sync(until);
        drive(&mut journal, &mut worker);
    }
    for (at, length) in live {
        journal.release(at, length);
    }
    while let Some(step) = journal.poll_compaction(1 << 20) {
        assert!(matches!(step, CompactionStep::SegmentDone { .. }), "nothing lives");
        journal.segment_compacted();
        drive(&mut journal, &mut worker);
    }
    let stats = journal.stats();
    assert!(stats.used_bytes <= 4 * config().segment_bytes, "{stats:?}");
    assert!(disk.list().unwrap().len() <= 6);
    drop(journal);
    let mut first = None;
    drop(recover(disk, config(), &mut |at, _| first = first.or(Some(at))).unwrap());
    assert!(first.unwrap() >= stats.tail);
}

#[test]
fn segments_that_die_are_kept_as_far_as_the_journal_may_grow_and_the_disk_has_room() {
    let disk = MemDisk::new();
    disk.set_capacity(2 << 20);
    let mut journal = open(disk.clone(), JournalConfig { reserve_bytes: 100 << 10, ..config() });
    let mut worker = DiskWorker::new(disk.clone());
    let put_many = |journal: &mut Journal, worker: &mut DiskWorker<MemDisk>, count: usize| {
        let put = |_| {
            let placed = journal.append(b"i", &[&[1; 900]]);
            let until = journal.commit();
            journal.request_sync(until);
            drive(journal, worker);
            placed
        };
        (0..count).map(put).collect::<Vec<_>>()
    };
    let live = put_many(&mut journal, &mut worker, 400);
    live[..200].iter().for_each(|(at, length)| journal.release(*at, *length));
    let clean = |journal: &mut Journal, worker: &mut DiskWorker<MemDisk>| {
        while let Some(step) = journal.poll_compaction(1 << 20) {
            assert!(matches!(step, CompactionStep::SegmentDone { .. }), "nothing lives there");
            journal.segment_compacted();
            drive(journal, worker);
        }
    };
    // Each is walked through once its end is durable and the next one is full.
    clean(&mut journal, &mut worker);
    put_many(&mut journal, &mut worker, 1);
    let stats = journal.stats();
    assert!(stats.spares >= 8, "{stats:?}");
    let most = stats.live_bytes * u64::from(config().space_factor) + 2 * config().segment_bytes;
    let on_disk = |disk: &MemDisk| disk.list().unwrap().iter().map(|(_, length)| length).sum::<u64>();
    assert!(on_disk(&disk) <= most, "{} {stats:?}", on_disk(&disk));
    let files = disk.list().unwrap().len();
    // They are used again, and none is made.
    put_many(&mut journal, &mut worker, 40);
    assert_eq!(disk.list().unwrap().len(), files);
    disk.set_capacity(on_disk(&disk) + (90 << 10));
    put_many(&mut journal, &mut worker, 33);
    assert!(journal.stats().spares <= 1, "{:?}", journal.stats());
    assert!(disk.list().unwrap().len() < files);
    assert!(!journal.storage_full(), "what was given back is room: {:?}", journal.stats());
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own_size() {
    let disk = MemDisk::new();
    let mut journal = open(disk.clone(), config());
    let mut worker = DiskWorker::new(disk.clone());
    put(&mut journal, 100);
    drive(&mut journal, &mut worker);
    let body = vec![9; 3 << 20];
    let (at, length) = journal.append(b"large", &[&body]);
    put(&mut journal, 100);
    drive(&mut journal, &mut worker);
    assert_eq!(journal.read(at, length).unwrap()[5..], body);
    drop(journal);
    let mut found = Vec::new();
    let mut journal = recover(disk, config(), &mut |at, record| found.push((at, record.len()))).unwrap();
    assert_eq!((found.len(), found[1]), (3, (at, length)));
    assert_eq!(journal.read(at, length).unwrap()[5..], body);
}

#[test]
fn preparation_touches_no_file_in_use() {
    let disk = MemDisk::new();
    let mut journal = open(disk.clone(), config());
    let mut worker = DiskWorker::new(disk);
    let mut preparations = 0;
    for round in 0..400 {
        put(&mut journal, 400);
        while let Some(request) = journal.poll_io() {
            if let Request::Prepare(step) = &request.0 {
                preparations += 1;
                let used = journal.segments.newest().file == step.file
                    || (0..journal.appender.end())
                        .step_by(4096)
                        .any(|at| journal.segments.at(at).is_some_and(|segment| segment.file == step.file));
                assert!(!used, "{round}: {step:?}");
            }
            journal.handle_io(worker.perform(request));
        }
    }
    assert!(preparations > 5);
}

#[test]
fn a_segment_is_cleaned_from_disk_only_when_its_end_is_there() {
    // A first segment with next to nothing in it, then records larger than segment and cache.
    for cache_bytes in [0, 1 << 10] {
        let disk = MemDisk::new();
        let mut journal = open(disk.clone(), JournalConfig { cache_bytes, ..config() });
        let mut worker = DiskWorker::new(disk.clone());
        drive(&mut journal, &mut worker);
        let (mut at, length) = journal.append(b"definition", &[]);
        let until = journal.commit();
        journal.request_sync(until);
        drive(&mut journal, &mut worker);
        for _ in 0..20 {
            let (large, bytes) = journal.append(b"i", &[&vec![7; 50 << 10]]);
            journal.commit();
            journal.release(large, bytes);
            journal.request_sync(journal.committed());
            // As the node does: a step of cleaning before what was appended is written, and one after it.
            for _ in 0..4 {
                match journal.poll_compaction(1 << 20) {
                    Some(CompactionStep::Records(records)) => {
                        if let Some((from, record)) = records.into_iter().find(|(from, _)| *from == at) {
                            at = journal.append(&record, &[]).0;
                            journal.commit();
                            journal.release(from, length);
                        }
                    }
                    Some(CompactionStep::SegmentDone { .. }) => journal.segment_compacted(),
                    None => {}
                }
                assert_eq!(journal.compaction_stopped(), None);
                drive(&mut journal, &mut worker);
            }
        }
        assert!(journal.stats().segments_freed > 10, "{:?}", journal.stats());
        assert_eq!(journal.read(at, length).unwrap(), "definition");
    }
}
