use super::*;
use crate::{DiskCall, Faults, FaultyDisk, MemDisk, format::SegmentHeader};

struct Fail(DiskCall);

impl Faults for Fail {
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        (call == self.0).then_some(io::ErrorKind::Other)
    }

    fn sector_survives(&mut self) -> bool {
        true
    }
}

const FILE: FileId = FileId(3);

fn write() -> IoRequest {
    let parts = vec![Bytes::from_static(b"one"), Bytes::from_static(b" two")];
    IoRequest(Request::Write(Write {
        file: FILE,
        create: Some(100),
        offset: 10,
        parts,
        records: 1,
        sync: true,
    }))
}

#[test]
fn a_write_creates_its_file_and_puts_its_parts_in_a_row() {
    let disk = MemDisk::new();
    let mut worker = DiskWorker::new(disk.clone());
    let request = write();
    assert_eq!((request.is_write(), request.bytes()), (true, 7));
    let IoDone(Done::Written(Ok(()), Some(u64::MAX))) = worker.perform(request) else { panic!() };
    assert_eq!(&worker.disk().contents(FILE).unwrap()[10..], b"one two");
}

#[test]
fn every_step_of_a_write_can_fail_and_says_which() {
    let cases = [
        (DiskCall::Create(FILE), DiskOperation::Create),
        (DiskCall::SyncDir, DiskOperation::Create),
        (DiskCall::Write(FILE), DiskOperation::Write),
        (DiskCall::SyncData(FILE), DiskOperation::Sync),
    ];
    for (call, operation) in cases {
        let done = DiskWorker::new(FaultyDisk::new(Fail(call))).perform(write());
        let IoDone(Done::Written(Err(failure), _)) = done else { panic!("{call:?}: {done:?}") };
        assert_eq!((failure.operation, failure.file), (operation, FILE), "{call:?}");
        assert!(failure.to_string().contains("00000003.segment"), "{failure}");
    }
}

#[test]
fn a_file_written_ahead_begins_as_a_spare() {
    let disk = MemDisk::new();
    let mut worker = DiskWorker::new(disk.clone());
    for (create, offset) in [(Some(1 << 20), 0), (None, 300_000)] {
        let prepare = Prepare { file: FILE, create, offset, length: 300_000 };
        let done = worker.perform(IoRequest(Request::Prepare(prepare)));
        assert!(matches!(done, IoDone(Done::Prepared(_, Ok(()), _))));
    }
    let contents = disk.contents(FILE).unwrap();
    assert_eq!(contents.len(), 600_000);
    assert_eq!(SegmentHeader::decode(contents.first_chunk().unwrap()), Err(format::NotASegment::Spare));
    assert!(contents[64..].iter().all(|byte| *byte == 0));
    assert!(matches!(worker.perform(IoRequest(Request::Delete(FILE))), IoDone(Done::Deleted(Ok(())))));
    assert!(disk.list().unwrap().is_empty());
}
