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
    let mut ahead = Ahead::default();
    for at in (BASE..BASE + SIZE - 1000).step_by(1000) {
        expect(&ahead.read(&disk, &segment, at, 1000, BASE + SIZE).unwrap().unwrap(), at);
    }
    assert!(reads.load(Ordering::Relaxed) < 30, "{reads:?}");
}

#[test]
fn readers_side_by_side_do_not_disturb_each_other() {
    let (disk, reads, segment) = disk();
    let mut ahead = Ahead::default();
    for step in 0..200 {
        for reader in 0..8 {
            let at = BASE + reader * (SIZE / 8) + step * 1500;
            expect(&ahead.read(&disk, &segment, at, 1000, BASE + SIZE).unwrap().unwrap(), at);
        }
    }
    assert!(reads.load(Ordering::Relaxed) < 80, "{reads:?}");
    assert!(ahead.windows.len() <= WINDOWS_MAX);
}

#[test]
fn nothing_behind_the_readable_end_is_kept() {
    let (disk, reads, segment) = disk();
    let mut ahead = Ahead::default();
    assert!(ahead.read(&disk, &segment, BASE, 100, BASE + 100).unwrap().is_some());
    assert_eq!(ahead.windows[0].bytes.len(), 100);
    assert!(ahead.read(&disk, &segment, BASE + 100, 100, BASE + 200).unwrap().is_some());
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}

#[test]
fn the_end_of_the_file_is_no_record() {
    let (disk, _, segment) = disk();
    assert!(Ahead::default().read(&disk, &segment, BASE + SIZE - 10, 20, u64::MAX).unwrap().is_none());
}
