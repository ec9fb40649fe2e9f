use super::*;

/// Nothing fails; every other sector survives.
struct EveryOther(bool);

impl Faults for EveryOther {
    fn fails(&mut self, _call: DiskCall) -> Option<io::ErrorKind> {
        None
    }

    fn sector_survives(&mut self) -> bool {
        self.0 = !self.0;
        self.0
    }

    fn entry_survives(&mut self) -> bool {
        false
    }
}

const FILE: FileId = FileId(1);

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new(EveryOther(false));
    disk.create(FILE, 0).unwrap();
    disk.sync_dir().unwrap();
    disk
}

#[test]
fn synced_bytes_survive_and_others_are_torn() {
    let disk = disk();
    disk.write_at(FILE, 0, &[IoSlice::new(&[1; 2048])]).unwrap();
    disk.sync_data(FILE).unwrap();
    disk.write_at(FILE, 0, &[IoSlice::new(&[2; 2048])]).unwrap();
    disk.crash();
    let contents = disk.seen().contents(FILE).unwrap();
    let sectors: Vec<u8> = contents.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
    assert_eq!(sectors, [2, 1, 2, 1]);
}

#[test]
fn a_file_whose_entry_was_not_synced_is_gone() {
    let disk = disk();
    disk.create(FileId(2), 0).unwrap();
    disk.write_at(FileId(2), 0, &[IoSlice::new(&[1; 10])]).unwrap();
    disk.sync_data(FileId(2)).unwrap();
    disk.delete(FILE).unwrap();
    disk.crash();
    assert_eq!(disk.list().unwrap(), [(FILE, 0)]);
}

#[test]
fn after_a_failed_sync_the_process_reads_bytes_that_the_platter_lacks() {
    struct FailingSync;
    impl Faults for FailingSync {
        fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
            matches!(call, DiskCall::SyncData(_)).then_some(io::ErrorKind::Other)
        }
        fn sector_survives(&mut self) -> bool {
            false
        }
    }
    let disk = FaultyDisk::new(FailingSync);
    disk.create(FILE, 0).unwrap();
    disk.sync_dir().unwrap();
    disk.write_at(FILE, 0, &[IoSlice::new(&[1; 10])]).unwrap();
    assert!(disk.sync_data(FILE).is_err());
    assert_eq!(disk.seen().contents(FILE).unwrap(), [1; 10]);
    disk.crash();
    assert_eq!(disk.seen().contents(FILE).unwrap(), []);
}
