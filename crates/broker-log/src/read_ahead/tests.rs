use std::io::IoSlice;

use super::*;
use crate::{DiskCall, Faults, FaultyDisk, FileId, format::Seed};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts reads.
struct Counting(Arc<AtomicU64>);

impl Faults for Counting {
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        if matches!(call, DiskCall::Read(_)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    fn sector_survives(&mut self) -> bool {
        true
    }
}

const BASE: u64 = 5000;
const SIZE: u64 = 4 << 20;

fn disk() -> (FaultyDisk, Arc<AtomicU64>, Segment) {
    let reads = Arc::new(AtomicU64::new(0));
    let disk = FaultyDisk::new(Counting(Arc::clone(&reads)));
    disk.create(FileId(1), 0).unwrap();
    let contents: Vec<u8> = (0..SIZE).map(|n| u8::try_from(n / 7 % 251).unwrap()).collect();
    disk.write_at(FileId(1), 0, &[IoSlice::new(&contents)]).unwrap();
    let segment = Segment {
        number: 0,
        file: FileId(1),
        base: BASE,
        end: BASE + SIZE,
        incarnation: 0,
        seed: Seed::default(),
        file_bytes: SIZE,
        live: 0,
    };
    (disk, reads, segment)
}

fn expect(bytes: &Bytes, at: u64) {
    for (n, byte) in bytes.iter().enumerate() {
        assert_eq!(u64::from(*byte), (at - BASE + n as u64) / 7 % 251);
    }
}

#[test]
fn a_reader_in_order_needs_few_reads() {
    let (disk, reads, segment) = disk();
    let mut ahead = ReadAhead::default();
    for at in (BASE..BASE + SIZE - 1000).step_by(1000) {
        expect(&ahead.read(&disk, &segment, at, 1000, BASE + SIZE).unwrap().unwrap(), at);
    }
    assert!(reads.load(Ordering::Relaxed) < 30, "{reads:?}");
}

#[test]
fn readers_side_by_side_do_not_disturb_each_other() {
    let (disk, reads, segment) = disk();
    let mut ahead = ReadAhead::default();
    for step in 0..200 {
        for reader in 0..8 {
            let at = BASE + reader * (SIZE / 8) + step * 1500;
            expect(&ahead.read(&disk, &segment, at, 1000, BASE + SIZE).unwrap().unwrap(), at);
        }
    }
    assert!(reads.load(Ordering::Relaxed) < 80, "{reads:?}");
    assert!(ahead.windows.len() <= WINDOWS_MAX);
}

/// Reads records of a length, from some place on and so far apart. Gives them, and how many reads of the disk it took.
fn read_all(ahead: &mut ReadAhead, apart: usize, length: u64, count: usize) -> (Vec<Bytes>, u64) {
    let (disk, reads, segment) = disk();
    let places = (BASE..).step_by(apart).take(count);
    let records = places
        .map(|at| {
            let record = ahead.read(&disk, &segment, at, length, BASE + SIZE).unwrap().unwrap();
            expect(&record, at);
            assert_eq!(record.len() as u64, length);
            record
        })
        .collect();
    (records, reads.load(Ordering::Relaxed))
}

/// Number of those that share memory with a window that is held.
fn shared(ahead: &ReadAhead, records: &[Bytes]) -> usize {
    let shares = |record: &&Bytes| {
        ahead.windows.iter().any(|window| window.bytes.as_ptr_range().contains(&record.as_ptr()))
    };
    records.iter().filter(shares).count()
}

#[test]
fn a_reader_that_skips_reads_little_and_its_records_keep_no_other_bytes() {
    for apart in [17_000, 50_000, 200_000] {
        let mut ahead = ReadAhead::default();
        let (records, _) = read_all(&mut ahead, apart, 100, 20);
        assert!(ahead.windows.iter().all(|window| window.bytes.len() as u64 <= WINDOW_BYTES_FIRST));
        assert!(ahead.windows.iter().all(|window| window.bytes.is_unique()), "{apart} bytes apart");
        assert_eq!(shared(&ahead, &records), 0);
    }
}

#[test]
fn a_reader_of_few_records_in_each_window_reads_much_at_once_and_keeps_none_of_it() {
    // Its queue lies among seven others.
    let mut ahead = ReadAhead::default();
    let (records, reads) = read_all(&mut ahead, 8_000, 1_000, 500);
    assert!(reads < 30, "{reads}");
    assert_eq!(shared(&ahead, &records), 0);
}

#[test]
fn a_reader_in_order_shares_the_windows_memory() {
    let mut ahead = ReadAhead::default();
    let (records, _) = read_all(&mut ahead, 1_050, 1_000, 200);
    assert!(records.iter().skip(10).all(|record| !record.is_unique()));
    // Only the last window is held; the first are kept by the records alone.
    assert_eq!(ahead.windows.len(), 1);
    assert!(shared(&ahead, &records) > 100);
}

#[test]
fn records_longer_than_the_first_window_are_read_several_at_once_too() {
    let mut ahead = ReadAhead::default();
    let (records, reads) = read_all(&mut ahead, 20_000, 20_000, 200);
    assert!(reads < 30, "{reads}");
    assert!(records.iter().filter(|record| record.is_unique()).count() < 10);
}

#[test]
fn a_reader_that_begins_to_skip_shares_no_more_memory() {
    let mut ahead = ReadAhead::default();
    let (disk, _, segment) = disk();
    for at in (BASE..).step_by(1_000).take(500) {
        ahead.read(&disk, &segment, at, 1_000, BASE + SIZE).unwrap().unwrap();
    }
    let records: Vec<_> = (BASE + 600_000..)
        .step_by(100_000)
        .take(30)
        .map(|at| ahead.read(&disk, &segment, at, 100, BASE + SIZE).unwrap().unwrap())
        .collect();
    // Those in the window that follows the good one do.
    assert!(records[5..].iter().all(|record| record.is_unique() && record.len() == 100));
    assert!(ahead.windows.iter().all(|window| window.bytes.len() as u64 <= WINDOW_BYTES_FIRST));
}

#[test]
fn nothing_behind_the_readable_end_is_kept() {
    let (disk, reads, segment) = disk();
    let mut ahead = ReadAhead::default();
    assert!(ahead.read(&disk, &segment, BASE, 100, BASE + 100).unwrap().is_some());
    assert_eq!(ahead.windows[0].bytes.len(), 100);
    assert!(ahead.read(&disk, &segment, BASE + 100, 100, BASE + 200).unwrap().is_some());
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}

#[test]
fn the_end_of_the_file_is_no_record() {
    let (disk, _, segment) = disk();
    assert!(ReadAhead::default().read(&disk, &segment, BASE + SIZE - 10, 20, u64::MAX).unwrap().is_none());
}
