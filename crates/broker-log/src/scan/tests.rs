use std::io::IoSlice;

use proptest::prelude::*;

use super::*;
use crate::{
    MemDisk,
    segments::Segment,
    writer::{Watermarks, Writer, WrittenBy},
};

const FILE: FileId = FileId(1);

/// A segment at `base` with these batches of records, as bytes and header.
fn written(base: u64, batches: &[Vec<Vec<u8>>]) -> (Vec<u8>, SegmentHeader) {
    let segment = Segment {
        number: 0,
        file: FILE,
        base,
        end: base,
        incarnation: base ^ 0xabcd,
        seed: Seed::of(base ^ 0xabcd),
        file_bytes: 0,
        live: 0,
    };
    let mut writer = Writer::new(base, 3, 41);
    let written_by = WrittenBy { shard: 1, node: 2, time: 3 };
    writer.begin_segment(&segment, Watermarks { synced: 0, tail: 0 }, None, &written_by);
    for batch in batches {
        for record in batch {
            writer.next_record(&segment);
            let length = u32::try_from(record.len()).unwrap();
            let header = RecordHeader::of(segment.seed, length, &[], &[record]);
            writer.add_part(Bytes::copy_from_slice(&header.encode()));
            writer.add_part(Bytes::copy_from_slice(record));
            writer.add_record(&header);
        }
        let synced = writer.end - writer.open_bytes();
        writer.seal(&segment, Watermarks { synced, tail: 0 });
    }
    let bytes = writer.next_group(|_| true).unwrap().parts.concat();
    let header = SegmentHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    (bytes, header)
}

fn on_disk(bytes: &[u8]) -> MemDisk {
    let disk = MemDisk::new();
    disk.create(FILE, 0).unwrap();
    disk.write_at(FILE, 0, &[IoSlice::new(bytes)]).unwrap();
    disk
}

fn read(bytes: &[u8], header: &SegmentHeader) -> (Vec<Vec<Vec<u8>>>, DamageKind) {
    let disk = on_disk(bytes);
    let mut scanner = Scanner::new(FILE, header, bytes.len() as u64);
    let mut batches = Vec::new();
    loop {
        match scanner.next(&disk) {
            Ok(batch) if batch.header.kind == BatchKind::Mark => {}
            Ok(batch) => batches.push(batch.records().map(|stored| stored.bytes.to_vec()).collect()),
            Err(ScanEnd::Bad(fault)) => return (batches, fault),
            Err(ScanEnd::Failed(error)) => panic!("{error}"),
        }
    }
}

fn batches() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let record = prop::collection::vec(any::<u8>(), 0..200);
    prop::collection::vec(prop::collection::vec(record, 1..5), 1..6)
}

