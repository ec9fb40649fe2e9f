mod receivers;

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

const ONE: Reader = Reader { owner: Owner(0), weight: 1 };
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
        expect(&ahead.read(&disk, &segment, (at, 1000), BASE + SIZE, ONE).unwrap().unwrap(), at);
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
            expect(&ahead.read(&disk, &segment, (at, 1000), BASE + SIZE, ONE).unwrap().unwrap(), at);
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
            let record = ahead.read(&disk, &segment, (at, length), BASE + SIZE, ONE).unwrap().unwrap();
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
        ahead.read(&disk, &segment, (at, 1_000), BASE + SIZE, ONE).unwrap().unwrap();
    }
    let records: Vec<_> = (BASE + 600_000..)
        .step_by(100_000)
        .take(30)
        .map(|at| ahead.read(&disk, &segment, (at, 100), BASE + SIZE, ONE).unwrap().unwrap())
        .collect();
    // Those in the window that follows the good one do.
    assert!(records[5..].iter().all(|record| record.is_unique() && record.len() == 100));
    assert!(ahead.windows.iter().all(|window| window.bytes.len() as u64 <= WINDOW_BYTES_FIRST));
}

#[test]
fn nothing_behind_the_readable_end_is_kept() {
    let (disk, reads, segment) = disk();
    let mut ahead = ReadAhead::default();
    assert!(ahead.read(&disk, &segment, (BASE, 100), BASE + 100, ONE).unwrap().is_some());
    assert_eq!(ahead.windows[0].bytes.len(), 100);
    assert!(ahead.read(&disk, &segment, (BASE + 100, 100), BASE + 200, ONE).unwrap().is_some());
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}

#[test]
fn the_end_of_the_file_is_no_record() {
    let (disk, _, segment) = disk();
    assert!(
        ReadAhead::default().read(&disk, &segment, (BASE + SIZE - 10, 20), u64::MAX, ONE).unwrap().is_none()
    );
}

const fn reader(owner: u16, weight: u64) -> Reader {
    Reader { owner: Owner(owner), weight }
}

/// Reads one record in a window of its own.
fn read_apart(
    ahead: &mut ReadAhead,
    (disk, _, segment): &(FaultyDisk, Arc<AtomicU64>, Segment),
    number: u64,
    reader: Reader,
) {
    let at = BASE + number % 10 * 350_000;
    ahead.read(disk, segment, (at, 100), BASE + SIZE, reader).unwrap().unwrap();
    // As if it were of another place: the windows shall not be found again.
    ahead.windows.last_mut().unwrap().start += number << 32;
}

fn windows_of(ahead: &ReadAhead, owner: u16) -> usize {
    ahead.windows_of(Owner(owner)).count()
}

#[test]
fn windows_are_shared_by_weight() {
    let disk = disk();
    for (weights, expected) in [([1, 1], [9, 8]), ([1, 3], [5, 12]), ([3, 1], [13, 4])] {
        let mut ahead = ReadAhead::default();
        for number in 1..200 {
            let owner = u16::from(number % 2 == 0);
            read_apart(&mut ahead, &disk, number, reader(owner, weights[usize::from(owner)]));
        }
        let held = [windows_of(&ahead, 0), windows_of(&ahead, 1)];
        assert!(held.iter().zip(expected).all(|(held, expected)| held.abs_diff(expected) <= 1), "{held:?}");
        assert_eq!(ahead.windows.len(), WINDOWS_MAX + 1);
    }
}

#[test]
fn a_reader_of_a_cold_backlog_leaves_the_others_their_window() {
    let disk = disk();
    let mut ahead = ReadAhead::default();
    for owner in 1..12 {
        read_apart(&mut ahead, &disk, owner.into(), reader(owner, 1));
    }
    for number in 100..10_000 {
        read_apart(&mut ahead, &disk, number, reader(0, 1));
    }
    assert!((1..12).all(|owner| windows_of(&ahead, owner) == 1));
    assert_eq!(windows_of(&ahead, 0), WINDOWS_MAX);
}

#[test]
fn windows_are_bounded_however_many_owners_read() {
    let disk = disk();
    let mut ahead = ReadAhead::default();
    for number in 0..500_u16 {
        read_apart(&mut ahead, &disk, number.into(), reader(number % 100, 1 + u64::from(number % 3)));
        assert!(ahead.windows.len() <= WINDOWS_MAX_OF_ALL);
    }
    assert_eq!(ahead.windows.len(), WINDOWS_MAX_OF_ALL);
}

#[test]
fn windows_that_an_owner_has_left_behind_go_to_those_that_read() {
    let disk = disk();
    let mut ahead = ReadAhead::default();
    for number in 1..40 {
        read_apart(&mut ahead, &disk, number, reader(1, 1));
    }
    for number in 100..100 + UNUSED_READS_MAX + 50 {
        read_apart(&mut ahead, &disk, number, reader(0, 1));
    }
    assert_eq!((windows_of(&ahead, 0), windows_of(&ahead, 1)), (WINDOWS_MAX, 1));
}

#[test]
fn a_reader_does_not_go_on_in_the_window_of_another_owner() {
    let (disk, _, segment) = disk();
    let mut ahead = ReadAhead::default();
    ahead.read(&disk, &segment, (BASE, 100), BASE + SIZE, reader(1, 1)).unwrap().unwrap();
    ahead.read(&disk, &segment, (BASE + 50_000, 100), BASE + SIZE, reader(2, 1)).unwrap().unwrap();
    assert_eq!((windows_of(&ahead, 1), windows_of(&ahead, 2)), (1, 1));
}

#[test]
fn reads_are_counted_by_owner() {
    let (disk, reads, segment) = disk();
    let mut ahead = ReadAhead::default();
    for at in [BASE, BASE + 100, BASE + 200] {
        ahead.read(&disk, &segment, (at, 100), BASE + SIZE, reader(3, 1)).unwrap().unwrap();
    }
    ahead.read(&disk, &segment, (BASE + 1_000_000, 30_000), BASE + SIZE, reader(1, 1)).unwrap().unwrap();
    let counted = |owner| {
        let stats = ahead.stats_of(Owner(owner));
        (stats.disk_reads, stats.disk_read_bytes)
    };
    assert_eq!([0, 1, 3].map(counted), [(0, 0), (1, 30_000), (3, WINDOW_BYTES_FIRST)]);
    assert_eq!((ahead.reads(), ahead.waits(), reads.load(Ordering::Relaxed)), (4, 2, 2));
    ahead.forget_owner(Owner(3));
    assert_eq!(ahead.stats_of(Owner(3)), OwnerStats::default());
    assert_eq!((windows_of(&ahead, 3), windows_of(&ahead, 1)), (0, 1));
}
