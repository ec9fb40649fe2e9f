use super::*;

#[test]
fn a_full_disk_takes_no_more_but_can_be_overwritten() {
    let disk = MemDisk::new();
    disk.create(FileId(0), 0).unwrap();
    disk.set_capacity(10);
    disk.write_at(FileId(0), 0, &[IoSlice::new(&[1; 10])]).unwrap();
    assert_eq!(disk.free_space().unwrap(), 0);
    let error = disk.write_at(FileId(0), 5, &[IoSlice::new(&[2; 6])]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    disk.write_at(FileId(0), 5, &[IoSlice::new(&[2; 5])]).unwrap();
    assert_eq!(disk.contents(FileId(0)).unwrap(), [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    assert!(disk.create(FileId(1), 1).is_err());
}

#[test]
fn a_snapshot_goes_its_own_way() {
    let disk = MemDisk::new();
    disk.create(FileId(0), 0).unwrap();
    let (clone, snapshot) = (disk.clone(), disk.snapshot());
    disk.delete(FileId(0)).unwrap();
    assert!(clone.list().unwrap().is_empty());
    assert_eq!(snapshot.list().unwrap().len(), 1);
}