proptest! {
    #[test]
    fn written_batches_are_read_back(base in 0_u64..1 << 40, batches in batches()) {
        let (bytes, header) = written(base / 64 * 64, &batches);
        prop_assert_eq!(read(&bytes, &header), (batches, DamageKind::NoBatch));
    }

    #[test]
    fn after_any_damage_the_read_batches_are_a_prefix(
        batches in batches(),
        bits in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        cut: Option<prop::sample::Index>,
    ) {
        let (mut bytes, header) = written(640, &batches);
        for bit in bits {
            let bit = 512 + bit.index((bytes.len() - 64) * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if let Some(cut) = cut {
            bytes.truncate(64 + cut.index(bytes.len() - 64));
        }
        let (found, _) = read(&bytes, &header);
        prop_assert!(batches.starts_with(&found), "{:?}", found);
    }

    #[test]
    fn leftovers_of_another_life_of_the_file_are_no_batches(old in batches(), new in batches()) {
        let (mut old_bytes, _) = written(1 << 20, &old);
        let (bytes, header) = written(1 << 21, &new);
        if old_bytes.len() < bytes.len() {
            old_bytes.resize(bytes.len(), 0);
        }
        old_bytes[..bytes.len()].copy_from_slice(&bytes);
        prop_assert_eq!(read(&old_bytes, &header).0, new);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), base: u64) {
        let header = SegmentHeader {
            version: VERSION,
            base,
            incarnation: 1,
            synced: 0,
            tail: 0,
            previous: 0,
            resume: None,
        };
        let disk = on_disk(&bytes);
        let mut scanner = Scanner::new(FILE, &header, bytes.len() as u64);
        prop_assert!(scanner.next(&disk).is_err());
        prop_assert_eq!(scanner.claims_from(&disk, base).unwrap(), 0);
        prop_assert!(Scanner::orphan(&disk, FILE, bytes.len() as u64, &mut |_| Ok(true)).unwrap().is_none());
    }
}

#[test]
fn intact_batches_behind_damage_state_the_durable_position() {
    let batches: Vec<_> = (0..4_u8).map(|n| vec![vec![n; 100]]).collect();
    let (mut bytes, header) = written(0, &batches);
    bytes[256 + 80] ^= 1;
    let disk = on_disk(&bytes);
    let mut scanner = Scanner::new(FILE, &header, bytes.len() as u64);
    assert_eq!(scanner.next(&disk).unwrap().mark.map(|mark| mark.number), Some(42));
    assert!(matches!(scanner.next(&disk), Err(ScanEnd::Bad(DamageKind::Checksum))));
    // The fourth batch says that the third was durable.
    assert_eq!(scanner.claims_from(&disk, 64).unwrap(), 256 + 3 * 192);
}

#[test]
fn a_lost_segment_header_is_known_from_the_first_batch() {
    let (mut bytes, header) = written(6400, &[vec![vec![1; 10]], vec![vec![2; 10]]]);
    bytes[..64].fill(0);
    let disk = on_disk(&bytes);
    let found = Scanner::orphan(&disk, FILE, bytes.len() as u64, &mut |_| Ok(true)).unwrap().unwrap();
    assert_eq!((found.base, found.incarnation, found.chain()), (6400, header.incarnation, header.chain()));
}

#[test]
fn the_next_batch_is_tried_where_one_is_not_of_the_segment_or_says_what_cannot_be() {
    let (mut bytes, header) = written(6400, &[vec![vec![1; 10]], vec![vec![2; 10]]]);
    let (forged, _) = written(64_000, &[vec![vec![3; 10]]]);
    // Its first sector is lost, and what a client sent begins with a batch.
    bytes[..64].fill(0);
    bytes[64..256].copy_from_slice(&forged[64..256]);
    let find = |bytes: &[u8], base: Option<u64>| {
        let belongs = &mut |header: &SegmentHeader| Ok(base.is_none_or(|base| header.base == base));
        Scanner::orphan(&on_disk(bytes), FILE, bytes.len() as u64, belongs).unwrap()
    };
    assert_eq!(find(&bytes, None).unwrap().base, 64_000);
    let found = find(&bytes, Some(6400)).unwrap();
    assert_eq!((found.base, found.incarnation), (6400, header.incarnation));
    assert_eq!(find(&bytes, Some(640)), None);
    let changes: [Change; 2] =
        [|batch| batch.synced = batch.position + 1, |batch| batch.tail = batch.position + 64];
    for change in changes {
        let found = find(&with_batch(&bytes, 64, change), None).unwrap();
        assert_eq!(found.base, 6400, "a batch that says so was never written");
    }
}

#[test]
fn what_looks_like_many_batches_costs_few_reads() {
    #[derive(Debug)]
    struct Counted(MemDisk, std::sync::atomic::AtomicUsize);
    impl Disk for Counted {
        fn list(&self) -> std::io::Result<Vec<(FileId, u64)>> {
            self.0.list()
        }
        fn create(&self, file: FileId, reserve: u64) -> std::io::Result<()> {
            self.0.create(file, reserve)
        }
        fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> std::io::Result<()> {
            self.0.write_at(file, offset, parts)
        }
        fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1.fetch_add(buffer.len(), std::sync::atomic::Ordering::Relaxed);
            self.0.read_at(file, offset, buffer)
        }
        fn sync_data(&self, file: FileId) -> std::io::Result<()> {
            self.0.sync_data(file)
        }
        fn sync_dir(&self) -> std::io::Result<()> {
            self.0.sync_dir()
        }
        fn delete(&self, file: FileId) -> std::io::Result<()> {
            self.0.delete(file)
        }
        fn set_aside(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
            self.0.set_aside(name, bytes)
        }
        fn free_space(&self) -> std::io::Result<u64> {
            self.0.free_space()
        }
    }
    let mut bytes = Vec::new();
    for number in 0..(2_u64 << 20) / 64 {
        let header = BatchHeader {
            kind: BatchKind::Data,
            flags: 0,
            count: 1,
            previous: 0,
            length: 64,
            position: number * 64,
            incarnation: 7,
            synced: 0,
            tail: 0,
            extra: 0,
        };
        bytes.extend_from_slice(&header.encode(RecordsChecksum::new(Seed::of(8))).0);
    }
    let disk = Counted(on_disk(&bytes), std::sync::atomic::AtomicUsize::new(0));
    for belongs in [false, true] {
        let found = Scanner::orphan(&disk, FILE, bytes.len() as u64, &mut |_| Ok(belongs)).unwrap();
        assert_eq!(found, None);
    }
    let read = disk.1.into_inner();
    assert!(read <= 2 * bytes.len(), "{read} bytes were read of {}", bytes.len());
}

/// The same bytes with a batch header changed, and its checksum made right again.
fn with_batch(bytes: &[u8], offset: usize, change: impl Fn(&mut BatchHeader)) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut header = BatchHeader::decode(bytes[offset..].first_chunk().unwrap()).unwrap();
    change(&mut header);
    let mut summed = RecordsChecksum::new(Seed::of(header.incarnation));
    let end = offset + usize::try_from(header.length).unwrap();
    let records = Bytes::copy_from_slice(&bytes[offset + HEADER_LEN..end]);
    for record in Records::new(records, 0) {
        summed.add(record.header.checksum);
    }
    bytes[offset..offset + HEADER_LEN].copy_from_slice(&header.encode(summed).0);
    bytes
}

type Change = fn(&mut BatchHeader);

#[test]
fn a_batch_of_a_newer_version_is_refused_wherever_it_is_met() {
    let (bytes, header) = written(0, &[vec![vec![1; 10]], vec![vec![2; 10]], vec![vec![3; 10]]]);
    let second = 256 + 128;
    let cases: [(Change, NewerPart); 3] = [
        (|batch| batch.kind = BatchKind::Newer(9), NewerPart::BatchKind(9)),
        (|batch| batch.flags = 2, NewerPart::BatchFlags(2)),
        (|batch| batch.extra = 1 << 40, NewerPart::BatchExtra(1 << 40)),
    ];
    for (change, part) in cases {
        let newer = RecoveryError::Newer { file: FILE, offset: second as u64, part };
        let disk = on_disk(&with_batch(&bytes, second, change));
        let mut scanner = Scanner::new(FILE, &header, bytes.len() as u64);
        scanner.next(&disk).unwrap();
        scanner.next(&disk).unwrap();
        assert!(matches!(scanner.next(&disk), Err(ScanEnd::Failed(error)) if error == newer));
        // Behind damage as well: it may be the answer to a client.
        assert_eq!(scanner.claims_from(&disk, 64).unwrap_err(), newer);
        assert_eq!(
            Scanner::orphan(&disk, FILE, bytes.len() as u64, &mut |_| Ok(true)).map(|found| found.is_some()),
            Ok(true)
        );
    }
}

#[test]
fn batches_are_numbered_from_the_mark_of_their_segment_on() {
    let (bytes, header) = written(0, &[vec![vec![1; 10]], vec![vec![2; 10]]]);
    let disk = on_disk(&bytes);
    let mut scanner = Scanner::new(FILE, &header, bytes.len() as u64);
    let mut numbers = Vec::new();
    while scanner.next(&disk).is_ok() {
        numbers.push(scanner.number());
    }
    assert_eq!(numbers, [Some(42), Some(43), Some(44)]);
    scanner.resume(256, 0);
    assert_eq!(scanner.number(), None, "behind a place that was skipped");
}
